"""A worker's links: jobs in and results out on its sockets, and the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gevent.event import Event
from gevent.hub import get_hub
from msgspec.structs import replace

from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.base import ObjectStore
from ssbench.transport.worker_transport import WorkerTransport
from ssbench.worker.machine import WorkerMachine


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
        self._machine = machine
        self._transport = transport
        self._on_jobs = on_jobs
        self._watcher: Any = None  # while the socket is open
        self._listening = False

    def __repr__(self) -> str:
        state = "closed" if self._watcher is None else "listening" if self._listening else "open"
        return f"<JobChannel {state}>"

    def open(self, pipe: int, on_readable: Callable[[], None]) -> None:
        """Open the work socket, if it is closed, with at most ``pipe`` messages waiting in it.

        :raises TransportError: if the host has no socket left.
        """
        fd = self._transport.open_work(pipe)
        if self._watcher is None:
            self._watcher = get_hub().loop.io(fd, 1)
            self._on_readable = on_readable
            self.listen(True)

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
        if self._watcher is None or on == self._listening:
            return
        self._listening = on
        if on:
            self._watcher.start(self._on_readable)
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

    def report(self) -> None:
        """Send the results of the operations that were completed."""
        self._machine.report(self.clock())
        self.flush()

    def flush(self) -> None:
        """Send the machine's messages, as far as the master takes them now."""
        outbox, send = self._machine.outbox, self._transport.send
        while outbox and send(outbox[0]):
            outbox.popleft()


_LOOK_S = 1.0


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

    def renew(self, began_ns: int) -> bool:
        """Wait for credentials newer than an attempt that began then, and ask the master for them;
        False if none came."""
        clock = self._channel.clock
        since_ns = clock()
        while (renewed := self._machine.credentials_renewed(began_ns, since_ns, clock())) is None:
            self._channel.flush()
            self._credentials_came.clear()
            self._credentials_came.wait(_LOOK_S)
        return renewed

    def close(self) -> None:
        """Close the store, if one is open."""
        if self._storage:
            self._storage.close()
