"""What a run's rates are divided by, and what was under way around the load's end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from ssbench.core.stats.batches import Part
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.stats.tally import SHARE, Basis, Throughput
from ssbench.core.stats.windows import before
from ssbench.core.stats.windows_of_stages import SECOND_NS, Span

#: That are looked at for what was under way at the last start: of a part, and of all in all.
_LEAST_ROWS, _MOST_ROWS = 1 << 8, 1 << 16
_MOST_WAITING = 1 << 8  #: parts


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


class _Waiting(NamedTuple):
    """Rows that may have been under way at the last start."""

    last_ns: int  #: of all its times
    failed: bool
    lows: Sequence[int]
    highs: Sequence[int]
    sizes: Sequence[int]  #: bytes moved


class LastStart:
    """When the last operation began, and what was done until then.

    A run that ends with its operations has fewer and fewer users at work from then on. What was
    under way then is among the last rows of each worker, as they come in the order of completion:
    only so many as there may be users are looked at.

    Parts wait, and most of them are passed over unseen: those that ended before some later
    operation began.

    :param users: how many operations may be under way at once.
    """

    def __init__(self, users: int | None) -> None:
        self._at_ns: int | None = None
        self._most = min(max(_LEAST_ROWS, 2 * (users or 0)), _MOST_ROWS)
        #: (start, end, bytes) of successes that end later than that; (due, due, bytes) of others.
        self._rows: list[tuple[int, int, int]] = []
        self._begun_ns = -sys.maxsize  # the last start isn't before
        self._waiting: list[_Waiting] = []
        self._waiting_rows = 0

    def __repr__(self) -> str:
        return f"<LastStart at {self.at_ns} ns, {len(self._rows)} rows under way>"

    @property
    def at_ns(self) -> int | None:
        """The last start, or due time, as an offset from the run phase's start; None of none."""
        self._settle()
        return self._at_ns

    def add(self, part: Part) -> None:
        """Take note of some operations that count."""
        lows, _highs = part.extents_ns
        first_ns, last_ns = part.range_ns
        self._begun_ns = max(self._begun_ns, first_ns, lows[-1])
        if last_ns < self._begun_ns:
            return
        most = self._most
        columns = [*part.extents_ns, part.column("bytes_moved")]
        if len(part) > most:
            columns = [column[-most:] for column in columns]
        self._waiting.append(_Waiting(last_ns, part.failed, *columns))
        self._waiting_rows += len(columns[0])
        if len(self._waiting) >= _MOST_WAITING or self._waiting_rows > _MOST_ROWS:
            self._pass_over()

    def merge(self, other: LastStart) -> None:
        """Add ``other``, which stays as it is."""
        at_ns = other.at_ns
        self._settle()
        self._rows += other._rows
        if at_ns is not None:
            self._move_to(at_ns)

    def _pass_over(self) -> None:
        self._waiting = [each for each in self._waiting if each.last_ns >= self._begun_ns]
        self._waiting_rows = sum(len(each.lows) for each in self._waiting)
        if len(self._waiting) > _MOST_WAITING // 2 or self._waiting_rows > _MOST_ROWS // 2:
            self._settle()

    def _settle(self) -> None:
        waiting, self._waiting, self._waiting_rows = self._waiting, [], 0
        if not waiting:
            return
        at_ns = max(self._begun_ns, *(max(each.lows) for each in waiting))
        for each in waiting:
            if not each.failed and each.last_ns >= at_ns:
                rows = zip(each.lows, each.highs, each.sizes, strict=True)
                self._rows += [row for row in rows if row[1] >= at_ns]
        self._move_to(at_ns)

    def _move_to(self, at_ns: int) -> None:
        self._at_ns = at_ns = at_ns if self._at_ns is None else max(self._at_ns, at_ns)
        self._rows = [row for row in self._rows if row[1] >= at_ns][-_MOST_ROWS:]

    def until(self, count: int, moved_bytes: int, first_ns: int) -> Throughput:
        """What was done up to the last start.

        :param count: all successes, and ``moved_bytes`` that they moved.
        :param first_ns: the first start.
        """
        last_ns = self.at_ns
        at_ns = first_ns if last_ns is None else last_ns
        sizes = [size for _low, _high, size in self._rows]
        shares, byte_shares = before(at_ns, self._rows)
        operations = (count - len(sizes)) * SHARE + shares
        moved = (moved_bytes - sum(sizes)) * SHARE + byte_shares
        seconds = (at_ns - first_ns) / SECOND_NS
        return Throughput(operations / SHARE, moved / SHARE, seconds if seconds > 0 else None)
