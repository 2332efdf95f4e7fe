"""A worker that says all the right things, but for what a test makes it say about its jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ssbench import __version__
from ssbench.core.columns import unpack_jobs
from ssbench.core.messages import Bye, ControlState, Heartbeat, Hello, Jobs, Ready, decode
from ssbench.core.model import Job
from ssbench.transport.ports import Ports
from ssbench.transport.worker_transport import WorkerTransport

#: Called with the puppet, a batch and its jobs.
Script = Callable[["Puppet", Jobs, list[Job]], None]


class Puppet:
    """A context manager: plays within, in a thread, and leaves with a bye.

    :param pulses: how it changes its pulses; None for none at all.
    """

    def __init__(
        self,
        ports: Ports,
        script: Script,
        *,
        worker_id: str = "puppet",
        pulses: Callable[[Heartbeat], Heartbeat] | None = lambda pulse: pulse,
        release: str = __version__,
    ) -> None:
        self.incarnation = 4711
        self.wire = WorkerTransport("127.0.0.1", ports, None)
        self.beat: ControlState | None = None
        self._script, self._pulses, self._id = script, pulses, worker_id
        self._release = release
        self._control = self.wire.control()
        self._ready: tuple[str, int, bool] | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._play, name="puppet")

    def _play(self) -> None:
        next_hello = 0.0
        while not self._ending.is_set():
            beat = self._control.receive(0.002)
            if isinstance(beat, ControlState):
                self._answer(beat)
            here = self.beat is not None and self.incarnation in self.beat.workers
            if not here and time.monotonic() >= next_hello:
                said = Hello(self.incarnation, 0, self._id, 4, "host", 1, self._release)
                next_hello = time.monotonic() + (0.2 if self.wire.send(said) else 0.01)
            data = self.wire.receive() if here else None
            message = decode(data) if data else None
            if isinstance(message, Jobs):
                self._script(self, message, unpack_jobs(message.packed))
        self.wire.send(Bye(self.incarnation, "done playing"))
        self._control.close()
        self.wire.close()

    def _answer(self, beat: ControlState) -> None:
        self.beat = beat
        if self._pulses:
            now_ns = time.perf_counter_ns()
            pulse = Heartbeat(self.incarnation, beat.serial, now_ns, 0, 0, 0, 0, {})
            self.wire.send(self._pulses(pulse))
        ready = (beat.run, beat.phase, beat.stopping)
        if self.incarnation in beat.workers and beat.run and ready != self._ready:
            self._ready = ready
            self.wire.open_work(beat.pipe)
            self.wire.send(Ready(self.incarnation, *ready))

    def __enter__(self) -> Puppet:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._thread.join(5)
        assert not self._thread.is_alive()
