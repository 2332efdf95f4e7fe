"""A driver whose operations succeed at once without doing anything: measures ssbench itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Literal

from ssbench.core.model import Job, Timing
from ssbench.core.operations import OPERATIONS, Body
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.base import (
    Action,
    ContainerEntry,
    ContainerInfo,
    ObjectEntry,
    StoreLimits,
)

#: The status that Swift would return, by the direction of the content.
_STATUS = {Body.SENT: 201, Body.RECEIVED: 200, Body.NONE: 204}


class NoopStorage:
    """Keeps no state: listings are empty, and every object can be read."""

    concurrency: Literal["greenlets", "threads"] = "greenlets"

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        self._placement = settings.placement
        self._serial = settings.newest.serial
        self.actions: Mapping[int, Action] = {
            operation: _pretend(_STATUS[row.body], moves=row.moves_content)
            for operation, row in OPERATIONS.items()
        }

    def connect(self, count: int) -> None:
        """Does nothing."""

    def set_credentials(self, credentials: Credentials) -> None:
        """Stores the serial only."""
        self._serial = credentials.serial

    @property
    def credentials_serial(self) -> int:
        return self._serial

    def limits(self) -> StoreLimits:
        return StoreLimits()

    def owns(self, container: str) -> bool:
        return True

    def container_info(self, container: str) -> ContainerInfo:
        return ContainerInfo(self._placement, marked=True, object_count=0)

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        if changing is not None:
            changing()
        return None

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        return []

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        return []

    def object_run_id(self, container: str, name: str) -> str | None:
        return None

    def delete_object(self, container: str, name: str) -> bool:
        return True

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        return []

    def delete_container(self, container: str) -> bool:
        return True

    def close(self) -> None:
        """Does nothing."""


def _pretend(status: int, *, moves: bool) -> Action:
    """An action that takes no time; its size counts as moved if ``moves``."""

    def moving(job: Job, deadline_ns: int) -> Timing:
        now = perf_counter_ns()
        return Timing(now, now, now, job.size, status)

    def still(job: Job, deadline_ns: int) -> Timing:
        now = perf_counter_ns()
        return Timing(now, now, now, 0, status)

    return moving if moves else still
