"""The admin of the driver for WebDAV: collections, listings, deletes.

A container is a collection below the URL, with an object that marks it as ours. A DELETE of a
collection deletes all that is in it. So ``delete_container`` first reads the collection, and sends
none unless there is our mark, and no other object at any depth. Only collections that we made get
our mark: one that looks empty may have content that no listing shows (nginx lists no ``.git``).

A PUT of WebDAV has no metadata, so which run uploaded an object is in its name only. The mark lists
the runs that uploaded to the container: a name with the id of any other run is not ssbench's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from time import time

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.naming import run_id_in
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.storage.base import (
    ContainerEntry,
    ContainerInfo,
    ListingPages,
    ObjectEntry,
    StoreLimits,
    StoreState,
    check_listed,
    delete_each,
    unless_missing,
)
from ssbench.storage.http.addresses import quoted_name
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import Collector, seconds_ahead
from ssbench.storage.webdav.client import MARKER, PROPFIND, WebdavClient, under_fresh_nonce

_LISTING_MAX = 1 << 34  #: bytes of a listing, of which little is kept
_COUNTED_MAX = 1 << 20  #: bytes of a listing whose entries are counted
KEPT = 20_000  #: entries of a folder that are kept at a time
_DEPTH_MAX = 64  #: of folders in a container
_RUNS_MAX = 1000  #: ids of runs in a mark; the oldest are dropped
#: RFC 4331: bytes that may still be stored in a collection.
_QUOTA = (
    b'<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop>'
    b"<quota-available-bytes/></prop></propfind>"
)
_AVAILABLE = re.compile(rb"quota-available-bytes[^<>]{0,200}>\s{0,9}([0-9]{1,18})\s{0,9}<")


class WebdavAdmin(WebdavClient):
    """Implements ``ssbench.storage.base.StoreAdmin``.

    :raises UsageError: as WebdavClient.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings, seed)
        self._pages = ListingPages()
        self._unmarked: set[str] = set()  #: containers that we made, and that have no mark yet

    def limits(self) -> StoreLimits:
        return StoreLimits()  # WebDAV has no way to ask for them

    @under_fresh_nonce
    def state(self) -> StoreState:
        response = Collector()
        self._propfind("", response, self._admin_deadline_ns(), 0, _QUOTA)
        found = _AVAILABLE.search(response.body)
        return StoreState(int(found[1]) if found else None, seconds_ahead(response.headers, time()))

    def owns(self, container: str) -> bool:
        path = self._path(container)
        if self._request("HEAD", f"{path}/{MARKER}", accepted=(404,)).status != 404:
            return True
        self._request("PROPFIND", f"{path}/", "Depth: 0\r\n", PROPFIND)
        return False

    def container_info(self, container: str) -> ContainerInfo:
        """Its ``object_count`` counts a folder as one; None without our mark."""
        if not self.owns(container):
            return ContainerInfo(None, False, None)
        names: list[str] = []
        try:
            self._each_member(f"{container}/", lambda name, _: names.append(name), _COUNTED_MAX)
        except StorageError as error:
            if error.kind is not ErrorKind.OVERLONG:
                raise
            return ContainerInfo(None, True, None)  # too many to count
        return ContainerInfo(None, True, len(names))

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        found = unless_missing(self.container_info, container)
        if found is None:
            self._unmarked.discard(container)
        # One that we made is unmarked if the mark could not be uploaded: this is a second attempt.
        if found is not None and (found.marked or container not in self._unmarked):
            run = self._settings.run_id
            if found.marked and run and run not in (runs := self._runs(container)):
                if changing is not None:
                    changing()
                self._put_mark(container, runs)
            return found
        if changing is not None:
            changing()
        path = self._path(container)
        if found is None and self._make_folder(path).status == 405:  # another client has made it
            return self.container_info(container)
        self._unmarked.add(container)
        self._put_mark(container, [])
        self._unmarked.discard(container)
        return None

    def _runs(self, container: str) -> list[str]:
        """Ids of the runs that uploaded to a container, by its mark; [] without one."""
        mark = Collector()
        self._send(
            "GET", f"{self._path(container)}/{MARKER}", self._admin_deadline_ns(), None, mark,
            accepted=(404,),
        )  # fmt: skip
        return mark.body.decode("ascii", "replace").split()

    def _put_mark(self, container: str, runs: Sequence[str]) -> None:
        """Mark it, with the present run behind these."""
        body = "\n".join([*runs, self._settings.run_id or "-"][-_RUNS_MAX:])
        self._request("PUT", f"{self._path(container)}/{MARKER}", body=body.encode())

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        """Without the containers' sizes, which WebDAV doesn't state."""
        page = _Page(limit)

        def take(name: str, size: int) -> None:
            name, slash, _ = name.partition("/")
            if slash and name.startswith(prefix) and name > marker:
                page.add(name, 0)

        self._each_member("", take)
        return [ContainerEntry(name, 0, 0) for name, _ in page.entries()]

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        return self._pages.page(self._walk(container, "", marker), container, marker, limit)

    def object_run_id(self, container: str, name: str) -> str | None:
        """By the object's name, if the container's mark lists that run."""
        self._request("HEAD", f"{self._path(container)}/{self._path(name)}")
        run = run_id_in(name)
        return run if run in self._runs(container) else None

    def delete_object(self, container: str, name: str) -> bool:
        path = f"{self._path(container)}/{self._path(name)}"
        return self._request("DELETE", path, accepted=(404,)).status != 404

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        return delete_each(self.delete_object, container, names)

    def delete_container(self, container: str) -> bool:
        marked = unless_missing(self.owns, container)
        if marked is None:
            return False
        shown = printable(container)
        if not marked:
            raise _refusal(f'"{shown}" has no mark of ssbench ({MARKER})', 403)
        for entry in self._walk(container, "", ""):
            raise _refusal(f'"{shown}" is not empty: it holds "{printable(entry.name)}"', 409)
        path = f"{self._path(container)}/"
        status = self._request("DELETE", path, accepted=(404,)).status
        if status == 207:
            raise _refusal(f'the server could not delete all of "{shown}"', 409)
        return status != 404

    def _walk(
        self, container: str, folder: str, marker: str, folders: Iterator[int] | None = None
    ) -> Iterator[ObjectEntry]:
        """The objects in a folder and below it whose names follow the marker, in order.

        :param folder: relative to the container; "", or it ends with a slash.
        :param folders: counts those that were read; many may hold no object.
        """
        if folder.count("/") > _DEPTH_MAX:
            raise StorageError(
                ErrorKind.PROTOCOL, f"{printable(container)}: more than {_DEPTH_MAX} folders deep"
            )
        after, more, folders = marker, True, folders or count(1)
        check_listed(next(folders), self._settings.listed_max, f"folders of {printable(container)}")
        while more:
            page = self._page(container, folder, after)
            for key, size in page.entries():
                if not key.endswith("/"):
                    yield ObjectEntry(key, size)
                    continue
                try:
                    yield from self._walk(container, key, marker, folders)
                except StorageError as error:
                    if error.status != 404:  # 404: another client deleted the folder meanwhile
                        raise
            after, more = (page.entries()[-1][0], True) if page.is_cut else ("", False)

    def _page(self, container: str, folder: str, after: str) -> _Page:
        """The first entries of a folder from a name on; the folder that holds it is one of them."""
        page = _Page(KEPT)

        def take(name: str, size: int) -> None:
            key = folder + name
            is_begun = name.endswith("/") and key != after and after.startswith(key)
            if key > after or is_begun:
                page.add(key, size)

        self._each_member(f"{container}/{folder}", take)
        return page

    @under_fresh_nonce
    def _each_member(
        self, path: str, take: Callable[[str, int], object], limit: int = _LISTING_MAX
    ) -> None:
        path = self._path(path) if path else ""
        response = self._members(path, take, limit)
        response.finish(self._propfind(path, response, self._admin_deadline_ns()))

    def _path(self, name: str) -> str:
        """The quoted path of any name.

        :raises StorageError: the name has a dot segment, which a server could resolve.
        """
        quoted_name(name)
        return self._path_of(name)

    @under_fresh_nonce
    def _make_folder(self, path: str) -> Timing:
        return self._make_collection(path, self._admin_deadline_ns())

    @under_fresh_nonce
    def _request(
        self,
        method: str,
        path: str,
        headers: str = "",
        body: bytes | None = None,
        accepted: Collection[int] = (),
    ) -> Timing:
        """As ``_send``, within the time of an administrative request."""
        upload = None if body is None else Upload(len(body), body)
        collector = Collector(bodiless=method == "HEAD")
        return self._send(
            method, path, self._admin_deadline_ns(), upload, collector, headers, accepted=accepted
        )


class _Page:
    """The first entries by name of a listing that is in no order.

    :param most: entries that ``entries`` gives; twice as many are held at most.
    """

    def __init__(self, most: int) -> None:
        self.is_cut = False  #: there were more
        self._most = most
        self._held: list[tuple[str, int]] = []

    def add(self, name: str, size: int) -> None:
        self._held.append((name, size))
        if len(self._held) >= 2 * self._most:
            self.entries()

    def entries(self) -> list[tuple[str, int]]:
        """(name, size), sorted."""
        self._held.sort()
        if len(self._held) > self._most:
            del self._held[self._most :]
            self.is_cut = True
        return self._held


def _refusal(why: str, status: int) -> StorageError:
    return StorageError(ErrorKind.STATUS, f"not deleted: {why}", status=status, sent=False)
