"""The command line of ssbench-master: letters and defaults of ssbench 0.3.9."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from importlib import import_module

from ssbench import __version__
from ssbench.cli.parser import Parser
from ssbench.cli.shared_options import add_loudness

DESCRIPTION = f"""\
ssbench {__version__}: benchmarks an OpenStack Swift cluster with scenarios of your own."""
EPILOG = """\
Exit status: 0 fine; 1 failed, also when more than half of the operations did; 2 wrong usage, the
store was not changed; 3 a threshold was missed; 4 corrupt content was read; 5 interrupted, results
were kept; 6 workers were lost."""


def master_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The parser of ssbench-master. ``command`` is the sub-command's name.

    :param words: what is to be parsed: commands that aren't among these go without their options,
        as to load them all takes a while. None: commands have all they have.
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
    """For a command without options of its own."""


#: Sub-command -> what to say to an argument that belongs to no option.
_STRAY = {
    "run-scenario": "the scenario goes behind -f",
    "find-limit": "the scenario goes behind -f",
    "report-scenario": "the stat file goes behind -s",
    "cleanup-containers": "the first part of the containers' names goes behind -b",
}

#: Sub-command -> "module:function" that adds its options, loaded when they are asked for; its line
#: in ssbench-master -h; its own description.
COMMANDS: dict[str, tuple[str, str, str]] = {
    "run-scenario": (
        "ssbench.cli.run_options:add_run_scenario",
        "run a scenario, keep its results and report on them",
        "Runs a scenario against a store: makes containers, uploads the initial objects, does "
        "the operations, deletes what it created, and reports.",
    ),
    "find-limit": (
        "ssbench.cli.limit_options:add_find_limit",
        "find the largest load that keeps a promise",
        "Runs a scenario again and again, with twice the users (or rate) each time until a promise "
        "like p99 < 50ms is broken, and with loads between from then on; prints a table of all "
        "steps, and the largest load that kept it.",
    ),
    "report-scenario": (
        "ssbench.cli.report_options:add_report_scenario",
        "report on the results of an earlier run",
        "Makes a report of a stat file: a text for people, unless --csv or --json is given.",
    ),
    "compare": (
        "ssbench.cli.report_options:add_compare",
        "hold the results of two or more runs side by side",
        "Shows rates and latencies of runs side by side, each with the interval that chance leaves "
        "it in, and says whether a difference is more than noise. Settings in which the runs "
        "differ are named first.",
    ),
    "list-scenarios": (
        "ssbench.cli.options:add_nothing",
        "show the canned scenarios",
        "Shows the scenarios that come with ssbench, for run-scenario -f.",
    ),
    "kill-workers": (
        "ssbench.cli.zmq_options:add_kill_workers",
        "tell all workers to exit",
        "Tells the workers of all hosts that look to this one as their master to exit, names "
        "them, and returns when they are gone.",
    ),
    "cleanup-containers": (
        "ssbench.cli.cleanup_options:add_cleanup",
        "delete ssbench's containers and all that is in them",
        "Deletes the containers that ssbench made, objects and all: those named by a base, an "
        "underscore and six digits. It says which, and asks, before it does.",
    ),
    "make-key": (
        "ssbench.cli.zmq_options:add_make_key",
        "write a key file for --zmq-key-file",
        "Writes a new key file. Master and workers that have the same one talk encrypted, and "
        "to nobody else.",
    ),
}
