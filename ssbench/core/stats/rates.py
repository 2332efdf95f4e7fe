"""What a run's rates are divided by, and what was under way around the load's end."""

from __future__ import annotations

from ssbench.core.stats.batches import Part
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.tally import SHARE, Basis, Throughput
from ssbench.core.stats.windows import before, extents
from ssbench.core.stats.windows_of_stages import SECOND_NS, Span

#: That are looked at for what was under way at the last start: of a part, and of all in all.
_LEAST_ROWS, _MOST_ROWS = 1 << 8, 1 << 16


def basis_of(run: RunRecords, finished: int) -> Basis:
    """What its rates are counted by.

    :param finished: operations of the run phase that are among the records, failed or left out.
    """
    if run.legacy:
        return Basis.LEGACY
    footer, planned = run.footer, run.scenario.operation_count
    given_out = finished + run.lost if run.sent is None else run.sent
    if planned is not None and given_out == planned:
        return Basis.COMPLETED
    if footer is not None and footer.ended == "exhausted":
        return Basis.COMPLETED
    if len(run.headers) != 1 or run.end_ns is None or not run.stages:
        return Basis.UNKNOWN_END
    return Basis.DUE if any(mark.rate for mark in run.stages) else Basis.SHARE


def rate_windows(run: RunRecords, basis: Basis, first_ns: int | None) -> list[Span] | None:
    """The window of each stage; None where rates are of the span from first start to last end.

    :param first_ns: the first start that counts, as an offset from the run phase's start.
    """
    if basis not in (Basis.DUE, Basis.SHARE):
        return None
    windows = run.spans
    begin_ns, (low_ns, high_ns) = run.stages[0].at_ns, windows[0]
    # Due times count from the mark. Users begin a little later: they are told to.
    if basis is Basis.SHARE and low_ns == begin_ns and begin_ns < (first_ns or 0) < high_ns:
        windows[0] = Span(first_ns or 0, high_ns)
    return windows


class LastStart:
    """When the last operation began, and what was done until then.

    A run that ends with its operations has fewer and fewer users at work from then on. What was
    under way then is among the last rows of each worker, as they come in the order of completion:
    only so many as there may be users are looked at.

    :param users: how many operations may be under way at once.
    """

    def __init__(self, users: int | None) -> None:
        self.at_ns: int | None = None  #: as an offset from the run phase's start; or due
        self._most = min(max(_LEAST_ROWS, 2 * (users or 0)), _MOST_ROWS)
        #: (start, end, bytes) of successes that end later than that; (due, due, bytes) of others.
        self._rows: list[tuple[int, int, int]] = []

    def __repr__(self) -> str:
        return f"<LastStart at {self.at_ns} ns, {len(self._rows)} rows under way>"

    def add(self, part: Part) -> None:
        """Take note of some operations that count."""
        lows, highs, sizes = (
            column[-self._most :] for column in (*extents(part), part.column("bytes_moved"))
        )
        self._rows += [] if part.failed else zip(lows, highs, sizes, strict=True)
        self._move_to(max(lows))

    def merge(self, other: LastStart) -> None:
        """Add ``other``, which stays as it is."""
        self._rows += other._rows
        if other.at_ns is not None:
            self._move_to(other.at_ns)

    def _move_to(self, at_ns: int) -> None:
        self.at_ns = at_ns = at_ns if self.at_ns is None else max(self.at_ns, at_ns)
        self._rows = [row for row in self._rows if row[1] >= at_ns][-_MOST_ROWS:]

    def until(self, count: int, moved_bytes: int, first_ns: int) -> Throughput:
        """What was done up to the last start.

        :param count: all successes, and ``moved_bytes`` that they moved.
        :param first_ns: the first start.
        """
        at_ns = first_ns if self.at_ns is None else self.at_ns
        sizes = [size for _low, _high, size in self._rows]
        shares, byte_shares = before(at_ns, self._rows)
        operations = (count - len(sizes)) * SHARE + shares
        moved = (moved_bytes - sum(sizes)) * SHARE + byte_shares
        seconds = (at_ns - first_ns) / SECOND_NS
        return Throughput(operations / SHARE, moved / SHARE, seconds if seconds > 0 else None)
