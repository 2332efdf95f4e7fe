"""When operations completed, by whole seconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

SECOND_NS = 1_000_000_000
#: Completions later than this after the run's start (115 days) can't be true: they are counted
#: apart, so that a damaged file can't ask for a row for each second up to them.
MAX_SECONDS = 10_000_000


class Timeline:
    """Counts of completions, merged without cutting anybody's seconds anew.

    Two runs that began at different fractions of a second keep their own seconds until
    ``per_second`` lays them side by side; so the order of merges doesn't matter.
    """

    def __init__(self) -> None:
        self.untimed = 0  #: completions at times that can't be true
        self._series: defaultdict[int, Counter[int]] = defaultdict(Counter)

    def __repr__(self) -> str:
        return f"<Timeline {len(self._series)} runs, {self.untimed} untimed>"

    def add(self, ends_ns: Sequence[int], origin_ns: int) -> None:
        """Count completions.

        :param ends_ns: offsets from the origin.
        :param origin_ns: wall clock; the seconds count from it.
        """
        if not ends_ns:
            return
        first, last = min(ends_ns) // SECOND_NS, max(ends_ns) // SECOND_NS
        if first == last and abs(last) <= MAX_SECONDS:
            self._series[origin_ns][first] += len(ends_ns)
            return
        seconds = [end // SECOND_NS for end in ends_ns]
        true = [second for second in seconds if abs(second) <= MAX_SECONDS]
        self.untimed += len(seconds) - len(true)
        if true:
            self._series[origin_ns].update(true)

    def merge(self, other: Timeline) -> None:
        """Add ``other``, which stays as it is."""
        self.untimed += other.untimed
        for origin, seconds in other._series.items():
            self._series[origin].update(seconds)

    def per_second(self, *, from_first: bool = False) -> list[int]:
        """Completions in each second from the earliest origin on, without a gap.

        :param from_first: begin at the first completion instead.
        """
        if not self._series:
            return []
        zero = min(self._series)
        found: Counter[int] = Counter()
        for origin, seconds in self._series.items():
            shift = (origin - zero) // SECOND_NS
            for second, count in seconds.items():
                found[shift + second] += count
        first = min(found) if from_first else min(0, *found)
        last = min(max(found), first + MAX_SECONDS)
        return [found[second] for second in range(first, last + 1)]
