"""The admin of a store in memory.

``MemoryStore`` is the store (share one between several admins), ``MemoryStorage`` an admin that
talks to it. It answers as Swift does: 404 for what isn't there, 409 for a container that isn't
empty or is under another policy, 401 for a token that it doesn't know, listings in order and in
pages. Failures are scripted per method::

    store = MemoryStore()
    store.fail("make_container", status_error(503), None, status_error(429))  # 2nd call passes
    store.refuse("delete_object", "stubborn", status_error(403))  # whenever it is about that name
    storage = MemoryStorage(store, StorageSettings(placement="gold"))
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.base import (
    ContainerEntry,
    ContainerInfo,
    ObjectEntry,
    OpenUpload,
    StoreLimits,
)


def status_error(status: int, detail: str = "") -> StorageError:
    """The error of an answer with this status."""
    kind = ErrorKind.UNAUTHORIZED if status == 401 else ErrorKind.STATUS
    return StorageError(kind, detail or f"the store answered {status}", status=status)


@dataclass
class MemoryObject:
    size: int
    run: str | None = None  #: that uploaded it


@dataclass
class MemoryContainer:
    policy: str
    marker: bool = False
    objects: dict[str, MemoryObject] = field(default_factory=dict)
    uploads: list[OpenUpload] = field(default_factory=list)


class MemoryStore:
    """The store: its containers, its limits, and what it was told to get wrong.

    :param pause: called in the middle of every request; ``lambda: gevent.sleep(0)`` lets other
        greenlets in.
    :param tokens: those that it accepts; None accepts anything.
    """

    def __init__(
        self,
        *,
        policies: Sequence[str] = ("gold", "silver"),
        listing_limit: int = 10_000,
        bulk_delete_max: int | None = None,
        tokens: set[str] | None = None,
        pause: Callable[[], None] = lambda: None,
    ) -> None:
        self.policies = tuple(policies)
        self.listing_limit = listing_limit
        self.bulk_delete_max = bulk_delete_max
        self.tokens = tokens
        self.pause = pause
        self.containers: dict[str, MemoryContainer] = {}
        self.calls: list[tuple[str, str]] = []  #: (method, container or object), as they came
        self.in_flight = 0
        self.most_in_flight = 0
        self._scripts: dict[str, deque[StorageError | None]] = defaultdict(deque)
        self.refusals: dict[tuple[str, str], StorageError] = {}

    def add(
        self,
        container: str,
        *names: str,
        size: int = 1,
        policy: str | None = None,
        marker: bool = False,
        run: str | None = None,
    ) -> None:
        """Put a container and objects there, as somebody else would: without marker and run."""
        found = self.containers.setdefault(container, MemoryContainer(policy or self.policies[0]))
        found.marker = found.marker or marker
        found.objects.update({name: MemoryObject(size, run=run) for name in names})

    def fail(self, method: str, *outcomes: StorageError | None) -> None:
        """Let the next calls of an admin's method end so; None lets pass."""
        self._scripts[method].extend(outcomes)

    def refuse(self, method: str, name: str, error: StorageError) -> None:
        """Let every call of that method about that container or object fail."""
        self.refusals[method, name] = error

    def count(self, method: str) -> int:
        """How often a method was called."""
        return sum(called == method for called, _ in self.calls)

    def container(self, name: str) -> MemoryContainer:
        """A container that is there; else 404."""
        found = self.containers.get(name)
        if found is None:
            raise status_error(404)
        return found

    @contextmanager
    def request(self, method: str, name: str, token: str) -> Iterator[None]:
        """One request: recorded, checked, and failed where the script says so."""
        self.calls.append((method, name))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            self.pause()
            if self.tokens is not None and token not in self.tokens:
                raise status_error(401)
            script = self._scripts[method]
            error = script.popleft() if script else self.refusals.get((method, name))
            if error is not None:
                raise error
            yield
        finally:
            self.in_flight -= 1


class MemoryStorage:
    """Implements ``StoreAdmin`` and ``UploadAdmin`` of ``ssbench.storage.base``."""

    concurrency: Literal["greenlets", "threads"] = "greenlets"

    def __init__(
        self, store: MemoryStore | None = None, settings: StorageSettings | None = None
    ) -> None:
        self.store = store or MemoryStore()
        self.settings = settings or StorageSettings()
        self.closed = False
        self.credentials = self.settings.newest

    def set_credentials(self, credentials: Credentials) -> None:
        self.credentials = credentials

    @property
    def credentials_serial(self) -> int:
        return self.credentials.serial

    def limits(self) -> StoreLimits:
        with self._request("limits", ""):
            return StoreLimits(
                max_object_size=5 * 2**30,
                max_object_name_length=1024,
                max_container_name_length=256,
                listing_limit=self.store.listing_limit,
                policies=self.store.policies,
                bulk_delete_max=self.store.bulk_delete_max,
            )

    def owns(self, container: str) -> bool:
        return self.container_info(container).marked

    def container_info(self, container: str) -> ContainerInfo:
        with self._request("container_facts", container):
            return self._facts(self.store.container(container))

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        with self._request("make_container", container):
            wanted = self.settings.placement
            if wanted is not None and wanted.lower() not in self.store.policies:
                raise status_error(400, f"no such storage policy: {wanted}")
            there = self.store.containers.get(container)
            if changing is not None and (there is None or not (there.marker or there.objects)):
                changing()
            if there is None:
                policy = wanted.lower() if wanted else self.store.policies[0]
                self.store.containers[container] = MemoryContainer(policy, marker=True)
                return None
            if wanted is not None and there.policy != wanted.lower():
                raise status_error(409)
            found = self._facts(there)
            there.marker = there.marker or not there.objects  # else it may be somebody else's
            return found

    @staticmethod
    def _facts(container: MemoryContainer) -> ContainerInfo:
        return ContainerInfo(container.policy, container.marker, len(container.objects))

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        with self._request("list_containers", marker):
            names = (n for n in sorted(self.store.containers) if n.startswith(prefix))
            return [self._entry(name) for name in self._page(names, marker, limit)]

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        with self._request("list_objects", container):
            objects = self.store.container(container).objects
            names = self._page(iter(sorted(objects)), marker, limit)
            return [ObjectEntry(name, objects[name].size) for name in names]

    def object_run_id(self, container: str, name: str) -> str | None:
        with self._request("object_run", name):
            found = self.store.container(container).objects.get(name)
            if found is None:
                raise status_error(404)
            return found.run

    def delete_object(self, container: str, name: str) -> bool:
        with self._request("delete_object", name):
            if container not in self.store.containers:
                return False
            objects = self.store.container(container).objects
            return objects.pop(name, None) is not None

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        with self._request("bulk_delete", container):
            most = self.store.bulk_delete_max
            if most is None or len(names) > most:
                raise status_error(400 if most is None else 413)
            there = self.store.containers.get(container)
            failed = []
            for name in names:
                refusal = self.store.refusals.get(("delete_object", name))
                if refusal is not None:
                    failed.append((name, refusal.status))
                elif there is not None:
                    there.objects.pop(name, None)
            return failed

    def delete_container(self, container: str) -> bool:
        with self._request("delete_container", container):
            if container not in self.store.containers:
                return False
            found = self.store.container(container)
            if found.objects or found.uploads:
                raise status_error(409)
            del self.store.containers[container]
            return True

    def open_uploads(self, container: str, after: str) -> list[OpenUpload]:
        with self._request("open_uploads", container):
            uploads = self.store.container(container).uploads
            return sorted(each for each in uploads if each.name > after)

    def abort_upload(self, container: str, upload: OpenUpload) -> bool:
        with self._request("abort_upload", upload.name):
            uploads = self.store.container(container).uploads
            was_open = upload in uploads
            uploads[:] = [each for each in uploads if each != upload]
            return was_open

    def close(self) -> None:
        self.closed = True

    @contextmanager
    def _request(self, method: str, name: str) -> Iterator[None]:
        if self.closed:
            raise StorageError(ErrorKind.RESET, "the driver is closed", sent=False)
        with self.store.request(method, name, self.credentials.payload.get("token", "")):
            yield

    def _entry(self, name: str) -> ContainerEntry:
        objects = self.store.container(name).objects.values()
        return ContainerEntry(name, len(objects), sum(stored.size for stored in objects))

    def _page(self, names: Iterator[str], marker: str, limit: int) -> list[str]:
        if limit > self.store.listing_limit:
            raise status_error(412, f"a page has at most {self.store.listing_limit} lines")
        return list(islice((name for name in names if name > marker), limit))
