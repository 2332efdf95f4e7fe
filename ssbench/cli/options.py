"""The command lines of ssbench-master and ssbench-worker: letters and defaults of ssbench 0.3.9.

What the values mean to the commands is in ``ssbench.cli.chosen``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from ssbench import __version__
from ssbench.cli import option_types as types
from ssbench.cli.chosen import CLEANUP_CONCURRENCY, CONTAINER_BASE
from ssbench.cli.limit_options import add_find_limit
from ssbench.cli.parser import Parser
from ssbench.cli.run_options import add_run_scenario
from ssbench.cli.shared_options import (
    add_batch_size,
    add_loudness,
    add_master_sockets,
    add_pctile,
    add_ports,
    add_resume,
    add_retries,
    add_store,
    add_threshold,
)

MASTER_DESCRIPTION = f"""\
ssbench {__version__}: benchmarks an OpenStack Swift cluster with scenarios of your own."""
MASTER_EPILOG = """\
Exit status: 0 fine; 1 failed, also when no operation succeeded; 2 wrong usage, nothing was sent;
3 a threshold was missed; 4 corrupt content was read; 5 interrupted, results were kept;
6 workers were lost."""
WORKER_DESCRIPTION = """\
Does the work of one process for an ssbench-master, on this host or another. Start one for each
CPU core, before or after the master."""


def master_parser() -> argparse.ArgumentParser:
    """The parser of ssbench-master. ``command`` is the sub-command's name."""
    parser = Parser(prog="ssbench-master", description=MASTER_DESCRIPTION, epilog=MASTER_EPILOG)
    parser.add_argument("--version", action="version", version=f"ssbench {__version__}")
    add_loudness(parser, quiet=True, default=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (add, summary, description) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=description)
        add_loudness(command, quiet=True, default=argparse.SUPPRESS)
        add(command)
    return parser


def worker_parser() -> argparse.ArgumentParser:
    """The parser of ssbench-worker."""
    parser = Parser(prog="ssbench-worker", description=WORKER_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"ssbench {__version__}")
    add_loudness(parser, quiet=False, default=False)
    add = parser.add_argument
    add(
        "worker_id",
        nargs="?",
        type=types.worker_id,
        help="a name for this worker, unlike any other's; one is made up if you give none",
    )
    add(
        "-c",
        "--concurrency",
        type=types.count,
        default=64,
        metavar="COUNT",
        help="users that this worker can be at once, at most",
    )
    add_retries(parser)
    add_batch_size(parser, "taken for the sake of old command lines; the master's counts")
    add(
        "-p",
        "--profile-count",
        type=types.count,
        metavar="COUNT",
        help="profile the first COUNT jobs with cProfile, and say where the profile is",
    )
    zmq = parser.add_argument_group("the master")
    zmq.add_argument(
        "--zmq-host",
        default="127.0.0.1",
        metavar="HOST",
        help="host where ssbench-master runs; a name with both kinds of address takes IPv4",
    )
    add_ports(zmq)
    zmq.add_argument(
        "--exit-with-master",
        action="store_true",
        help="end when the master is gone, or its run is over, instead of waiting for the next "
        "one: with status 1 where that cut work short, else 0",
    )
    # How a master hands its key to the workers that it starts, and tells them that it is gone.
    add("--parent-pipe", type=types.whole(0), metavar="FD", help=argparse.SUPPRESS)
    return parser  # fmt: skip


# --- the commands


def _add_report_scenario(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-s",
        "--stats-file",
        required=True,
        metavar="STATS_FILE",
        help="results to report on; those of ssbench 0.3.9 can be read too",
    )
    add(
        "-f",
        "--report-file",
        metavar="REPORT_FILE",
        help="write the report here [default: standard output]",
    )
    add_pctile(parser)
    add_threshold(parser)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--csv", action="store_true", help="two lines of CSV")
    kind.add_argument("--json", action="store_true", help="everything there is, as JSON")
    add(
        "-r",
        "--rps-histogram",
        metavar="FILE",
        help="write the number of requests in each second here, as CSV",
    )
    add(
        "--time-series",
        metavar="FILE",
        help="write operations, bytes, errors, latencies and operations in flight of each second "
        "here, as CSV",
    )
    add(
        "--host-stats",
        metavar="FILE",
        help="write the live figures of the workers' and the master's machines here, a row a "
        "second, as CSV",
    )
    add("--profile", action="store_true",
        help="profile the making of the report with cProfile")  # fmt: skip


def _add_compare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "stats_files",
        nargs="+",
        metavar="STATS_FILE",
        help="results of two or more runs; the first is what the others are held against",
    )
    add(
        "--operation",
        type=types.operation,
        action="append",
        dest="operations",
        metavar="OPERATION",
        help="compare CREATE, READ, UPDATE or DELETE only; may be repeated; all together and each, "
        "unless given",
    )
    add(
        "--pctile",
        type=types.percentile,
        action="append",
        dest="percentiles",
        metavar="PERCENTILE",
        help="percentile of latencies to compare, fractions too; may be repeated; 50, 90, 95, 99 "
        "and 99.9, unless given",
    )
    add("--json", action="store_true", help="everything there is, as JSON")
    add("--seed", type=types.whole(0), default=1, metavar="NUMBER",
        help="resamples for the intervals are drawn with it: the same gives the same")  # fmt: skip


def _add_kill_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--worker-wait",
        type=types.seconds_or_none,
        default=30.0,
        metavar="SECONDS",
        help="how long to wait for workers to come and go",
    )
    add_master_sockets(parser.add_argument_group("workers"))  # fmt: skip


def _add_cleanup(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-b",
        "--container-base",
        default=CONTAINER_BASE,
        metavar="BASE",
        help="delete containers named BASE_ and six digits",
    )
    add(
        "-c",
        "--concurrency",
        type=types.count,
        default=CLEANUP_CONCURRENCY,
        metavar="COUNT",
        help="requests at once",
    )
    add(
        "-p",
        "--policy",
        metavar="POLICY",
        help="delete those of this storage policy, BASE_000061_POLICY; '*' for any "
        "[default: those that name none]",
    )
    add_resume(parser, "delete, instead, the objects that the run of this stat file left behind")
    add("--dry-run", action="store_true", help="say what would be deleted, and delete nothing")
    add("--yes", action="store_true", help="don't ask")
    add_store(parser)  # fmt: skip


def _add_make_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key_file", metavar="FILE", help="a file that doesn't exist yet")


def _add_nothing(parser: argparse.ArgumentParser) -> None:
    pass


#: Sub-command -> what adds its options, its line in ssbench-master -h, its own description.
COMMANDS: dict[str, tuple[Callable[[argparse.ArgumentParser], None], str, str]] = {
    "run-scenario": (
        add_run_scenario,
        "run a scenario, keep its results and report on them",
        "Runs a scenario against a store: makes containers, uploads the initial objects, does "
        "the operations, deletes what it created, and reports.",
    ),
    "find-limit": (
        add_find_limit,
        "find the largest load that keeps a promise",
        "Runs a scenario again and again, with twice the users (or rate) each time until a promise "
        "like p99 < 50ms is broken, and with loads between from then on; prints a table of all "
        "steps, and the largest load that kept it.",
    ),
    "report-scenario": (
        _add_report_scenario,
        "report on the results of an earlier run",
        "Makes a report of a stat file: a text for people, unless --csv or --json is given.",
    ),
    "compare": (
        _add_compare,
        "hold the results of two or more runs side by side",
        "Shows rates and latencies of runs side by side, each with the interval that chance leaves "
        "it in, and says whether a difference is more than noise. Settings in which the runs "
        "differ are named first.",
    ),
    "list-scenarios": (
        _add_nothing,
        "show the canned scenarios",
        "Shows the scenarios that come with ssbench, for run-scenario -f.",
    ),
    "kill-workers": (
        _add_kill_workers,
        "tell all workers to exit",
        "Tells the workers of all hosts that look to this one as their master to exit, names "
        "them, and returns when they are gone.",
    ),
    "cleanup-containers": (
        _add_cleanup,
        "delete ssbench's containers and all that is in them",
        "Deletes the containers that ssbench made, objects and all: those named by a base, an "
        "underscore and six digits. It says which, and asks, before it does.",
    ),
    "make-key": (
        _add_make_key,
        "write a key file for --zmq-key-file",
        "Writes a new key file. Master and workers that have the same one talk encrypted, and "
        "to nobody else.",
    ),
}
