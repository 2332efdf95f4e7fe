"""The admin of the driver for OpenStack Swift: containers, listings, limits, deletes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import time
from urllib.parse import quote, unquote

from msgspec.structs import replace

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind
from ssbench.core.naming import MARKER_HEADER, RUN_HEADER
from ssbench.core.retry import RETRIED_STATUSES
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import (
    ContainerEntry,
    ContainerInfo,
    Kept,
    ListedVersion,
    ObjectEntry,
    StoreLimits,
    StoreState,
    VersionMarker,
    VersionPage,
    delete_all_versions,
    make_marked,
)
from ssbench.storage.http.addresses import quoted_name
from ssbench.storage.http.response import Collector, seconds_ahead
from ssbench.storage.swift.bodies import (
    Listing,
    container_info,
    free_bytes,
    store_limits,
)
from ssbench.storage.swift.driver import SwiftClient

_VERSIONS = "X-Versions-Enabled"
_PAGE = 1000  #: entries of a listing of versions


class SwiftAdmin(SwiftClient):
    """Implements ``StoreAdmin`` and ``VersionAdmin`` of ``ssbench.storage.base``.

    :raises UsageError: a storage URL, token, policy or certificate is invalid.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        self._policy = settings.placement
        if self._policy and not self._policy.isprintable():
            raise UsageError(f"policy {self._policy!r} can't be sent in a header")
        self._run_id = settings.run_id
        super().__init__(settings, seed)

    def limits(self) -> StoreLimits:
        # /info needs no token.
        collector = Collector()
        netloc = self._urls[0].netloc
        head = f"GET /info HTTP/1.1\r\nHost: {netloc}\r\nUser-Agent: ssbench\r\n\r\n"
        pool = self._pools[0]
        timing = pool.request(head.encode(), None, self._admin_deadline_ns(), collector)
        found = store_limits(bytes(collector.body)) if timing.status == 200 else StoreLimits()
        return replace(
            found, policies=found.policies and [*map(self._secrets.masked, found.policies)]
        )

    def state(self) -> StoreState:
        collector = Collector(bodiless=True)
        self.request("HEAD", "?format=json", collector)
        return StoreState(free_bytes(collector.headers), seconds_ahead(collector.headers, time()))

    def owns(self, container: str) -> bool:
        return self.container_info(container).marked

    def container_info(self, container: str) -> ContainerInfo:
        collector = Collector(bodiless=True)
        self.request("HEAD", quoted_name(container), collector)
        headers = collector.headers.items()
        return container_info({name: self._secrets.masked(text) for name, text in headers})

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        # HEAD first: a PUT would add our mark to a container that isn't ours.
        found = make_marked(self._of_our_policy, self._put_container, container, changing, self)
        if self._settings.versioning and self._versions(container) != "true":
            self._keep_versions(container, found, changing)
        return found

    def _keep_versions(
        self,
        container: str,
        found: ContainerInfo | None,
        changing: Callable[[], None] | None,
    ) -> None:
        """Turn versions on in a container of ours.

        :raises StorageError: the store keeps none, or the container is of others.
        """
        if found is not None and not found.marked and found.object_count != 0:
            why = "keeps no versions, and ssbench did not make it"
            raise StorageError(ErrorKind.STATUS, f"{container} {why}: leave out versioning")
        if changing is not None:
            changing()
        self.request("POST", quoted_name(container), None, None, f"{_VERSIONS}: true\r\n", b"")
        if self._versions(container) != "true":
            raise StorageError(ErrorKind.STATUS, "the store keeps no versions of objects")

    def _versions(self, container: str) -> str:
        """Whether it keeps versions: true, false (not any more) or "" (never)."""
        collector = Collector(bodiless=True)
        self.request("HEAD", quoted_name(container), collector)
        return collector.headers.get(_VERSIONS.lower(), "").lower()

    def keeps_versions(self, container: str) -> bool:
        try:
            return self._versions(container) != ""
        except StorageError:
            return False

    def list_versions(self, container: str, at: VersionMarker | None) -> VersionPage:
        listing = Listing(_PAGE)
        query = f"versions=true&format=json&limit={_PAGE}"
        if at is not None:
            name, version = (quote(each, safe="") for each in at)
            query += f"&marker={name}&version_marker={version}"
        self.request("GET", f"{quoted_name(container)}?{query}", listing)
        found = listing.versions()
        after = found[-1][:2] if found else None
        if after is not None and (after == at or after[0] < (at or ("",))[0]):
            raise StorageError(ErrorKind.PROTOCOL, "the store's list of versions does not advance")
        return VersionPage(found, after)

    def delete_versions(self, container: str, versions: Sequence[ListedVersion]) -> list[Kept]:
        kept = []
        for each in versions:
            query = f"version-id={quote(each.id, safe='')}"
            try:
                path = f"{quoted_name(container)}/{quoted_name(each.name)}?{query}"
                self.request("DELETE", path, missing_ok=True)
            except StorageError as error:
                if error.sent and not error.status:
                    raise
                kept.append(Kept(each, str(error), error.status in RETRIED_STATUSES))
        return kept

    def _of_our_policy(self, container: str) -> ContainerInfo:
        """:raises StorageError: as ``container_info``; status 409: it has another policy."""
        found, policy = self.container_info(container), self._policy
        if policy and found.policy and found.policy.lower() != policy.lower():
            raise StorageError(
                ErrorKind.STATUS,
                f"container {container!r} already exists under policy {found.policy!r},"
                f" not {policy!r}",
                status=409,
            )
        return found

    def _put_container(self, container: str, found: ContainerInfo | None) -> ContainerInfo | None:
        """Create or mark it; returns its metadata if another client created it meanwhile."""
        headers = f"{MARKER_HEADER}: {quote(self._run_id) or 'yes'}\r\n"
        if self._policy is not None:
            headers += f"X-Storage-Policy: {self._policy}\r\n"
        timing = self.request("PUT", quoted_name(container), headers=headers, body=b"")
        is_another = found is None and timing.status == 202
        return self.container_info(container) if is_another else None

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        return self._page(f"?prefix={quote(prefix, safe='')}&", marker, limit).containers()

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        return self._page(f"{quoted_name(container)}?", marker, limit).objects()

    def _page(self, path: str, marker: str, limit: int) -> Listing:
        listing = Listing(limit)
        query = f"format=json&limit={limit}&marker={quote(marker, safe='')}"
        self.request("GET", path + query, listing)
        return listing

    def object_run_id(self, container: str, name: str) -> str | None:
        collector = Collector(bodiless=True)
        self.request("HEAD", f"{quoted_name(container)}/{quoted_name(name)}", collector)
        run = collector.headers.get(RUN_HEADER.lower())
        return None if run is None else unquote(run)

    def delete_object(self, container: str, name: str) -> bool:
        path = f"{quoted_name(container)}/{quoted_name(name)}"
        return self.request("DELETE", path, missing_ok=True).status != 404

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        prefix = quoted_name(container)
        paths = [f"{prefix}/{quoted_name(name)}" for name in names]
        failures = self.bulk(paths)[1].failures
        return [(name.removeprefix(container + "/"), status) for name, status in failures]

    def delete_container(self, container: str) -> bool:
        path = quoted_name(container)
        try:
            return self.request("DELETE", path, missing_ok=True).status != 404
        except StorageError as error:
            if error.status != 409 or not self.keeps_versions(container):
                raise
        if self.container_info(container).object_count != 0:
            raise StorageError(ErrorKind.STATUS, f"{container} is not empty", status=409)
        self.request("POST", path, None, None, f"{_VERSIONS}: false\r\n", b"")
        delete_all_versions(self, container, self._settings.listed_max)
        return self.request("DELETE", path, missing_ok=True).status != 404
