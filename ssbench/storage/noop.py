"""A driver whose operations succeed at once without doing anything: measures ssbench itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter_ns
from typing import Literal

from ssbench.core.model import Job, Timing
from ssbench.core.operations import OPERATIONS, Body, Operation, Target
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.base import (
    Action,
    ContainerEntry,
    ContainerInfo,
    ObjectEntry,
    StoreLimits,
)

#: The status that Swift would return, by the direction of the content.
_STATUS = {Body.SENT: 201, Body.RECEIVED: 200, Body.ENTRIES: 200, Body.NONE: 204}


class NoopStorage:
    """Keeps no state: listings are empty, and every object can be read."""

    concurrency: Literal["greenlets", "threads"] = "greenlets"
    operations: Collection[int] = OPERATIONS.keys()

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        self._placement = settings.placement
        self._serial = settings.newest.serial
        self.actions: Mapping[int, Action] = {
            operation: _pretend(row, settings.knows_versions)
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


def _pretend(row: Operation, knows_versions: bool) -> Action:
    """An action that takes no time. Where content moves, it counts all of it, or the part whose
    length is an argument."""
    status = _STATUS[row.body]
    length_at = row.arguments.index("length") if "length" in row.arguments else -1

    def part(job: Job, deadline_ns: int) -> Timing:
        now = perf_counter_ns()
        return Timing(now, now, now, int(job.arguments[length_at]), 206)

    def moving(job: Job, deadline_ns: int) -> Timing:
        now = perf_counter_ns()
        return Timing(now, now, now, max(job.size, 0), status)

    def versioned(job: Job, deadline_ns: int) -> Timing:
        return moving(job, deadline_ns)._replace(version_id=b"%d" % job.number)

    def still(job: Job, deadline_ns: int) -> Timing:
        now = perf_counter_ns()
        return Timing(now, now, now, 0, status)

    def several(job: Job, deadline_ns: int) -> Timing:
        now = perf_counter_ns()
        return Timing(now, now, now, 0, status, items=1 + len(job.others))

    if row.moves_content:
        if row.body is Body.SENT and knows_versions:
            return versioned
        return part if length_at >= 0 else moving
    return several if row.target is Target.OBJECTS else still
