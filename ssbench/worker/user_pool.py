"""The users: one greenlet each, that takes a job, does it and writes down how it went.

This is the hot path of a worker. A user that finds a job does nothing but: pop it, look at the
clock, call the driver, append a row. What goes wrong is left to ``_recover``.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import gevent
from gevent import getcurrent
from gevent.hub import get_hub

from ssbench.core.completed import Completed, Row, duration_ns, last_ns
from ssbench.core.errors import StorageError
from ssbench.core.model import NONE_NS, ErrorKind, Job, Timing
from ssbench.core.operations import OPERATIONS, RECEIVING, row_of
from ssbench.core.retry import Attempts, NextStep
from ssbench.storage.base import Storage
from ssbench.worker.delay_queue import DelayQueue

log = logging.getLogger(__name__)

MAX_RENEWALS = 3
FULL = 256  #: rows that are flushed without waiting for anything
FLUSH_S = 0.05  #: how long a row or a batch of jobs may wait for a better moment
#: Ticks in that time. None does anything where rows went out since the last one: those of many
#: workers would make as many small exchanges.
_TICKS = 2
#: Operations in FLUSH_S, up to which a row goes out as soon as the loop has nothing else to do: the
#: least is unheard of where a worker dies. Above it that would cost more than the operations do.
FEW = 50
#: Of a store that answers at once, as many jobs are queued as are done in 10 ms, and so many at
#: most: with one for each user, eight users would ask the master anew for every eight operations.
QUICK = 32
_QUICK_PARTS = 5  #: of FLUSH_S
_NEVER_NS = 1 << 62
_SECOND = 1_000_000_000


class UserPool:
    """The users of one phase in one worker.

    :param origin_ns: the phase's start on this worker's clock.
    :param think_s: the least and the longest pause of a user after each operation.
    :param on_low: called when the queue has run out, and now and then: time to fetch more.
    :param on_rows: called with what is finished, as core.completed takes it.
    :param on_fence: called when the newest beat is too old to start anything.
    :param on_exhausted: called where an operation failed for want of memory.
    :param renew: ``renew(began_ns)`` waits for a token newer than an attempt that began then;
        False where none came.
    """

    def __init__(
        self,
        storage: Storage,
        clock: Callable[[], int],
        *,
        origin_ns: int,
        retries: int,
        operation_timeout_s: float,
        think_s: tuple[float, float] = (0.0, 0.0),
        on_low: Callable[[], None],
        on_rows: Callable[[list[Completed]], None],
        on_lease_expired: Callable[[], None],
        on_out_of_memory: Callable[[], None],
        renew: Callable[[int], bool],
    ) -> None:
        self.queue: deque[Job] = deque()
        self.count = 0  #: how many there are to be
        self.busy = 0  #: how many have an operation in flight
        self.lease_expires_ns = _NEVER_NS
        self.closed = False
        self._storage = storage
        self._clock = clock
        self._origin_ns = origin_ns
        self._retries = retries
        self._timeout_ns = int(operation_timeout_s * _SECOND)
        self._think_s = think_s if think_s[1] else None
        self._delayed = DelayQueue(clock, origin_ns, self._add_due)
        self._on_low = on_low
        self._on_rows = on_rows
        self._on_lease_expired = on_lease_expired
        self._on_out_of_memory = on_out_of_memory
        self._renew = renew
        self._greenlets = 0
        self._idle: list[Any] = []
        self._waking = False  # one of them is on its way
        self._rows: list[Completed] = []
        self._enough = 1  # rows that something is done about
        self._flushed = 0  # rows since the last tick
        self._kept = 0  # rows that were there at the last tick
        self._done: deque[int] = deque(maxlen=_TICKS)  # operations in each of the last ticks
        self._quick = 0  # jobs that take next to no time
        self._hub = get_hub()
        self._idle_watcher = self._hub.loop.idle()
        self._timer = self._hub.loop.timer(FLUSH_S / _TICKS, FLUSH_S / _TICKS)
        self._timer.start(self.tick)

    def __repr__(self) -> str:
        return f"<UserPool {self.busy} busy of {self.count}, {len(self.queue)} jobs queued>"

    @property
    def free(self) -> int:
        """How many users have nothing to do, jobs in the queue taken into account."""
        return max(self.count - self.busy - len(self.queue) - len(self._delayed), 0)

    @property
    def low(self) -> bool:
        """Whether jobs should be fetched now; else it can wait until ``on_low``."""
        return not self.queue

    @property
    def wants_more(self) -> bool:
        """Whether the queue is to be filled further, once jobs are fetched: with one for each user,
        and one more for each who has nothing to do."""
        return len(self.queue) < max(2 * self.count - self.busy, self._quick)

    @property
    def jobs(self) -> int:
        """Jobs here: waiting for their time, queued, in flight, or done and not yet sent."""
        return len(self._delayed) + len(self.queue) + self.busy + len(self._rows)

    def resize(self, count: int) -> None:
        """Be so many users from now on; who is above that ends with the current operation."""
        self.count = count
        while self._greenlets < count:
            gevent.spawn(self._user)
            self._greenlets += 1
        for user in self._idle:
            self._hub.loop.run_callback(user.switch)
        self._idle.clear()

    def add(self, jobs: Sequence[Job]) -> None:
        """Queue jobs; those of an open loop when they fall due. A batch is all of one kind."""
        if jobs and jobs[0].due_ns >= 0:
            self._delayed.add(jobs)
        else:
            self.queue.extend(jobs)
            self._wake_next()

    def _add_due(self, jobs: list[Job]) -> None:
        self.queue.extend(jobs)
        self._wake_next()

    def remove_unstarted(self, *, keep_for_idle: bool = False) -> list[int]:
        """Take jobs out of the queue; gives the numbers of those that will not be started.

        :param but_for_free: leave as many as there are users without an operation in flight, and
            those whose time is still to come.
        """
        kept = max(self.count - self.busy, 0) if keep_for_idle else 0
        numbers = [job.number for job in islice(self.queue, kept, None)]
        for _ in numbers:
            self.queue.pop()
        return numbers if keep_for_idle else numbers + self._delayed.remove_unstarted()

    def close(self) -> None:
        """Start nothing more; what is in flight ends unheard."""
        self.flush()
        self.closed = True
        self.queue.clear()
        self._delayed.close()
        self._timer.close()
        self._idle_watcher.close()
        self.resize(0)

    def flush(self) -> None:
        """Hand over the finished rows, if there are any."""
        if self.closed or not self._rows:
            return
        self._idle_watcher.stop()
        rows = self._rows[:]
        self._rows.clear()
        self._flushed += len(rows)
        self._on_rows(rows)

    def _wake_next(self) -> None:
        """Let one idle user come for a job; it wakes the next, if there is more to do. So where
        jobs take no time, nobody is woken in vain."""
        if self._idle and not self._waking:
            self._waking = True
            self._hub.loop.run_callback(self._idle.pop().switch)

    def tick(self) -> None:
        """Time has gone by; FLUSH_S since the tick before the last one."""
        handed = self._flushed
        self._done.append(handed + len(self._rows) - self._kept)
        done = sum(self._done)
        self._enough = 1 if done <= FEW else FULL
        self._quick = min(done // _QUICK_PARTS, QUICK)
        if not handed:
            self._on_low()
            self.flush()
        self._flushed, self._kept = 0, len(self._rows)

    def _fetch_and_flush(self) -> None:
        """New jobs for finished rows, all at once: the master sends as many as come back.

        Where no jobs are here yet, rows wait for those of the users that are about to finish.
        """
        self._on_low()
        if self._rows:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        if len(self._rows) >= FULL:
            self.flush()
        elif not self._delayed:
            # Somebody may wait for them to give more; who has jobs for later can wait, too.
            self._idle_watcher.start(self.flush)

    def _wait_for_job(self) -> None:
        """Wait for a job."""
        self._idle.append(getcurrent())
        if self._rows:
            self._schedule_flush()
        self._hub.switch()
        self._waking = False

    # One user -----------------------------------------------------------------------------

    def _user(self) -> None:
        queue, rows, actions, clock = self.queue, self._rows, self._storage.actions, self._clock
        idle = self._idle
        timeout_ns, think_s = self._timeout_ns, self._think_s
        while self._greenlets <= self.count:
            if not queue:
                self._wait_for_job()
                continue
            job = queue.popleft()
            if queue and idle:
                self._wake_next()
            if not queue and not self._delayed:
                self._fetch_and_flush()  # the next jobs are here already, in the socket's pipe
            start_ns = clock()
            if start_ns > self.lease_expires_ns:
                queue.appendleft(job)
                self._on_lease_expired()
                continue
            self.busy += 1
            try:
                timing = actions[job.operation](job, start_ns + timeout_ns if timeout_ns else 0)
                if type(timing) is not Timing:
                    raise TypeError(f"the driver gave {type(timing).__name__} for a Timing")
                rows.append((job, start_ns, timing))  # core.completed makes columns of them
            except StorageError as error:
                rows.append(self._recover(job, start_ns, error))
            except Exception as error:  # noqa: BLE001 - _mishap tells of it
                rows.append(self._recover(job, start_ns, self._driver_defect(error)))
            self.busy -= 1
            if self.closed:
                return
            if len(rows) >= self._enough:
                self._schedule_flush()
            if think_s:
                gevent.sleep(random.uniform(*think_s))  # nosec B311 # a pause
        self._greenlets -= 1

    # When something went wrong ------------------------------------------------------------

    def _recover(self, job: Job, start_ns: int, error: StorageError) -> Row:
        """Try again as far as the rules allow; the row of the operation as it ended."""
        if job.operation not in OPERATIONS:  # a newer master's
            return self._row(job, start_ns, None, Attempts(row_of(job.operation), 0), 0, error)
        attempts = Attempts(OPERATIONS[job.operation], self._retries)
        renewals = 0
        renewable = True
        began_ns = start_ns  # of the latest attempt
        while True:
            if error.kind is ErrorKind.UNAUTHORIZED and renewable and not self.closed:
                if self._renew(began_ns):
                    renewals += 1
                    renewable = renewals < MAX_RENEWALS
                    start_ns = self._clock()  # nobody's latency has the renewal in it
                    attempts = attempts.anew(error)
                else:
                    renewable = False
                    continue
            else:
                verdict = attempts.after(error)
                if verdict is NextStep.DONE:
                    return self._row(job, start_ns, error.timing, attempts, renewals, None)
                if verdict is NextStep.GIVE_UP or not self._pause(attempts, error, start_ns):
                    return self._row(job, start_ns, error.timing, attempts, renewals, error)
            began_ns = self._clock()
            outcome = self._attempt(job, start_ns)
            if isinstance(outcome, Timing):
                attempts.reconnects += outcome.reconnects
                return self._row(job, start_ns, outcome, attempts, renewals, None)
            error = outcome

    def _attempt(self, job: Job, start_ns: int) -> Timing | StorageError:
        deadline_ns = start_ns + self._timeout_ns if self._timeout_ns else 0
        try:
            timing = self._storage.actions[job.operation](job, deadline_ns)
            if not isinstance(timing, Timing):
                raise TypeError(f"the driver gave {type(timing).__name__} for a Timing")
            return timing
        except StorageError as error:
            # What led to it has frames that know ours, and ours knows it: only the collector could
            # free that, and it comes by seldom.
            error.__cause__ = error.__context__ = None
            return error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - _mishap tells of it
            return self._driver_defect(error)

    def _driver_defect(self, error: Exception) -> StorageError:
        """What no driver should raise, as a failure of this job."""
        if isinstance(error, MemoryError):
            self._on_out_of_memory()
            return StorageError(ErrorKind.INTERNAL, "the worker is out of memory")
        log.error("A defect in the storage driver", exc_info=error)
        return StorageError(
            ErrorKind.INTERNAL, f"a defect of ssbench: {type(error).__name__}: {error}"
        )

    def _pause(self, attempts: Attempts, error: StorageError, start_ns: int) -> bool:
        """Wait before the next attempt; False where there must not be one."""
        pause_s = attempts.pause_s(error)
        late = self._timeout_ns and self._clock() + pause_s * _SECOND > start_ns + self._timeout_ns
        if late or self.closed:
            return False
        gevent.sleep(pause_s)
        return not self.closed and self._clock() <= self.lease_expires_ns

    def _row(
        self,
        job: Job,
        start_ns: int,
        timing: Timing | None,
        attempts: Attempts,
        renewals: int,
        error: StorageError | None,
    ) -> Row:
        first_ns = headers_ns = NONE_NS
        took_ns = self._clock() - start_ns
        if timing is not None:
            headers_ns = duration_ns(timing.headers_ns, start_ns)
            took_ns = last_ns(timing.last_byte_ns, start_ns)
            if error is None and job.operation in RECEIVING:
                first_ns = duration_ns(timing.first_byte_ns, start_ns)
        kind = error.kind if error else ErrorKind.NONE
        return (
            job.number, job.operation, job.size_class, job.object, job.due_ns,
            start_ns - self._origin_ns, headers_ns, first_ns, took_ns,
            timing.bytes_moved if timing else 0,
            *attempts.counters, renewals, timing.url if timing else 0,
            timing.status if timing else (error.status if error else 0),
            int(kind), attempts.unknown if error else 0,
            timing.transaction_id if timing else b"", error.detail if error else "",
            timing.items if timing else 0, job.others, timing.statuses if timing else (), job.group,
        )  # fmt: skip
