"""When a run ends because of its thresholds."""

from __future__ import annotations

import pytest

from ssbench.core.columns import pack_results
from ssbench.core.model import Job
from ssbench.core.operations import CREATE, READ
from ssbench.core.progress_tracker import ProgressTracker
from ssbench.core.stats.auto_stop import ThresholdWatch, can_watch
from ssbench.core.stats.thresholds import Threshold
from tests.core.workload.fleet import row

SECOND = 1_000_000_000
MS = 1_000_000
BEGIN = 50 * SECOND


class Run:
    """A run whose results arrive second by second."""

    def __init__(self, *thresholds: str, window_s: int = 3, **options: float) -> None:
        parsed = [Threshold.parse(text) for text in thresholds]
        self.watch = ThresholdWatch(parsed, window_s, **options)  # type: ignore[arg-type]
        self.watch.begin(BEGIN)
        self.tracker = ProgressTracker(None, None)
        self.now_ns = BEGIN

    def second(
        self, done: int, failed: int = 0, ms: float = 10, operation: int = READ, slow: int = 0
    ) -> str:
        """What one second brings; returns the reason to end."""
        job = Job(1, int(operation), 0, 0, 0, 1)
        rows = [row(job)] * done + [row(job, error=1, status=500)] * failed
        rows = [
            each._replace(last_byte_ns=9 * SECOND if number < slow or each.error else int(ms * MS))
            for number, each in enumerate(rows)
        ]
        if rows:
            columns = pack_results(rows)
            self.tracker.add_results(columns)
            self.watch.add_results(columns)
        self.now_ns += SECOND
        return self.watch.reason_to_end(self.now_ns, self.tracker)


def test_a_rate_that_is_missed_over_the_window_ends_the_run() -> None:
    run = Run("rate > 50/s")
    reasons = [run.second(100), run.second(100), run.second(10), run.second(20), run.second(30)]
    assert reasons == [
        "", "", "", "threshold rate > 50/s missed: 43.3/s over the last 3 s", reasons[3],
    ]  # fmt: skip
    assert run.watch.missed == reasons[3]


def test_one_bad_second_of_a_good_window_does_not() -> None:
    run = Run("rate > 50/s", "errors < 10%", "p99 < 50ms")
    for _ in range(3):
        assert [run.second(*each) for each in [(100,), (20,), (100,), (100, 5)]] == [""] * 4


def test_a_share_of_errors_is_that_of_the_window_and_of_the_operation() -> None:
    run = Run("errors(CREATE) < 10%")
    for _ in range(4):
        assert not run.second(100, 90, operation=READ)
        assert not run.second(95, 5, operation=CREATE)
    reason = run.second(10, 10, operation=CREATE)
    assert "errors(CREATE) < 10% missed: 12.5 % over the last 3 s" in reason


def test_a_percentile_must_miss_its_limit_by_more_than_its_error() -> None:
    run = Run("p99 < 50ms")
    assert [run.second(100, ms=51) for _ in range(6)] == [""] * 6
    reasons = [run.second(100, ms=80) for _ in range(3)]
    assert "threshold p99 < 50ms missed: about 8" in reasons[-1]


def test_the_latencies_of_failures_count_no_more_than_in_a_report() -> None:
    run = Run("p90 < 50ms", total=100)
    assert [run.second(15, 15) for _ in range(6)] == [""] * 6


def test_a_number_of_errors_ends_the_run_at_once() -> None:
    run = Run("errors < 3")
    assert [run.second(5, 2), run.second(5, 0)] == ["", ""]
    assert run.second(5, 1) == "threshold errors < 3 can no longer be met: 3 errors"


def test_errors_that_the_rest_of_the_run_cannot_make_up_for_end_it() -> None:
    run = Run("errors < 1%", window_s=60, total=1000)
    assert run.second(90, 9) == ""
    assert run.second(90, 1).endswith("can no longer be met: 10 errors of 1,000 operations")


def test_slow_operations_that_the_rest_cannot_make_up_for_end_it() -> None:
    run = Run("p90 < 50ms", window_s=60, total=1000)
    assert run.second(300, slow=100) == ""
    assert run.second(300, slow=1).endswith("101 of 1,000 operations were slower")


def test_the_warm_up_does_not_count() -> None:
    run = Run("errors < 1", "rate > 50/s", "p50 < 50ms", warmup_s=1.5)
    reasons = [run.second(1, 1, ms=900), run.second(1, 1, ms=900)]
    reasons += [run.second(100) for _ in range(5)]
    assert reasons == [""] * 7
    assert run.second(100, 1).endswith("can no longer be met: 1 error")


@pytest.mark.parametrize(
    ("text", "watched"),
    [
        ("errors < 1%", True), ("errors(READ) < 3", True), ("rate > 5/s", True),
        ("p99.9 < 5ms", True), ("service_p50 < 5ms", True), ("p99(READ) < 5ms", False),
        ("mean < 5ms", False), ("response_p99 < 5ms", False), ("first_byte_p99 < 5ms", False),
        ("throughput > 5MB/s", False), ("late < 1%", False), ('rate(READ, tiny) > 5/s', False),
        ("errors == 0", False),
    ],
)  # fmt: skip
def test_what_can_be_watched(text: str, watched: bool) -> None:
    assert can_watch(Threshold.parse(text)) is watched
