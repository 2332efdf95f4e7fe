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
        ties: PhaseHooks,
        store: WorkerStore,
        port: JobReceiver,
        host: HostMetricsSender,
        *,
        stop: Callable[[str], None],
        begun: Callable[[], None],
    ) -> None:
        self.run, self.phase = "", Phase.IDLE
        self.stint: WorkerPhase | None = None  #: once the store is connected for the phase
        self._incarnation = 0  # that the phase was entered under
        self._ties = ties
        self._store = store
        self._port = port
        self._host = host
        self._stop = stop
        self._begun = begun

    def __repr__(self) -> str:
        return f"<PhaseController {self.phase.name} {self.stint}>"

    @property
    def jobs(self) -> int:
        """How many are here."""
        return self.stint.users.jobs if self.stint else 0

    # As beats say it ----------------------------------------------------------------------

    def follow(self, beat: ControlState, incarnation: int) -> None:
        """Become what the beat says of this incarnation."""
        if (beat.run, beat.phase) != (self.run, self.phase):
            self._change_phase(beat, incarnation)
        self._store.take_token(beat.settings)
        if self.stint is None:
            return
        users = beat.workers[incarnation][0]
        if users != self.stint.wanted:
            self.stint.wanted = users
            if users:
                self._port.open(beat.pipe)
            else:
                self._port.close()
            if users <= self.stint.connected:
                self.stint.users.resize(users)
            else:
                gevent.spawn(self._grow, self.stint, users)
        self.stint.follow(beat)

    def _grow(self, stint: WorkerPhase, users: int) -> None:
        """Be more users, once their connections are there: no latency shall have the making."""
        stint.storage.connect(users)
        stint.connected = users
        if stint is self.stint and stint.wanted == users:
            stint.users.resize(users)
            stint.fetch_jobs()

    def _change_phase(self, beat: ControlState, incarnation: int) -> None:
        self._end_stint()
        self.run, self.phase, self._incarnation = beat.run, Phase(beat.phase), incarnation
        self._host.follow(self.phase)
        if self.phase is Phase.IDLE or not beat.run:
            self._port.close()
            return
        offset_ns = beat.workers[incarnation][1]
        if offset_ns is None:
            offset_ns = self._ties.beats.delay_ns
        gevent.spawn(self._begin, beat, incarnation, beat.start_ns + offset_ns)

    def _begin(self, beat: ControlState, incarnation: int, origin_ns: int) -> None:
        try:
            if self._is_in(beat, incarnation):
                self._connect_and_report(beat, incarnation, origin_ns)
        except TransportError as error:
            self._stop(f"can't begin: {error}")
        except (SsbenchError, TypeError, ValueError, KeyError) as error:
            self._stop(f"the storage settings can't be used: {error}")
        except Exception as error:
            # Whatever it was (no descriptors left, say): the run must not wait for us.
            log.exception("The phase can't be begun")
            self._stop(f"can't begin: {type(error).__name__}: {error}")

    def _is_in(self, beat: ControlState, incarnation: int) -> bool:
        """Whether this is still the phase of that beat; the master may have gone on meanwhile."""
        return (beat.run, beat.phase, incarnation) == (self.run, self.phase, self._incarnation)

    def _connect_and_report(self, beat: ControlState, incarnation: int, origin_ns: int) -> None:
        """Open the store, connect, and report for work."""
        share = beat.workers[incarnation][0]
        if share:
            self._port.open(beat.pipe)  # before the store's connections take what there is
        else:
            self._port.close()  # open from the phase before: jobs would come that nobody here does
        storage = self._store.open(beat.settings)
        storage.connect(share)
        if not self._is_in(beat, incarnation):
            return
        log.info("%s of run %s with %d users", self.phase.name.lower(), self.run, share)
        self.stint = WorkerPhase(self._ties, storage, beat, incarnation, origin_ns, share)
        self._ties.send(self.stint.ready(stopped=False))
        self._begun()

    # Whatever beats say -------------------------------------------------------------------

    def fetch_jobs(self) -> None:
        """Take jobs, where there is a stint."""
        if self.stint:
            self.stint.fetch_jobs()

    def hear_of_jobs(self) -> None:
        """Messages with jobs are there."""
        if self.stint:
            self.stint.hear()
        else:
            self._port.listen(False)

    def give_all_back(self) -> None:
        """Give back what hasn't been started."""
        if self.stint:
            self.stint.give_all_back()

    def leave(self) -> int:
        """Be idle, whatever beats have said: nothing that is here may be started. Gives how many
        jobs were here."""
        jobs = self.jobs
        # Where the master has not given us up yet, others do what we haven't started.
        self.give_all_back()
        self._end_stint()
        self._port.close()
        self.run, self.phase, self._incarnation = "", Phase.IDLE, 0
        self._host.follow(self.phase)
        return jobs

    def _end_stint(self) -> None:
        if self.stint:
            self.stint.users.close()
            self.stint = None
