"""The users of a worker: greenlets that take a job, call the driver, and note how it went.

This is the hot path of a worker. A user that finds a job pops it, reads the clock, calls the
driver and appends to a list. Retries and renewals are in ``_recover``. Jobs come, and results go,
over the worker's JobChannel; its WorkerStore has the driver.
"""

from __future__ import annotations

import logging
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import gevent
from gevent import getcurrent
from gevent.event import Event
from gevent.hub import get_hub
from msgspec.structs import replace

from ssbench.core.bodycheck import wrong_length
from ssbench.core.errors import StorageError
from ssbench.core.model import NONE_NS, SECOND_NS, ErrorKind, Job, Phase, Result, Timing
from ssbench.core.naming import Naming, naming_of
from ssbench.core.operations import OPERATIONS, RECEIVING, moved_bytes, row_of
from ssbench.core.retry import Attempts, NextStep
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.base import ObjectStore
from ssbench.transport.worker_transport import WorkerTransport
from ssbench.worker.held_jobs import result_of
from ssbench.worker.machine import WorkerMachine, WorkerPhase
from ssbench.worker.timer import Timer

log = logging.getLogger(__name__)

MAX_RENEWALS = 3
FULL = 256  #: completed operations that are reported without waiting for anything
FLUSH_S = 0.05  #: longest wait of a completed operation, or of a batch of jobs
#: Ticks in that time. A tick does nothing if results were sent since the last one: those of many
#: workers would cause as many small messages.
_TICKS = 2
#: Operations in FLUSH_S up to which each is reported as soon as the loop is idle, so that little is
#: lost if the worker dies. At higher rates that would cost more than the operations do.
FEW = 50
#: With a quick store, so many jobs are queued as complete in 10 ms, and at most this many: with one
#: job per user, eight users would need a message for every eight operations.
QUICK = 32
_QUICK_PARTS = 5  #: of FLUSH_S
_BURST_NS = SECOND_NS // 10  #: of unused bandwidth that is not lost
_READ = 1
_LOOK_S = 1.0  #: between two looks for new credentials


class JobChannel:
    """To be used in the event loop's thread. The work socket is closed at first.

    :param on_jobs: called with the number of jobs that arrived to be started.
    """

    def __init__(
        self,
        machine: WorkerMachine,
        transport: WorkerTransport,
        clock: Callable[[], int],
        on_jobs: Callable[[int], None] | None = None,
    ) -> None:
        self.clock = clock
        #: Of the present phase's users; None: messages are left until there are some.
        self.on_readable: Callable[[], None] | None = None
        self._machine = machine
        self._transport = transport
        self._on_jobs = on_jobs
        self._watcher: Any = None  # while the socket is open
        self._listening = False

    def __repr__(self) -> str:
        state = "closed" if self._watcher is None else "listening" if self._listening else "open"
        return f"<JobChannel {state}>"

    def open(self, pipe: int) -> None:
        """Open the work socket, if it is closed, with at most ``pipe`` messages waiting in it.

        :raises TransportError: if the host has no socket left.
        """
        fd = self._transport.open_work(pipe)
        if self._watcher is None:
            self._watcher = get_hub().loop.io(fd, _READ)

    def close(self) -> None:
        """Close the work socket. Jobs in it are returned, or dropped if they are not of the
        machine's phase."""
        if self._watcher is not None:
            self._receive_all()
            self.listen(False)
            self._watcher.close()
            self._watcher = None
        self._transport.close_work()
        self._machine.acknowledge()
        self.flush()

    def listen(self, on: bool) -> None:
        """Watch the descriptor or not. It stays readable until all messages have been read: if
        they are left, it must not be watched, or the loop would never sleep."""
        if self._watcher is None or self.on_readable is None or on == self._listening:
            return
        self._listening = on
        if on:
            self._watcher.start(self.on_readable)
        else:
            self._watcher.stop()

    def fetch(self) -> int:
        """Receive jobs as far as the machine wants them; returns how many are to be started."""
        count = self._receive_all()
        self._machine.acknowledge()
        self.flush()
        if count and self._on_jobs:
            self._on_jobs(count)
        return count

    def _receive_all(self) -> int:
        machine, receive = self._machine, self._transport.receive
        count = 0
        while machine.wants_jobs:
            data = receive()
            if data is None:
                self.listen(True)
                break
            count += machine.receive_jobs(data, self.clock())
        return count

    def flush(self) -> None:
        """Send the machine's messages, as far as the master takes them now."""
        outbox, send = self._machine.outbox, self._transport.send
        while outbox and send(outbox[0]):
            outbox.popleft()


class WorkerStore:
    """The store as one worker has it: opened once per run, with the newest credentials."""

    def __init__(
        self,
        machine: WorkerMachine,
        channel: JobChannel,
        open_driver: Callable[[StorageSettings], ObjectStore],
    ) -> None:
        self._machine = machine
        self._channel = channel
        self._open_driver = open_driver
        self._storage: ObjectStore | None = None
        self._run_id = ""
        self._credentials_came = Event()

    def open(self, values: Mapping[str, Any]) -> ObjectStore:
        """The run's store, by the settings of a control state; opened once per run.

        :raises SsbenchError, TypeError: for settings that can't be used.
        """
        settings = StorageSettings.from_map(values)
        if self._storage is None or settings.run_id != self._run_id:
            self.close()
            worker_id = self._machine.settings.worker_id
            self._storage = self._open_driver(replace(settings, worker_id=worker_id))
            self._run_id = settings.run_id
        return self._storage

    def set_credentials(self, credentials: Credentials) -> None:
        """Use these, if they are newer than the store's.

        Operations in flight end with the earlier ones.
        """
        if self._storage and credentials.serial > self._storage.credentials_serial:
            self._storage.set_credentials(credentials)
        self._credentials_came.set()

    def renew(self, began_ns: int, identity: int) -> bool:
        """Wait for credentials newer than an attempt that began then, and ask the master for them;
        False if none came, or there are none."""
        clock, renewed = self._channel.clock, self._machine.credentials_renewed
        since_ns = clock()
        while (outcome := renewed(began_ns, since_ns, clock(), identity)) is None:
            self._channel.flush()
            self._credentials_came.clear()
            self._credentials_came.wait(_LOOK_S)
        return outcome

    def close(self) -> None:
        """Close the store, if one is open."""
        if self._storage:
            self._storage.close()


class Bandwidth:
    """When the worker's users may start an operation without exceeding their bandwidth together.

    A token bucket: an operation starts once its bytes are paid. So the mean of a run is never above
    the limit, however few and large its objects are.
    """

    def __init__(self, phase: WorkerPhase, clock: Callable[[], int]) -> None:
        self._held = phase.held
        self._clock = clock
        limit = phase.state.settings.get("bandwidth") if phase.phase is Phase.RUN else 0
        self._bytes_per_s = float(limit) if isinstance(limit, int | float) else 0.0
        self._paid_ns = clock()  # when all bytes so far are paid
        self._is_awaited = False  # an operation waits since then, so that nothing is lost

    @property
    def is_limited(self) -> bool:
        return self._bytes_per_s > 0

    def wait_s(self, job: Job) -> float:
        """How long the job must wait, in seconds; 0: it starts now, and is paid."""
        share = self._bytes_per_s * self._held.share
        if not share:
            return 0.0
        now_ns = self._clock()
        cost_ns = int(max(moved_bytes(job), 0) / share * SECOND_NS)
        if not self._is_awaited:
            self._paid_ns = max(self._paid_ns, now_ns - _BURST_NS)
        paid_ns = self._paid_ns + cost_ns
        self._is_awaited = paid_ns > now_ns
        if self._is_awaited:
            return (paid_ns - now_ns) / SECOND_NS
        self._paid_ns = paid_ns
        return 0.0


class UserPool:
    """The users of one phase; without users at first.

    :param storage: connected for the phase.
    :param wake: set when the machine has actions for the worker.
    """

    def __init__(
        self,
        machine: WorkerMachine,
        phase: WorkerPhase,
        storage: ObjectStore,
        channel: JobChannel,
        store: WorkerStore,
        wake: Event,
    ) -> None:
        self.closed = False
        self._machine = machine
        self._held = phase.held
        self._storage = storage
        self._channel = channel
        channel.on_readable = self.on_readable
        self._store = store
        self._wake = wake
        self._clock = channel.clock
        self._origin_ns = phase.origin_ns
        state = phase.state
        self._packed = state.settings
        self._settings: StorageSettings | None = None  # unpacked when first needed
        self._naming: Naming | None = None
        self._retries = machine.settings.retries
        self._timeout_ns = int(state.operation_timeout_s * SECOND_NS)
        self._think_s = (state.think_min_s, state.think_max_s) if state.think_max_s > 0 else None
        bandwidth = Bandwidth(phase, channel.clock)
        self._bandwidth = bandwidth if bandwidth.is_limited else None
        # By group of users:
        self._greenlets = [0] * len(phase.held.queues)
        self._idle: list[list[gevent.Greenlet]] = [[] for _ in phase.held.queues]
        self._waking = [False] * len(phase.held.queues)  # one of the idle ones is about to run
        self._paying = [False] * len(phase.held.queues)  # a user waits for the bandwidth
        self._enough = 1  # completed operations at which a report is scheduled
        self._reported = 0  # operations, at the last tick
        self._kept = 0  # completed operations that were not reported at the last tick
        self._done: deque[int] = deque(maxlen=_TICKS)  # operations in each of the last ticks
        self._hub = get_hub()
        self._idle_watcher = self._hub.loop.idle()
        self._ticker = self._hub.loop.timer(FLUSH_S / _TICKS, FLUSH_S / _TICKS)
        self._ticker.start(self.tick)
        self._due_timer: Timer | None = None  # a closed loop needs none
        self._due_ns = -1  # offset at which it calls

    def __repr__(self) -> str:
        return f"<UserPool {self._held}>"

    def resize(self) -> None:
        """Follow ``HeldJobs.users``; users above it end with their current operation."""
        for group, idle in enumerate(self._idle):
            for user in idle:
                self._hub.loop.run_callback(user.switch)
            idle.clear()
            if self._held.queues[group]:
                self._wake_next(group)

    def close(self) -> None:
        """Start nothing more; results of operations in flight are discarded."""
        if self.closed:
            return
        self.closed = True
        self._channel.listen(False)
        self._channel.on_readable = None
        self._ticker.close()
        self._idle_watcher.close()
        if self._due_timer:
            self._due_timer.close()
        self._held.users = [0] * len(self._held.queues)
        self.resize()

    def on_readable(self) -> None:
        """Messages with jobs have arrived. They are left until the queue runs out, or until the
        next tick: a few large messages cost less than many small ones. Meanwhile the descriptor
        is not watched, or the loop would never sleep."""
        if self._machine.returns_jobs or self._held.is_short:
            self.fetch_jobs()
        else:
            self._channel.listen(False)

    def fetch_jobs(self) -> None:
        """Receive jobs as far as they are wanted, and start users on them.

        The descriptor shows new messages only once, so this is also called whenever the queue runs
        out, and at ticks.
        """
        if self._channel.fetch():
            self.start_jobs()

    def start_jobs(self) -> None:
        """Jobs were added to ``HeldJobs``: start users on them, or set the timer for them."""
        if self._held.delayed:
            self._release_due()
        for group, queue in enumerate(self._held.queues):
            if queue:
                self._wake_next(group)

    def flush(self) -> None:
        """Report the completed operations, if there are any."""
        if self.closed:
            return
        # Always: an acknowledgement may have taken the results along, and the event loop does not
        # sleep while the watcher runs.
        self._idle_watcher.stop()
        if self._held.finished:
            self._machine.report(self._clock())
            self._channel.flush()

    def _release_due(self) -> None:
        """Queue the delayed jobs that are due, and set the timer for the next one."""
        held = self._held
        held.release_due(self._clock() - self._origin_ns)
        if held.delayed and held.delayed[0][0] != self._due_ns:
            self._due_timer = self._due_timer or Timer(self._on_due)
            self._due_ns = held.delayed[0][0]
            self._due_timer.set(self._due_ns + self._origin_ns)

    def _on_due(self) -> None:
        self._due_ns = -1
        self.start_jobs()

    def _wake_next(self, group: int) -> None:
        """Wake one idle user, or start one; it wakes the next one if there are more jobs.

        So if jobs take no time, no user is woken without need, and none is there that has nothing
        to do: a million greenlets take 12 s and 3 GB.
        """
        if self._waking[group]:
            return
        if self._idle[group]:
            self._waking[group] = True
            self._hub.loop.run_callback(self._idle[group].pop().switch)
        elif self._greenlets[group] < self._held.users[group]:
            self._waking[group] = True
            self._greenlets[group] += 1
            gevent.spawn(self._user, group)

    def tick(self) -> None:
        """FLUSH_S has passed since the tick before the last one."""
        held = self._held
        new = held.reported - self._reported
        self._done.append(new + len(held.finished) - self._kept)
        done = sum(self._done)
        self._enough = 1 if done <= FEW else FULL
        held.quick = min(done // _QUICK_PARTS, QUICK)
        if not new:
            self.fetch_jobs()
            self.flush()
        self._reported, self._kept = held.reported, len(held.finished)

    def _fetch_and_flush(self) -> None:
        """Fetch jobs and report, at once: the master sends as many jobs as were reported.

        If no jobs have arrived, results wait for those of the users that are about to complete.
        """
        self.fetch_jobs()
        if self._held.finished:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        if len(self._held.finished) >= FULL:
            self.flush()
        elif not self._held.delayed:
            # The master may wait for results to send more jobs; not if jobs for later are here.
            self._idle_watcher.start(self.flush)

    def _wait_for_job(self, group: int) -> None:
        self._idle[group].append(getcurrent())
        if self._held.finished:
            self._schedule_flush()
        self._hub.switch()
        self._waking[group] = False

    def _waits_for_bandwidth(self, group: int) -> bool:
        """Whether the next job was not paid; then its user has waited. Of a group one user does,
        and wakes the next when it has its job."""
        assert self._bandwidth is not None  # nosec B101 # for the type checker
        if self._paying[group]:
            self._wait_for_job(group)
            return True
        wait_s = self._bandwidth.wait_s(self._held.queues[group][0])
        if not wait_s:
            return False
        if self._held.finished:
            self._schedule_flush()
        self._paying[group] = True
        gevent.sleep(wait_s)
        self._paying[group] = False
        return True

    def _user(self, group: int) -> None:
        held, idle, clock = self._held, self._idle[group], self._clock
        queue, delayed, finished = held.queues[group], held.delayed, held.finished
        greenlets = self._greenlets
        actions = self._storage.actions
        timeout_ns, think_s, limited = self._timeout_ns, self._think_s, self._bandwidth is not None
        self._waking[group] = False
        while greenlets[group] <= held.users[group]:
            if not queue:
                self._wait_for_job(group)
                continue
            if limited and self._waits_for_bandwidth(group):
                continue
            job = queue.popleft()
            if queue and (idle or greenlets[group] < held.users[group]):
                self._wake_next(group)
            if not queue and not delayed:
                self._fetch_and_flush()  # the next jobs have arrived, and wait in the socket
            start_ns = clock()
            if start_ns > held.lease_expires_ns:
                queue.appendleft(job)
                self._expire_lease()
                continue
            held.busy += 1
            try:
                timing = actions[job.operation](job, start_ns + timeout_ns if timeout_ns else 0)
                if type(timing) is not Timing:
                    raise _no_timing(timing)
                if timing.bytes_moved != job.size:
                    self._check_length(job, timing)
                finished.append((job, start_ns, timing))  # held_jobs makes columns of them
            except Exception as error:  # noqa: BLE001 - _failure logs it
                finished.append(self._recover(job, start_ns, error))
            held.busy -= 1
            if self.closed:
                return
            if len(finished) >= self._enough:
                self._schedule_flush()
            if think_s:
                gevent.sleep(random.uniform(*think_s))  # nosec B311 # a pause
        greenlets[group] -= 1

    def _expire_lease(self) -> None:
        self._machine.expire_lease()
        self.close()
        self._channel.flush()
        self._wake.set()

    def _recover(self, job: Job, start_ns: int, outcome: object) -> Result:
        """Retry as far as the rules allow; returns the row of the operation as it ended.

        :param outcome: what the driver raised, or gave instead of a Timing.
        """
        error = self._failure(outcome)
        if job.operation not in OPERATIONS:  # a newer master's
            return self._row(
                job, start_ns, None, Attempts(row_of(job.operation), 0), 0, error, start_ns
            )
        attempts = Attempts(OPERATIONS[job.operation], self._retries)
        renewals = 0
        renewable = True
        began_ns = first_ns = start_ns  # of the latest attempt; of the first
        while True:
            if error.kind is ErrorKind.NONE:
                error = self._noted(job, error)
            if error.kind is ErrorKind.NONE:
                attempts.reconnects += error.reconnects
                return self._row(job, start_ns, error.timing, attempts, renewals, error, first_ns)
            if error.kind is ErrorKind.UNAUTHORIZED and renewable and not self.closed:
                if self._store.renew(began_ns, error.identity) and not self.closed:
                    renewals += 1
                    renewable = renewals < MAX_RENEWALS
                    start_ns = self._clock()  # no latency includes the renewal
                    attempts = attempts.restarted(error)
                else:
                    renewable = False
                    continue
            else:
                step = attempts.after(error)
                if step is NextStep.DONE:
                    return self._row(
                        job, start_ns, error.timing, attempts, renewals, None, first_ns
                    )
                if step is NextStep.GIVE_UP or not self._pause(attempts, error, start_ns):
                    return self._row(
                        job, start_ns, error.timing, attempts, renewals, error, first_ns
                    )
            began_ns = self._clock()
            outcome = self._attempt(job, start_ns)
            if type(outcome) is Timing:
                attempts.reconnects += outcome.reconnects
                return self._row(job, start_ns, outcome, attempts, renewals, None, first_ns)
            error = self._failure(outcome)

    def _attempt(self, job: Job, start_ns: int) -> object:
        """What the driver gave or raised."""
        outcome = self._call_driver(job, start_ns)
        # Another error itself would keep our frames alive.
        known = isinstance(outcome, Timing | StorageError)
        return outcome if known else self._failure(outcome)

    def _call_driver(self, job: Job, start_ns: int) -> object:
        """The same, in any thread."""
        deadline_ns = start_ns + self._timeout_ns if self._timeout_ns else 0
        try:
            timing = self._storage.actions[job.operation](job, deadline_ns)
            self._check_length(job, timing)
            return timing
        except StorageError as error:
            # Its cause refers to our frame, and our frame to it: only the garbage collector could
            # free that, and it runs rarely.
            error.__cause__ = error.__context__ = None
            return error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - _failure logs it
            return error

    def _check_length(self, job: Job, timing: object) -> None:
        """Check the length of what a READ received, whatever the driver and its options.

        :param timing: what the driver gave.
        :raises StorageError: WRONG_LENGTH.
        """
        if (
            type(timing) is not Timing
            or timing.bytes_moved == job.size
            or job.operation not in RECEIVING
            or not row_of(job.operation).moves_content
        ):
            return
        settings = self._settings = self._settings or StorageSettings.from_map(self._packed)
        wrong = wrong_length(job, settings.sizes[job.size_class], timing.bytes_moved)
        if wrong:
            self._naming = self._naming or naming_of(settings)
            text = f"{self._naming.path(job)}: {wrong}"
            if coding := getattr(self._storage, "coding", str)():
                text += f"; Content-Encoding {coding}"
            raise StorageError(ErrorKind.WRONG_LENGTH, text, status=timing.status, timing=timing)

    def _noted(self, job: Job, note: StorageError) -> StorageError:
        """What a driver says beside a Timing; an error, if that one is of the wrong length."""
        try:
            self._check_length(job, note.timing)
        except StorageError as wrong:
            text = f"{wrong.detail}; {note.detail}"
            return StorageError(wrong.kind, text, status=wrong.status, timing=wrong.timing)
        return note

    def _failure(self, outcome: object) -> StorageError:
        """The error of an attempt; of what no driver should raise or give, a failure as well."""
        if isinstance(outcome, StorageError):
            return outcome
        if isinstance(outcome, MemoryError):
            self._machine.out_of_memory()
            self._channel.flush()
            self._wake.set()
            return StorageError(ErrorKind.INTERNAL, "the worker is out of memory")
        error = outcome if isinstance(outcome, Exception) else _no_timing(outcome)
        log.error("A defect in the storage driver", exc_info=error)
        return StorageError(
            ErrorKind.INTERNAL, f"a defect of ssbench: {type(error).__name__}: {error}"
        )

    def _pause(self, attempts: Attempts, error: StorageError, start_ns: int) -> bool:
        """Wait before the next attempt; False if there must be none."""
        pause_s = attempts.pause_s(error)
        late_ns = self._clock() + pause_s * SECOND_NS - start_ns - self._timeout_ns
        if (self._timeout_ns and late_ns > 0) or self.closed:
            return False
        gevent.sleep(pause_s)
        return not self.closed and self._clock() <= self._held.lease_expires_ns

    def _row(
        self,
        job: Job,
        start_ns: int,
        timing: Timing | None,
        attempts: Attempts,
        renewals: int,
        error: StorageError | None,
        began_ns: int,
    ) -> Result:
        """:param began_ns: when it was started first; ``start_ns``: with its present token."""
        kind = error.kind if error else ErrorKind.NONE
        of = timing or Timing(
            start_ns, start_ns, self._clock(), 0, error.status if error else 0,
            url=error.url if error else 0, address=error.address if error else 0,
        )  # fmt: skip
        row = result_of(job, start_ns, of, self._origin_ns)
        retries, not_found_retries, rate_limited, reconnects = attempts.counters
        # What came of a response that broke off is a page, and no content.
        is_page = kind and not row_of(job.operation).moves_content
        return row._replace(
            headers_ns=row.headers_ns if timing else NONE_NS,
            first_byte_ns=row.first_byte_ns if timing and not kind else NONE_NS,
            bytes_moved=0 if is_page else row.bytes_moved,
            retries=retries, not_found_retries=not_found_retries, rate_limited=rate_limited,
            reconnects=reconnects, renewals=renewals, renewed_ns=start_ns - began_ns,
            error=int(kind), unknown=attempts.unknown if kind else 0,
            detail=error.detail if error else "",
        )  # fmt: skip


def _no_timing(outcome: object) -> TypeError:
    return TypeError(f"the driver gave {type(outcome).__name__} for a Timing")
