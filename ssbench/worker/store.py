"""The store as one worker has it: opened once per run, with the newest credentials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gevent.event import Event
from msgspec.structs import replace

from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.base import ObjectStore
from ssbench.worker.job_channel import JobChannel
from ssbench.worker.machine import WorkerMachine

_LOOK_S = 1.0


class WorkerStore:
    """Opens the store, and waits for credentials."""

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
