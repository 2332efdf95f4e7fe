"""The jobs of one phase at a worker, from their arrival to the batch of columns that reports them.

Nearly all operations succeed at the first attempt. For these, only objects that exist anyway are
kept: the job, its start time and the driver's Timing. The columns of Result are then made from all
of them at once, in two thirds of the time that one row per operation takes. All other operations
are kept as rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice
from operator import sub
from typing import Any

from ssbench.core.columns import PackedColumn, pack_column, pack_ids, pack_optional, pack_results
from ssbench.core.dispatch.result_bounds import ResultBounds
from ssbench.core.errors import MessageError
from ssbench.core.hiding import Secrets
from ssbench.core.model import NONE_NS, UNCERTAIN_NS, ErrorKind, Job, Result
from ssbench.core.operations import OPERATIONS, RECEIVING

Row = tuple[Any, ...]  #: in the order of Result's fields
#: (Job, start in ns on the clock, Timing) for a success at the first attempt; otherwise a Row.
Completed = tuple[Any, ...]

_NEVER_NS = 1 << 62
_WIDTH = len(Result._fields)
_ID, _DETAIL, _HEADERS, _OTHERS, _GROUP = map(
    Result._fields.index, ("transaction_id", "detail", "headers_ns", "others", "group")
)
_IMPOSSIBLE = "the driver gave figures that no operation can have"
_NONE = Secrets()


class HeldJobs:
    """The jobs of one phase at a worker, from their arrival to their report.

    User greenlets work on the attributes directly: a call per operation would cost too much.
    """

    __slots__ = (
        "busy", "delayed", "finished", "lease_expires_ns", "queues", "quick", "reported", "share",
        "users",
    )  # fmt: skip

    def __init__(self, lease_expires_ns: int = _NEVER_NS, groups: int = 1) -> None:
        #: By group of users, which start these from the left.
        self.queues: list[deque[Job]] = [deque() for _ in range(groups)]
        self.delayed: list[tuple[int, int, Job]] = []  #: heap of (due_ns, number, job)
        self.finished: list[Completed] = []  #: operations that are not yet reported
        self.users = [0] * groups  #: number of users that there are to be, by group
        self.share = 1.0  #: of all users of the run that are this worker's
        self.busy = 0  #: operations in flight
        self.quick = 0  #: jobs to hold at least: those that a quick store does in 10 ms
        self.reported = 0  #: operations so far
        self.lease_expires_ns = lease_expires_ns  #: no operation starts later

    def __repr__(self) -> str:
        return f"<HeldJobs {self.busy} busy of {sum(self.users)}, {self.queued} queued>"

    @property
    def queued(self) -> int:
        """Jobs that users can start now."""
        return sum(map(len, self.queues))

    @property
    def total(self) -> int:
        """Jobs that are delayed, queued, in flight, or completed and not yet reported."""
        return len(self.delayed) + self.queued + self.busy + len(self.finished)

    @property
    def idle_users(self) -> int:
        """Users without an operation, and without a job in the queue."""
        return max(sum(self.users) - self.busy - self.queued - len(self.delayed), 0)

    @property
    def is_short(self) -> bool:
        """Whether a group that has users has no job in its queue."""
        return any(not queue for queue, users in zip(self.queues, self.users, strict=True) if users)

    @property
    def wants_more(self) -> bool:
        """Whether to fetch more jobs: one per user is to be queued, and one more per idle user.

        If a group has none, jobs of others may be in front of its own: the master limits those.
        """
        if len(self.queues) > 1 and self.is_short:
            return True
        return self.queued < max(2 * sum(self.users) - self.busy, self.quick)

    def add(self, jobs: Sequence[Job]) -> None:
        """Queue a batch. All of it has due times (``release_due`` queues those), or none, and all
        of it is of one group."""
        if jobs and jobs[0].due_ns >= 0:
            for job in jobs:
                heappush(self.delayed, (job.due_ns, job.number, job))
        elif jobs:
            self.queues[jobs[0].group].extend(jobs)

    def release_due(self, offset_ns: int) -> None:
        """Queue the jobs that are due at this offset from the phase's start, in that order."""
        while self.delayed and self.delayed[0][0] <= offset_ns:
            job = heappop(self.delayed)[2]
            self.queues[job.group].append(job)

    def remove_unstarted(self, *, keep_for_idle: bool = False) -> list[int]:
        """Remove jobs that were not started; returns their numbers.

        :param keep_for_idle: keep one for each user without an operation, and the delayed ones.
        """
        numbers = []
        idle = max(sum(self.users) - self.busy, 0) if keep_for_idle else 0
        for queue, users in zip(self.queues, self.users, strict=True):
            returned = [job.number for job in islice(queue, min(idle, users), None)]
            numbers += returned
            for _ in returned:
                queue.pop()
        if not keep_for_idle:
            numbers += [number for _, number, _ in self.delayed]
            self.delayed.clear()
        return numbers


def pack_completed(
    finished: Sequence[Completed], origin_ns: int, secrets: Secrets = _NONE
) -> list[Any]:
    """The result of ``pack_results`` for their rows.

    :param origin_ns: the phase's start on the clock.
    :param secrets: masked where the store sent them back.
    """
    if max(map(len, finished)) == _WIDTH:
        rows = rows_of(finished, origin_ns)
        return pack_results([_masked(row, secrets) for row in rows])
    jobs, starts, timings = zip(*finished, strict=True)
    numbers, operations, classes, objects, _, _, dues, others, _, groups = zip(*jobs, strict=True)
    (
        heads, firsts, lasts, moved, statuses, ids, urls, reconnects, items, each, pages, to,
        parts, part_ids,
    ) = zip(*timings, strict=True)  # fmt: skip
    if secrets.are_in(b" ".join(ids)):
        ids = tuple(map(secrets.masked_id, ids))
    began = _pack_offsets(starts, origin_ns)
    header_ns = _durations(heads, starts)
    headers = pack_column(header_ns)
    # The same for responses that arrive in one piece, as most do.
    first_ns = header_ns if firsts == heads else _durations(firsts, starts)
    last = headers if lasts == heads else _pack_lasts(lasts, starts)
    kinds = set(operations)
    if RECEIVING.isdisjoint(kinds):
        first: PackedColumn = NONE_NS
    elif RECEIVING.issuperset(kinds):
        first = headers if first_ns is header_ns else pack_column(first_ns)
    else:
        received = map(RECEIVING.__contains__, operations)
        first = pack_column(
            [ns if here else NONE_NS for ns, here in zip(first_ns, received, strict=True)]
        )
    packed = [
        len(finished), *map(pack_column, (numbers, operations, classes, objects, dues)),
        began, headers, first, last, pack_column(moved), 0, 0, 0, pack_column(reconnects), 0,
        pack_column(urls), pack_column(statuses), 0, 0, pack_ids(ids), [],
    ]  # fmt: skip
    count = len(finished)
    zeros = items.count(0), groups.count(0), pages.count(0), to.count(0)
    lists = others.count(()), each.count(()), parts.count(())
    if {*zeros, *lists} != {count}:
        renewed_ns = [0] * count
        packed += pack_optional(items, others, each, groups, renewed_ns, pages, to, parts, part_ids)
    return packed


def pack_possible(
    finished: Sequence[Completed],
    origin_ns: int,
    secrets: Secrets,
    bounds: ResultBounds,
    now_ns: int,
) -> list[Any]:
    """``pack_completed``, where operations whose figures the master would reject, and with them the
    whole message, are errors.
    """
    columns = _pack_bounded(finished, origin_ns, secrets, bounds, now_ns)
    if columns is not None:
        return columns
    possible = [
        entry
        if _operation(entry) not in OPERATIONS  # a newer master's: its row is an error already
        or _pack_bounded([entry], origin_ns, secrets, bounds, now_ns)
        else _impossible(entry, origin_ns, now_ns)
        for entry in finished
    ]
    return pack_completed(possible, origin_ns, secrets)


def _pack_bounded(
    finished: Sequence[Completed],
    origin_ns: int,
    secrets: Secrets,
    bounds: ResultBounds,
    now_ns: int,
) -> list[Any] | None:
    """The columns; None if the master would reject them, or they can't be packed at all."""
    try:
        columns = pack_completed(finished, origin_ns, secrets)
        bounds.check(columns, now_ns)
    except (MessageError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None
    return columns


def _operation(entry: Completed) -> int:
    operation: int = entry[1] if len(entry) == _WIDTH else entry[0].operation
    return operation


def _impossible(entry: Completed, origin_ns: int, now_ns: int) -> Row:
    """The row of an error instead of figures that can't be."""
    if len(entry) == _WIDTH:
        number, operation, size_class, obj, due_ns, start_ns = entry[:_HEADERS]
        others, group = entry[_OTHERS], entry[_GROUP]
    else:
        (number, operation, size_class, obj, _, _, due_ns, others, _, group), start_ns, _ = entry
        start_ns -= origin_ns
    return (
        number, operation, size_class, obj, due_ns, start_ns, NONE_NS, NONE_NS,
        max(now_ns - origin_ns - start_ns, 0), 0, 0, 0, 0, 0, 0, 0, 0, int(ErrorKind.IMPOSSIBLE), 0,
        b"", _IMPOSSIBLE, 0, others, (), group, 0, 0, 0, (), b"",
    )  # fmt: skip


def rows_of(finished: Sequence[Completed], origin_ns: int) -> list[Row]:
    """All of them as rows of Result's fields."""
    return [entry if len(entry) == _WIDTH else _row(entry, origin_ns) for entry in finished]


def _masked(row: Row, secrets: Secrets) -> Row:
    found = secrets.masked_id(row[_ID]), secrets.masked(row[_DETAIL])
    if found == (row[_ID], row[_DETAIL]):
        return row
    return (*row[:_ID], *found, *row[_DETAIL + 1 :])


def duration_ns(at_ns: int, start_ns: int) -> int:
    """From start to a time of a Timing; UNCERTAIN_NS where that would be negative: the time is
    marked so, or the wall clock that the kernel's stamps are of was set meanwhile.
    """
    return at_ns - start_ns if at_ns >= start_ns else UNCERTAIN_NS


def last_ns(at_ns: int, start_ns: int) -> int:
    """From start to the last byte; never negative, whatever the wall clock did meanwhile."""
    return max(at_ns - start_ns, 0)


def _pack_offsets(starts: Sequence[int], origin_ns: int) -> PackedColumn:
    """Starts on the clock as offsets from ``origin_ns``, mostly without computing each."""
    packed = pack_column(starts)
    if isinstance(packed, int):
        return packed - origin_ns
    if packed[0]:
        return [packed[0] - origin_ns, *packed[1:]]
    # Packed as they are, because they are more than 4 s apart: the base must stay a lower bound
    # that is near them, by which the master tells possible starts from impossible ones.
    return pack_column([start - origin_ns for start in starts])


def _durations(times: Sequence[int], starts: Sequence[int]) -> list[int]:
    """``duration_ns`` of each; negative differences are rare."""
    spans = list(map(sub, times, starts))
    return spans if min(spans) >= 0 else list(map(duration_ns, times, starts))


def _pack_lasts(times: Sequence[int], starts: Sequence[int]) -> PackedColumn:
    """Packed ``last_ns`` of each."""
    packed = pack_column(list(map(sub, times, starts)))
    least = packed if isinstance(packed, int) else packed[0]
    return packed if least >= 0 else pack_column(list(map(last_ns, times, starts)))


def _row(done: Completed, origin_ns: int) -> Row:
    job, start_ns, timing = done
    first_ns = NONE_NS
    if job.operation in RECEIVING:
        first_ns = duration_ns(timing.first_byte_ns, start_ns)
    return (
        job.number, job.operation, job.size_class, job.object, job.due_ns,
        start_ns - origin_ns, duration_ns(timing.headers_ns, start_ns), first_ns,
        last_ns(timing.last_byte_ns, start_ns), timing.bytes_moved, 0, 0, 0,
        timing.reconnects, 0, timing.url, timing.status, 0, 0,
        timing.transaction_id, "", timing.items, job.others, timing.statuses, job.group, 0,
        timing.pages, timing.address, timing.parts, timing.part_id,
    )  # fmt: skip
