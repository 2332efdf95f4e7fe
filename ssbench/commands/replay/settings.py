"""The options of ``replay`` and ``make-scenario``."""

from msgspec.structs import replace

from ssbench.cli.options import (
    ERRORS,
    HOW,
    JUNIT,
    RESULT_FILES,
    STORE_OPTIONS,
    THRESHOLD,
    WORKER_COUNTS,
    of_run,
    without,
)
from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.option import WHAT, row

# fmt: off
_LOG_FORMAT = row("--log-format", "log_format", str, "",
        "format of the log's lines [default: recognized line by line]",
        choices=("swift", "s3", "beast", "haproxy", "combined"))
MAKE_SCENARIO = (
    row("--from-container", "containers", str, "",
        "take the sizes of this container's objects; may be repeated", metavar="CONTAINER",
        repeat=True, required=True, exclusive="source", brief="take the sizes of its objects"),
    row("--from-access-log", "logs", str, "",
        "take operations, sizes and rate of this access log: a file, also compressed, or - for "
        "stdin; may be repeated", metavar="FILE", repeat=True, required=True,
        exclusive="source", brief="take operations, sizes and rate of this log", file="r"),
    row("--from-cosbench", "cosbench", str, "",
        "convert this workload of COSBench (XML); what is not carried over is said on stderr",
        metavar="FILE", required=True, exclusive="source", brief="convert a workload of COSBench",
        file="r"),
    row("--from-warp", "warp", str, "",
        "convert this command line of warp, in quotes: 'warp mixed ...'",
        metavar="COMMAND", required=True, exclusive="source", brief="convert a command of warp"),
    replace(_LOG_FORMAT, needs="logs"),
    row("--objects", "initial", units.count, "",
        "initial objects of the scenario [default: as many as were found, at most 10000]",
        brief="initial objects"),
    row("--output", "output", str, "", "a new file for the scenario [default: standard output]",
        metavar="FILE", brief="a new file for the scenario", file="x"),
    *STORE_OPTIONS,
)
REPLAY = (
    row("", "logs", str, "", "access logs: files, also compressed, or - for stdin",
        metavar="FILE", repeat=True, required=True, brief="access logs", file="r"),
    replace(_LOG_FORMAT, group=WHAT),
    row("--speed", "speed", units.factor, WHAT,
        "factor by which requests follow each other faster than in the log, such as 2 or 0.5",
        default=1.0, metavar="FACTOR", brief="how much faster than in the log, as in 2"),
    of_run("users", help="most operations in flight", default=64,
           brief="most operations in flight, 64"),
    of_run("container_count", type=units.whole(1, 128),
           help="number of containers [default: as many as the log has, at most 128]"),
    of_run("container_base", help="start of the containers' names", default="ssbench_replay"),
    of_run("policy", help="storage policy of the containers"),
    of_run("seed", default=0,
           help="seed of what a log does not say, such as the place of a part that was read"),
    row("--start", "start_ns", types.instant, WHAT,
        "leave out requests before this time, such as 2026-11-20T08:00 (UTC) or with a zone, as in "
        "2026-11-20T08:00+01:00", metavar="TIME", brief="leave out requests before this time"),
    row("--end", "end_ns", types.instant, WHAT, "leave out requests from this time on",
        metavar="TIME", brief="leave out requests from this time on"),
    row("--max-requests", "most", units.count, WHAT,
        "leave out requests beyond this number, in the order of the lines"),
    *without(HOW, "existing", "verify"), *ERRORS, *RESULT_FILES, THRESHOLD,
    JUNIT, *WORKER_COUNTS, *STORE_OPTIONS,
)
# fmt: on
