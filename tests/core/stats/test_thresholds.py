"""Thresholds: their text, their metrics, and how runs meet them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ssbench.core.columns import pack_results
from ssbench.core.errors import UsageError
from ssbench.core.live import ProgressTracker
from ssbench.core.model import Job, Phase, Result
from ssbench.core.operations import CREATE, CRUD, READ, Effect, Operation
from ssbench.core.records import PhaseRecord
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steady import ThresholdWatch, can_watch
from ssbench.core.stats.thresholds import (
    METRICS,
    Threshold,
)
from ssbench.core.text import printable
from tests.core.stats.test_findings import open_run
from tests.core.workload.fleet import row
from tests.report import runs

MS, S = 1_000_000, 1_000_000_000


def stats_of(*rows: Result, **footer: Any) -> RunStats:
    records = [runs.header(), PhaseRecord(Phase.RUN, 0.0, 1)]
    return runs.stats_of([*records, *([runs.batch(rows)] if rows else []), runs.footer(**footer)])


def reads(count: int = 100, **changes: Any) -> list[Result]:
    """READs of 1, 2, 3, ... ms, over one second."""
    start = {"start_ns": 0, **changes}
    rows = [runs.result(n, READ, last_byte_ns=n * MS, **start) for n in range(1, count + 1)]
    rows[-1] = rows[-1]._replace(start_ns=S - rows[-1].last_byte_ns)
    return rows


SEEN = stats_of(
    *reads(99, retries=1),
    runs.result(100, CREATE, size_class=1, start_ns=0, last_byte_ns=50 * MS, bytes_moved=1 << 20),
    *(runs.failure(n, READ, start_ns=0, retries=0, rate_limited=n // 2 % 2) for n in range(4)),
    runs.failure(4, READ, start_ns=0, retries=0, rate_limited=1),
    lost=2,
    skipped={"READ": 3, "DELETE": 1},
    left_behind=7,
    left_unknown=1,
)


@pytest.mark.parametrize(
    ("text", "actual"),
    [
        ("p50(read) < 50.1ms", 50 * MS),
        ("p99.9(READ) <= 99 ms", 99 * MS),
        ("p100 == 0.099s", 99 * MS),
        ("min(READ,tiny) >= 1000us", MS),
        ("max(READ) < 1m", 99 * MS),
        ("mean(READ) == 50ms", 50 * MS),
        ("avg(GET) == 50ms", 50 * MS),
        ("service_average(get, tiny) == 50ms", 50 * MS),
        ("max(PUT) < 51ms", 50 * MS),
        ("max(small) < 51000µs", 50 * MS),
        ("service_p99(tiny, READ) > 98ms", 99 * MS),
        ("headers_mean <= 4ms", 4 * MS),
        ("first_byte_max(READ) < 4.1ms", 4.001 * MS),
        ("rate(READ) > 98.9/s", 99),
        ("rate(CREATE) > 19", 20),
        ("throughput(CREATE) >= 20MiB/s", 20 << 20),
        ("throughput(CREATE) < 21MB/s", 20 << 20),
        ("errors == 5", 5),
        ("errors < 4.77%", 500 / 105),
        ("errors(CREATE) <= 0", 0),
        ("retries == 99%", 99),
        ("retries(READ) <= 100 %", 100),
        ("lost < 3", 2),
        ("lost <= 1.87 %", 200 / 107),
        ("skipped == 4", 4),
        ("skipped < 3.61%", 400 / 111),
        ("left_behind <= 6", 6),
        ("rate_limited == 3", 3),
        ("rate_limited(READ) < 3 %", 300 / 104),
    ],
)
def test_a_threshold_met(text: str, actual: float) -> None:
    verdict = Threshold.parse(text).judge(SEEN)
    assert verdict.passed, verdict
    assert verdict.actual == pytest.approx(actual, rel=3e-4)


@pytest.mark.parametrize(
    "text",
    ["p50(READ) < 49ms", "max > 99ms", "rate(READ) > 101/s", "throughput(CREATE) >= 21MiB/s",
     "errors < 5", "errors < 4.76%", "retries == 98", "lost >= 3", "min(READ, tiny) == 2ms"],
)  # fmt: skip
def test_a_threshold_missed(text: str) -> None:
    assert not Threshold.parse(text).judge(SEEN).passed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("p99(UPDATE) < 1m", "no sample to judge by"),
        ("rate(UPDATE) >= 0", "no operation to judge by"),
        ("errors(UPDATE) < 1", "no operation to judge by"),
        ("response_p99 < 1m", "no operation had a due time: a closed loop"),
        ("late == 0", "no operation had a due time: a closed loop"),
        ("p99(huge) < 1m", "no sample to judge by"),
        ("first_byte_p99(CREATE) < 1m", "no sample to judge by"),
    ],
)
def test_a_threshold_without_data_is_missed(text: str, why: str) -> None:
    verdict = Threshold.parse(text).judge(SEEN)
    assert (verdict.passed, verdict.actual, verdict.why) == (False, None, why)


def test_lost_operations_are_unknown_without_a_footer() -> None:
    stats = runs.stats_of([runs.header(), runs.batch(reads())])
    for name in ("lost", "skipped", "left_behind"):
        verdict = Threshold.parse(f"{name} < 1").judge(stats)
        assert not verdict.passed
        assert "footer" in verdict.why


def test_an_open_loop_is_judged_by_what_it_never_started() -> None:
    stats = open_run(92, 100)
    assert Threshold.parse("late <= 80").judge(stats).passed
    assert Threshold.parse("late <= 8%").judge(stats).passed
    assert not Threshold.parse("late < 8%").judge(stats).passed
    assert not Threshold.parse("late == 0").judge(stats).passed
    assert Threshold.parse("late == 0").judge(open_run(100, 100)).passed
    stats.run.footer = None
    assert "footer" in Threshold.parse("late == 0").judge(stats).why
    with pytest.raises(UsageError, match="nothing is late; leave it out, or use a run with a rate"):
        Threshold.parse("late < 1%").check(stats.run.scenario, open_loop=False)
    Threshold.parse("late < 1%").check(stats.run.scenario, open_loop=True)


def test_a_percentile_close_to_its_limit_is_marked() -> None:
    stats = stats_of(*(runs.result(n, READ, last_byte_ns=50 * MS + n) for n in range(9)))
    assert Threshold.parse("p50 == 50ms").judge(stats).passed
    assert Threshold.parse("p50 < 50ms").judge(stats).borderline
    assert not Threshold.parse("p50 < 51ms").judge(stats).borderline
    assert not Threshold.parse("p50 == 51ms").judge(stats).passed
    assert not Threshold.parse("mean < 50ms").judge(stats).borderline


@pytest.mark.parametrize(
    ("text", "character", "right"),
    [
        ("", 1, "known are p50"),
        ("latency < 5ms", 1, "known are p50"),
        ("p999 < 5ms", 1, "did you mean p99.9?"),
        ("p9999 < 5ms", 1, "did you mean p99.99?"),
        ("p0 < 5ms", 1, "above p0"),
        ("p101 < 5ms", 1, "at most p100"),
        ("p99", 4, "one of < <= > >= =="),
        ("p99 = 5ms", 5, "write =="),
        ("p99 ≤ 5ms", 5, "write <="),
        ("p99 != 5ms", 5, "one of < <= > >= =="),
        ("p99 < ms", 7, "as in 50ms"),
        ("p99 < -5ms", 7, "as in 50ms"),
        ("p99 < 50", 9, "p99 needs a unit; one of us, ms, s, m"),
        ("p99 < 50MB/s", 9, "one of us, ms, s, m"),
        ("p99 < 50ms please", 9, "one of us, ms, s, m"),
        ("throughput > 5", 15, "one of B/s, kB/s"),
        ("rate > 5/m", 9, "one of /s, none"),
        ("errors < 1ms", 11, "one of none, %"),
        ("lost(READ) < 1", 5, "lost without brackets"),
        ("p99(READ < 5ms", 15, 'a ")"'),
        ("p99() < 5ms", 5, "an operation, a size class"),
        ("p99(READ,) < 5ms", 10, "an operation, a size class"),
        ("p99(tiny, small) < 5ms", 4, "(READ, tiny)"),
        ('p99("\\x") < 5ms', 5, 'as in "tiny"'),
        ("p99 < 123456789012345678901ms", 7, "as in 50ms"),
    ],
)
def test_malformed_thresholds_are_reported_with_the_position(
    text: str, character: int, right: str
) -> None:
    with pytest.raises(UsageError) as raised:
        Threshold.parse(text, "--slo")
    assert str(raised.value).startswith("--slo ")
    assert f": character {character}: " in str(raised.value)
    assert right in str(raised.value)


@given(st.text() | st.text('p9.5(READ,)<>= "ms%/\\', max_size=20))
@example('p99("\\ud800") < 5ms')
def test_any_other_text_is_a_threshold_error(text: str) -> None:
    """Invariant: a threshold, whose text means itself, or a UsageError of one line."""
    try:
        found = Threshold.parse(text)
    except UsageError as error:
        words = str(error)
    else:
        assert Threshold.parse(str(found)) == found
        found.judge(SEEN)
        words = str(found)
    assert printable(words) == words


latencies = st.builds(
    "{}{}".format,
    st.sampled_from(["", "service_", "response_", "first_byte_", "headers_"]),
    st.sampled_from(["mean", "min", "max", "p50", "p99.9", "p0.000001", "p100"]),
)
names = st.text(min_size=1) | st.sampled_from(["read", "a b", "10% (x)", 'say "hi"', " x "])
scopes = st.tuples(st.none() | st.sampled_from(CRUD), st.none() | names)
numbers = st.decimals(0, 10**9, places=3, allow_nan=False)


@given(st.one_of(
    st.tuples(latencies, st.sampled_from(["us", "ms", "s", "m"]), scopes),
    st.tuples(st.sampled_from(["errors", "retries"]), st.sampled_from(["", "%"]), scopes),
    st.tuples(st.just("throughput"), st.sampled_from(list(METRICS["throughput"].units)), scopes),
), st.sampled_from(["<", "<=", ">", ">=", "=="]), numbers)  # fmt: skip
def test_the_text_of_a_threshold_round_trips(
    what: tuple[str, str, tuple[Operation | None, str | None]], sign: str, number: Decimal
) -> None:
    """Invariant: parse(str(threshold)) equals it, whatever a size class is called."""
    metric, unit, (operation, size_class) = what
    threshold = Threshold(metric, sign, number, unit, operation, size_class)
    assert Threshold.parse(str(threshold)) == threshold


SCENARIO = Scenario.of_header(
    {
        "sizes": [
            {"name": "tiny", "crud_profile": [0, 1, 0, 0]},
            {"name": "small", "crud_profile": [1, 1, 1, 0]},
            {"name": "unused", "crud_profile": [1, 1, 1, 1]},
        ],
        "initial_files": {"tiny": 5, "small": 5},
    }
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p99(tinny) < 1s", 'no size class "tinny"; did you mean "tiny"?'),
        (
            "p99(RED) < 1s",
            '"RED", nor is that an operation; operations: READ, CREATE, UPDATE; size',
        ),
        ("p99(CREATE, tiny) < 1s", 'does no CREATE of "tiny"; its operations are READ'),
        ("p99(DELETE) < 1s", "does no DELETE;"),
        ("p99(READ, unused) < 1s", 'does no READ of "unused"'),
        ("response_p99 < 1s", "a closed loop has no due times"),
    ],
)
def test_thresholds_on_other_operations_are_rejected(text: str, words: str) -> None:
    with pytest.raises(UsageError, match="threshold ") as raised:
        Threshold.parse(text).check(SCENARIO, open_loop=False)
    assert words in str(raised.value)
    Threshold.parse("response_p99 < 1s").check(SCENARIO, open_loop=True)


@pytest.mark.parametrize("text", ["p99(ENSURE) < 1s", "p99(ensured, removed) < 1s"])
def test_operations_of_other_phases_are_not_offered(text: str) -> None:
    with pytest.raises(UsageError, match=r"READ, .*HEAD, ") as raised:
        Threshold.parse(text).check(Scenario.of_header({}))
    assert "ENSURE, " not in str(raised.value)
    assert "REMOVE, " not in str(raised.value)


def test_a_scope_goes_by_the_operations_of_the_run_where_these_are_known() -> None:
    peek = Operation(99, "PEEK", Effect.NONE, alias="LOOK")
    for text in ("p99(PEEK, tiny) < 1s", "p99(look,tiny) < 1s", "p99(tiny, peek) < 1s"):
        found = Threshold.parse(text, known={99: peek})
        assert (found.operation, found.size_class) == (peek, "tiny")
        Threshold.parse(text, known=None)
    with pytest.raises(UsageError, match='neither "PEEK" nor "tiny" is an operation'):
        Threshold.parse("p99(PEEK, tiny) < 1s")
    with pytest.raises(UsageError, match="character 20: the bracket is not closed"):
        Threshold.parse("p99(PEEK, tiny < 1s", known=None)


# While a run lasts

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
