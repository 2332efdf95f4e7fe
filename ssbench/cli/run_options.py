"""The options of run-scenario, in the groups of its help."""

from __future__ import annotations

import argparse

from ssbench.cli import option_types as types
from ssbench.cli.shared_options import (
    add_batch_size,
    add_master_sockets,
    add_pctile,
    add_resume,
    add_retries,
    add_store,
)
from ssbench.core.scenario_load import ARRIVALS

PROGRESS = ("chars", "live", "none")


def add_run_scenario(parser: argparse.ArgumentParser) -> None:
    _add_scenario(parser.add_argument_group("what to run"))
    _add_load(parser.add_argument_group("how hard, and what counts"))
    _add_how(parser.add_argument_group("how to run it"))
    _add_results(parser.add_argument_group("results"))
    workers = parser.add_argument_group(
        "workers",
        "Without --workers or --expect-workers the run begins when the workers that came can be "
        "all users together, or after --worker-wait.",
    )
    _add_workers(workers)
    add_master_sockets(workers)
    add_store(parser)


def _add_scenario(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    one = group.add_mutually_exclusive_group(required=True)
    one.add_argument(
        "-f",
        "--filename",
        dest="scenario",
        metavar="SCENARIO_FILE",
        help="scenario to run: a file, - for stdin, or the name of a canned one "
        "(list-scenarios shows them)",
    )
    add_resume(
        one, "run nothing: delete what the run of this stat file left behind, as "
        "cleanup-containers --resume-cleanup does"
    )  # fmt: skip
    add(
        "-u",
        "--user-count",
        type=types.count,
        metavar="COUNT",
        help="users at once; over the scenario's user_count",
    )
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
        type=types.count,
        metavar="BYTES",
        help="bytes to send or receive at a time; over the scenario's block_size [default: 65536]",
    )
    add(
        "--delete-after",
        type=types.count_or_none,
        metavar="SECONDS",
        help="let the store expire objects after so long; 0 for never",
    )
    add("-p", "--policy", metavar="POLICY", help="storage policy of the containers")
    add("--seed", type=types.whole(0), metavar="NUMBER",
        help="repeat the choices of the run that had this seed")  # fmt: skip


def _add_load(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--rate",
        type=types.rate,
        metavar="RATE",
        help="operations a second that fall due, whatever the store does (an open loop); over the "
        "scenario's",
    )
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


def _add_how(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-k", "--keep-objects", action="store_true", help="don't delete what the run created")
    add(
        "--use-existing",
        action="store_true",
        help="also use containers that hold objects and that nothing says are ssbench's "
        "(those of 0.3.9)",
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


def _add_results(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-s",
        "--stats-file",
        metavar="STATS_FILE",
        help="where to keep the results [default: /tmp/ssbench-results/NAME.u<users>.o<ops>"
        ".r<seconds>.<time>.stat.gz]",
    )
    add("--force", action="store_true", help="overwrite the stat file, if -s names one that exists")
    add("-R", "--no-default-report", action="store_true", help="print no report at the end")
    add("--csv", action="store_true", help="report as two lines of CSV")
    add_pctile(group)
    add("--progress", choices=PROGRESS,
        help="chars: one character for each operation; live: a line that is kept up to date; "
        "none [default: live on a terminal, else chars]")  # fmt: skip


def _add_workers(group: argparse._ArgumentGroup) -> None:
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
        "--worker-timeout",
        type=types.seconds,
        default=10.0,
        metavar="SECONDS",
        help="a worker that is silent for so long is given up",
    )
    add_batch_size(group)  # fmt: skip
