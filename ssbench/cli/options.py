"""The options of the commands: one row each.

Parsers, configurations and the checks of the reference page are made from these rows. Short
options and defaults are those of ssbench 0.3.9. Options that override a key of a scenario, or set a
field of RunConfig, stand there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ssbench.cli.worker_options import METRICS, VERBOSE
from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.option import (
    EXECUTION,
    LOAD,
    RESULTS,
    SEARCH,
    WHAT,
    WORKERS,
    Option,
    options_of_fields,
    row,
)
from ssbench.core.scenario.scenario import OPTIONS as OF_SCENARIO
from ssbench.core.settings import StorageSettings, TransportConfig
from ssbench.core.stats.budget import MEMORY
from ssbench.core.stats.selection import OPTIONS as SELECTION
from ssbench.runner.config import OVER, RunConfig, SearchConfig, threshold
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import ROWS, options_of

if TYPE_CHECKING:
    from ssbench.core.stats.steps import SweepLoads

DEFAULT_STORE = "swift"
LOOPBACK = "127.0.0.1"
CONTAINER_BASE = "ssbench"  #: the same as a scenario's default
#: Fast errors would pass as low latencies, so this SLO is added unless one limits errors.
FEW_ERRORS = "errors < 1%"

OF_RUN = (*OF_SCENARIO, *options_of_fields(RunConfig))
#: Options of each store in the package, by its name.
OF_STORE = {row.name: options_of(row) for row in ROWS.values()}


def swept(text: str, known: Collection[str], example: str) -> tuple[str, list[str]]:
    """``WHAT=VALUE,VALUE``: what is swept, and the values."""
    what, equals, values = text.partition("=")
    if what not in known or not equals:
        raise UsageError(f"{text!r}: give {example}")
    return what, values.split(",")


def sweep(text: str) -> SweepLoads:
    """``users=1,20,40`` or ``rate=100,200``."""
    from ssbench.core.stats.steps import SweepLoads  # lazy: few commands need it

    over, values = swept(text, OVER, "users=1,20,40 or rate=100,200")
    unit: units.Unit[int] | units.Unit[float] = units.count if over == "users" else units.rate
    loads = tuple(unit.of_text(value.strip()) for value in values)
    for load in loads:
        if loads.count(load) > 1:
            raise UsageError(f"{text!r}: {load:g} is given more than once")
    return SweepLoads(over, loads)


def web_address(text: str) -> tuple[str, int]:
    """``ADDR:PORT``, ``:PORT``, ``PORT`` or ``ADDR``; 127.0.0.1 and a free port by default.

    :raises UsageError: it is none of them.
    """
    host, colon, port = text.rpartition(":")
    if text.startswith("[") and text.endswith("]"):
        host, port = text, ""
    elif not colon:
        host, port = ("", text) if text.isdecimal() else (text, "")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK
    try:
        number = int(port or 0)
        types.ip_address(host)
    except (ValueError, UsageError):
        number = -1
    if not 0 <= number <= 65535:
        raise UsageError(
            f"{text!r}: give PORT (up to 65535) or ADDR:PORT, with an IP address of this host, "
            "such as 127.0.0.1:8080"
        )
    return host, number


def of_run(name: str, **changes: Any) -> Option:
    """An option of a run, with some things that a command has otherwise."""
    return replace(next(each for each in OF_RUN if each.name == name), **changes)


def only(rows: Sequence[Option], *names: str) -> tuple[Option, ...]:
    return tuple(row for row in rows if row.name in names)


def without(rows: Sequence[Option], *names: str) -> tuple[Option, ...]:
    return tuple(row for row in rows if row.name not in names)


def of_group(group: str, rows: Sequence[Option]) -> tuple[Option, ...]:
    """The rows in a section of the help: an option that joins it is one of each command with it."""
    return tuple(row for row in rows if row.group == group)


# fmt: off
STORE_OPTIONS: tuple[Option, ...] = (
    row("--storage", "storage", str, "store",
        f"the store: {', '.join(ROWS)}, or a driver of your own as package.module:Class [default: "
        f"{DEFAULT_STORE}]", metavar="NAME", brief=", ".join(ROWS)),
    row("--storage-option", "storage_options", str, "store",
        "an option of the store; may be repeated. Secret ones are read from the environment, or "
        "from the file that KEY_file=PATH names", metavar="KEY=VALUE", repeat=True),
    *options_of_fields(StorageSettings),
    *dict.fromkeys(
        replace(option, of_store=True)
        for options in OF_STORE.values()
        for option in options
        if option.flags
    ),
)
#: Of commands on containers that ssbench makes.
IDENTITIES = options_of_fields(StoreOptions)
LOUDNESS = (
    VERBOSE,
    row("-q --quiet", "quiet", bool, "", "print only the report, warnings and errors",
        default=False, command_line_only=True),
)
_FILE = (
    row("-f --filename --scenario", "scenario", str, WHAT,
        "scenario to run: a file, - for stdin, or the name of a canned scenario (see "
        "list-scenarios); -f may be left out",
        metavar="SCENARIO_FILE", aliases=("--scenario-file",),
        exclusive="scenario", required=True, file="r", bare=True,
        brief="a file, or a name from list-scenarios"),
)
_RESUME = "delete the orphaned objects of this stat file's run"
_RESUME_OF_RUN = row("--resume-cleanup", "resume_cleanup", str, WHAT,
        f"run nothing: {_RESUME}, as cleanup-containers --resume-cleanup does",
        metavar="STATS_FILE", exclusive="scenario", required=True, command_line_only=True, file="r")
MASTER_SOCKETS = options_of_fields(TransportConfig)
_USERS, _LENGTH = only(OF_RUN, "users"), only(OF_RUN, "operations", "seconds")
_OBJECTS = of_group(WHAT, without(OF_SCENARIO, "users", "operations", "seconds"))
_ARRIVALS = of_group(LOAD, without(OF_SCENARIO, "rate", "warmup", "cooldown"))
_WINDOW = (
    *only(OF_RUN, "warmup", "cooldown"),
    row("--sweep", "sweep", sweep, LOAD,
        "run the scenario once for each load (users=1,20,40 or rate=100,200), with the same "
        "workers and initial objects, and print a table", metavar="LOADS"),
    row("--repeat", "repeat", units.whole(1, 1000), LOAD,
        "run the scenario, or each load of --sweep in turn, so often, with the same workers and "
        "initial objects, and print a table with means and intervals", default=1, metavar="TIMES"),
    *of_group(LOAD, without(OF_RUN, *(each.name for each in OF_SCENARIO))),
)
HOW = of_group(EXECUTION, without(OF_RUN, "max_consecutive_errors", "profile"))
ERRORS = (
    *only(OF_RUN, "max_consecutive_errors"),
    row("--noop", "noop", bool, EXECUTION,
        "send nothing to a store, to measure master and workers themselves", default=False,
        exclusive="store", command_line_only=True),
    row("--embedded-swift", "embedded_swift", bool, EXECUTION,
        "run against a temporary Swift on this host; requires ssbench[embedded]", default=False,
        exclusive="store", command_line_only=True, brief="a temporary Swift on this host"),
    of_run("profile"),
)
_WIDE = row("--wide", "format", bool, "",
        "text with tables of any width instead of 100 columns, and what only fits there",
        const="wide", exclusive="format")
_MARKDOWN = row("--markdown", "format", bool, "",
        "the report as Markdown, for issues, wikis and chats", const="markdown", exclusive="format")
_LAYOUTS = (
    _MARKDOWN,
    _WIDE,
    row("--classic", "format", bool, "", "text in the layout of ssbench 0.3.9, without a summary",
        const="classic", exclusive="format"),
)
PAGE = (
    row("--html", "html", str, "",
        "also write the report to this file as a page, with charts if ssbench[html] is installed",
        metavar="FILE", brief="also write the report as a page", file="w"),
    row("--html-assets", "html_assets", str, "",
        "with --html: write the script of the charts to this folder, once for all pages [default: "
        "into each page, 4.8 MB]", metavar="DIR", file="d", needs="html"),
)
_PERCENTILE, THRESHOLD = of_run("percentiles"), of_run("thresholds")
PROGRESS = row("--progress", "progress", str, RESULTS,
    "live: figures of the run, updated in place on a terminal, else a line every ten seconds; "
    "chars: one character per operation; none", default="live", choices=("chars", "live", "none"))
JUNIT = row("--junit", "junit", str, RESULTS,
        "also write the thresholds to this file as test cases, in the XML of JUnit, which CI "
        "systems read", metavar="FILE", file="w")
_OWN_FILE = ("stats_file", "results_dir", "force")
RESULT_FILES = (
    *only(OF_RUN, *_OWN_FILE),
    row("-R --no-default-report --no-report", "no_default_report", bool, RESULTS,
        "print no report", default=False),
    row("--csv", "format", bool, RESULTS, "print the report as CSV", const="csv",
        exclusive="format"),
    row("--json", "format", bool, RESULTS, "print the report as JSON", const="json",
        exclusive="format"),
    *(replace(option, group=RESULTS) for option in (*_LAYOUTS, *PAGE)),
    *of_group(RESULTS, without(OF_RUN, *_OWN_FILE, "thresholds", "abort_window_s")),
    PROGRESS,
    row("--live-json", "live_json", str, RESULTS,
        "write the state of the run to this file or named pipe, a JSON object in a line of each "
        "second", metavar="FILE", file="w"),
    replace(METRICS, group=RESULTS),
    row("--influx", "influx", types.influx_url, RESULTS,
        "write the state of the run to InfluxDB, or to what takes its line protocol, each second; "
        "INFLUX_TOKEN is the token", metavar="URL"),
    row("--otlp", "otlp", types.otlp_url, RESULTS,
        "send the state of the run as OpenTelemetry metrics to this collector each second, over "
        "OTLP/HTTP; requires ssbench[otlp] [default without URL: OTEL_EXPORTER_OTLP_ENDPOINT, else "
        "http://localhost:4318]", metavar="URL", const=""),
    row("--otlp-headers", "otlp_headers", str, RESULTS,
        "with --otlp: file with its headers, NAME=VALUE in a line each [default: "
        "OTEL_EXPORTER_OTLP_HEADERS]", metavar="FILE", file="r", needs="otlp"),
    row("--web", "web", web_address, RESULTS,
        "also show the run as a page at this address, with a button that stops it, and then its "
        "report until Ctrl-C; it needs the token of the URL that is "
        "printed [default without ADDR:PORT: 127.0.0.1 and a free port]", metavar="ADDR:PORT",
        const=(LOOPBACK, 0)),
)
OWN_FILE = only(RESULT_FILES, *_OWN_FILE)
WORKER_COUNTS = (*of_group(WORKERS, OF_RUN), *MASTER_SOCKETS)
RUN_SCENARIO = (
    *_FILE, _RESUME_OF_RUN, *_USERS, *_LENGTH, *_OBJECTS, of_run("rate"), *_ARRIVALS, *_WINDOW,
    *HOW,
    *ERRORS, *RESULT_FILES, THRESHOLD, JUNIT, of_run("abort_window_s"),
    *WORKER_COUNTS, *STORE_OPTIONS, *IDENTITIES,
)
_VARIANT = "comparison"


def precision(text: str) -> float:
    """``2%`` or ``2``."""
    return units.tolerance.of_text(text.removesuffix("%"))


_FAIL_IF = row("--fail-if", "fail_if", str, "",
        "exit with status 3 if a change is more than noise and meets this condition, such as "
        "'p99 > +10%' or 'rate(READ) < -5%', or cannot be judged; may be repeated", metavar="RULE",
        repeat=True, brief="exit status 3, as in 'p99 > +10%'")
AB = (
    *_FILE,
    row("--a", "a", types.options_text, _VARIANT,
        "options of variant A, in one word, such as '-u 10'; '' for none; those outside of "
        "--a and --b are of both", metavar="OPTIONS", required=True, command_line_only=True,
        brief="options of variant A, such as '-u 10'"),
    row("--b", "b", types.options_text, _VARIANT, "the same of variant B, which is compared with A",
        metavar="OPTIONS", required=True, command_line_only=True,
        brief="options of variant B, compared with A"),
    row("--repeat", "repeat", units.whole(1, 1000), _VARIANT,
        "number of pairs; with --precision: at most", default=6, metavar="PAIRS",
        brief="pairs of runs, 6"),
    row("--precision", "precision", precision, _VARIANT,
        "stop as soon as the change of the rate (with --rate: of the median response time) is "
        "known to within this, such as 2%", metavar="PERCENT",
        brief="stop when the change is known to this"),
    replace(_FAIL_IF, group=_VARIANT),
    *(replace(option, brief="") for option in (*_USERS, *_LENGTH)), *_OBJECTS,
    of_run("rate"), *_ARRIVALS, *only(OF_SCENARIO, "warmup", "cooldown"), *HOW, *ERRORS,
    *without(RESULT_FILES, "percentiles"), *WORKER_COUNTS, *STORE_OPTIONS, *IDENTITIES,
)
FIND_LIMIT = (
    *_FILE, *(replace(option, brief="") for option in _USERS), *_OBJECTS,
    row("--slo", "slos", threshold, SEARCH,
        "condition that a load must meet, such as 'p99 < 50ms' or 'errors < 0.1%'; may be "
        f"repeated; '{FEW_ERRORS}' is added unless one limits errors",
        metavar="SLO", repeat=True, required=True, brief="must be met, as in 'p99 < 50ms'"),
    *only(options_of_fields(SearchConfig), "over", "first"),
    row("--max-users", "max_users", units.count, SEARCH,
        "highest number of users to try [default: 1024 with --workers, else as many as the workers "
        "can run]"),
    row("--max-rate", "max_rate", units.rate, SEARCH, "with --over rate: highest rate to try"),
    row("--step-seconds", "step_seconds", units.seconds, SEARCH,
        "how long to measure each load, after its warm-up", default=10.0,
        brief="how long to measure each load, 10"),
    of_run("warmup", group=SEARCH, default=3.0,
            help="warm-up of each step, excluded from its statistics"),
    *only(options_of_fields(SearchConfig), "precision", "confirm"),
    *_ARRIVALS, *HOW, *ERRORS, *RESULT_FILES, *WORKER_COUNTS, *STORE_OPTIONS, *IDENTITIES,
)
_MEMORY = row("--max-report-memory", "report_memory", units.size, "",
        "memory that statistics of a file may take, beside 10 times its size; stages, workers, "
        "hosts and the like beyond that are left out or counted together, and the report says so",
        default=MEMORY, metavar="SIZE", brief="limit of what is kept of a file")
REPORT_SCENARIO = (
    row("", "stats_files", str, "",
        "results to report on, including those of ssbench 0.3.9; several are those of masters that "
        "ran the same scenario at the same time, and are merged", metavar="STATS_FILE",
        default=(), repeat=True, exclusive="results", required=True, brief="results of a run",
        file="r"),
    row("-s --stats-file", "stats_file", str, "", "the same, of one run", metavar="STATS_FILE",
        exclusive="results", required=True, file="r"),
    row("-f --report-file", "report_file", str, "",
        "write the report to this file [default: standard output]", metavar="REPORT_FILE",
        brief="write the report to this file", file="w"),
    replace(_PERCENTILE, group="", brief="latency percentile to report; may be repeated"),
    replace(THRESHOLD, group="", type=str),
    replace(JUNIT, group=""),
    row("--csv", "format", bool, "", "two lines of CSV", const="csv", exclusive="format"),
    row("--json", "format", bool, "", "all statistics, as JSON", const="json", exclusive="format",
        brief="all statistics, as JSON"),
    *_LAYOUTS,
    *PAGE,
    row("-r --rps-histogram", "rps_histogram", str, "",
        "write the number of requests of each second to this file, as CSV", metavar="FILE",
        file="w"),
    row("--time-series", "time_series", str, "",
        "write operations, bytes, errors, latencies and operations in flight of each second to "
        "this file, as CSV", metavar="FILE", brief="figures of each second, as CSV", file="w"),
    row("--host-stats", "host_stats", str, "",
        "write CPU, memory, network, disk and other metrics of the workers' and the master's hosts "
        "to this file, one row per second, as CSV", metavar="FILE", file="w"),
    row("--dstat", "dstat", str, "",
        "write CPU, memory, disk, network, interrupts and context switches of each host to this "
        "file, one row per second, as CSV with the columns of dstat", metavar="FILE", file="w"),
    row("--operations", "operations_file", str, "",
        "write each operation of the run to this file, as CSV; - for standard output instead of "
        "the report", metavar="FILE", brief="each operation, as CSV", file="w"),
    row("--jsonl", "jsonl", str, "",
        "write each operation to this file as a line of JSON; - for standard output instead of the "
        "report", metavar="FILE", file="w"),
    row("--parquet", "parquet", str, "",
        "write each operation to this file as Parquet, for DuckDB, pandas and Spark; requires "
        "ssbench[parquet]", metavar="FILE", file="w"),
    row("--profile", "profile", bool, "",
        "sample where the report's generation spends CPU time, and print it", default=False),
    row("--profile-file", "profile_file", str, "",
        "write the profile of a run with --profile to this file, as collapsed stacks, which "
        "speedscope and flamegraph.pl read; - for standard output instead of the report",
        metavar="FILE", file="w"),
    *SELECTION,
    _MEMORY,
)
BROWSE = (
    row("", "folder", str, "", "a folder of stat files", metavar="DIR", required=True, file="d"),
    row("--web", "web", web_address, "",
        "serve the page at this address; it needs the token of the URL that is printed [default: "
        "127.0.0.1 and a free port]", metavar="ADDR:PORT",
        default=(LOOPBACK, 0), brief="serve the page at this address"),
    _MEMORY,
)
COMPARE = (
    row("", "stats_files", str, "",
        "results of two or more runs; the others are compared with the first; the word vs between "
        "them makes groups: each group is compared with the first", metavar="STATS_FILE",
        repeat=True, required=True, brief="results of two or more runs", file="r"),
    row("--operation", "operations", str, "",
        "compare only this operation, such as READ; may be repeated [default: all together and "
        "each on its own]", metavar="OPERATION", repeat=True, brief="only this operation"),
    row("--pctile", "percentiles", units.percentile, "",
        "latency percentile to compare, such as 99.9; may be repeated [default: 50, 90, 95, 99 and "
        "99.9]", metavar="PERCENTILE", repeat=True, brief="latency percentile; may be repeated"),
    row("--csv", "format", bool, "", "each figure of each run, as CSV", const="csv",
        exclusive="format"),
    row("--json", "format", bool, "", "all statistics, as JSON", const="json", exclusive="format",
        brief="all statistics, as JSON"),
    _MARKDOWN,
    _WIDE,
    *PAGE,
    row("--seed", "seed", units.seed, "",
        "seed of the resampling for intervals; the same seed repeats them", default=1,
        metavar="NUMBER"),
    _FAIL_IF,
    *without(SELECTION, "operation_names"),
    _MEMORY,
)
MARK = (
    row("", "text", str, "", "what happens now, such as 'node 3 down'", metavar="TEXT",
        required=True, brief="what happens now"),
    row("--run", "run", str, "",
        "which run, where several go on: the master's process id, the run's id or the scenario",
        metavar="RUN", command_line_only=True, brief="which run, where several go on"),
)
KILL_WORKERS = (
    of_run("worker_wait_s", group="",
            help="longest wait for workers to connect and to exit",
            brief="longest wait for workers to exit"),
    *MASTER_SOCKETS,
)
CLEANUP_CONTAINERS = (
    row("-b --container-base", "container_base", str, "",
        "delete containers named BASE_ followed by six digits", default=CONTAINER_BASE,
        metavar="BASE", brief="delete containers named BASE_ and six digits"),
    row("-c --concurrency", "concurrency", units.count, "", "concurrent requests", default=10),
    row("-p --policy", "policy", str, "",
        "delete containers of this storage policy, BASE_000061_POLICY; '*' for any policy of the "
        "cluster [default: those that name none]", metavar="POLICY",
        brief="of this storage policy; '*' for any"),
    row("--resume-cleanup", "resume_cleanup", str, "", f"delete no container: {_RESUME}",
        metavar="STATS_FILE", brief="delete what this run left, and nothing else", file="r",
        command_line_only=True),
    of_run("use_existing", group="", needs="resume_cleanup",
            help="with --resume-cleanup: also search containers that ssbench did not mark"),
    row("--unmarked", "unmarked", bool, "",
        "also delete containers of these names without ssbench's mark, as ssbench 0.3.9 created "
        "them; without a terminal it needs --yes", default=False, command_line_only=True,
        brief="also those of ssbench 0.3.9, which have no mark"),
    row("--dry-run", "dry_run", bool, "", "show what would be deleted, and delete nothing",
        default=False, command_line_only=True, brief="show what would be deleted"),
    row("--yes", "yes", bool, "",
        "do not ask for confirmation; without a terminal, as in a script, nothing "
        "is asked anyway", default=False, command_line_only=True,
        brief="do not ask for confirmation"),
    *STORE_OPTIONS, *IDENTITIES,
)
NECTAR = (
    row("--scale", "scale", float, "", "factor for counts, times and --delete-behind, above 0 and "
        "at most 1, as in --scale=0.001; put it and options of bench, as --name=value, before "
        "nectar's options", default=1.0, metavar="FACTOR",
        brief="factor for counts and times, below 1"),
    row("", "arguments", str, "",
        "-A, -T, -U, -P, -K, -R, -O, -I, -H, -C, -v, -continue-on-error, a command (bench-put, "
        "bench-get, bench-head, bench-post, bench-delete, bench-mixed) and its options",
        repeat=True, required=True, metavar="ARGS", brief="as nectar's"),
)
PROFILER = (
    row("", "arguments", str, "",
        "-input-dir=DIR, -concurrency=N, -dest-prefix=CONTAINER, -num-files=N, "
        "-precompute-checksum=BOOL, -verify-checksum=BOOL; between them, options of upload as "
        "--name=value", repeat=True, required=True, metavar="ARGS", brief="as Swift Profiler's"),
)
DOCTOR = (
    replace(_FILE[0], required=False, exclusive="", help="scenario that is to run: its users, sizes"
            " and policy are checked, too; as for run-scenario"),
    *_USERS, *only(_OBJECTS, "policy"), *only(RESULT_FILES, "stats_file", "results_dir"),
    *only(ERRORS, "noop", "embedded_swift"),
    *only(WORKER_COUNTS, "workers", "ssh_workers", "ssh_command", "ssh_worker_command",
           "ssh_master", "expect_workers", "worker_timeout_s"),
    of_run("worker_wait_s", help="longest wait for workers; without --expect-workers until no "
            "more connect for 2 s"),
    *MASTER_SOCKETS, *STORE_OPTIONS, *IDENTITIES,
)
MAKE_KEY = (
    row("", "new_key_file", str, "", "a file that does not exist yet", metavar="FILE",
        required=True, brief="a file that does not exist yet", file="x"),
)
# fmt: on
