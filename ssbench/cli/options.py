"""The command line of ssbench-master; short options and defaults are those of ssbench 0.3.9."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module

from ssbench import __version__
from ssbench.cli.parser import Parser
from ssbench.cli.shared_options import add_loudness

DESCRIPTION = f"""\
ssbench {__version__}: a benchmark for OpenStack Swift and other object stores."""
EPILOG = """\
Exit status: 0 success; 1 failure, also if more than half of the operations failed; 2 usage error,
the store was not changed; 3 a threshold was missed; 4 corrupt content was read; 5 interrupted,
results were kept; 6 workers were missing or lost."""


def master_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser of ssbench-master; it sets ``command`` to the sub-command's name.

    :param words: the arguments to parse. Commands that are not among them get no options, because
        loading the modules of all commands is slow. None: all commands get their options.
    """
    parser = Parser(prog="ssbench-master", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"ssbench {__version__}")
    add_loudness(parser, quiet=True, default=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (add, summary, description) in COMMANDS.items():
        command = commands.add_parser(
            name, help=summary, description=description, stray=_STRAY.get(name, "")
        )
        if words is None or name in words:
            add_loudness(command, quiet=True, default=argparse.SUPPRESS)
            _load(add)(command)
    return parser


def _load(path: str) -> Callable[[argparse.ArgumentParser], None]:
    module, _, name = path.partition(":")
    add: Callable[[argparse.ArgumentParser], None] = getattr(import_module(module), name)
    return add


def add_nothing(parser: argparse.ArgumentParser) -> None:
    """Add no options, for commands that have none of their own."""


#: Sub-command -> hint for an unexpected positional argument.
_STRAY = {
    "run-scenario": "give the scenario with -f",
    "find-limit": "give the scenario with -f",
    "report-scenario": "give the stat file with -s",
    "cleanup-containers": "give the first part of the containers' names with -b",
}

#: Sub-command -> "module:function" that adds its options, loaded on demand; its summary in
#: ssbench-master -h; its own description.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "run-scenario": (
        "ssbench.cli.run_options:add_run_scenario",
        "run a scenario, store its results and report on them",
        "Runs a scenario against a store: creates containers, uploads the initial objects, runs "
        "the operations, deletes what it created, and prints a report.",
    ),
    "find-limit": (
        "ssbench.cli.limit_options:add_find_limit",
        "find the highest load that meets an SLO",
        "Runs a scenario repeatedly, doubling the users (or the rate) until an SLO such as p99 < "
        "50ms is missed, then bisects between the last two loads; prints a table of all steps, "
        "and the highest load that met the SLO.",
    ),
    "report-scenario": (
        "ssbench.cli.report_options:add_report_scenario",
        "report on the results of an earlier run",
        "Prints a report on a stat file, as text unless --csv or --json is given.",
    ),
    "compare": (
        "ssbench.cli.report_options:add_compare",
        "compare the results of two or more runs",
        "Compares rates and latencies of runs, each with its confidence interval, and states which "
        "differences are more than noise. Lists the settings in which the runs differ first.",
    ),
    "list-scenarios": (
        "ssbench.cli.options:add_nothing",
        "list the canned scenarios",
        "Lists the scenarios that ship with ssbench, for run-scenario -f.",
    ),
    "kill-workers": (
        "ssbench.cli.zmq_options:add_kill_workers",
        "tell all workers to exit",
        "Tells all workers, on any host, whose master is this host to exit, lists them, and "
        "returns when they are gone.",
    ),
    "cleanup-containers": (
        "ssbench.cli.cleanup_options:add_cleanup",
        "delete ssbench's containers and everything in them",
        "Deletes the containers that ssbench created, with all their objects: those named by a "
        "base, an underscore and six digits. Lists them and asks for confirmation first.",
    ),
    "make-key": (
        "ssbench.cli.zmq_options:add_make_key",
        "write a key file for --zmq-key-file",
        "Writes a new key file. Master and workers with the same key file encrypt their traffic "
        "and reject all other peers.",
    ),
}
