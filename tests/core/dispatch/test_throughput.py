"""How fast results come."""

from __future__ import annotations

from ssbench.core.dispatch.dispatcher import ThroughputMeter
from ssbench.core.model import SECOND_NS

MS = SECOND_NS // 1000


def measured(*counts: int, every_ns: int) -> tuple[ThroughputMeter, int]:
    """So many results each time, from a second on; with the time of the last."""
    meter, now_ns = ThroughputMeter(), SECOND_NS
    meter.begin(now_ns)
    for count in counts:
        now_ns += every_ns
        meter.add(count, now_ns)
    return meter, now_ns


def test_throughput_covers_the_last_seconds() -> None:
    assert measured(*[50] * 10, every_ns=100 * MS)[0].per_s == 500
    meter, _ = measured(*[50] * 100, *[1] * 60, every_ns=100 * MS)
    assert 9 < meter.per_s < 12
    assert "0/s" in repr(meter)


def test_throughput_is_zero_before_the_first_result() -> None:
    meter, now_ns = measured(every_ns=SECOND_NS)
    assert meter.per_s == 0
    assert meter.expected_ns(1000, now_ns) == 0


def test_many_results_at_once_read_the_clock_once() -> None:
    meter, _ = measured(*[1] * 9, every_ns=MS)
    assert meter.per_s == 0
    meter, _ = measured(*[1] * 10, every_ns=MS)
    assert meter.per_s == 1000


def test_the_age_of_jobs_in_flight_bounds_throughput() -> None:
    meter, now_ns = measured(*[50] * 10, every_ns=100 * MS)
    assert meter.expected_ns(250, now_ns) == SECOND_NS // 2


def test_a_silent_worker_keeps_its_throughput_for_a_while() -> None:
    meter, now_ns = measured(*[50] * 10, every_ns=100 * MS)
    assert meter.expected_ns(250, now_ns + 8 * SECOND_NS) == 4 * SECOND_NS
    silent, begun_ns = measured(every_ns=SECOND_NS)
    assert silent.expected_ns(250, begun_ns + SECOND_NS) == SECOND_NS // 2
