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

from ssbench.core.columns import (
    RESULT_COLUMNS,
    PackedColumn,
    pack_column,
    pack_ids,
    pack_optional,
    pack_results,
)
from ssbench.core.dispatch.result_bounds import ResultBounds
from ssbench.core.errors import MessageError
from ssbench.core.hiding import Secrets
from ssbench.core.model import NONE_NS, UNCERTAIN_NS, ErrorKind, Job, Result, Timing
from ssbench.core.operations import OPERATIONS, RECEIVING

#: (Job, start in ns on the clock, Timing) for a success at the first attempt; otherwise its row.
Completed = tuple[Job, int, Timing] | Result

_NEVER_NS = 1 << 62
_IDS = [name for name in Result._fields if RESULT_COLUMNS[name].kind == "id"]
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
    if Result in set(map(type, finished)):
        rows = rows_of(finished, origin_ns)
        return pack_results([_masked(row, secrets) for row in rows])
    quick: Any = finished
    jobs, starts, timings = zip(*quick, strict=True)
    numbers, operations, classes, objects, _, _, dues, others, _, groups = zip(*jobs, strict=True)
    (
        heads, firsts, lasts, moved, statuses, ids, urls, reconnects, items, each, pages, to,
        parts, part_ids, version_ids,
    ) = zip(*timings, strict=True)  # fmt: skip
    if secrets.are_in(b" ".join(ids + part_ids + version_ids)):
        ids, part_ids, version_ids = (
            tuple(map(secrets.masked_id, each)) for each in (ids, part_ids, version_ids)
        )
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
    renewed_ns = [0] * len(finished)
    return packed + pack_optional(
        (items, others, each, groups, renewed_ns, pages, to, parts, part_ids, version_ids)
    )


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
    return entry.operation if isinstance(entry, Result) else entry[0].operation


def _impossible(entry: Completed, origin_ns: int, now_ns: int) -> Result:
    """The row of an error instead of figures that can't be."""
    if isinstance(entry, Result):
        number, operation, size_class, obj, due_ns = entry[:5]
        job = Job(number, operation, size_class, obj, 0, 0, due_ns, entry.others, (), entry.group)
        start_ns = origin_ns + entry.start_ns
    else:
        job, start_ns, _ = entry
    ended = Timing(start_ns, start_ns, now_ns, 0, 0)
    return result_of(job, start_ns, ended, origin_ns)._replace(
        headers_ns=NONE_NS, first_byte_ns=NONE_NS, error=int(ErrorKind.IMPOSSIBLE),
        detail=_IMPOSSIBLE,
    )  # fmt: skip


def rows_of(finished: Sequence[Completed], origin_ns: int) -> list[Result]:
    """All of them as rows."""
    return [each if isinstance(each, Result) else result_of(*each, origin_ns) for each in finished]


def _masked(row: Result, secrets: Secrets) -> Result:
    ids: Any = {name: secrets.masked_id(getattr(row, name)) for name in _IDS}
    return row._replace(detail=secrets.masked(row.detail), **ids)


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


def result_of(job: Job, start_ns: int, timing: Timing, origin_ns: int) -> Result:
    """The row of an operation that succeeded at the first attempt."""
    first_ns = NONE_NS
    if job.operation in RECEIVING:
        first_ns = duration_ns(timing.first_byte_ns, start_ns)
    return Result(
        job.number, job.operation, job.size_class, job.object, job.due_ns,
        start_ns - origin_ns, duration_ns(timing.headers_ns, start_ns), first_ns,
        last_ns(timing.last_byte_ns, start_ns), timing.bytes_moved, 0, 0, 0,
        timing.reconnects, 0, timing.url, timing.status, 0, 0,
        timing.transaction_id, "", timing.items, job.others, timing.statuses, job.group, 0,
        timing.pages, timing.address, timing.parts, timing.part_id,
        timing.version_id,
    )  # fmt: skip
