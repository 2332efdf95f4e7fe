"""The table of commands of ssbench-master, and the parser made from it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from ssbench import __version__
from ssbench.cli.options import (
    AB,
    BROWSE,
    CLEANUP_CONTAINERS,
    COMPARE,
    DOCTOR,
    FIND_LIMIT,
    KILL_WORKERS,
    LOUDNESS,
    MAKE_KEY,
    MARK,
    NECTAR,
    PROFILER,
    REPORT_SCENARIO,
    RUN_SCENARIO,
)
from ssbench.cli.parser import Parser, add_options
from ssbench.cli.worker_options import SHOW
from ssbench.core.option import WORKERS, Option

if TYPE_CHECKING:
    from ssbench.cli.site import SiteDefaults


class Command(Struct, frozen=True):
    """A sub-command of ssbench-master."""

    #: Its options; or the place of these: a module below ssbench, a name, and where that is a map,
    #: a key. A start loads those of its own command.
    options: tuple[Option, ...] | str
    function: str  #: module below ssbench, and name; "": ``translator`` makes another command of it
    summary: str  #: in ssbench-master -h
    description: str
    #: From the command line of another program to one of ours; a place as ``function``.
    translator: str = ""
    stray: str = ""  #: hint for an unexpected positional argument
    groups: Mapping[str, str] = {}  #: titles with a description
    alias: str = ""  #: another name
    examples: tuple[str, ...] = ()  #: arguments after the name, for the short help
    is_common: bool = True  #: in the short help of ssbench-master
    #: It computes statistics, and loads numpy late: a run must not find at its end that it is
    #: missing, as in an environment of an earlier release.
    has_statistics: bool = False

    @property
    def rows(self) -> tuple[Option, ...]:
        if not isinstance(self.options, str):
            return self.options
        module, name, *key = self.options.split(":")
        found = getattr(import_module(f"ssbench.{module}"), name)
        rows: tuple[Option, ...] = found[key[0]] if key else found
        return rows


_SCENARIO_WITH_F = "give the scenario with -f"
_WORKERS_OF_RUN = {
    WORKERS: "Without --workers or --expect-workers the run starts when the connected workers can "
    "run all users. If there are none, or another ssbench-master has the default ports, it starts "
    "one for each CPU core but one on this host."
}
_WORKERS_OF_BENCH = {
    WORKERS: "Without --workers and --expect-workers, one worker for each CPU core but one is "
    "started on this host."
}
_BENCH = {
    "put": "upload numbered objects",
    "get": "read numbered objects",
    "head": "send a HEAD for each numbered object",
    "post": "replace the metadata of each numbered object",
    "delete": "delete numbered objects, and the containers that this empties",
    "mixed": "upload, change, read and delete objects, all at once",
    "suite": "run a published comparison, and print its figures beside yours",
}
_NUMBERED = (
    "Object number I is named PREFIX followed by I, and is in container number I modulo "
    "--containers, so each command finds the objects of the others. Prints a progress line every "
    "minute, and the rate at the end."
)
_SUITE = (
    "Runs put, put, get, get, delete, delete and mixed with 4 KiB objects and then with 1 MiB "
    "objects, and prints the rates beside the published ones."
)
#: First word of commands that have two -> summary.
GROUPS = {"bench": "put, get or delete numbered objects; read or write files"}

COMMANDS: Mapping[str, Command] = {
    "run-scenario": Command(
        RUN_SCENARIO,
        "commands.run:run_scenario",
        "run a scenario, store its results and report on them",
        "Runs a scenario against a store: creates containers, uploads the initial objects, runs "
        "the operations, deletes the objects that these created, and prints a report. Containers "
        "and initial objects stay for the next run.",
        stray=_SCENARIO_WITH_F,
        groups=_WORKERS_OF_RUN,
        alias="run",
        examples=(
            "very_small --embedded-swift --workers 2",
            "my.scenario -u 50 -r 5m --html run.html",
        ),
        has_statistics=True,
    ),
    "find-limit": Command(
        FIND_LIMIT,
        "commands.run:find_limit",
        "find the highest load that meets an SLO",
        "Runs a scenario repeatedly, doubling the users (or the rate) until an SLO such as p99 < "
        "50ms is missed, then bisects between the last two loads; prints a table of all steps, "
        "and the highest load that met the SLO.",
        stray=_SCENARIO_WITH_F,
        groups=_WORKERS_OF_RUN,
        examples=("my.scenario --slo 'p99 < 50ms' --workers 4",),
        has_statistics=True,
    ),
    "ab": Command(
        AB,
        "commands.ab:ab",
        "run two variants of a scenario in turn, and compare them",
        "Runs a scenario with the options of --a and with those of --b, in pairs (A B, B A ...), "
        "and compares the pairs: for each figure the change with its interval, and whether it is "
        "more than noise. Options outside of --a and --b are of both.",
        stray=_SCENARIO_WITH_F,
        groups=_WORKERS_OF_RUN,
        examples=("my.scenario -r 60 --warmup 10 --a '-u 10' --b '-u 20'",),
        is_common=False,
        has_statistics=True,
    ),
    "report-scenario": Command(
        REPORT_SCENARIO,
        "commands.report:report_scenario",
        "report on the results of an earlier run",
        "Prints a report on a stat file, as text unless another format is given. Several stat "
        "files are merged: those of masters that ran the same scenario at the same time.",
        stray="stat files stand together; -f FILE names the file of --csv, --json and the like",
        examples=("run.stat.gz --html run.html", "run.stat.gz --pctile 99.9 --json"),
        has_statistics=True,
    ),
    "compare": Command(
        COMPARE,
        "commands.report:compare",
        "compare the results of two or more runs",
        "Compares rates and latencies of runs, each with its confidence interval, and states which "
        "differences are more than noise. Lists the settings in which the runs differ first.",
        examples=("before.stat.gz after.stat.gz --operation READ",),
        has_statistics=True,
    ),
    "browse": Command(
        BROWSE,
        "commands.browse:browse",
        "list the stat files of a folder as a page, with their reports",
        "Serves a page that lists the stat files of a folder with their main figures, opens their "
        "reports, and compares those that are ticked; until Ctrl-C.",
        examples=("results",),
        is_common=False,
        has_statistics=True,
    ),
    "list-scenarios": Command(
        (),
        "commands.run:list_scenarios",
        "list the canned scenarios",
        "Lists the scenarios that ship with ssbench, for run-scenario -f.",
    ),
    "mark": Command(
        MARK,
        "commands.mark:mark",
        "mark this moment in the run that goes on",
        "Marks this moment in a run that this user has started on this host, for its report, its "
        "charts and its stat file.",
        stray="give the text in one word, in quotation marks",
        examples=("'node 3 down'",),
        is_common=False,
    ),
    "kill-workers": Command(
        KILL_WORKERS,
        "commands.hosts.command:kill_workers",
        "tell all workers to exit",
        "Tells all workers that connect to this host to exit, wherever they run; lists them, and "
        "returns when they are gone.",
        is_common=False,
    ),
    "cleanup-containers": Command(
        CLEANUP_CONTAINERS,
        "commands.cleanup:cleanup_containers",
        "delete containers named ssbench_ and six digits",
        "Deletes every container named by a base, an underscore and six digits that carries "
        "ssbench's mark, with all that is in it, whoever put it there. "
        "Lists them first. On a terminal it asks for confirmation; without one it does not.",
        stray="give the first part of the containers' names with -b",
        examples=("--dry-run", "-b ssbench --yes"),
    ),
    **{
        f"bench {name}": Command(
            f"commands.bench.settings:ROWS:{name}",
            "commands.bench.command:suite" if name == "suite" else "commands.bench.command:bench",
            summary,
            _SUITE if name == "suite" else f"{summary[0].upper()}{summary[1:]}. {_NUMBERED}",
            groups=_WORKERS_OF_BENCH,
            examples=("bench-ec- --count 100000",)
            if name == "suite"
            else ("mycontainer --containers 10 -u 20",),
        )
        for name, summary in _BENCH.items()
    },
    "nectar": Command(
        NECTAR,
        "",
        "run a command line of nectar's benchmark",
        "Takes nectar's command line as it stands, with its variables AUTH_URL, AUTH_TENANT, "
        "AUTH_USER, AUTH_KEY, AUTH_PASSWORD and CONCURRENCY, and runs it as bench does.",
        translator="commands.bench.settings:translate",
        is_common=False,
        examples=("bench-put -count=1000 mycontainer",),
    ),
    "bench files": Command(
        "commands.files.settings:BENCH_FILES",
        "commands.files.command:bench_files",
        "measure how fast files are read, written or copied",
        "Reads, writes or copies the files of a folder that gen-files made, by one user and by "
        "many, and prints a table: the time for all files, and MiB per second.",
        examples=("read DIR --sweep users=1,20",),
    ),
    "gen-files": Command(
        "commands.files.settings:GEN_FILES",
        "commands.files.command:gen_files",
        "make a folder of files, for bench files",
        "Makes a folder of files of about the same size, file_0.txt and so on, with random "
        "content.",
        alias="genFiles",
        is_common=False,
        examples=("DIR 10000 5G",),
    ),
    "diff-dirs": Command(
        "commands.files.settings:DIFF_DIRS",
        "commands.files.command:diff_dirs",
        "compare the files of two folders, byte by byte",
        "Compares two trees of files byte by byte. Prints the first difference, and exits with "
        "status 1, if there is one.",
        alias="diffDir",
        is_common=False,
    ),
    "upload": Command(
        "commands.transfer.settings:UPLOAD",
        "commands.transfer.command:upload",
        "upload the files of a folder, and measure how fast that is",
        "Uploads the files of a folder and of the folders in it, each as an object of its name, "
        "and prints throughput and CPU time. The container is made if there is none. Nothing is "
        "ever deleted; objects of earlier uploads are replaced.",
        groups=_WORKERS_OF_BENCH,
        examples=("DIR --container mycontainer --sweep users=1,16",),
        has_statistics=True,
    ),
    "download": Command(
        "commands.transfer.settings:DOWNLOAD",
        "commands.transfer.command:download",
        "read a container's objects, and measure how fast that is",
        "Reads each object of a container once, discards what it reads, and prints throughput and "
        "CPU time.",
        groups=_WORKERS_OF_BENCH,
        examples=("--container mycontainer -u 32",),
        stray="it saves nothing; --verify DIR compares the objects with the files of a folder",
        has_statistics=True,
    ),
    "profiler": Command(
        PROFILER,
        "",
        "run a command line of Swift Profiler",
        "Takes Swift Profiler's command line as it stands, and the credentials in .env, and runs "
        "it as upload does.",
        translator="commands.transfer.settings:translate",
        is_common=False,
        examples=("-input-dir=DIR -dest-prefix=mycontainer",),
    ),
    "make-scenario": Command(
        "commands.replay.settings:MAKE_SCENARIO",
        "commands.replay.command:make_scenario",
        "make a scenario of containers, logs or others' workloads",
        "Lists the objects in containers, and writes a scenario whose object sizes have the same "
        "distribution. The scenario only reads, with 16 users for 60 seconds; edit it as needed. "
        "Or reads access logs of a Swift proxy, S3, RGW, HAProxy or a web server, and writes a "
        "scenario with their operations, sizes and rate. Or converts a workload of COSBench, or a "
        "command line of warp.",
        stray="name containers with --from-container, or logs with --from-access-log",
        examples=("--from-container mycontainer --output my.scenario",),
    ),
    "replay": Command(
        "commands.replay.settings:REPLAY",
        "commands.replay.command:replay",
        "send the requests of access logs again, at their own times",
        "Reads access logs of a Swift proxy, S3, RGW, HAProxy or a web server, uploads objects of "
        "the sizes that the requests need to containers of its own, and sends the requests at "
        "their own times. The report says how late they were sent. Names, addresses and users of "
        "the log are not kept.",
        groups=_WORKERS_OF_BENCH,
        examples=("access.log.gz --speed 2 --html replay.html",),
    ),
    "check-network": Command(
        "commands.hosts.settings:CHECK_NETWORK",
        "commands.hosts.command:check_network",
        "measure throughput and round trip between hosts",
        "Measures TCP connections, one after the other and in both directions: from this host and "
        "from one worker of each host to each HOST, and from these workers to this host. "
        "Prints each second, and a summary. The servers end with it.",
        examples=("store1 store2 --time 10",),
        is_common=False,
    ),
    "doctor": Command(
        DOCTOR,
        "commands.doctor:doctor",
        "check all that a run needs, and say what to do",
        "Logs in, compares the store's limits with the scenario, uploads, reads and deletes an "
        "object in a container of its own, waits for workers, and more. Prints a row for each "
        "check. Exit status 0 only if all is well: no row is a warning or failed.",
    ),
    "make-key": Command(
        MAKE_KEY,
        "commands.hosts.command:make_key",
        "write a key file for --zmq-key-file",
        "Writes a new key file. Master and workers with the same key file encrypt their traffic "
        "and reject all other peers.",
        is_common=False,
    ),
}

_EXAMPLES = (
    "ssbench-master run-scenario -f very_small --embedded-swift --workers 2",
    "ssbench-master report-scenario -h",
)
DESCRIPTION = f"""\
ssbench {__version__}: a benchmark for OpenStack Swift, S3, WebDAV and files."""
EPILOG = """\
Exit status: 0 success; 1 failure, also if most operations failed or were lost; 2 usage error,
the store was not changed; 3 a threshold was missed; 4 corrupt content was read; 5 interrupted,
results were kept; 6 workers were missing or lost."""


def master_parser(
    words: Sequence[str] | None = None, site: SiteDefaults | None = None
) -> argparse.ArgumentParser:
    """The parser of ssbench-master; it sets ``command`` to the sub-command's name.

    :param words: the arguments to parse; commands that are not among them get no options, because
        that would take time. None: all commands get their options.
    :param site: gives defaults; None: there are only the built-in ones.
    :raises UsageError: a value of the site is not valid.
    """
    parser = Parser(
        prog="ssbench-master", description=DESCRIPTION, epilog=EPILOG, examples=_EXAMPLES
    )
    parser.synopsis = ["COMMAND"]
    common = {name: each.summary for name, each in COMMANDS.items() if each.is_common}
    parser.briefs = [(name, text) for name, text in {**common, **GROUPS}.items() if " " not in name]
    parser.add_argument("--version", action="version", version=f"ssbench {__version__}")
    add_options(parser, LOUDNESS)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    # The parsers of the other commands would take a tenth of a start.
    first_word = words[0] if words else None
    of_first = {
        name
        for name, each in COMMANDS.items()
        if first_word in (name.partition(" ")[0], each.alias)
    }
    groups = {}
    for name, summary in GROUPS.items():
        if of_first and name != first_word:
            continue
        group = commands.add_parser(name, help=summary, description=f"Commands: {summary}.")
        group.synopsis = ["COMMAND"]
        group.briefs = [
            (command.removeprefix(f"{name} "), each.summary)
            for command, each in COMMANDS.items()
            if command.startswith(f"{name} ")
        ]
        if words is None or name in words:
            groups[name] = group.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, each in COMMANDS.items():
        first, _, second = name.partition(" ")
        if (of_first and name not in of_first) or (second and first not in groups):
            continue
        command = _add_command(groups[first] if second else commands, name, each)
        if words is None or {first, second or first} <= {*words} or each.alias in words:
            # -v and -q may be given before the command as well: no default of their own.
            loudness = (replace(option, default=argparse.SUPPRESS) for option in LOUDNESS)
            add_options(command, [*loudness, SHOW])
            values = site.values(name, each.rows) if site else {}
            add_options(command, each.rows, each.groups, values)
    return parser


def _add_command(parsers: Any, name: str, command: Command) -> Parser:
    """A command's parser, without options; it sets ``command`` to the name."""
    parser: Parser = parsers.add_parser(
        name.rpartition(" ")[2],
        aliases=[command.alias] if command.alias else [],
        help=command.summary,
        description=command.description,
        summary=f"{command.summary[0].upper()}{command.summary[1:]}.",
        stray=command.stray,
        examples=[f"ssbench-master {name} {example}" for example in command.examples],
    )
    parser.set_defaults(command=name)
    return parser
