"""Options of run-scenario, in the groups of its help."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING

from ssbench.cli.parser import add_options
from ssbench.cli.shared_options import (
    add_batch_size,
    add_format,
    add_pctile,
    add_resume,
    add_retries,
    add_threshold,
)
from ssbench.cli.store_options import STORE_OPTIONS
from ssbench.cli.zmq_options import MASTER_SOCKETS
from ssbench.core import option as types
from ssbench.core.errors import UsageError
from ssbench.core.scenario.fields import ARRIVALS

if TYPE_CHECKING:
    from ssbench.core.stats.steps import Sweep

PROGRESS = ("chars", "live", "none")


def add_run_scenario(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what to run")
    one = what.add_mutually_exclusive_group(required=True)
    add_file(one)
    add_resume(
        one, "run nothing: delete the orphaned objects of this stat file's run, as "
        "cleanup-containers --resume-cleanup does"
    )  # fmt: skip
    add_users(what)
    _add_length(what)
    add_objects(what)
    load = parser.add_argument_group("load and measurement")
    _add_rate(load)
    add_load(load)
    _add_window(load)
    add_how(parser.add_argument_group("execution"))
    results = parser.add_argument_group("results")
    add_results(results)
    add_threshold(results)
    add_workers(parser)
    add_options(parser, STORE_OPTIONS)


def add_file(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "-f",
        "--filename",
        dest="scenario",
        metavar="SCENARIO_FILE",
        help="scenario to run: a file, - for stdin, or the name of a canned scenario "
        "(see list-scenarios)",
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
        help="concurrent users; overrides the scenario's user_count",
    )


def _add_length(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "-o",
        "--op-count",
        type=types.count,
        dest="operation_count",
        metavar="COUNT",
        help="number of operations; overrides the scenario's run length",
    )
    add(
        "-r",
        "--run-seconds",
        type=types.seconds,
        metavar="SECONDS",
        help="duration of the run; overrides the scenario's run length, and -o",
    )


def add_objects(group: argparse._ActionsContainer) -> None:
    """Containers, and how objects are uploaded."""
    add = group.add_argument
    add(
        "-c",
        "--container-count",
        type=types.count,
        metavar="COUNT",
        help="number of containers; overrides the scenario's container_count",
    )
    add(
        "--container-base",
        metavar="BASE",
        help="start of the containers' names; overrides the scenario's container_base",
    )
    add(
        "-b",
        "--block-size",
        type=types.size,
        metavar="BYTES",
        help="bytes to send at a time (no effect below 1 MiB); overrides the scenario's "
        "block_size [default: 65536]",
    )
    add(
        "--delete-after",
        type=types.whole_seconds(0),
        metavar="SECONDS",
        help="let the store expire objects after this time, 0 for never; overrides the scenario's "
        "delete_after",
    )
    add(
        "-p",
        "--policy",
        metavar="POLICY",
        help="storage policy of the containers; overrides the scenario's policy",
    )
    add("--seed", type=types.whole(0), metavar="NUMBER",
        help="seed of an earlier run, to repeat its random choices")  # fmt: skip


def _add_rate(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "--rate",
        type=types.rate,
        metavar="RATE",
        help="target arrival rate in operations/s (open loop); overrides the scenario's rate",
    )


def add_load(group: argparse._ActionsContainer) -> None:
    add = group.add_argument
    add(
        "--arrivals",
        choices=ARRIVALS,
        help="open loop: evenly spaced (uniform) or random (poisson) arrivals [default: uniform]",
    )
    add(
        "--think-time",
        type=types.think_time,
        metavar="SECONDS",
        help="closed loop: pause of a user after each operation; MIN,MAX for a random pause",
    )


def _add_window(group: argparse._ActionsContainer) -> None:
    """Warm-up and cool-down, sweeps, early end."""
    add = group.add_argument
    add(
        "--warmup",
        type=types.seconds_or_none,
        metavar="SECONDS",
        help="warm-up: time at the start of the run that statistics exclude",
    )
    add(
        "--cooldown",
        type=types.seconds_or_none,
        metavar="SECONDS",
        help="cool-down: time at the end of the run that statistics exclude",
    )
    add(
        "--sweep",
        type=sweep,
        metavar="LOADS",
        help="run the scenario once for each load (users=1,20,40 or rate=100,200), with the same "
        "workers and initial objects, and print a table",
    )
    add(
        "--auto-stop",
        action="store_true",
        help="end the run early, once the rate of operations is steady",
    )
    add(
        "--auto-stop-window",
        type=types.whole_seconds(1),
        default=15,
        metavar="SECONDS",
        help="with --auto-stop: whole seconds to compare with as many before them",
    )
    add(
        "--auto-stop-tolerance",
        type=types.tolerance,
        default=7.5,
        metavar="PERCENT",
        help="with --auto-stop: difference between rates, in percent, that still counts as steady",
    )


def add_how(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-k", "--keep-objects", action="store_true", help="do not delete what the run created")
    add(
        "--use-existing",
        action="store_true",
        help="also use containers that hold objects and are not marked as ssbench's, such as those "
        "that 0.3.9 created for a storage policy",
    )
    add(
        "--compressible",
        action="store_true",
        help="send objects of one repeated letter, as ssbench 0.3.9 did, instead of random bytes",
    )
    add(
        "--verify",
        action="store_true",
        help="verify content and length of every READ, and ETags against MD5",
    )
    add(
        "--operation-timeout",
        type=types.seconds,
        metavar="SECONDS",
        help="time limit of an operation, including retries [default: no limit]",
    )
    add(
        "--drain-timeout",
        type=types.seconds_or_none,
        default=30.0,
        metavar="SECONDS",
        help="longest wait for operations in flight at the end, or after Ctrl-C",
    )
    add_retries(group)
    errors = group.add_mutually_exclusive_group()
    errors.add_argument(
        "--max-consecutive-errors",
        type=types.count,
        metavar="COUNT",
        help="end the run when this many operations failed in a row; never by default",
    )
    errors.add_argument(
        "--stop-on-error",
        action="store_const",
        const=1,
        dest="max_consecutive_errors",
        help="end the run at the first failed operation",
    )
    instead = group.add_mutually_exclusive_group()
    instead.add_argument(
        "--noop",
        action="store_true",
        help="send nothing to a store, to measure master and workers themselves",
    )
    instead.add_argument(
        "--embedded-swift",
        action="store_true",
        help="run against a temporary Swift on this host; requires ssbench[embedded]",
    )
    add("--profile", action="store_true",
        help="profile the master with cProfile, and print the profile's path")  # fmt: skip


def add_results(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-s",
        "--stats-file",
        type=new_stats_file,
        metavar="STATS_FILE",
        help="where to store the results; .gz is added to a name without it [default: "
        "/tmp/ssbench-results/NAME.u<users>.o<ops>.r<seconds>.<time>.stat.gz]",
    )
    add("--force", action="store_true", help="overwrite the stat file of -s, if it exists")
    add("-R", "--no-default-report", action="store_true", help="print no report")
    add_format(group.add_mutually_exclusive_group(), "print the report as CSV", "print it as JSON")
    add_pctile(group)
    add("--progress", choices=PROGRESS,
        help="chars: one character per operation; live: a status line, updated in place; none "
        "[default: live on a terminal, else chars]")  # fmt: skip


def add_workers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "workers",
        "Without --workers or --expect-workers the run starts when the connected workers can run "
        "all users, or after --worker-wait.",
    )
    add = group.add_argument
    add(
        "--workers",
        type=types.count,
        metavar="COUNT",
        help="number of workers to start on this host, for this run",
    )
    add(
        "--expect-workers",
        type=types.count,
        metavar="COUNT",
        help="number of workers to wait for, including those of --workers",
    )
    add(
        "--worker-wait",
        type=types.seconds_or_none,
        default=30.0,
        metavar="SECONDS",
        help="longest wait for workers",
    )
    add(
        "--fewer-workers-ok",
        action="store_true",
        help="run even if fewer workers connect than --expect-workers or --workers says [default: "
        "do not start, and exit with status 6]",
    )
    add(
        "--worker-timeout",
        type=types.seconds,
        default=10.0,
        metavar="SECONDS",
        help="time without a heartbeat after which a worker is declared lost",
    )
    add_batch_size(group)
    add_options(group, MASTER_SOCKETS)  # fmt: skip


def new_stats_file(text: str) -> str:
    """The stat file's path with ``.gz`` added where it lacks it, as in ssbench 0.3.9.

    Existing paths that are not regular files (devices, pipes, links, folders) stay unchanged, and
    so does ``-``, which is rejected later.
    """
    if text == "-" or text.lower().endswith(".gz") or not os.path.basename(text):
        return text
    try:
        regular = stat.S_ISREG(os.lstat(text).st_mode)
    except (OSError, ValueError):  # no such file
        regular = True
    return f"{text}.gz" if regular else text


def sweep(text: str) -> Sweep:
    """``users=1,20,40`` or ``rate=100,200``."""
    from ssbench.core.stats.steps import OVER, Sweep

    over, equals, values = text.partition("=")
    if over not in OVER or not equals:
        raise UsageError(f"{text!r}: give users=1,20,40 or rate=100,200")
    convert: Callable[[str], float] = types.count if over == "users" else types.rate
    loads = tuple(convert(value.strip()) for value in values.split(","))
    for load in loads:
        if loads.count(load) > 1:
            raise UsageError(f"{text!r}: {load:g} is given more than once")
    return Sweep(over, loads)
