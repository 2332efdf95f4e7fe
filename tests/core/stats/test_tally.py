"""Sums that merge."""

from __future__ import annotations

from ssbench.core.model import NONE_NS, UNCERTAIN_NS
from ssbench.core.stats.durations import Durations
from ssbench.core.stats.tally import Counts, ErrorExample, ErrorTally, Latency, Tally, merged


def test_negative_durations_are_none() -> None:
    latency = Latency()
    latency.add(Durations([-1, -1]), [b"a", b"b"])
    assert latency.worst is None
    latency.add(Durations([-1, 0, 5]), [b"a", b"b", b"c"])
    assert (latency.histogram.count, latency.histogram.min) == (2, 0)
    assert latency.worst == (5, b"c")


def test_of_equally_slow_ones_the_choice_does_not_depend_on_the_order() -> None:
    one, other = Latency(), Latency()
    one.add(Durations([5, 5]), [b"a", b"b"])
    other.add(Durations([5]), [b"b"])
    other.add(Durations([5]), [b"a"])
    assert one.worst == other.worst == (5, b"b")


def test_no_time_no_rate() -> None:
    counts = Counts()
    counts.count = 1
    assert (counts.seconds, counts.rate_per_s, counts.bytes_per_s) == (None, None, None)
    counts.span(5, 5)
    assert counts.rate_per_s is None


def test_a_merge_leaves_the_other_as_it_was() -> None:
    part = Tally()
    part.count, part.bytes_moved = 2, 10
    part.span(100, 300)
    part.last_byte.add(Durations([7]), [b"x"])
    total = merged(Tally(), [part, part])
    assert (total.count, total.bytes_moved, total.last_byte.histogram.count) == (4, 20, 2)
    assert (part.count, part.bytes_moved, part.last_byte.histogram.count) == (2, 10, 1)


def test_the_earlier_example_wins() -> None:
    early, late = (ErrorTally(1, ErrorExample(at, 0, "", b"")) for at in (1, 2))
    assert early.plus(late) == late.plus(early) == ErrorTally(2, early.example)


def test_uncertain_durations_are_counted_and_in_no_figure() -> None:
    one, other = Latency(), Latency()
    one.add(Durations([UNCERTAIN_NS, NONE_NS, 7, UNCERTAIN_NS]), [b"a", b"b", b"c", b"d"])
    other.add(Durations([UNCERTAIN_NS]), [b"e"])
    other.add(Durations([NONE_NS]), [b"f"])
    one.merge(other)
    assert (one.uncertain, one.histogram.count, one.worst) == (3, 1, (7, b"c"))
    assert one.histogram.out_of_range == 0
