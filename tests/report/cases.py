"""Runs, series and comparisons that make a report say each of its sentences.

``said.txt`` among the golden files has what the first case of a group says, and what each other
case says instead. To hold a new sentence, add a case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from ssbench.core.model import ErrorKind, Phase
from ssbench.core.operations import CREATE, READ
from ssbench.core.records import HostRecord, MarkRecord, PhaseRecord, Record, ResultBatch, RunHeader
from ssbench.core.stats.compare import comparison
from ssbench.core.stats.headroom import (
    Bottleneck,
    Cause,
    Headroom,
    HeadroomVerdict,
    HostLoad,
    ProcessId,
    Shortage,
)
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steps import Search, Step
from ssbench.core.stats.tally import Counts
from ssbench.core.stats.thresholds import Threshold, ThresholdResult
from ssbench.report.comparison import of_comparison
from ssbench.report.model import Report
from ssbench.report.run import of_run
from ssbench.report.series import SeriesSettings, of_series
from tests.fakes.batches import result_rows
from tests.report import runs
from tests.report.runs import MS, SECOND

USUAL = (50.0, 95.0, 99.0, 99.9, 100.0)
SLO = Threshold.parse("p99 < 50ms")
PATH = "/tmp/ssbench-results/Small_test_scenario.u4.o1000.r10.2026-11-22_145034.stat.gz"
WORKER, MASTER = ProcessId("w2", "bench-02"), ProcessId("", "bench-01")


def of(
    records: Sequence[Record],
    *thresholds: str,
    end_s: int | None = None,
    verdict: HeadroomVerdict | None = None,
    damage: Sequence[str] = (),
    path: str | None = None,
) -> Report:
    stats = RunStats.of(records, None if end_s is None else end_s * SECOND)
    for line in damage:
        stats.run.damage.note(line)
    if verdict is not None:
        stats.verdict = lambda: verdict  # type: ignore[method-assign]
    judged = [Threshold.parse(text) for text in thresholds]
    return of_run(stats, thresholds=judged, stats_file=path)


def lasting(*marks: MarkRecord, seconds: int = 12, **changes: Any) -> list[Record]:
    """50 operations a second, with metrics of a host."""
    footer = changes.pop("footer", {})
    driver = changes.pop("driver", "swift")
    records = runs.lasting(seconds, 50, **changes)
    records[0] = replace(records[0], driver=driver)  # type: ignore[type-var]
    hosts = [runs.host(0, second) for second in range(12)]
    end = runs.footer(**{"run_seconds": float(seconds), **footer})
    return [*records[:-2], *marks, *hosts, records[-2], end]


def staged(*stages: tuple[int, float | None]) -> list[Record]:
    """Two stages of 10 s with 20 operations a second, and these users and rates."""
    given = iter(stages)
    records = runs.lasting(20, 20, due=stages[0][1] is not None, begins=(0, 10))
    return [
        MarkRecord(each.at_ns, "stage", each.stage, *next(given))
        if isinstance(each, MarkRecord) and each.name == "stage"
        else each
        for each in records
    ]


def sparse(
    starts_s: Sequence[float], *marks: MarkRecord, due: bool = True, footer: Any = None, **load: Any
) -> list[Record]:
    """Operations of 0.1 s and 1 MB, half a second late."""
    rows = [
        runs.result(
            number, READ, start_ns=round(start * SECOND) + SECOND // 2, bytes_moved=10**6,
            last_byte_ns=SECOND // 10, **({"due_ns": round(start * SECOND)} if due else {}),
        )
        for number, start in enumerate(starts_s)
    ]  # fmt: skip
    header = runs.header(scenario={**runs.SCENARIO, **load})
    end = [] if footer is None else [runs.footer(**footer)]
    return [header, PhaseRecord(Phase.RUN, 0.0, 4), *marks, runs.batch(rows), *end]


def stage(at_s: float, number: int, users: int = 8, rate: float | None = None) -> MarkRecord:
    return MarkRecord(round(at_s * SECOND), "stage", number, users, rate)


END = MarkRecord(30 * SECOND, "end", 1, 8)
CLOSED = (stage(0, 0), END)
OPEN = (stage(0, 0, rate=50.0), END)
STAGES = (stage(0, 0, rate=50.0), stage(10, 1, rate=400.0), END)


def judged(verdict: HeadroomVerdict) -> Callable[[], Report]:
    return lambda: of(runs.normal(), verdict=verdict)


def short_of(who: ProcessId, cause: Cause, value: float) -> Callable[[], Report]:
    found = Shortage(who, cause, value, 41, 60)
    return judged(HeadroomVerdict(Headroom.NONE, (found,), MASTER, 12.3, None, 0.5))


def after(last_ms: float) -> list[Record]:
    took_ns = SECOND + round(last_ms * MS)
    row = runs.result(1, READ, start_ns=29 * SECOND, last_byte_ns=took_ns)
    return [runs.header(), PhaseRecord(Phase.RUN, 0.0, 4), *CLOSED, runs.batch([row])]


def stalling(second: int) -> int:
    return 0 if second in (7, 8) else 50


def wild(second: int) -> int:
    number, at = divmod(second, 20)
    return (10 + 2 * at) * (number + 1) + number * at


def one(**changes: Any) -> list[Record]:
    row = runs.result(1, READ, **{"headers_ns": 1, **changes})
    return [runs.header(), PhaseRecord(Phase.RUN, 0, 1), runs.batch([row])]


TAKEN = (HostLoad("bench-01", 92.4, 89.0, 12.0), HostLoad("bench-02", 92.0, 40.0, 1.0),
         HostLoad("bench-03", 92.0, 88.0, 0.4))  # fmt: skip
ENOUGH = HeadroomVerdict(Headroom.ENOUGH, (), MASTER, 7.3, 99.0, 0.001)

OF_RUNS: dict[str, dict[str, Callable[[], Report]]] = {
    "a closed loop": {
        "steady": lambda: of(lasting(), path=PATH),
        "no store": lambda: of(lasting(driver="noop"), path="a.stat.gz"),
        "all workers gone": lambda: of(lasting(MarkRecord(9 * SECOND, "users", 0, 0))),
        "two users left": lambda: of(lasting(MarkRecord(9 * SECOND, "users", 0, 2))),
        "think time": lambda: of(lasting(think_time=[0.1, 2])),
        "one think time": lambda: of(lasting(think_time=[1.5, 1.5])),
        "settings of requests": lambda: of(
            lasting(list_limit=100, bulk_count=10, bandwidth=61440, headers={"X-A": "\x1b"},
                    large_object={"segment_size": 1024, "kind": "dlo"}, versioning=True,
                    object_lock={"seconds": 30, "mode": "governance"})
        ),
        "settings that are not given": lambda: of(
            lasting(list_prefix="", bulk_count=None, large_object=None)
        ),
        "warm-up and cool-down": lambda: of(lasting(warmup=3, cooldown=1.5)),
        "a stage's warm-up": lambda: of(lasting(stages=[{"warmup": 3}])),
        "warm-ups of stages": lambda: of(
            lasting(begins=(0, 5, 10), warmup=1, cooldown=2, stages=[{}, {"warmup": 3}, {}])
        ),
        "the same warm-up of each stage": lambda: of(
            lasting(begins=(0, 5), stages=[{"warmup": 3}, {"warmup": 3}])
        ),
        "all warm-up": lambda: of(runs.lasting(3, 100, warmup=9)),
        "one operation in the warm-up": lambda: of(runs.lasting(1, 1, warmup=5)),
        "another mix": lambda: of(lasting(footer={"skipped": {"UPDATE": 30, "DELETE": 0}})),
        "nearly its mix": lambda: of(lasting(footer={"skipped": {"UPDATE": 5}})),
        "ended early": lambda: of(lasting(footer={"reason": "the rate was steady at second 31"})),
        "lost workers": lambda: of(
            lasting(footer={"workers_lost": ["one (h, pid 1)", "two (h, pid 2)"],
                            "warnings": ["Lost worker one (h, pid 1): no heartbeat for 3 s"]})
        ),
        "more was sent": lambda: of(lasting(footer={"sent": 603})),
        "as much was sent": lambda: of(lasting(footer={"sent": 600})),
        "damaged": lambda: of(lasting(), damage=["block 3\x1b is damaged"]),
        "idle": lambda: of(lasting()[:4]),
        "stages": lambda: of(staged((4, None), (4, None))),
        "stages of other users": lambda: of(staged((4, None), (9, None))),
        "stages with names and operations": lambda: of(lasting(
            begins=(0, 5), initial_files={}, crud_profile=None, warmup=1,
            sizes=[{"name": "tiny", "size_min": 4096, "size_max": 8192}], stages=[
                {"name": "write", "seconds": 5, "users": 4, "operations": {"create": 1}},
                {"name": "use", "seconds": 7, "users": 4, "operations": {"read": 1}, "warmup": 2},
            ],
        )),
        "a stage with operations among others": lambda: of(lasting(
            begins=(0, 4, 8), stages=[
                {"name": "up", "seconds": 4, "users": [4, 9]}, {"seconds": 4, "users": 4},
                {"name": "delete", "seconds": 4, "users": 4, "operations": {"delete": 1}},
            ],
        )),
    },
    "steadiness of 20 s": {
        "steady": lambda: of(runs.lasting(20, 50)),
        "stalling": lambda: of(runs.lasting(20, stalling)),
        "rising": lambda: of(runs.lasting(20, lambda second: 50 + 5 * second)),
        "falling": lambda: of(runs.lasting(20, lambda second: 150 - 5 * second)),
        "two levels": lambda: of(runs.lasting(20, lambda second: 40 if second % 8 < 4 else 90)),
        "varying": lambda: of(runs.lasting(20, lambda second: 60 if second % 2 else 20)),
        "results missing": lambda: of(runs.lasting(20, stalling)[:-1], damage=["block 3: wrong"]),
        "long operations": lambda: of(runs.lasting(16, 1, slower=1000)),
        "short": lambda: of(runs.lasting(3, 50)),
        "below a second": lambda: of(one()),
        "short stages": lambda: of(runs.lasting(40, 9, begins=(0, 4, 8))),
        "a stage that rises": lambda: of(
            runs.lasting(40, lambda second: 9 if second < 20 else second, begins=(0, 20))
        ),
        "a ramp before a stage": lambda: of(
            runs.lasting(
                40, lambda second: 9 + second if second < 20 else 30, begins=(0, 20),
                stages=[{"name": "up", "seconds": 20, "users": [1, 4]}, {"seconds": 20}],
            )
        ),
        "a ramp that stalls before a stage": lambda: of(
            runs.lasting(40, stalling, begins=(0, 20), stages=[
                {"name": "up", "seconds": 20, "users": [1, 4]}, {"seconds": 20, "users": 4},
            ])
        ),
        "stages that differ": lambda: of(runs.lasting(80, wild, begins=(0, 20, 40, 60))),
        "no success": lambda: of(runs.lasting(14, 0)),
    },
    "an open loop": {
        "in time": lambda: of(lasting(due=True, begins=(0,), seconds=20)),
        "at its rate": lambda: of(staged((4, 20.0), (4, 20.0))),
        "stages of other rates": lambda: of(staged((9, 12.5), (4, 20.0))),
        "a ramp": lambda: of([
            replace(each, scenario={**each.scenario, "stages": [
                {"name": "up", "seconds": 10, "rate": [12.5, 40]}, {"seconds": 10, "rate": 40},
            ]})
            if isinstance(each, RunHeader) else each for each in staged((4, 12.5), (4, 40.0))
        ]),
        "never started": lambda: of([
            *(stage(0.2, 0, 4, 95.0) if isinstance(each, MarkRecord) and each.name == "stage"
              else each for each in lasting(due=True, seconds=20, footer={"late": 900})),
        ]),
    },
    "few operations, late": {
        "Poisson": lambda: of(sparse([1, 2, 3], *OPEN, arrivals="poisson")),
        "a part counts": lambda: of(sparse([1, 2, 9, 28], *OPEN, warmup=5, cooldown=3), end_s=30),
        "a part counts, by the footer": lambda: of(
            sparse([1, 2, 9, 28], *OPEN, warmup=5, cooldown=3, footer={"run_seconds": 30.5})
        ),
        "two stages": lambda: of(sparse([1, 2, 12, 13, 14, 15], *STAGES)),
        "parts of stages": lambda: of(
            sparse([1, 2, 3.5, 12, 28.5, 29, 4], *STAGES, warmup=1.5, cooldown=2,
                   stages=[{}, {"warmup": 3}]), end_s=30
        ),
        "warm-up of stage 2": lambda: of(
            sparse([1, 2, 12, 14, 15], *STAGES, stages=[{}, {"warmup": 3}])
        ),
        "users missing": lambda: of(
            sparse([1, 2], OPEN[0], MarkRecord(0, "users", 0, 4), END)
        ),
        "users lost one by one": lambda: of(
            sparse([1, 2], *STAGES[:2], *(MarkRecord((12 + at) * SECOND, "users", 1, 3 + at)
                                          for at in range(7)), END)
        ),
        "closed": lambda: of(sparse([0, 1, 2, 9, 26], *CLOSED, due=False)),
        "closed, with a warm-up": lambda: of(sparse([1, 2, 9], *CLOSED, due=False, warmup=5)),
        "closed stages without an end": lambda: of(
            sparse([1, 12], stage(0, 0, 2), stage(10, 1, 9), due=False)
        ),
        "without marks": lambda: of(sparse([1, 2], due=False)),
        "restarted with new credentials": lambda: of(
            [*sparse([1], *OPEN)[:-1],
             runs.batch([runs.result(0, READ, due_ns=SECOND, start_ns=SECOND * 3 // 2,
                                     renewed_ns=SECOND * 2 // 5, last_byte_ns=SECOND // 10)])]
        ),
        **{f"{ms} ms after the load": lambda ms=ms: of(after(ms))  # type: ignore[misc]
           for ms in (1500, 999, 10, 9.94)},
    },
    "the load generator": {
        "unknown": judged(HeadroomVerdict(Headroom.UNKNOWN)),
        "worker": short_of(WORKER, Cause.CORE, 98.2),
        "master": short_of(MASTER, Cause.CORE, 99.0),
        "cores": short_of(WORKER, Cause.CORES, 38.0),
        "late": short_of(WORKER, Cause.LATE, 0.0304),
        "network": short_of(WORKER, Cause.NETWORK, 95.0),
        "memory": short_of(MASTER, Cause.MEMORY, 2.53),
        "strange names": short_of(ProcessId("w\x1b[2J", "h\n"), Cause.CORE, 98),
        "at times": judged(HeadroomVerdict(Headroom.AT_TIMES, (
            Shortage(MASTER, Cause.CORE, 98, 30, 60), Shortage(WORKER, Cause.CORE, 98, 6, 60),
        ))),
        "many": judged(HeadroomVerdict(Headroom.NONE, tuple(
            Shortage(ProcessId(f"w{n}", "h"), Cause.CORE, 98, 9, 9) for n in range(64)
        ))),
        "own failures": judged(HeadroomVerdict(Headroom.NONE, own_failures=44)),
        "enough": judged(ENOUGH),
        "enough, by hosts": judged(replace(ENOUGH, hosts=(HostLoad("bench-01", 34.4, 20.0, 0.1),))),
        "enough, without figures": judged(HeadroomVerdict(Headroom.ENOUGH)),
        "taken by others": judged(replace(ENOUGH, hosts=TAKEN)),
    },
    "what failed": {
        "two causes": lambda: of(runs.normal(), "errors < 50%", "p99(READ) < 1ms", path=PATH),
        "all": lambda: of(runs.all_errors()),
        "corrupt": lambda: of([
            runs.header(), runs.worker(0, "alpha"),
            runs.batch([runs.failure(1, READ), runs.failure(2, READ),
                        runs.failure(3, READ, error=ErrorKind.CORRUPT, status=200),
                        runs.failure(4, CREATE, error=99)]),
            runs.footer(),
        ]),
        "nothing ran": lambda: of(runs.no_results()),
        "nothing recorded": lambda: of([]),
        "no calendar has its time": lambda: of([runs.header(started_at=1e300)]),
        "a fraction of a second": lambda: of([runs.header(started_at=1795168183.999)]),
    },
    "thresholds": {
        "of many": lambda: of(
            runs.normal(), "errors < 5%", "errors <= 20", "p99(READ) < 50ms", "first_byte_p50 < 9s",
            'errors("a\\u001b[1m") < 5%', "p99 < 45.76ms",
        ),
        "without data": lambda: of(
            runs.no_results(), "p50(DELETE) < 1s", "rate > 1/s", "response_p99 < 1s"
        ),
        "of an open loop": lambda: of(
            runs.lasting(3, 9, due=True), "max < 9s", "service_max < 9s"
        ),
        "in other units": lambda: of(
            runs.one_sample(), "mean < 5ms", "mean < 5000.0001us", "p50 < 5.0000001ms",
            "mean < 0.005s", "mean < 1m",
        ),
        "of small values": lambda: of(one(last_byte_ns=10_185), "max < 1s"),
        "of 20 ns": lambda: of(one(last_byte_ns=20), "max < 1s"),
        "like its limit": lambda: of(
            one(last_byte_ns=1_234_567), "max < 1.23457ms", "max < 1.234567ms"
        ),
        "near its limit": lambda: of(
            one(last_byte_ns=25_684_359), "max < 25.684360ms", "max > 25.684358ms"
        ),
        "of rare operations": lambda: of(
            [*one()[:2], runs.batch([runs.result(n, READ, start_ns=n * 10**14, bytes_moved=1)
                                     for n in (0, 1)])],
            "rate > 1/s", "throughput > 1GB/s", "throughput > 1GiB/s",
        ),
        "of large objects": lambda: of(
            [*one()[:2], runs.batch([runs.result(n, READ, bytes_moved=10**12) for n in (1, 2)])],
            "throughput > 1B/s",
        ),
    },
}  # fmt: skip


# Series


def step(load: float, *, kept: bool | None = None, **changes: Any) -> Step:
    """A load of n has 10 n operations/s, a p50 of n ms and a p99 of 2 n ms."""
    verdicts = () if kept is None else (ThresholdResult(SLO, 61 * MS, passed=kept),)
    times = dict(zip(USUAL, (1.0, 1.5, 2.0, 3.0, 4.0), strict=True))
    values = {
        "path": "x/a.stat.gz", "ended": "complete", "seconds": 30.04, "operations": 30_000,
        "errors": 0, "lost": 0, "late": 0, "rate_per_s": 10.0 * load, "bytes_per_s": 1e5 * load,
        "service": {percent: each * load * MS for percent, each in times.items()},
        "response": dict.fromkeys(USUAL), "verdicts": verdicts,
    }  # fmt: skip
    return Step(load=load, **{**values, **changes})


def series(*steps: Step, over: str = "users", complete: bool = True, **changes: Any) -> Report:
    settings = replace(SeriesSettings("own", over, USUAL), **changes)
    return of_series(settings, steps, complete=complete)


def searched(
    *outcomes: tuple[float, bool], most: float = 100, confirm: int = 0, workers: float | None = None
) -> Report:
    search = Search(outcomes[0][0], most, confirm=confirm)
    if workers is not None:
        search.limit(workers)
    for load, kept in outcomes:
        search.record(load, kept=kept)
    made = [step(load, kept=kept) for load, kept in outcomes]
    complete = search.next is None
    return series(*made, complete=complete, thresholds=(SLO,), search=search)


def three(*changes: dict[str, Any], **settings: Any) -> Report:
    return series(*(step(load, **each) for load, each in zip((1, 2, 4), changes, strict=True)),
                  **settings)  # fmt: skip


_JUDGED = tuple(
    map(Threshold.parse, ("p99(READ) < 50ms", "p99 < 50ms", "errors < 1%", "max < 1s",
                          "rate > 1/s", "throughput > 1MB/s"))
)  # fmt: skip
_VERDICTS = tuple(
    ThresholdResult(threshold, actual, passed=actual < threshold.limit)
    for threshold, actual in zip(_JUDGED, (61.5 * MS, 33 * MS, 0.25, 40 * MS, 99.0, 5e6),
                                 strict=True)
)  # fmt: skip
_SLOW = Threshold.parse("mean < 50ms")
_NOTHING: dict[float, float | None] = dict.fromkeys(USUAL)

OF_SERIES: dict[str, Callable[[], Report]] = {
    "steady": lambda: three(*[{"steady": True}] * 3),
    "partly unknown": lambda: three({"steady": True}, {"steady": None}, {"steady": None}),
    "not steady": lambda: three({"steady": False}, {"steady": None}, {"steady": False}),
    "lost and late": lambda: three(
        {"lost": 3, "counts": Counts(lost_races=5)}, {"late": 7}, {"lost": 1}
    ),
    "failures": lambda: three(
        {"errors": 2, "causes": {(1, 503): 2}}, {},
        {"errors": 3, "causes": {(1, 503): 2, (3, 0): 1}},
    ),
    "all limits unknown": lambda: three(
        {"bottleneck": Bottleneck.UNKNOWN}, {"bottleneck": Bottleneck.RATE},
        {"bottleneck": Bottleneck.UNKNOWN},
    ),
    "the store": lambda: three(*[{"bottleneck": Bottleneck.CLOSED_LOOP}] * 3),
    "the rate": lambda: three(*[{"bottleneck": Bottleneck.RATE}] * 3),
    "others": lambda: three(
        {"bottleneck": Bottleneck.GENERATOR}, {"bottleneck": Bottleneck.OTHERS},
        {"bottleneck": Bottleneck.BEHIND},
    ),
    "met in some": lambda: three({"kept": True}, {"kept": True}, {"kept": False},
                                 thresholds=(SLO,)),
    "met in none": lambda: three(*[{"kept": False}] * 3, thresholds=(SLO,)),
    "the best is not the last": lambda: three({"rate_per_s": 100.0}, {"rate_per_s": 900.0},
                                              {"rate_per_s": 800.0}),
    "files in two folders": lambda: three({"path": "b.stat.gz"}, {"path": "c.stat.gz"}, {}),
    "without a store": lambda: three(*[{"no_store": True, "bytes_per_s": None}] * 3),
    "a step without operations": lambda: three(
        {}, {}, {"seconds": None, "operations": 0, "rate_per_s": None, "bytes_per_s": None,
                 "service": _NOTHING, "steady": None},
    ),
    "odd steps": lambda: three(
        {"ended": "failed", "kept": True, "operations": 0},
        {"ended": "interrupted", "kept": False, "operations": 0},
        {"users_asked": 64, "users_ran": 4, "rate_per_s": None, "service": _NOTHING},
        thresholds=(SLO,), name="a\x1bb",
    ),
    "few operations": lambda: three({"operations": 9, "errors": 1}, {}, {"operations": 999}),
    "large numbers": lambda: series(
        step(1000, operations=1_234_567, errors=99, causes={(1, 503): 99},
             service=dict.fromkeys(USUAL, 12345600000.0))
    ),
    "two runs": lambda: series(step(20), step(20)),
    "three runs": lambda: series(step(20), step(20), step(20)),
    "one failure": lambda: series(step(1, operations=0, errors=1, causes={(1, 503): 1})),
    "one of many": lambda: series(step(1, operations=19_999, errors=1, causes={(1, 503): 1})),
    **{
        f"{errors} of 1,000": lambda errors=errors: series(  # type: ignore[misc]
            step(1, operations=1000 - errors, errors=errors, causes={(1, 503): errors})
        )
        for errors in (1, 99, 101)
    },
    "at rates": lambda: series(
        *(step(load, response=dict.fromkeys(USUAL, 25.0 * MS), rate_missed=load > 300)
          for load in (250.5, 400)),
        over="rate",
    ),
    "users at a rate": lambda: series(step(20, response=dict.fromkeys(USUAL, 25.0 * MS))),
    "many thresholds": lambda: series(step(20, verdicts=_VERDICTS), thresholds=_JUDGED),
    "not judged": lambda: series(step(20), thresholds=_JUDGED),
    "a long value of a threshold": lambda: series(
        step(20, verdicts=[ThresholdResult(_SLOW, 1_353.9 * MS, passed=False)]), thresholds=(_SLOW,)
    ),
    "found": lambda: searched((1, True), (2, False)),
    "not found": lambda: searched((1, False)),
    "ended early": lambda: searched((8, True), (16, False)),
    "bounded": lambda: searched((1, True), most=1),
    "bounded by the workers": lambda: searched((1, True), (2, True), workers=2),
    "tried again": lambda: searched(
        (1, True), (2, False), (2, True), (2, False), (1, True), confirm=1
    ),
}  # fmt: skip


# Comparisons


def compared(*records: Sequence[Record], operations: Sequence[str | None] = ()) -> Report:
    named = [(f"{chr(97 + at)}.gz", RunStats.of(each)) for at, each in enumerate(records)]
    return of_comparison(comparison(named, seed=1, operations=tuple(operations)))


def busy(records: list[Record], cpu_percent: float = 97.0) -> list[Record]:
    """The same run on a machine of one core that was so busy, by others for the most part."""
    figures = {
        "cpu_percent": cpu_percent, "core_0_percent": cpu_percent, "process_cpu_percent": 5.0,
        "loop_cpu_percent": 5.0, "loop_waiting_percent": 20.0, "interval_s": 1.0,
    }  # fmt: skip
    seconds = [HostRecord(0, at_s, figures, host="bench-01") for at_s in range(2, 12)]
    return [*records[:-1], *seconds, records[-1]]


def brief(**changes: Any) -> list[Record]:
    return runs.lasting(14, 50, **changes)


_KEYS = {f"key_{n}": n for n in range(30)}
#: A row of a driver that this process does not have.
SCRUB = [
    runs.header(operations=[{"number": 99, "name": "SCRUB", "effect": "none"}]),
    runs.batch([runs.result(1, 99)]),  # type: ignore[arg-type]
]


def just(operation: int) -> list[Record]:
    """The same run without any other operation."""
    return [
        runs.batch([row for row in result_rows(each) if row.operation == operation])
        if isinstance(each, ResultBatch)
        else each
        for each in brief()
    ]


def in_stages(*names: str) -> list[Record]:
    return runs.lasting(
        20, 20, begins=(0, 10), stages=[{"seconds": 10, "name": name} for name in names]
    )


OF_COMPARISONS: dict[str, Callable[[], Report]] = {
    "faster": lambda: compared(brief(), runs.lasting(14, 60)),
    "alike": lambda: compared(brief(), brief()),
    "other users": lambda: compared(brief(), brief(seed=2, user_count=9)),
    "many settings": lambda: compared(brief(), brief(long="x" * 99, **_KEYS)),
    "factors": lambda: compared(runs.lasting(14, 20), runs.lasting(14, 130, slower=7.0)),
    "three runs": lambda: compared(brief(), runs.lasting(14, 60, slower=2.0), brief()),
    "some operations": lambda: compared(brief(), brief(), operations=("READ", "DELETE")),
    "failures": lambda: compared(
        brief(), [*brief()[:-1], runs.footer(ended="interrupted")], runs.all_errors()
    ),
    "short": lambda: compared(runs.lasting(3, 50), runs.lasting(3, 60)),
    "closed and open": lambda: compared(brief(), runs.lasting(14, 60, due=True, rate=60)),
    "others on one host": lambda: compared(runs.lasting(20, 50), busy(runs.lasting(20, 60))),
    "others on both": lambda: compared(busy(runs.lasting(20, 50)), busy(runs.lasting(20, 60))),
    "not busy": lambda: compared(runs.lasting(20, 50), busy(runs.lasting(20, 60), 40.0)),
    "no success": lambda: compared(brief(), runs.lasting(14, 0)),
    "no results": lambda: compared(runs.no_results(), runs.one_sample()),
    "an operation of a driver": lambda: compared(brief(), SCRUB),
    "an operation in one run": lambda: compared(brief(), just(READ), operations=("CREATE", "READ")),
    "other stages": lambda: compared(*(in_stages("load", name) for name in ("old", "new"))),
    "no stage in both": lambda: compared(in_stages("load", "peak"), brief()),
}

GROUPS = {**OF_RUNS, "series": OF_SERIES, "comparisons": OF_COMPARISONS}
