"""A worker that says all the right things, but for what a test makes it say about its jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ssbench import __version__
from ssbench.core.columns import JOB_SCHEMAS, JobLayout
from ssbench.core.messages import Bye, ControlState, Heartbeat, Hello, Jobs, Ready, decode
from ssbench.core.model import Job
from ssbench.transport.key import CurveKey
from ssbench.transport.sockets import Ports
from ssbench.transport.worker_transport import WorkerTransport

#: Called with the scripted, a batch and its jobs.
Script = Callable[["ScriptedWorker", Jobs, list[Job]], None]


class ScriptedWorker:
    """A context manager: plays within, in a thread, and leaves with a bye.

    :param heartbeats: how it changes its heartbeats.
    """

    def __init__(
        self,
        ports: Ports,
        script: Script,
        *,
        worker_id: str = "scripted",
        heartbeats: Callable[[Heartbeat], Heartbeat] = lambda heartbeat: heartbeat,
        release: str = __version__,
        key: CurveKey | None = None,
    ) -> None:
        self.incarnation = 4711
        self.transport = WorkerTransport("127.0.0.1", ports, key)
        self.state: ControlState | None = None
        self._script, self._pulses, self._id = script, heartbeats, worker_id
        self._release = release
        self._control = self.transport.control()
        self._ready: tuple[str, int, bool] | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._play, name="scripted")

    def _play(self) -> None:
        next_hello = 0.0
        while not self._ending.is_set():
            state = self._control.receive(0.002)
            if isinstance(state, ControlState):
                self._answer(state, self._pulses)
            here = self.state is not None and self.incarnation in self.state.workers
            if not here and time.monotonic() >= next_hello:
                said = Hello(
                    self.incarnation, 0, self._id, 4, "host", 1, self._release,
                    secret=self.transport.secret,
                )  # fmt: skip
                next_hello = time.monotonic() + (0.2 if self.transport.send(said) else 0.01)
            data = self.transport.receive() if here else None
            message = decode(data) if data else None
            if isinstance(message, Jobs):
                self._script(self, message, JobLayout(JOB_SCHEMAS[0]).decode(message.packed))
        self.transport.send(Bye(self.incarnation, "done playing"))
        self._control.close()
        self.transport.close()

    def _answer(self, state: ControlState, said: Callable[[Heartbeat], Heartbeat]) -> None:
        self.state = state
        now_ns = time.perf_counter_ns()
        heartbeat = Heartbeat(self.incarnation, state.serial, now_ns, 0, 0, 0, 0)
        self.transport.send(said(heartbeat))
        ready = (state.run, state.phase, state.stopping)
        if self.incarnation in state.workers and state.run and ready != self._ready:
            self._ready = ready
            self.transport.open_work(state.pipe)
            self.transport.send(Ready(self.incarnation, *ready))

    def __enter__(self) -> ScriptedWorker:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
