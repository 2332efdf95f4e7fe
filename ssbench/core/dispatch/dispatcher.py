"""Job accounting of one phase in the master: in flight, returned, lost, and what to send next.

A job goes SENT -> HELD(worker) -> done, failed or lost::

    workload.take ──▶ to_send ──▶ SENT ──ack──▶ HELD ──results──▶ done / failed
                        ▲          │              │
                        │   no ack in time        ├─returned──▶ sent again, or withdrawn
                        └──under new numbers      └─worker lost──▶ lost

No sockets, no clock: times are arguments, in nanoseconds of the master's monotonic clock.
Every job that ``to_send`` returned is counted once in ``JobCounts``.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from math import ceil
from operator import itemgetter
from typing import Any

from msgspec import Struct, field

from ssbench.core.columns import (
    MAX_ARGUMENT_BYTES,
    layout,
    unpack_column,
    unpack_details,
    unpack_ids,
    unpack_ints,
    unpack_lengths,
)
from ssbench.core.dispatch.result_bounds import ResultBounds
from ssbench.core.dispatch.workers import EARNED_BY_BATCH, Workers
from ssbench.core.errors import MessageError
from ssbench.core.model import SECOND_NS, ErrorKind, Failure, Job, Phase, Result
from ssbench.core.text import plural, said
from ssbench.core.workload.workload import Workload

MAX_BATCH = 256
#: Credit per user: one job in progress and one queued.
CREDIT = 2
#: In addition, a batch may be in transit to each worker, or as many jobs as it completes in 10 ms,
#: up to this many. With a fast store, each wake-up of a worker then yields several jobs. With a
#: slow store, more jobs would only be drawn too early, and block their objects meanwhile.
MAX_IN_TRANSIT = 128
_IN_TRANSIT_S = 0.01
#: With a fast store, a batch may hold the jobs that its worker completes in that time, up to this
#: many, however few users there are; and two such batches may be in transit.
QUICK_BATCH = 128
#: A batch in transit counts against the credit for at least this long, and for 1.25 times the time
#: in which all waiting jobs should have started. After that it does not, so that batches in a
#: stopped worker's buffers don't starve the other workers. (With a shorter time, more and more
#: batches that wait at busy workers are uncounted; with 1.5 times, other workers starved.)
IN_TRANSIT_NS = SECOND_NS // 10
#: How long jobs may be unevenly distributed at the end of a phase before workers return them.
REBALANCE_AFTER_NS = SECOND_NS // 4
#: The longest pause of sending while workers that have lost their users return their jobs. Half of
#: it may pass until nothing is in transit, as busy workers read their sockets late.
DRAIN_NS = SECOND_NS
#: How long sending pauses after ZeroMQ announced the end of a connection: it looks for changes of
#: the socket's pipes at least every millisecond.
CLOSED_NS = SECOND_NS // 200
#: Sending pauses for at most this long in a row, as draining and closing may follow each other, and
#: for a tenth of the time: what a worker says of its socket is only its word.
_MOST_PAUSED_NS, _PAUSE_SHARE = 2 * DRAIN_NS, 10
#: Populate and cleanup: failures without a success in between; cleanup also: so many network
#: timeouts without a success.
FAILURES_IN_A_ROW = 20
TIMEOUTS_WITHOUT_SUCCESS = 3

#: The throughput is that of so much time, updated every step.
_WINDOW_NS = 5 * SECOND_NS
_STEP_NS = SECOND_NS // 100

_number_of = itemgetter(Job._fields.index("number"))
_NUMBER = 1 + Result._fields.index("number")
_STATUS = 1 + Result._fields.index("status")
_ERROR = 1 + Result._fields.index("error")
_UNKNOWN = 1 + Result._fields.index("unknown")
_DETAIL = 1 + Result._fields.index("detail")
_OTHERS = 1 + Result._fields.index("others")
_STATUSES = 1 + Result._fields.index("statuses")
_VERSION_ID = 1 + Result._fields.index("version_id")


class Batch(Struct):
    """Jobs to be sent in one message."""

    number: int
    jobs: Sequence[Job]
    sent_ns: int
    #: Unacknowledged for longer than the limit: no longer part of the worker's credit.
    uncounted: bool = False
    #: A worker was lost while this batch was unacknowledged, so its jobs may have been started.
    doubtful: bool = False


class JobCounts(Struct):
    """Jobs by outcome. sent = done + failed + lost_races + lost + withdrawn + in flight."""

    sent: int = 0
    done: int = 0
    failed: int = 0
    lost_races: int = 0  #: conditional writes for which another client was first
    lost: int = 0
    withdrawn: int = 0
    #: Jobs sent again, or withdrawn, that a silent or lost worker may have started: its ack did not
    #: arrive.
    doubtful: int = 0
    corrupt: int = 0  #: failed jobs with wrong content
    #: Messages of results for jobs that their sender did not hold, and malformed ones.
    rejected: int = 0

    @property
    def completed(self) -> int:
        """Those with a result."""
        return self.done + self.failed + self.lost_races


class ThroughputMeter:
    """Results per second over the last five seconds, updated every 10 ms.

    :param per_s: what to expect before there are results.
    """

    def __init__(self, per_s: float = 0.0) -> None:
        self.per_s = per_s
        self._count = 0
        self._marks: deque[tuple[int, int]] = deque()  # (time, results so far)
        self._newest_ns = 0

    def __repr__(self) -> str:
        return f"<ThroughputMeter {self.per_s:.1f}/s>"

    def begin(self, now_ns: int) -> None:
        """Jobs are sent; the first call starts the measurement."""
        if not self._marks:
            self._marks.append((now_ns, 0))
            self._newest_ns = now_ns

    def add(self, count: int, now_ns: int) -> None:
        if not self._marks:
            self.begin(now_ns)
        self._count += count
        self._newest_ns = now_ns
        marks = self._marks
        if now_ns - marks[-1][0] < _STEP_NS:
            return
        while len(marks) > 1 and now_ns - marks[0][0] > _WINDOW_NS:
            marks.popleft()
        since_ns, before = marks[0]
        self.per_s = (self._count - before) * SECOND_NS / (now_ns - since_ns)
        marks.append((now_ns, self._count))

    def expected_ns(self, count: int, now_ns: int) -> int:
        """The time in ns in which this many jobs should complete.

        At least half of the time since the newest result: a store that stalls, or is slow with its
        first responses, must not cause ever more jobs to be sent.
        """
        idle_ns = now_ns - self._newest_ns
        by_rate_ns = int(count * SECOND_NS / self.per_s) if self.per_s else 0
        return max(by_rate_ns, idle_ns // 2)


class _GroupLoad(Struct):
    """The jobs of one group of users, each of which has credit of its own."""

    users: int = 0
    held: int = 0
    in_transit: int = 0  #: that count against the credit
    resend: deque[Job] = field(default_factory=deque)
    throughput: ThroughputMeter = field(default_factory=ThroughputMeter)

    def set_users(self, users: int, now_ns: int) -> None:
        """Expect the throughput to change with the number of users, and measure it again.

        Workers that had no users open their sockets after the first batches of a stage are sent,
        to others. By the rate of one user, these batches would count against the credit for long.
        """
        per_user = self.throughput.per_s / self.users if self.users else 0.0
        self.throughput = ThroughputMeter(per_user * users)
        if self.held or self.in_transit:
            self.throughput.begin(now_ns)
        self.users = users


class Dispatcher(Struct):
    """Sends the jobs of one phase to the registered workers.

    :param batch_numbers: endless. Only who was sent a batch may know its number, so that no worker
        can acknowledge, and thereby hold, what another one has.
    :param max_batch: most jobs in a message (``--batch-size``).
    """

    workload: Workload
    workers: Workers
    batch_numbers: Iterator[int]
    max_batch: int = MAX_BATCH
    bounds: ResultBounds = field(default_factory=ResultBounds)  #: of what results can have
    counts: JobCounts = field(default_factory=JobCounts)
    first_error: str = ""  #: detail of the first failed operation; "" for none
    rejection: str = ""  #: why the newest rejected results are impossible; "": not held, or late
    failures_in_a_row: int = 0  #: failures since the last success
    most_failures_in_a_row: int = 0  #: the highest value of that so far
    last_success_ns: int = 0  #: when the last success was reported
    next_number: int = 1  #: of a job, through the whole run, across phases
    _sent: dict[int, Batch] = {}
    _held: dict[int, dict[int, Job]] = {}
    _loads: list[_GroupLoad] = []  # by group of users
    _only: _GroupLoad | None = None  # that of all users if there are no groups
    _last_message_ns: dict[int, int] = {}  # by incarnation
    _drained_ns: int | None = None  # since when the workload has no more jobs
    _draining: frozenset[int] = frozenset()  # workers for which sending pauses, or has paused
    _paused_ns: int = 0  # since when
    _closed_ns: tuple[int, int] | None = None  # a closed socket: since when, newest connection
    _pauses: bool = False  # by the newest step, which was then
    _stepped_ns: int = 0
    _pauses_paid_ns: int = 0  # when the pauses so far are a tenth of the time

    def __post_init__(self) -> None:
        groups = self.workload.groups
        self.workers.groups = groups
        self.workers.allocate_users()
        self._loads = [_GroupLoad() for _ in groups or (0,)]
        self._only = None if groups else self._loads[0]

    def __repr__(self) -> str:
        return (
            f"<Dispatcher {len(self.workers.present)} workers, {self.held} held, "
            f"{len(self._sent)} batches in transit, {self.counts.done} done>"
        )

    @property
    def in_flight(self) -> int:
        """Jobs that were sent and have no outcome yet."""
        waiting = sum(len(load.resend) for load in self._loads)
        return self.held + waiting + sum(len(sent.jobs) for sent in self._sent.values())

    @property
    def held(self) -> int:
        """Jobs that workers hold."""
        return sum(load.held for load in self._loads)

    @property
    def idle(self) -> bool:
        """Whether no job is held, in transit or waiting to be sent again."""
        if self._only:
            return not (self._sent or self._only.held or self._only.resend)
        return not (self._sent or any(load.held or load.resend for load in self._loads))

    @property
    def finished(self) -> bool:
        """Whether no job is in flight and none will follow.

        When stopping, batches in transit don't count: workers return their jobs unstarted. The
        caller must check that every worker has reported that it stopped.
        """
        if self.workers.stopping:
            return not self.held
        return self.idle and self.workload.finished

    def to_send(self, now_ns: int, most_batches: int = 1) -> list[Batch]:
        """The next batches that the credit of each group allows; they count as sent. [] for none.

        Workers hold more jobs than users, so that a user's next job is there when the last one
        completes. At the end of a phase they hold only one per user.

        :param most_batches: of one group.
        """
        batches: list[Batch] = []
        if self.workers.stopping or self._is_paused(now_ns):
            return batches
        workers, dues = self.workers.workers_with_users, self.workload.dues
        for group, load in enumerate(self._loads):
            users = self.workers.assigned_groups[group]
            if users != load.users:
                load.set_users(users, now_ns)
            if not users and not self._only:
                continue  # a group of another stage
            in_transit = load.throughput.per_s * _IN_TRANSIT_S  # jobs, to all workers
            quick = min(int(in_transit) // max(workers, 1), QUICK_BATCH, self.max_batch)
            most = max(batch_limit(self.max_batch, users, workers), quick)
            limit = users
            if not self.workers.ending:
                few = max(most, 2 * quick) * workers
                limit = CREDIT * users + max(few, min(int(in_transit), MAX_IN_TRANSIT * workers))
            ahead = dues.of(group).ahead if dues else 0  # that may wait for their due time
            credit = limit + ahead - load.held - load.in_transit
            if credit <= 0:
                continue
            # In one call: with batches of one job, the call costs more than drawing the job.
            jobs = self._take(group, min(credit, most * most_batches), now_ns)
            if not jobs:
                continue
            load.throughput.begin(now_ns)
            load.in_transit += len(jobs)
            for at in range(0, len(jobs), most):
                batch = Batch(next(self.batch_numbers), jobs[at : at + most], now_ns)
                self._sent[batch.number] = batch
                batches.append(batch)
            self.workers.earned += len(jobs) + EARNED_BY_BATCH * ceil(len(jobs) / most)
        if not batches and self._drained_ns is None and self.workload.finished:
            self._drained_ns = now_ns
        return batches

    def _is_paused(self, now_ns: int) -> bool:
        """Whether to send nothing because a worker has no users any more, while there is time for
        that. Without a pause jobs may only come back late.
        """
        if not (self._draining or self.workers.draining or self.workers.closed_socket):
            self._pauses = False
            return False
        if self._pauses:
            paused_ns = now_ns - self._stepped_ns
            paid_ns = max(self._pauses_paid_ns, self._stepped_ns)
            self._pauses_paid_ns = paid_ns + paused_ns * _PAUSE_SHARE
        unpaid_ns = self._pauses_paid_ns - now_ns
        self._pauses = self._drains(now_ns) and unpaid_ns < _MOST_PAUSED_NS * _PAUSE_SHARE
        self._stepped_ns = now_ns
        return self._pauses

    def _drains(self, now_ns: int) -> bool:
        """Whether jobs may be on their way to a worker without users, or to a closed socket.

        ZeroMQ sends jobs to every open socket, and what is on its way to a socket that closes is
        lost: it would come back after the worker timeout. So such a worker first returns what it
        gets, and closes its socket when nothing is in transit.
        """
        draining = self.workers.draining
        if not draining <= self._draining:
            self._paused_ns = now_ns
            self._set_closing(False)
        self._draining = draining
        if not draining:
            self._set_closing(False)
            return self.workers.closed_socket and self._may_reach_closed(now_ns)
        paused_ns = now_ns - self._paused_ns
        if paused_ns > DRAIN_NS // 2 or not any(load.in_transit for load in self._loads):
            self._set_closing(True)
        return paused_ns < DRAIN_NS

    def _set_closing(self, closing: bool) -> None:
        """Whether nothing is in transit, so that workers without users may close their sockets."""
        if closing is not self.workers.closing:
            self.workers.closing, self.workers.state_changed = closing, True

    def _may_reach_closed(self, now_ns: int) -> bool:
        """Whether ZeroMQ may still send jobs to a socket that its worker has closed.

        The worker's message arrives before ZeroMQ notices: by a millisecond, or on busy cores by
        some tens of them. A foreign connection makes this last as long as it may.
        """
        since_ns, open_ns = self._closed_ns or (now_ns, now_ns)
        if self.workers.work_connections > self.workers.receiving:
            open_ns = now_ns
        if now_ns - open_ns < CLOSED_NS and now_ns - since_ns < DRAIN_NS:
            self._closed_ns = since_ns, open_ns
            return True
        self._closed_ns, self.workers.closed_socket = None, False
        return False

    def _take(self, group: int, limit: int, now_ns: int) -> list[Job]:
        resend = self._loads[group].resend
        if resend:
            count = min(limit, len(resend))
            numbers = range(self.next_number, self.next_number + count)
            jobs = [resend.popleft()._replace(number=number) for number in numbers]
        else:
            jobs = self.workload.take(self.next_number, limit, now_ns / SECOND_NS, group)
            self.counts.sent += len(jobs)
        self.next_number += len(jobs)
        return jobs

    def acked(self, incarnation: int, batches: Iterable[int], now_ns: int) -> None:
        """A worker has these batches. Batches that timed out meanwhile are ignored: the worker's
        results for them will be rejected, and it returns jobs that old anyway.
        """
        if incarnation not in self.workers.present:
            return
        self._last_message_ns[incarnation] = now_ns
        held = self._held.setdefault(incarnation, {})
        for number in batches:
            if number in self._sent:
                load, jobs = self._pop_sent(number)
                held.update(zip(map(_number_of, jobs), jobs, strict=True))
                load.held += len(jobs)

    def _pop_sent(self, number: int) -> tuple[_GroupLoad, Sequence[Job]]:
        """Remove a batch from those in transit; returns its jobs, and the load of their group."""
        sent = self._sent.pop(number)
        load = self._only or self._loads[sent.jobs[0].group]
        if not sent.uncounted:
            load.in_transit -= len(sent.jobs)
        return load, sent.jobs

    def _by_group(self, jobs: Sequence[Job]) -> list[tuple[_GroupLoad, int]]:
        """The loads of these jobs' groups, and how many jobs each has."""
        counts = Counter(job.group for job in jobs)
        return [(self._loads[group], count) for group, count in counts.items()]

    def results(
        self, incarnation: int, packed: bytes, now_ns: int, schema: int = 0
    ) -> Sequence[Any] | None:
        """Completed operations. Returns the packed columns in the order of Result's fields; None
        if rejected.

        A batch is rejected as a whole if its schema is unknown, or the worker doesn't hold all of
        its jobs: it is late (the worker was dropped), a duplicate or forged. Nothing is counted
        twice.
        """
        self.rejection = ""
        worker = self.workers.present.get(incarnation)
        if worker is None:
            self.counts.rejected += 1
            return None
        try:
            columns = layout(worker.layouts, schema).decode(packed)
            count: int = columns[0]
            held = self._held.get(incarnation, {})
            # A few bytes may unfold to many rows and numbers: to no more than its jobs can have.
            if count > len(held):
                self.counts.rejected += 1
                return None
            self.bounds.check(columns, now_ns)
            numbers = unpack_column(columns[_NUMBER], count)
            errors = unpack_column(columns[_ERROR], count) if columns[_ERROR] != 0 else None
            _check_lists(columns, numbers, held)
            statuses = unpack_column(columns[_STATUS], count) if errors else ()
            unknowns = unpack_column(columns[_UNKNOWN], count) if errors else ()
            several: Sequence[Sequence[int]] = [()] * count if errors else ()
            if errors and len(columns) > _STATUSES:
                several = unpack_ints(columns[_STATUSES], count)
            versions: Sequence[bytes] = ()
            if self.workload.knows_versions:
                has_ids = len(columns) > _VERSION_ID
                versions = unpack_ids(columns[_VERSION_ID], count) if has_ids else [b""] * count
                if max(map(len, versions)) > MAX_ARGUMENT_BYTES:
                    raise MessageError("an id of a version that no job can have")
        except MessageError as error:
            self.rejection = str(error)
            self.counts.rejected += 1
            return None
        jobs = self._release(incarnation, numbers)
        if jobs is None:
            self.counts.rejected += 1
            return None
        self._last_message_ns[incarnation] = now_ns
        if self._only:
            self._only.held -= count
            self._only.throughput.add(count, now_ns)
        else:
            for load, done in self._by_group(jobs):
                load.held -= done
                load.throughput.add(done, now_ns)
        for job, version_id, failed in zip(jobs, versions, errors or repeat(0), strict=False):
            if not failed:
                self.workload.made(job, version_id)
        if errors is None:
            self.counts.done += count
            self.failures_in_a_row, self.last_success_ns = 0, now_ns
            self.workload.succeeded(jobs, now_ns / SECOND_NS)
        else:
            self.first_error = self.first_error or said(_first_detail(columns[_DETAIL], errors))
            self._record_outcomes(jobs, errors, statuses, unknowns, several, now_ns)
        return columns

    def _release(self, incarnation: int, numbers: Iterable[int]) -> list[Job] | None:
        """Remove these jobs from those held; None, and nothing removed, if one is not held."""
        held = self._held.get(incarnation, {})
        jobs: list[Job] = []
        try:
            jobs.extend(map(held.pop, numbers))  # keeps those before a missing one
        except KeyError:
            held.update(zip(map(_number_of, jobs), jobs, strict=True))
            return None
        return jobs

    def _record_outcomes(
        self,
        jobs: Sequence[Job],
        errors: Sequence[int],
        statuses: Sequence[int],
        unknowns: Sequence[int],
        several: Sequence[Sequence[int]],
        now_ns: int,
    ) -> None:
        now_s = now_ns / SECOND_NS
        done = [job for job, error in zip(jobs, errors, strict=True) if not error]
        self.counts.done += len(done)
        races = errors.count(ErrorKind.LOST_RACE)
        self.counts.lost_races += races
        self.counts.failed += len(jobs) - len(done) - races
        self.counts.corrupt += errors.count(ErrorKind.CORRUPT)
        if done:
            self.last_success_ns = now_ns
            self.workload.succeeded(done, now_s)
        for job, error, status, unknown, each in zip(
            jobs, errors, statuses, unknowns, several, strict=True
        ):
            is_failure = error not in (ErrorKind.NONE, ErrorKind.LOST_RACE)
            self.failures_in_a_row = self.failures_in_a_row + 1 if is_failure else 0
            self.most_failures_in_a_row = max(self.most_failures_in_a_row, self.failures_in_a_row)
            if error:
                self.workload.failed(job, Failure(status, bool(unknown), each), now_s)

    def returned(self, incarnation: int, numbers: Iterable[int]) -> None:
        """A worker returned jobs unstarted: send them again, or withdraw them when stopping."""
        held = self._held.get(incarnation, {})
        jobs = [held.pop(number) for number in numbers if number in held]
        for load, count in self._by_group(jobs):
            load.held -= count
        self._put_back(jobs)

    def _put_back(self, jobs: Sequence[Job]) -> None:
        if self.workers.stopping:
            self.counts.withdrawn += len(jobs)
            self.workload.withdrawn(jobs)
        else:
            for job in jobs:
                self._loads[job.group].resend.append(job)

    def worker_lost(self, incarnation: int) -> int:
        """A worker is lost or has left: the jobs that it held are lost. Returns their number.

        Jobs in transit may be at this worker, or at another one: they are not lost.
        """
        jobs = list(self._held.pop(incarnation, {}).values())
        for load, count in self._by_group(jobs):
            load.held -= count
        self.counts.lost += len(jobs)
        if jobs:
            self.workload.lost(jobs)
        for sent in self._sent.values():
            sent.doubtful = True
        return len(jobs)

    def tick(self, now_ns: int) -> None:
        """Time passed: resend batches without an ack; recall jobs at the end of the phase."""
        counted_for_ns = []  # by group: how long a batch in transit counts against the credit
        for load, users in zip(self._loads, self.workers.assigned_groups, strict=True):
            waiting = max(load.held + load.in_transit - users, 0)
            expected_ns = load.throughput.expected_ns(waiting, now_ns) * 5 // 4
            counted_for_ns.append(max(IN_TRANSIT_NS, expected_ns))
        for number, sent in list(self._sent.items()):
            age_ns, group = now_ns - sent.sent_ns, sent.jobs[0].group
            if age_ns > counted_for_ns[group] and not sent.uncounted:
                sent.uncounted = True
                self._loads[group].in_transit -= len(sent.jobs)
            if age_ns > self.workers.timeout_ns:
                # Busy workers read their sockets late, and return what is as old as that: only one
                # that is silent may have read it in time, and be unable to say so.
                if sent.doubtful or self.workers.any_silent(now_ns):
                    self.counts.doubtful += len(sent.jobs)
                self._put_back(self._pop_sent(number)[1])
        for incarnation in [i for i, held in self._held.items() if held]:
            if self._results_lost(incarnation, now_ns):
                self.worker_lost(incarnation)
        if self.workers.ending or self._drained_ns is None or self.workers.stopping:
            return
        if now_ns - self._drained_ns > REBALANCE_AFTER_NS and self._uneven():
            self.workers.ending = self.workers.state_changed = True

    def _results_lost(self, incarnation: int, now_ns: int) -> bool:
        """Whether a worker has reported no jobs for the timeout: its results did not arrive."""
        worker = self.workers.present.get(incarnation)
        if worker is None or worker.empty_since_ns is None:
            return False
        since_ns = max(worker.empty_since_ns, self._last_message_ns.get(incarnation, 0))
        return now_ns - since_ns > self.workers.timeout_ns

    def _uneven(self) -> bool:
        """Whether one worker has queued jobs and another has idle users."""
        held = {i: len(self._held.get(i, ())) for i in self.workers.present}
        waiting = bool(self._sent) or any(
            held[i] > worker.users for i, worker in self.workers.present.items()
        )
        free = any(held[i] < worker.users for i, worker in self.workers.present.items())
        return waiting and free

    def stop(self) -> None:
        """Send no more jobs; those that were not started are withdrawn."""
        self.workers.stopping = self.workers.state_changed = True
        for load in self._loads:
            unsent = list(load.resend)
            load.resend.clear()
            self._put_back(unsent)

    def resume(self) -> None:
        """After ``stop``, once nothing is in flight: jobs are sent again."""
        self.workers.ending = self.workers.stopping = False
        self.workers.state_changed = True
        self._drained_ns = None

    def close(self) -> None:
        """The phase is over: jobs in transit are withdrawn, held jobs are lost."""
        self.workers.stopping = True
        for number, sent in list(self._sent.items()):
            self.counts.doubtful += len(sent.jobs) if sent.doubtful else 0
            self._put_back(self._pop_sent(number)[1])
        for incarnation in list(self._held):
            self.worker_lost(incarnation)


def abort_reason(
    phase: Phase, dispatcher: Dispatcher, start_ns: int, now_ns: int, network_timeout_s: float
) -> str:
    """Why to abort populate or cleanup: trying each object of a dead store is of no use.

    :param start_ns: when the phase began, on the clock of ``now_ns``.
    """
    in_a_row = dispatcher.failures_in_a_row
    idle_s = (now_ns - max(dispatcher.last_success_ns, start_ns)) / SECOND_NS
    # All of one identity may fail, and between two successes of the others many.
    is_dead = not dispatcher.workload.is_divided or idle_s > network_timeout_s
    if is_dead and in_a_row >= max(dispatcher.workers.assigned_users, FAILURES_IN_A_ROW):
        return f"{plural(in_a_row, 'operation')} failed in a row: {dispatcher.first_error}"
    # A DELETE completes at once or, with its retries, not for minutes.
    limit_s = TIMEOUTS_WITHOUT_SUCCESS * network_timeout_s
    if phase is Phase.CLEANUP and idle_s > limit_s:
        return f"the store has deleted nothing for {limit_s:g} s"
    return ""


def _check_lists(columns: Sequence[Any], numbers: Sequence[int], held: Mapping[int, Job]) -> None:
    """Check that packed results list no more objects, and statuses of these, than their jobs.

    :raises MessageError: if they do.
    """
    for packed in columns[_OTHERS : _STATUSES + 1]:
        if packed[0] == 0:  # none has any
            continue
        for number, length in zip(numbers, unpack_lengths(packed, len(numbers)), strict=True):
            job = held.get(number)
            if job and length > 1 + len(job.others):
                raise MessageError("results of more objects than their jobs have")


def _first_detail(packed: Any, errors: Sequence[int]) -> str:
    """The first text of a failed operation in a packed column of details; "" for none."""
    try:
        texts = unpack_details(packed, len(errors))
    except MessageError:
        return ""
    kept = zip(texts, errors, strict=True)
    return next((t for t, error in kept if t and error not in (0, ErrorKind.LOST_RACE)), "")


def batch_limit(max_batch: int, users: int, workers: int) -> int:
    """Jobs per message: several messages must be in transit to each worker, or master and worker
    run in lockstep."""
    return max(1, min(max_batch, users // max(workers, 1)))
