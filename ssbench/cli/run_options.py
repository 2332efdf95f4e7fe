"""The options of run-scenario, in the groups of its help."""

from __future__ import annotations

import argparse

from ssbench.cli import option_types as types
from ssbench.cli.shared_options import (
    add_batch_size,
    add_format,
    add_pctile,
    add_resume,
    add_retries,
    add_threshold,
)
from ssbench.cli.store_options import add_store
from ssbench.cli.zmq_options import add_master_sockets
from ssbench.core.scenario.load_keys import ARRIVALS

PROGRESS = ("chars", "live", "none")


def add_run_scenario(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to run")
    one = what.add_mutually_exclusive_group(required=True)
    add_file(one)
    add_resume(
        one, "run nothing: delete what the run of this stat file left behind, as "
        "cleanup-containers --resume-cleanup does"
    )  # fmt: skip
    add_users(what)
    _add_length(what)
    add_objects(what)
    load = parser.add_argument_group("how hard, and what counts")
    _add_rate(load)
    add_load(load)
    _add_window(load)
    add_how(parser.add_argument_group("how to run it"))
    results = parser.add_argument_group("results")
    add_results(results)
    add_threshold(results)
    add_workers(parser)
    add_store(parser)


def add_file(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "-f",
        "--filename",
        dest="scenario",
        metavar="SCENARIO_FILE",
        help="scenario to run: a file, - for stdin, or the name of a canned one "
        "(list-scenarios shows them)",
    )
    # The spelling of ssbench's first releases.
    group.add_argument(
        "--scenario-file", dest="scenario", default=argparse.SUPPRESS, help=argparse.SUPPRESS
    )


def add_users(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "-u",
        "--user-count",
        type=types.count,
        metavar="COUNT",
        help="users at once; over the scenario's user_count",
    )


def _add_length(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "-o",
        "--op-count",
        type=types.count,
        dest="operation_count",
        metavar="COUNT",
        help="operations to do; over the scenario's length",
    )
    add(
        "-r",
        "--run-seconds",
        type=types.seconds,
        metavar="SECONDS",
        help="time to run; over the scenario's length, and over -o",
    )


def add_objects(group: argparse._ActionsContainer) -> None:
    """Where objects are put, and how."""
    add = group.add_argument
    add(
        "-c",
        "--container-count",
        type=types.count,
        metavar="COUNT",
        help="containers to spread the objects over; over the scenario's container_count",
    )
    add(
        "--container-base",
        metavar="BASE",
        help="what containers' names begin with; over the scenario's container_base",
    )
    add(
        "-b",
        "--block-size",
        type=types.size,
        metavar="BYTES",
        help="bytes to send at a time (below 1 MiB there is no difference); over the scenario's "
        "block_size [default: 65536]",
    )
    add(
        "--delete-after",
        type=types.whole_seconds(0),
        metavar="SECONDS",
        help="let the store expire objects after so long; 0 for never",
    )
    add("-p", "--policy", metavar="POLICY", help="storage policy of the containers")
    add("--seed", type=types.whole(0), metavar="NUMBER",
        help="repeat the choices of the run that had this seed")  # fmt: skip


def _add_rate(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "--rate",
        type=types.rate,
        metavar="RATE",
        help="operations a second that fall due, whatever the store does (an open loop); over the "
        "scenario's",
    )


def add_load(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "--arrivals",
        choices=ARRIVALS,
        help="with a rate: evenly spaced, or at random as of many clients [default: uniform]",
    )
    add(
        "--think-time",
        type=types.think_time,
        metavar="SECONDS",
        help="without a rate: pause of a user after each operation; MIN,MAX for a random one",
    )


def _add_window(group: argparse._ActionsContainer) -> None:
    """What of the run counts, how often it is run, and when it ends."""
    add = group.add_argument
    add(
        "--warmup",
        type=types.seconds_or_none,
        metavar="SECONDS",
        help="time at the start of the run that doesn't count",
    )
    add(
        "--cooldown",
        type=types.seconds_or_none,
        metavar="SECONDS",
        help="time at its end that doesn't count",
    )
    add(
        "--sweep",
        type=types.sweep,
        metavar="LOADS",
        help="run the scenario once for each load, users=1,20,40 or rate=100,200, with the same "
        "workers and initial objects, and report as a table",
    )
    add(
        "--auto-stop",
        action="store_true",
        help="end the run before its time, once operations a second have been steady",
    )
    add(
        "--auto-stop-window",
        type=types.whole_seconds(1),
        default=15,
        metavar="SECONDS",
        help="with --auto-stop: whole seconds that are compared with as many before them",
    )
    add(
        "--auto-stop-tolerance",
        type=types.tolerance,
        default=7.5,
        metavar="PERCENT",
        help="with --auto-stop: how far rates may be apart that count as the same",
    )


def add_how(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-k", "--keep-objects", action="store_true", help="don't delete what the run created")
    add(
        "--use-existing",
        action="store_true",
        help="also use containers that hold objects and that nothing says are ssbench's, like "
        "those that 0.3.9 made for a storage policy",
    )
    add(
        "--compressible",
        action="store_true",
        help="objects of one repeated letter, as ssbench 0.3.9 sent, instead of random bytes",
    )
    add(
        "--verify",
        action="store_true",
        help="check every READ for the right content and length, and ETags against MD5",
    )
    add(
        "--operation-timeout",
        type=types.seconds,
        metavar="SECONDS",
        help="longest that an operation may take, retries included [default: no limit]",
    )
    add(
        "--drain-timeout",
        type=types.seconds_or_none,
        default=30.0,
        metavar="SECONDS",
        help="how long to wait at the end, or after Ctrl-C, for operations in flight",
    )
    add_retries(group)
    errors = group.add_mutually_exclusive_group()
    errors.add_argument(
        "--max-consecutive-errors",
        type=types.count,
        metavar="COUNT",
        help="end the run when so many operations failed in a row; never, unless given",
    )
    errors.add_argument(
        "--stop-on-error",
        action="store_const",
        const=1,
        dest="max_consecutive_errors",
        help="end the run with the first operation that fails",
    )
    instead = group.add_mutually_exclusive_group()
    instead.add_argument(
        "--noop",
        action="store_true",
        help="send nothing to a store: measures master and workers themselves",
    )
    instead.add_argument(
        "--embedded-swift",
        action="store_true",
        help="run against a throw-away Swift on this host; needs ssbench[embedded]",
    )
    add("--profile", action="store_true",
        help="profile the master with cProfile, and say where the profile is")  # fmt: skip


def add_results(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-s",
        "--stats-file",
        type=types.new_stats_file,
        metavar="STATS_FILE",
        help="where to keep the results; .gz is added to a name without it [default: "
        "/tmp/ssbench-results/NAME.u<users>.o<ops>.r<seconds>.<time>.stat.gz]",
    )
    add("--force", action="store_true", help="overwrite the stat file, if -s names one that exists")
    add("-R", "--no-default-report", action="store_true", help="print no report at the end")
    add_format(group.add_mutually_exclusive_group(), "report as CSV", "report as JSON")
    add_pctile(group)
    add("--progress", choices=PROGRESS,
        help="chars: one character for each operation; live: a line that is kept up to date; "
        "none [default: live on a terminal, else chars]")  # fmt: skip


def add_workers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "workers",
        "Without --workers or --expect-workers the run begins when the workers that came can be "
        "all users together, or after --worker-wait.",
    )
    add = group.add_argument
    add(
        "--workers",
        type=types.count,
        metavar="COUNT",
        help="start so many workers on this host, for this run",
    )
    add(
        "--expect-workers",
        type=types.count,
        metavar="COUNT",
        help="wait for so many workers, those of --workers included",
    )
    add(
        "--worker-wait",
        type=types.seconds_or_none,
        default=30.0,
        metavar="SECONDS",
        help="how long to wait for workers",
    )
    add(
        "--fewer-workers-ok",
        action="store_true",
        help="run also where fewer workers came than --expect-workers or --workers says "
        "[default: the run doesn't start, exit status 6]",
    )
    add(
        "--worker-timeout",
        type=types.seconds,
        default=10.0,
        metavar="SECONDS",
        help="a worker that is silent for so long is given up",
    )
    add_batch_size(group)
    add_master_sockets(group)  # fmt: skip
