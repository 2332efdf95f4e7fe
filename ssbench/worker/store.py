"""The store as one worker has it: opened once a run, with the newest token that beats brought."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gevent.event import Event

from ssbench.core.settings import StorageSettings
from ssbench.storage.base import Storage

_SECOND = 1_000_000_000
_RENEWAL_S = 60.0
_ASK_S = 1.0


class WorkerStore:
    """Opens the store, and renews its token.

    :param ask: called with the serial of the present token: the store takes it no more.
    :param wanted: whether anybody still needs a token.
    """

    def __init__(
        self,
        worker_id: str,
        open_driver: Callable[[StorageSettings], Storage],
        clock: Callable[[], int],
        *,
        ask: Callable[[int], object],
        wanted: Callable[[], bool],
    ) -> None:
        self._worker_id = worker_id
        self._open_driver = open_driver
        self._clock = clock
        self._ask = ask
        self._wanted = wanted
        self._storage: Storage | None = None
        self._run_id = ""
        self._token_came = Event()
        self._token_ns = 0  # when the last one came by beat

    def open(self, said: Mapping[str, Any]) -> Storage:
        """The run's store, by what a beat says; the one that is open, where the run is the same.

        :raises SsbenchError, TypeError, ValueError, KeyError: where these settings can't be used.
        """
        settings = StorageSettings.from_map(said)
        if self._storage is None or settings.run_id != self._run_id:
            self.close()
            self._storage = self._open_driver(replace(settings, worker_id=self._worker_id))
            self._run_id = settings.run_id
        return self._storage

    def take_token(self, said: Mapping[str, Any]) -> None:
        """Use the token in a beat's settings from now on, if it is newer than ours."""
        serial = said.get("token_serial", 0)
        if self._storage and isinstance(serial, int) and serial > self._storage.token_serial:
            self._storage.set_token(str(said.get("token", "")), serial)
            self._token_ns = self._clock()
            self._token_came.set()

    def renew(self, began_ns: int) -> bool:
        """Wait for a token newer than an attempt that began then, and ask for it; False where
        none came."""
        deadline_ns = self._clock() + int(_RENEWAL_S * _SECOND)
        while self._storage and self._token_ns <= began_ns:
            if self._clock() > deadline_ns or not self._wanted():
                return False
            self._ask(self._storage.token_serial)
            self._token_came.clear()
            self._token_came.wait(_ASK_S)
        return self._storage is not None

    def close(self) -> None:
        """Close the store, if one is open."""
        if self._storage:
            self._storage.close()
