"""What a report costs: in proportion to the size of the stat file, whatever is in it."""

from __future__ import annotations

import cProfile
import tracemalloc
from collections.abc import Callable
from itertools import repeat
from pathlib import Path

import pytest
from msgspec.structs import replace

from ssbench.core.columns import MAX_LISTED
from ssbench.core.messages import pack, unpack
from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.records import (
    AddressRecord,
    ClockRecord,
    EventRecord,
    HostRecord,
    MarkRecord,
    PhaseRecord,
    ProfileRecord,
    Record,
    WorkerRecord,
)
from ssbench.core.stats.budget import MEMORY, OTHERS, Budget
from ssbench.core.stats.compare import comparison
from ssbench.core.stats.run_stats import RunStats
from ssbench.report import render, render_html
from ssbench.report.comparison import of_comparison
from ssbench.report.run import of_run
from ssbench.runner.results import read_merged, read_stats
from tests.statfile.samples import (
    FOOTER,
    HEADER,
    PHASE,
    WORKER,
    batch,
    old_result,
    result,
    write_at_once,
    write_old,
)


def _rows(count: int, of: Callable[[int], dict[str, int]]) -> list[Record]:
    """Results without transaction ids, in batches."""
    rows = [result(0, transaction_id=b"", **of(number)) for number in range(count)]
    return [batch(rows[at : at + 4096]) for at in range(0, count, 4096)]


def _far(number: int) -> int:
    return (1000, 3500 * SECOND_NS)[number % 2]


def _marks(count: int, name: str) -> list[Record]:
    return [MarkRecord(number * SECOND_NS, name, number, 1) for number in range(count)]


def _listed(count: int) -> list[Record]:
    """Batches of a row with so many equal numbers as its parts."""
    plain = batch([result(0, parts=(1, 0, 0, 5), part_id=b"")])
    columns = unpack(plain.packed)
    columns[1 + plain.names.index("parts")] = [MAX_LISTED, 5]
    return [replace(plain, packed=pack(columns)) for _ in range(count)]


_DEEP = {f"f{number};" + "a;" * 1990 + "b": 5 for number in range(50)}
#: Few bytes that took gigabytes, minutes, or an exception: records after those of a run's start.
HEAVY: dict[str, Callable[[], list[Record]]] = {
    "a far error": lambda: _rows(2, lambda n: {"start_ns": n * 9_999_998 * SECOND_NS, "error": 1}),
    "a far second": lambda: _rows(2, lambda n: {"start_ns": n * 9_999_998 * SECOND_NS}),
    "causes of errors": lambda: _rows(8000, lambda n: {"error": n % 255 + 1, "status": n // 255}),
    "types and size classes": lambda: _rows(
        3000, lambda n: {"operation": n % 90, "size_class": n // 90}
    ),
    "users": lambda: _marks(1, "stage") + _marks(30_000, "users"),
    "URLs": lambda: _rows(
        4000, lambda n: {"url": n // 2, "last_byte_ns": _far(n), "headers_ns": _far(n)}
    ),
    "errors of a worker": lambda: _rows(
        8000, lambda n: {"error": n % 22 + 1, "status": n // 22 % 1000}
    ),
    "phases": lambda: [
        record
        for at in range(3000)
        for record in (PhaseRecord(Phase.RUN, 1e9 + at, 1), *_rows(1, lambda n: {}))
    ],
    "workers": lambda: [WorkerRecord(at, f"w{at}", "h", 1, 1, "1") for at in range(20_000)],
    "hosts": lambda: [HostRecord(at, 1.0, {"cpu_percent": 5}, host=f"{at}") for at in range(4000)],
    "clocks": lambda: [ClockRecord(at, Phase.RUN, 1, 1, 10**18) for at in range(30_000)],
    "warnings": lambda: [replace(FOOTER, warnings=["w"] * 16_000, workers_lost=["x"] * 16_000)],
    "deep calls": lambda: [ProfileRecord(0, _DEEP)],
    "parts": lambda: _listed(40),
    "profile of zeros": lambda: [ProfileRecord(0, {"a": 0, "b;c": 0})],
    "negative counts": lambda: [
        batch([result(1, due_ns=0)]), replace(FOOTER, late=-1), ProfileRecord(0, {"a": -5, "b": 5})
    ],
}  # fmt: skip


#: Of runs that are merged: all the work of one run, and more.
MERGED = ("a far second", "workers", "URLs")


@pytest.mark.parametrize("kind", HEAVY)
def test_a_report_takes_work_in_proportion(kind: str, tmp_path: Path) -> None:
    """Work is counted in calls, some ten million a second: the machine's speed does not matter."""
    paths = [tmp_path / f"{number}.stat.gz" for number in range(1 + (kind in MERGED))]
    for number, path in enumerate(paths):
        header = replace(HEADER, run_id=f"r{number}")
        began, ended = MarkRecord(0, "stage", 0, 4), MarkRecord(5 * SECOND_NS, "end", 0)
        write_at_once(path, [header, WORKER, PHASE, began, *HEAVY[kind](), ended, FOOTER])
    _assert_cheap(paths)


def test_a_comparison_takes_work_in_proportion(tmp_path: Path) -> None:
    """Many operations over many hours, in a few bytes."""
    paths = [tmp_path / f"{number}.stat.gz" for number in range(2)]
    apart = 19_900 * SECOND_NS // 40
    for number, path in enumerate(paths):
        header = replace(HEADER, run_id=f"r{number}")
        rows = _rows(2400, lambda n: {"operation": n % 60, "start_ns": n // 60 * apart})
        began, ended = MarkRecord(0, "stage", 0, 4), MarkRecord(19_900 * SECOND_NS, "end", 0)
        write_at_once(path, [header, WORKER, PHASE, began, *rows, ended, FOOTER])
    _assert_cheap(paths, _comparison)


def _comparison(paths: list[Path]) -> list[str]:
    stats = [read_stats(str(path)) for path in paths]
    report = of_comparison(comparison([*zip("ab", stats, strict=True)], seed=1))
    return [render(report, "json"), render_html(report, "p.js")]


def _assert_cheap(
    paths: list[Path], report: Callable[[list[Path]], list[str]] | None = None
) -> None:
    with cProfile.Profile(subcalls=False) as profile:
        texts = (report or _reports)(paths)
    assert sum(each.callcount for each in profile.getstats()) < 10_000_000 * len(paths)
    assert max(map(len, texts)) < 25_000_000


#: Of 0.3.9: results that differ in one field.
HEAVY_OLD: dict[str, Callable[[int], dict[str, object]]] = {
    "workers": lambda n: {"worker_id": n},
    "size classes": lambda n: {"size_str": f"s{n}"},
    "far seconds": lambda n: {"completed_at": 1000.0 + n * 3000},
    "causes": lambda n: {"exception": f"E{n}('x' * 300)", "last_byte_latency": ...},
    "long causes": lambda n: {"exception": f"{n}" + "'" * 50_000 if n < 100 else "x"},
    "names": lambda n: {"name": "n" * 4000 + f"{n}"},
}


@pytest.mark.parametrize("kind", HEAVY_OLD)
def test_a_report_on_a_file_of_0_3_9_takes_work_in_proportion(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "old.stat.gz"
    write_old(path, [old_result(**HEAVY_OLD[kind](number)) for number in range(2048)])
    _assert_cheap([path])


@pytest.mark.parametrize("kind", ["URLs", "a far second", "parts"])
def test_a_report_takes_memory_in_proportion(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.stat.gz"
    size = len(write_at_once(path, [HEADER, WORKER, PHASE, *HEAVY[kind](), FOOTER]))
    tracemalloc.start()
    try:
        _reports([path])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 200_000_000 + 10 * size


def _reports(paths: list[Path]) -> list[str]:
    if len(paths) == 1:
        report = of_run(read_stats(str(paths[0])))
    else:
        stats, parts = read_merged(list(map(str, paths)))
        report = of_run(stats, parts=parts)
    return [render(report, "json"), render_html(report, "p.js")]


def _many_kinds() -> list[Record]:
    return _rows(2048, lambda n: {"operation": n % 8, "size_class": n // 8, "error": n % 2})


def test_what_exceeds_the_limits_is_counted_together(tmp_path: Path) -> None:
    """No operation is lost, and the run stays complete."""
    path = tmp_path / "a.stat.gz"
    write_at_once(path, [HEADER, PHASE, *_many_kinds(), FOOTER])
    stats = read_stats(str(path))
    assert stats.run.complete
    assert stats.total().operations == 2048
    assert sum(each.tally.operations for each in stats.workers()) == 2048
    assert sum(error.count for error in stats.errors.values()) == 1024
    assert 1000 < stats.total(OTHERS).operations < 2048
    assert stats.class_name(OTHERS) == stats.operation_name(OTHERS) == "all others"


#: Rows of each table, whatever was read of the file.
MOST_ROWS = {
    "groups": 800, "causes of errors": 2000, "sources": 2000, "operations over time": 50,
    "stages": 500, "changes of the number of users": 20_000, "workers": 20_000, "addresses": 2000,
    "clocks of workers": 20_000, "hosts": 2000, "profiles": 1000, "starts of phases": 200,
    "records between results": 1000, "marks": 2000,
}  # fmt: skip


@pytest.mark.parametrize(("what", "most"), MOST_ROWS.items())
def test_a_table_has_some_rows_and_more_for_each_2_kib_that_were_read(what: str, most: int) -> None:
    for bytes_read, factor in ((2047, 1), (2000 * 2048, 2)):
        budget = Budget(repeat(bytes_read).__next__)
        assert sum(budget.keeps(what, number) for number in range(40_001)) == most * factor
        (left_out,) = budget.left_out
        assert left_out.startswith(f"{40_001 - most * factor:,} {what} were left out")


def test_time_series_and_work_have_limits_that_grow_with_the_bytes_read() -> None:
    for bytes_read, memory, seconds, steps in (
        (63, MEMORY, 10_000, 500_063),
        (64_000, MEMORY, 11_000, 564_000),
        (64_000, 2 * MEMORY, 21_000, 1_064_000),
    ):
        budget = Budget(repeat(bytes_read).__next__, memory)
        assert budget.seconds == seconds
        assert budget.works(steps)
        assert not budget.works(1)


def test_statistics_of_this_process_are_not_limited() -> None:
    stats = RunStats.of(_many_kinds())
    assert len(stats.classes()) == 256
    assert not stats.total(OTHERS).operations


def _of_few_rows(*records: Record) -> RunStats:
    """Statistics that have room for 20 rows of a table, and for 100 seconds."""
    return RunStats.of([PHASE, *records], budget=Budget(lambda: 0, MEMORY // 100))


def test_size_classes_causes_and_operations_beyond_the_limit_are_counted_together() -> None:
    classes = _of_few_rows(*_rows(100, lambda n: {"size_class": n}))
    assert classes.classes() == [OTHERS, *range(8)]
    assert classes.total().operations == 100
    causes = _of_few_rows(*_rows(100, lambda n: {"error": 1, "status": 400 + n}))
    assert len(causes.errors) == 20 + 1
    assert sum(each.count for each in causes.errors.values()) == 100
    operations = _of_few_rows(*_rows(100, lambda n: {"operation": n % 10}))
    assert operations.series.operations == [OTHERS, 0]


def test_sources_beyond_the_limit_are_counted_together() -> None:
    one, *others = (result(0, url=n, transaction_id=b"") for n in range(100))
    for between, most in (([], 20), (_marks(1, "stage"), 19)):  # 19: the worker is known before
        stats = _of_few_rows(batch([one]), *between, batch(others))
        found = stats.breakdown.sums("url")
        assert sorted(found) == [OTHERS, *range(most)]
        assert sum(each.operations for each in found.values()) == 100


def test_failures_beyond_the_seconds_of_a_series_are_in_none() -> None:
    stats = _of_few_rows(*_rows(20, lambda n: {"start_ns": n * 10 * SECOND_NS, "error": 1}))
    assert sorted(second for _kind, _status, second in stats.breakdown.errors) == [
        *range(0, 100, 10)
    ]
    assert stats.total().errors == 20


#: More records than are kept, by what is said of the rest.
MANY: dict[str, Callable[[], list[Record]]] = {
    "stages": lambda: _marks(5000, "stage"),
    "changes of the number of users": lambda: _marks(1, "stage") + _marks(22_000, "users"),
    "workers": lambda: [WorkerRecord(at, f"w{at}", "h", 1, 1, "1") for at in range(22_000)],
    "marks": lambda: [EventRecord(at, "m") for at in range(5000)],
    "addresses": lambda: [AddressRecord(at, Phase.RUN, ("h",)) for at in range(5000)],
    "profiles": lambda: [ProfileRecord(at, {"a": 1}) for at in range(5000)],
    "hosts": lambda: [HostRecord(at, 1.0, {"cpu_percent": 5}) for at in range(5000)],
    "clocks of workers": lambda: [ClockRecord(at, Phase.RUN, 1, 1) for at in range(22_000)],
    "starts of phases": lambda: [PhaseRecord(Phase.RUN, 1e9 + at, 1) for at in range(1000)],
}


@pytest.mark.parametrize("what", MANY)
def test_records_beyond_the_limit_are_left_out_and_counted(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.stat.gz"
    write_at_once(path, [HEADER, PHASE, *MANY[what](), FOOTER])
    run = read_stats(str(path)).run
    (line,) = [line for line in run.left_out if f" {what} were left out" in line]
    assert line.endswith("; --max-report-memory raises the limit")
    assert run.complete
    more = read_stats(str(path), memory=2_000_000_000).run
    assert (more.left_out, more.complete) == ([], True)
    if what == "stages":
        assert line.startswith(f"{5000 - len(run.stages):,} ")
        assert len(more.stages) == 5000
