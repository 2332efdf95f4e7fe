"""What a worker is on duty for: the phase that beats speak of, and its stint in it."""

from __future__ import annotations

import logging
from collections.abc import Callable

import gevent

from ssbench.core.errors import SsbenchError
from ssbench.core.messages import ControlState
from ssbench.core.model import Phase
from ssbench.transport.ports import TransportError
from ssbench.worker.host_metrics import HostMetricsSender
from ssbench.worker.job_receiver import JobReceiver
from ssbench.worker.store import WorkerStore
from ssbench.worker.worker_phase import PhaseHooks, WorkerPhase

log = logging.getLogger(__name__)


class PhaseController:
    """Goes from stint to stint, as beats say it. To be used in the loop's thread.

    :param stop: called with the reason where a phase can't be begun.
    :param begun: called when a stint has begun: beats may have said more meanwhile.
    """

    def __init__(
        self,
        hooks: PhaseHooks,
        store: WorkerStore,
        receiver: JobReceiver,
        host: HostMetricsSender,
        *,
        stop: Callable[[str], None],
        begun: Callable[[], None],
    ) -> None:
        self.run, self.phase = "", Phase.IDLE
        self.worker_phase: WorkerPhase | None = None  #: once the store is connected for the phase
        self._incarnation = 0  # that the phase was entered under
        self._hooks = hooks
        self._store = store
        self._receiver = receiver
        self._host = host
        self._stop = stop
        self._begun = begun

    def __repr__(self) -> str:
        return f"<PhaseController {self.phase.name} {self.worker_phase}>"

    @property
    def jobs(self) -> int:
        """How many are here."""
        return self.worker_phase.users.jobs if self.worker_phase else 0

    # As beats say it ----------------------------------------------------------------------

    def follow(self, state: ControlState, incarnation: int) -> None:
        """Become what the beat says of this incarnation."""
        if (state.run, state.phase) != (self.run, self.phase):
            self._change_phase(state, incarnation)
        self._store.take_token(state.settings)
        if self.worker_phase is None:
            return
        users = state.workers[incarnation][0]
        if users != self.worker_phase.wanted:
            self.worker_phase.wanted = users
            if users:
                self._receiver.open(state.pipe)
            else:
                self._receiver.close()
            if users <= self.worker_phase.connected:
                self.worker_phase.users.resize(users)
            else:
                gevent.spawn(self._grow, self.worker_phase, users)
        self.worker_phase.follow(state)

    def _grow(self, worker_phase: WorkerPhase, users: int) -> None:
        """Be more users, once their connections are there: no latency shall have the making."""
        worker_phase.storage.connect(users)
        worker_phase.connected = users
        if worker_phase is self.worker_phase and worker_phase.wanted == users:
            worker_phase.users.resize(users)
            worker_phase.fetch_jobs()

    def _change_phase(self, state: ControlState, incarnation: int) -> None:
        self._end_phase()
        self.run, self.phase, self._incarnation = state.run, Phase(state.phase), incarnation
        self._host.follow(self.phase)
        if self.phase is Phase.IDLE or not state.run:
            self._receiver.close()
            return
        offset_ns = state.workers[incarnation][1]
        if offset_ns is None:
            offset_ns = self._hooks.clock_sync.delay_ns
        gevent.spawn(self._begin, state, incarnation, state.start_ns + offset_ns)

    def _begin(self, state: ControlState, incarnation: int, origin_ns: int) -> None:
        try:
            if self._is_in(state, incarnation):
                self._connect_and_report(state, incarnation, origin_ns)
        except TransportError as error:
            self._stop(f"can't begin: {error}")
        except (SsbenchError, TypeError, ValueError, KeyError) as error:
            self._stop(f"the storage settings can't be used: {error}")
        except Exception as error:
            # Whatever it was (no descriptors left, say): the run must not wait for us.
            log.exception("The phase can't be begun")
            self._stop(f"can't begin: {type(error).__name__}: {error}")

    def _is_in(self, state: ControlState, incarnation: int) -> bool:
        """Whether this is still the phase of that beat; the master may have gone on meanwhile."""
        return (state.run, state.phase, incarnation) == (self.run, self.phase, self._incarnation)

    def _connect_and_report(self, state: ControlState, incarnation: int, origin_ns: int) -> None:
        """Open the store, connect, and report for work."""
        share = state.workers[incarnation][0]
        if share:
            self._receiver.open(state.pipe)  # before the store's connections take what there is
        else:
            # Still open from the previous phase: jobs would arrive that no user here runs.
            self._receiver.close()
        storage = self._store.open(state.settings)
        storage.connect(share)
        if not self._is_in(state, incarnation):
            return
        log.info("%s of run %s with %d users", self.phase.name.lower(), self.run, share)
        self.worker_phase = WorkerPhase(self._hooks, storage, state, incarnation, origin_ns, share)
        self._hooks.send(self.worker_phase.ready(stopped=False))
        self._begun()

    # Whatever beats say -------------------------------------------------------------------

    def fetch_jobs(self) -> None:
        """Take jobs, where there is a stint."""
        if self.worker_phase:
            self.worker_phase.fetch_jobs()

    def on_jobs_readable(self) -> None:
        """Messages with jobs are there."""
        if self.worker_phase:
            self.worker_phase.on_readable()
        else:
            self._receiver.listen(False)

    def return_unstarted(self) -> None:
        """Give back what hasn't been started."""
        if self.worker_phase:
            self.worker_phase.return_unstarted()

    def leave(self) -> int:
        """Be idle, whatever beats have said: nothing that is here may be started. Gives how many
        jobs were here."""
        jobs = self.jobs
        # Where the master has not given us up yet, others do what we haven't started.
        self.return_unstarted()
        self._end_phase()
        self._receiver.close()
        self.run, self.phase, self._incarnation = "", Phase.IDLE, 0
        self._host.follow(self.phase)
        return jobs

    def _end_phase(self) -> None:
        if self.worker_phase:
            self.worker_phase.users.close()
            self.worker_phase = None
