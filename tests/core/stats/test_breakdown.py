"""A run by worker and storage URL, and its errors by second."""

from __future__ import annotations

from ssbench.core.model import ErrorKind
from ssbench.core.operations import CREATE, READ
from ssbench.core.records import PhaseRecord, Record
from ssbench.core.stats.run_stats import Breakdown, RunStats
from tests.report import runs

PHASE = PhaseRecord(runs.Phase.RUN, runs.STARTED_AT, 4)


def records(run_id: str = "5e1f") -> list[Record]:
    """Of two workers, each with two URLs; of the second one all READs fail."""
    first = [runs.result(n, READ, url=n % 2, last_byte_ns=n * runs.MS) for n in range(1, 11)]
    second = [runs.failure(n, READ, url=n % 2, start_ns=n * runs.SECOND) for n in range(3)]
    second += [runs.result(20, CREATE, url=1)]
    return [
        runs.header(run_id=run_id), runs.worker(0, "a"), runs.worker(1, "b"), PHASE,
        runs.batch(first), runs.batch(second, worker_index=1), runs.footer(),
    ]  # fmt: skip


def breakdown_of(made: list[Record]) -> Breakdown:
    found = RunStats.of(made, in_detail=True).breakdown
    assert found is not None
    return found


def test_it_is_counted_only_where_it_is_asked_for() -> None:
    assert RunStats.of(records()).breakdown is None


def test_each_worker_and_each_url_has_its_own_sums() -> None:
    found = breakdown_of(records()).sources
    counts = {key[::2]: (tally.count, tally.errors) for key, tally in found.items()}
    assert counts == {
        ("worker", 0): (10, 0), ("worker", 1): (1, 3), ("url", 0): (5, 2), ("url", 1): (6, 1),
    }  # fmt: skip
    assert found["url", "5e1f", 0].service.max == 10 * runs.MS
    assert found["worker", "5e1f", 0].bytes_moved == 50_000


def test_errors_are_counted_by_cause_in_the_second_of_their_end() -> None:
    assert breakdown_of(records()).errors == {
        (ErrorKind.STATUS, 503, 0): 1, (ErrorKind.STATUS, 503, 1): 1, (ErrorKind.STATUS, 503, 2): 1,
    }  # fmt: skip


def test_what_does_not_count_is_in_no_sum() -> None:
    stats = RunStats.of(runs.lasting(10, 20, warmup=5, run_seconds=10), in_detail=True)
    assert stats.breakdown is not None
    counted = {
        source: sum(
            tally.count for key, tally in stats.breakdown.sources.items() if key[0] == source
        )
        for source in ("worker", "url")
    }
    assert 0 < counted["worker"] == counted["url"] == stats.total().count < 200


def test_merged_runs_keep_their_workers_apart() -> None:
    one = RunStats.of([*records("1"), *records("2")], in_detail=True)
    assert one.breakdown is not None
    tallies = one.breakdown.sources
    assert {key[1] for key in tallies} == {"1", "2"}
    assert sum(tally.count for key, tally in tallies.items() if key[0] == "worker") == 22
    assert sum(one.breakdown.errors.values()) == 6
