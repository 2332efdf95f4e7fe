"""Reports that are shown in every format: recorded runs, small ones, series and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from ssbench.core.model import ErrorKind, Phase
from ssbench.core.operations import (
    CREATE,
    CREATE_IF_ABSENT,
    DELETE,
    ENSURE,
    READ,
    REMOVE,
    UPDATE_IF_MATCH,
)
from ssbench.core.part_times import summary
from ssbench.core.records import (
    MASTER,
    ClockRecord,
    MarkRecord,
    PhaseRecord,
    ProfileRecord,
    Record,
)
from ssbench.core.stats.compare import comparison
from ssbench.core.stats.merge import Part, end_of_load_ns, merged
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Search, Step
from ssbench.core.stats.thresholds import Threshold
from ssbench.report.comparison import of_comparison
from ssbench.report.model import Report
from ssbench.report.run import of_run
from ssbench.report.series import SeriesSettings, of_series
from ssbench.runner.results import read_stats
from tests.golden import compare, legacy
from tests.report import cases, runs
from tests.report.cases import USUAL
from tests.report.runs import MS

#: The files of format 1 were written by the last commit before format 2: runs without a store and
#: against the embedded Swift, and copies of them that are damaged or cut off.
FILES = {
    path.relative_to(compare.FOLDER).as_posix().removesuffix(".stat.gz"): path
    for folder in ("format-1", "ssbench-0.3.9")
    for path in sorted((compare.FOLDER / folder).glob("*.stat.gz"))
}
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{7*7}}{%raw%}"
SLO = (Threshold.parse("p99 < 50ms"), Threshold.parse("errors < 1%"))


@cache
def stats_of(path: Path) -> RunStats:
    return read_stats(str(path), warn=lambda _line: None)


def run(name: str) -> Report:
    file = FILES[name]
    return of_run(stats_of(file), (95.0, 99.0), SLO, stats_file=file.name)


def series() -> Report:
    """A search with a step that was cut off, and one without a store."""
    search = Search(1, 100)
    loads = {1: "small", 2: "gold", 4: "cut", 3: "healthy"}
    for load in loads:
        search.record(load, kept=load < 4)
    steps = [
        Step.of(stats_of(FILES[f"format-1/{name}"]), load, f"{name}.gz", USUAL, SLO)
        for load, name in loads.items()
    ]
    return of_series(SeriesSettings("recorded", "users", USUAL, SLO, search), steps)


def compared() -> Report:
    names = ("gold", "silver", "open_loop", "damaged")
    named = [(f"{name}.gz", stats_of(FILES[f"format-1/{name}"])) for name in names]
    return of_comparison(comparison(named, seed=1))


def of_records(records: Sequence[Record], *thresholds: str) -> Report:
    judged = [Threshold.parse(text) for text in thresholds]
    stats = RunStats.of(records)
    return of_run(stats, thresholds=judged, stats_file="x.stat.gz")


def lasting(seconds: int = 40, rate: int = 50) -> list[Record]:
    """Three stages with a warm-up, errors, and metrics of a host."""
    keys = {"stages": [{}, {"warmup": 3}, {}], "run_seconds": seconds, "operation_count": None}
    records = runs.lasting(seconds, rate, due=True, begins=(0, 10, 20), **keys)
    failures = [
        runs.failure(9000 + n, READ, start_ns=n * runs.SECOND, status=503 if n % 2 else 500)
        for n in range(5, seconds - 5)
    ]
    hosts = [runs.host(index, n) for n in range(seconds) for index in (MASTER, 0)]
    return [*records[:-2], runs.batch(failures), *hosts, *records[-2:]]


def parts() -> Report:
    """Two size classes, two storage URLs, and more workers than bars can have names."""
    sizes = [{"name": HOSTILE}, {"name": "small"}]
    rows = [row._replace(url=n % 2) for n, row in enumerate(runs.some_rows(300, 7))]
    workers = [runs.worker(index, f"bench-{index:02}-of-many") for index in range(20)]
    batches = [runs.batch(rows[at::20], worker_index=at) for at in range(20)]
    header = runs.header(scenario={**runs.SCENARIO, "sizes": sizes})
    return of_records([header, *workers, *runs.normal()[5:7], *batches, runs.footer()])


def brief() -> Report:
    """One whole second, and a part of the next."""
    rows = runs.batch(runs.some_rows(120, 7))
    return of_records([runs.header(), runs.worker(0, "alpha"), rows, runs.footer()])


def small_series() -> Report:
    stats = runs.stats_of(runs.lasting(12, 50))
    search = Search(1, 100)
    for load, kept in ((1, True), (2, True), (4, False), (3, True)):
        search.record(load, kept=kept)
    settings = SeriesSettings("own", "users", USUAL, SLO[:1], search)
    steps = [Step.of(stats, n, f"{n}.stat.gz", USUAL, SLO[:1]) for n in (1, 2, 4, 3)]
    return of_series(settings, steps)


def small_comparison() -> Report:
    named = [(f"{n}.gz", runs.stats_of(runs.lasting(14, 40 * n, seed=n))) for n in (1, 2, 3)]
    return of_comparison(comparison(named, seed=1))


def around() -> RunStats:
    """Uploads and removals that failed, and a run that had no operation."""
    upload = runs.failure(1, ENSURE, status=413, detail="Upload exceeds quota.")
    removal = runs.failure(2, REMOVE, status=409, detail="409 Conflict")
    return runs.stats_of(
        [
            runs.header(),
            PhaseRecord(Phase.POPULATE, 1.0, 1),
            runs.batch([upload], Phase.POPULATE),
            PhaseRecord(Phase.CLEANUP, 9.0, 1),
            runs.batch([removal, removal], Phase.CLEANUP),
            runs.footer(left_behind=5, left_unknown=3),
        ]
    )


def with_races() -> Report:
    """Six conditional writes, of which two lost a race and one failed."""
    lost = {"error": ErrorKind.LOST_RACE, "status": 412, "retries": 0, "detail": "412"}
    rows = [
        *(runs.result(number, UPDATE_IF_MATCH) for number in range(3)),
        *(runs.failure(number, UPDATE_IF_MATCH, **lost) for number in (3, 4)),
        runs.failure(5, UPDATE_IF_MATCH),
    ]
    scenario = {**runs.SCENARIO, "operation_count": None, "run_seconds": 2}
    return of_records([
        runs.header(scenario=scenario), PhaseRecord(Phase.RUN, runs.STARTED_AT, 4),
        MarkRecord(0, "stage", 0, 4), runs.batch(rows), MarkRecord(2 * runs.SECOND, "end", 0, 4),
        runs.footer(sent=len(rows)),
    ])  # fmt: skip


def compared_races() -> Report:
    """Of two operations, only the first lost a race."""
    lost = {"error": ErrorKind.LOST_RACE, "status": 412, "retries": 0, "detail": "412"}
    rows = [runs.failure(1, CREATE_IF_ABSENT, **lost), runs.result(2, CREATE_IF_ABSENT),
            runs.result(3, UPDATE_IF_MATCH)]  # fmt: skip
    records = [runs.header(), PhaseRecord(Phase.RUN, runs.STARTED_AT, 4), runs.batch(rows),
               runs.footer(sent=len(rows))]  # fmt: skip
    named = [(f"{n}.stat.gz", RunStats.of(records)) for n in (1, 2)]
    return of_comparison(comparison(named, seed=1))


def with_items() -> Report:
    """8 successes in 2 s, of which the first four have 1000 items each; and a failure with 7."""
    rows = [
        *(runs.result(number, READ, size_class=number % 2, items=1000) for number in range(4)),
        *(runs.result(number, DELETE) for number in range(4, 8)),
        runs.failure(8, READ, items=7),
    ]
    scenario = {**runs.SCENARIO, "operation_count": None, "run_seconds": 2}
    return of_records([
        runs.header(scenario=scenario), PhaseRecord(Phase.RUN, runs.STARTED_AT, 4),
        MarkRecord(0, "stage", 0, 4), runs.batch(rows), MarkRecord(2 * runs.SECOND, "end", 0, 4),
        runs.footer(sent=len(rows)),
    ])  # fmt: skip


def parts_of_objects(times_us: int = 300) -> Sequence[Record]:
    """Reads in 4 parts, of which the third is the slowest but once, and uploads in 300."""
    reads = [
        runs.result(
            number, READ, bytes_moved=3500,
            parts=(4, 2 if number else 3, 0, 100, 200, 250, slowest),
            part_id=b"tx-part-%d" % number,
        )
        for number, slowest in enumerate((times_us, 9 * times_us, times_us))
    ]  # fmt: skip
    upload = runs.result(
        3, CREATE, bytes_moved=300_000, parts=summary([n * 1000 for n in range(1, 301)], [0] * 300)
    )
    large = {"large_read": {"segment": 1000}, "large_object": {"above": 1000, "segment": 1000}}
    return [
        runs.header(scenario={**runs.SCENARIO, **large}),
        PhaseRecord(Phase.RUN, runs.STARTED_AT, 4), MarkRecord(0, "stage", 0, 4),
        runs.batch([*reads, upload]), runs.batch([runs.result(9, READ)]),
        runs.footer(sent=5),
    ]  # fmt: skip


def compared_parts() -> Report:
    named = [(f"{n}.stat.gz", RunStats.of(parts_of_objects(n))) for n in (300, 600)]
    return of_comparison(comparison(named, seed=1))


def profiled() -> Report:
    """A master and a worker that have a profile, and a worker that has none; clocks."""
    main = "main (m.py:1)"
    master = {f"{main};poll (m.py:9)": 30 * MS, f"{main};send (m.py:5)": 10 * MS}
    worker = {f"{main};user (u.py:3);read (s.py:7)": 199 * MS, f"{main};user (u.py:3)": MS}
    return of_records([
        runs.header(driver="noop"), runs.worker(0, "w0"), runs.worker(1, "w\x1b1"),
        PhaseRecord(Phase.RUN, runs.STARTED_AT, 4),
        ClockRecord(0, Phase.RUN, -2_500_000, 150_000, 12_000_000),
        ClockRecord(7, Phase.RUN, 4_000, 1_000, None),
        runs.batch([runs.result(1, READ)]), ProfileRecord(MASTER, master, 4, MS),
        ProfileRecord(0, worker, 20, 2 * MS), runs.footer(left_behind=9, left_unknown=2),
    ])  # fmt: skip


def two_masters() -> Report:
    keys = {"run_seconds": 12, "operation_count": None}
    both = [runs.lasting(12, 50, seed=seed, **keys) for seed in (1, 2)]
    parts = [Part.of(f"{at}.stat.gz", records) for at, records in enumerate(both)]
    stats = RunStats.of(merged(parts, both), end_of_load_ns(parts))
    return of_run(stats, parts=parts)


def not_json() -> Report:
    """A scenario that JSON cannot hold."""
    weird = {"name": "x", "user_count": float("inf"), "sizes": [b"\xff"], "nan": float("nan")}
    return of_records([runs.header(scenario=weird, scenario_given=weird)])


def hostile(name: str) -> list[Record]:
    scenario = {**runs.SCENARIO, "name": name, "policy": name, "sizes": [{"name": name}],
                name: name}  # fmt: skip
    row = runs.failure(1, READ, detail=name, transaction_id=name.encode("utf-8", "replace"))
    return [
        runs.header(
            scenario=scenario, overrides={name: name}, driver=name, hosts={name: name},
            versions={name: name}, run_id=name,
        ),
        runs.worker(0, name),
        runs.batch([row, runs.result(2, READ, start_ns=3 * runs.SECOND)]),
        runs.footer(
            ended="failed", reason=name, warnings=[name], workers_lost=[name], skipped={name: 1}
        ),
    ]  # fmt: skip


def named(name: str) -> list[Report]:
    """A run, a comparison and a series in which everything has this name."""
    stats = RunStats.of(hostile(name))
    settings = SeriesSettings(name, "users", (50.0, 99.0, 100.0))
    steps = [Step.of(stats, load, name, settings.percentiles) for load in (1, 2)]
    return [
        of_run(stats, stats_file=name),
        of_comparison(comparison([(name, stats), (name, stats)], seed=1)),
        of_series(settings, steps),
    ]


#: Each is made once.
REPORTS: dict[str, Callable[[], Report]] = {
    **{
        f"small/{name}": cache(lambda make=make: of_run(runs.stats_of(make())))
        for name, make in runs.RUNS.items()
    },
    "small/around": cache(lambda: of_run(around(), (99.99,))),
    "small/run": cache(lambda: of_records(lasting(), "p99(READ) < 50ms")),
    "small/series": cache(small_series),
    "small/comparison": cache(small_comparison),
    "small/parts": cache(parts),
    "small/items": cache(with_items),
    "small/races": cache(with_races),
    "small/profiled": cache(profiled),
    "small/parts_of_objects": cache(lambda: of_records(parts_of_objects())),
    **{name: cache(lambda name=name: run(name)) for name in FILES},
    "series": cache(series),
    "comparison": cache(compared),
}
#: That are valid by the JSON schema, beside the golden files.
MORE: dict[str, Callable[[], Report]] = {
    "merged": two_masters,
    "rates": cases.OF_SERIES["at rates"],
    "odd": cases.OF_SERIES["odd steps"],
    "parts compared": compared_parts,
    "races compared": compared_races,
    "part": lambda: of_comparison(
        comparison([(name, legacy.stats_of(name)) for name in ("noop", "real")], seed=1,
                   operations=["READ"])
    ),
    "judged": lambda: of_run(
        around(), (99.99,),
        [Threshold.parse(text) for text in ("errors < 1%", "p99(POST) < 1s", "p99 < 1s")],
        stats_file="a.stat.gz",
    ),
    "bare": lambda: of_records([runs.header(scenario={}, scenario_given={"x": float("inf")})]),
    "not JSON": not_json,
    "empty": lambda: of_records([]),
    "brief": brief,
}  # fmt: skip
