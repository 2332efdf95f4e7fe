"""Small runs, the same each time, for the reports' golden files."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from ssbench.core.model import NONE_NS, ErrorKind, Phase, Result
from ssbench.core.operations import CREATE, DELETE, ENSURE, READ, REMOVE, Operation, row_of
from ssbench.core.records import (
    MASTER,
    ClockRecord,
    HostRecord,
    MarkRecord,
    PhaseRecord,
    Record,
    ResultBatch,
    RunFooter,
    RunHeader,
    WorkerRecord,
)
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.thresholds import Threshold
from ssbench.report import render as render_report
from ssbench.report.run import of_run

SCENARIO = {
    "name": "Small test scenario",
    "sizes": [
        {"name": "tiny", "size_min": 4096, "size_max": 8192, "crud_profile": [3, 4, 2, 1]},
        {"name": "small", "size_min": 20000, "size_max": 40000},
    ],
    "initial_files": {"tiny": 100, "small": 10},
    "operation_count": 200,
    "crud_profile": [10, 75, 15, 0],
    "user_count": 4,
    "container_base": "ssbench",
    "container_count": 80,
    "delete_after": None,
    "policy": "gold",
    "block_size": 65536,
}
STARTED_AT = 1795168183.25
MS = 1_000_000
SECOND = 1_000_000_000


def header(**changes: Any) -> RunHeader:
    values: dict[str, Any] = {
        "run_id": "5e1f",
        "started_at": STARTED_AT - 2,
        "ssbench_version": "1.0.0",
        "scenario_given": SCENARIO,
        "scenario": SCENARIO,
        "overrides": {"user_count": 4},
        "seed": 42,
        "driver": "swift",
        "store": {"urls": ["http://swift.example/v1/AUTH_test"], "region": "north"},
    }
    return RunHeader(**{**values, **changes})


def worker(index: int, worker_id: str) -> WorkerRecord:
    return WorkerRecord(index, worker_id, "bench-01", 100 + index, 64, "1.0.0")


def footer(**changes: Any) -> RunFooter:
    values: dict[str, Any] = {
        "ended_at": STARTED_AT + 9,
        "ended": "complete",
        "reason": "",
        "run_seconds": 3.0,
    }
    return RunFooter(**{**values, **changes})


def result(number: int, operation: Operation, **changes: Any) -> Result:
    """A success of 5 ms (4 ms to the head), 10 ms after the one before."""
    values: dict[str, Any] = {
        "number": number,
        "operation": operation,
        "size_class": 0,
        "object": number,
        "due_ns": NONE_NS,
        "start_ns": number * 10 * MS,
        "headers_ns": 4 * MS,
        "first_byte_ns": 4 * MS + 1000 if operation is READ else NONE_NS,
        "last_byte_ns": 5 * MS,
        "bytes_moved": 0 if operation is DELETE else 5000,
        "retries": 0,
        "not_found_retries": 0,
        "rate_limited": 0,
        "reconnects": 0,
        "renewals": 0,
        "url": 0,
        "status": 200,
        "error": ErrorKind.NONE,
        "unknown": 0,
        "transaction_id": b"tx%032x" % number,
        "detail": "",
    }
    return Result(**{**values, **changes})


def failure(number: int, operation: Operation, **changes: Any) -> Result:
    """A 503 after two retries."""
    values: dict[str, Any] = {
        "first_byte_ns": NONE_NS,
        "bytes_moved": 0,
        "retries": 2,
        "status": 503,
        "error": ErrorKind.STATUS,
        "detail": "503 Service Unavailable",
    }
    return result(number, operation, **{**values, **changes})


def batch(rows: Sequence[Result], phase: Phase = Phase.RUN, worker_index: int = 0) -> ResultBatch:
    return ResultBatch.of_rows(phase, worker_index, rows)


def host(index: int, second: int, **figures: float) -> HostRecord:
    """The figures of one second, from the first on."""
    values = {
        "interval_s": 1.0,
        "cpu_percent": 60.0,
        "cpu_busiest_core_percent": 99.0,
        "process_cpu_percent": 35.5,
        "loop_cpu_percent": 34.0,
        "loop_waiting_percent": 0.5,
        "loop_lag_max_s": 0.002,
        "loop_lag_mean_s": 0.0001,
        "memory_total_bytes": 8e9,
        "memory_available_bytes": 5e9,
    }
    return HostRecord(index, second + 1.0, {**values, **figures}, Phase.RUN, "bench-01", "b007")


@cache
def some_rows(count: int, seed: int) -> tuple[Result, ...]:
    """All operations and classes, every tenth a failure of one of three kinds."""
    rng = random.Random(seed)
    rows = []
    for number in range(1, count + 1):
        operation = row_of(rng.choices(range(4), [3, 4, 2, 1])[0])
        last = int(rng.lognormvariate(15.5, 0.8))
        times = {"headers_ns": last // 2, "last_byte_ns": last, "size_class": rng.randrange(2)}
        if operation is READ:
            times["first_byte_ns"] = last // 2 + 1000
        make = result
        if number % 10 == 0:
            make = failure
            times["first_byte_ns"] = NONE_NS
            if number % 20 == 0:
                times |= {"error": ErrorKind.NETWORK_TIMEOUT, "status": 0}
        rows.append(make(number, operation, **times))
    return tuple(rows)


def normal() -> list[Record]:
    """Two workers, all phases, a few of everything that a run can have."""
    rows = [*some_rows(200, 7)]
    rows[0] = rows[0]._replace(retries=1, rate_limited=1, reconnects=2, renewals=1)
    uploads = [result(n, ENSURE) for n in range(1, 111)]
    removals = [result(n, REMOVE, bytes_moved=0) for n in range(1, 31)]
    return [
        header(scenario={**SCENARIO, "operation_count": 203}),
        worker(0, "alpha"),
        worker(1, "beta"),
        PhaseRecord(Phase.POPULATE, STARTED_AT - 2, 4),
        batch(uploads, Phase.POPULATE),
        PhaseRecord(Phase.RUN, STARTED_AT, 4),
        MarkRecord(8 * MS, "stage", 0, 4),
        ClockRecord(0, Phase.RUN, 0, 150_000, 12 * MS),
        host(MASTER, 0),
        batch(rows[:120]),
        host(0, 0, loop_cpu_percent=97.0, loop_lag_max_s=0.031),
        host(1, 0),
        batch(rows[120:], worker_index=1),
        host(MASTER, 1),
        host(0, 1, loop_cpu_percent=99.0, loop_lag_max_s=0.045),
        host(1, 1),
        MarkRecord(2050 * MS, "end", 0, 4),
        PhaseRecord(Phase.CLEANUP, STARTED_AT + 3, 4),
        batch(removals, Phase.CLEANUP, 1),
        footer(
            sent=203,
            lost=3,
            refused=1,
            skipped={"READ": 5, "DELETE": 0},
            warnings=["policy is slow"],
        ),
    ]


def no_results() -> list[Record]:
    return [
        header(),
        worker(0, "alpha"),
        PhaseRecord(Phase.RUN, STARTED_AT, 4),
        footer(ended="interrupted", reason="Ctrl-C", run_seconds=0.5, ended_at=STARTED_AT + 0.5),
    ]


def all_errors() -> list[Record]:
    rows = [failure(n, READ if n % 2 else CREATE) for n in range(1, 21)]
    return [
        header(),
        worker(0, "alpha"),
        PhaseRecord(Phase.RUN, STARTED_AT, 4),
        batch(rows),
        footer(ended="failed", reason="no operation succeeded"),
    ]


def one_sample() -> list[Record]:
    """A file that was cut off after its only result."""
    return [
        header(overrides={}),
        worker(0, "alpha"),
        PhaseRecord(Phase.RUN, STARTED_AT, 1),
        batch([result(1, READ)]),
    ]


RUNS = {
    "normal": normal,
    "no_results": no_results,
    "all_errors": all_errors,
    "one_sample": one_sample,
}


def stats_of(records: Iterable[Record]) -> RunStats:
    return RunStats.of(records)


def render(
    form: str,
    stats: RunStats,
    percentiles: Sequence[float] = (95.0,),
    thresholds: Sequence[Threshold] = (),
) -> str:
    """A run's report in that format."""
    return render_report(of_run(stats, percentiles, thresholds), form)


def as_json(stats: RunStats, *percentiles: float, thresholds: Sequence[Threshold] = ()) -> Any:
    """What a program reads from the JSON report."""
    return json.loads(render("json", stats, percentiles or (95.0,), thresholds))


def as_csv(
    stats: RunStats, *percentiles: float, thresholds: Sequence[Threshold] = ()
) -> dict[str, str]:
    """The cells of the CSV report by the names of their columns."""
    names, values = csv.reader(
        io.StringIO(render("csv", stats, percentiles or (95.0,), thresholds))
    )
    assert len(names) == len(set(names)), "a column's name comes twice"
    return dict(zip(names, values, strict=True))


def lasting(
    seconds: int,
    rate: Callable[[int], int] | int,
    /,
    *,
    seed: int = 1,
    slower: float = 1.0,
    due: bool = False,
    begins: Sequence[int] = (0,),
    **changes: Any,
) -> list[Record]:
    """A run of READs and CREATEs, evenly spaced, from a fifth of a second on.

    :param rate: operations a second, or what gives them for each second.
    :param begins: the seconds in which stages begin.
    :param changes: to the scenario.
    """
    rng = random.Random(seed)
    begin_ns = SECOND // 5
    rows: list[Result] = []
    for second in range(seconds):
        count = rate if isinstance(rate, int) else rate(second)
        for at in range(count):
            start = begin_ns + second * SECOND + at * SECOND // count
            last = int(rng.lognormvariate(15.5, 0.5) * slower)
            wait = rng.randrange(MS) if due else 0
            rows.append(
                result(
                    len(rows) + 1,
                    CREATE if rng.random() < 0.25 else READ,
                    due_ns=start if due else NONE_NS,
                    start_ns=start + wait,
                    headers_ns=last // 2,
                    first_byte_ns=last // 2,
                    last_byte_ns=last,
                )
            )
    marks = [
        MarkRecord(begin_ns + at * SECOND, "stage", index, 4) for index, at in enumerate(begins)
    ]
    end = MarkRecord(begin_ns + seconds * SECOND, "end", len(begins) - 1, 4)
    return [
        header(scenario={**SCENARIO, **changes}, seed=seed, run_id=f"{seed:04x}"),
        worker(0, "alpha"),
        PhaseRecord(Phase.RUN, STARTED_AT, 4),
        *marks,
        *([batch(rows)] if rows else []),
        end,
        footer(run_seconds=float(seconds)),
    ]
