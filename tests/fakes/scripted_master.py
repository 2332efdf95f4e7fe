"""A master that says what a test says, and a worker that runs in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

from gevent import get_hub

from ssbench.core.errors import ExitStatus
from ssbench.core.messages import (
    Bye,
    Heartbeat,
    Hello,
    Jobs,
    Message,
    Ready,
    Results,
    encode,
    pack,
    unpack,
)
from ssbench.core.model import Job, Phase, Result
from ssbench.core.operations import CREATE, Operation
from ssbench.core.settings import StorageSettings
from ssbench.transport.key import CurveKey, channel_key
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.sockets import Ports
from ssbench.transport.worker_transport import WorkerTransport
from ssbench.worker.worker import Worker, local_settings
from tests.fakes.batches import unpack_results
from tests.fakes.control_states import IDLE
from tests.timing import PATIENCE_S

RUN = "run1"

Kind = TypeVar("Kind", bound=Message)


def jobs(*numbers: int, operation: Operation = CREATE) -> list[Job]:
    """Jobs with these numbers."""
    return [Job(number, operation, 0, number, 0, 100) for number in numbers]


def rows_of(results: Results) -> list[Result]:
    """The rows in a message."""
    return list(map(Result._make, zip(*unpack_results(unpack(results.packed)), strict=True)))


class ScriptedMaster:
    """Real sockets; every message that came is kept. A context manager.

    :param settings: for the workers; the no-op driver's unless given.
    """

    def __init__(
        self, settings: StorageSettings | None = None, key: CurveKey | None = None
    ) -> None:
        self.transport = MasterTransport("127.0.0.1", Ports(0, 0, 0), key)
        self.settings = settings or StorageSettings(driver="noop", run_id=RUN)
        self.received: list[Message] = []
        self.seen = 0  #: of those received, what ``expect`` has passed
        self.state = IDLE._replace(serial=0, timeout_s=120.0)
        self.batch = 0
        self.broadcasting = True

    def broadcast(self, **changes: Any) -> None:
        """Say how things stand; what is not given stays as it was."""
        self.state = self.state._replace(
            serial=self.state.serial + 1, master_ns=time.perf_counter_ns(), **changes
        )
        self.transport.send_control_state(self.state)

    def listen(self, seconds: float = 0.02) -> None:
        """Take in what comes; a control_state now and then, unless there are to be none."""
        if self.broadcasting:
            self.broadcast()
        self.received += [message for message, _ in self.transport.receive(seconds, {})]

    def expect(
        self, kind: type[Kind], fits: Callable[[Kind], object] = lambda message: True
    ) -> Kind:
        """The next message of a kind that fits; those before it are passed over."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            while self.seen < len(self.received):
                message = self.received[self.seen]
                self.seen += 1
                if isinstance(message, kind) and fits(message):
                    return message
            self.listen()
        said = [message for message in self.received if not isinstance(message, Heartbeat)]
        raise AssertionError(f"no {kind.__name__} among {said}")

    def listen_until(self, done: Callable[[], object], why_not: str = "it never happens") -> None:
        """Listen until something has happened."""
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, why_not
            self.listen(0.005)

    def all_of(self, kind: type[Kind]) -> list[Kind]:
        """Every message of a kind so far."""
        return [message for message in self.received if isinstance(message, kind)]

    def begin(self, users: int = 2, phase: Phase = Phase.RUN, **changes: Any) -> int:
        """Greet the worker that says hello and put it to work; gives its incarnation."""
        incarnation = self.expect(Hello).incarnation
        self.share(incarnation, users, phase, **changes)
        self.expect(Ready, lambda ready: (ready.phase, ready.stopped) == (phase, False))
        return incarnation

    def share(self, incarnation: int, users: int, phase: Phase = Phase.RUN, **changes: Any) -> None:
        """Give the worker so many users in this phase."""
        self.broadcast(
            run=RUN, phase=int(phase), start_ns=time.perf_counter_ns(),
            workers={incarnation: (users, None)}, settings=self.settings.to_map(), **changes,
        )  # fmt: skip

    def send(self, batch: Sequence[Job], *, run: str = RUN, phase: int = Phase.RUN) -> int:
        """Send jobs; gives the batch's number."""
        self.batch += 1
        self.send_raw(encode(Jobs(run, phase, self.batch, time.perf_counter_ns(), pack(batch))))
        return self.batch

    def send_raw(self, data: bytes) -> None:
        """Send anything on the work port."""
        self.listen_until(lambda: self.transport.send_jobs(data), "no worker has room")

    def __enter__(self) -> ScriptedMaster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.transport.__exit__(kind, e, tb)


def host_key() -> CurveKey | None:
    """That of masters and workers on this host that have no key file."""
    return channel_key(None, None, lambda why: None)


def host_master() -> ScriptedMaster:
    """One that workers find which were started by hand on this host."""
    return ScriptedMaster(key=host_key())


class WorkerThread:
    """A worker with its own event loop in a thread; it ends with the block at the latest."""

    def __init__(self, master: ScriptedMaster, worker_id: str = "w", **options: Any) -> None:
        self.status: ExitStatus | None = None
        self._master = master
        shell = {"host", "on_jobs", "open_driver", "permitted"} & options.keys()
        self._options = {name: options.pop(name) for name in shell}
        self._settings = local_settings(worker_id, **options)
        self._thread = threading.Thread(target=self._run, name="worker under test")

    def _run(self) -> None:
        transport = WorkerTransport("127.0.0.1", self._master.transport.ports, None)
        try:
            self.status = Worker(transport, self._settings, **self._options).serve()
        finally:
            get_hub().destroy(destroy_loop=True)

    def wait(self) -> ExitStatus | None:
        """Its exit status, once it has ended."""
        self._master.listen_until(lambda: not self._thread.is_alive(), "the worker does not end")
        return self.status

    def __enter__(self) -> WorkerThread:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        master = self._master
        deadline = time.monotonic() + PATIENCE_S
        while self._thread.is_alive() and time.monotonic() < deadline:
            hellos = [hello.incarnation for hello in master.all_of(Hello)]
            master.broadcast(quit=True, workers=dict.fromkeys(hellos, (0, None)), refused={})
            master.broadcasting = False
            master.listen(0.02)
        assert not self._thread.is_alive(), "the worker does not end"


def byes(master: ScriptedMaster) -> list[str]:
    """Reasons of those that left."""
    master.listen(0.05)
    return [bye.reason for bye in master.all_of(Bye)]
