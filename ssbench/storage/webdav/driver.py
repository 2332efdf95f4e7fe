"""The data path of the driver for WebDAV: operations on objects."""

from __future__ import annotations

import re
from copy import copy

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.naming import naming_of
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import Action, Listed, Page
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import HEAD_ONLY, RESPONSE_MAX, Collector
from ssbench.storage.http.store import HttpStorage
from ssbench.storage.webdav.client import (
    XML_TYPE,
    Multistatus,
    WebdavClient,
    check_names,
    under_fresh_nonce,
)

#: An object's first bytes tell its version: versions begin at different places of the content.
_PROBE = 64
_RANGE = re.compile(r"bytes (?:[0-9]{1,18}-[0-9]{1,18}|\*)/([0-9]{1,18})")
_PROPPATCH = (
    '<?xml version="1.0" encoding="utf-8"?><propertyupdate xmlns="DAV:"><set><prop>'
    '<post xmlns="urn:ssbench">%d</post></prop></set></propertyupdate>'
)
#: Statuses of a PUT where a folder is missing: 409 by the standard, 500 by nginx.
_NO_FOLDER = frozenset({404, 409, 500})
_NO_FOLDER_OF_COPY = _NO_FOLDER - {404}  #: 404: the source is missing
_FOLDERS_MAX = 100_000  #: folders that are remembered


class WebdavStorage(WebdavClient, HttpStorage):
    """Implements ``ssbench.storage.base.ObjectStore``.

    :raises UsageError: as WebdavClient.
    """

    #: No RFC says what an ETag is made of: some servers' have 32 hex digits, and are no MD5.
    _claimed_md5 = staticmethod(lambda headers: None)
    headers_mark = ""
    lost_race_statuses = (412,)  # 409: there is no folder

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        super().__init__(settings, seed)
        self._paths = naming_of(settings, self._path_of)
        self._path = self._paths.path
        self._folders: set[str] = set()  #: those that are there
        self._of_uploads = ""  #: further header lines of uploads
        self.actions = self._make_actions()

    def _make_actions(self) -> dict[int, Action]:
        actions = super()._make_actions()
        if any(site.digest for site in self._sites):
            return {each: under_fresh_nonce(do) for each, do in actions.items()}
        return actions

    def _with_headers(self, lines: str, uploads: str) -> WebdavStorage:
        view = copy(self)
        view._extra, view._of_uploads = lines, uploads
        return view

    def _read(
        self, job: Job, deadline_ns: int, body: Collector | None = None, lines: str = ""
    ) -> Timing:
        longest = self._longest[job.size_class]
        return self._send("GET", self._path(job), deadline_ns, None, body, lines, longest)

    def checksum_lines(self, checksum: str) -> str:
        """Of ownCloud and those that follow it; WebDAV itself has none."""
        return f"OC-Checksum: MD5:{checksum}\r\n"

    def _write(
        self,
        job: Job,
        deadline_ns: int,
        response: Collector | None = None,
        upload: Upload | None = None,
        lines: str = "",
    ) -> Timing:
        path = self._path(job)
        if path.count("/") > 1:
            self._make_folders(path, deadline_ns)
        try:
            return self._send(
                "PUT", path, deadline_ns, upload or self._upload(job), response,
                self._of_uploads + lines,
            )  # fmt: skip
        except StorageError as error:
            if error.status in _NO_FOLDER:
                self._folders.clear()
            raise

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        timing = self._send("DELETE", self._path(job), deadline_ns, accepted=(404,))
        return timing._replace(bytes_moved=0)  # what the body says is no object data

    def _head(self, job: Job, deadline_ns: int) -> Timing:
        return self._send("HEAD", self._path(job), deadline_ns, None, HEAD_ONLY)

    def _post(self, job: Job, deadline_ns: int) -> Timing:
        """Set a property. The response has a status for each, inside of a 207."""
        body = (_PROPPATCH % job.number).encode()
        found: list[int] = []
        response = Multistatus(lambda path, size, is_collection, of: found.extend(of), RESPONSE_MAX)
        upload = Upload(len(body), body)
        timing = self._send("PROPPATCH", self._path(job), deadline_ns, upload, response, XML_TYPE)
        timing = timing._replace(bytes_moved=0)
        if timing.status == 207:
            response.finish(timing)
            status = max(found, default=500)
            if status >= 300:
                raise StorageError(
                    ErrorKind.STATUS,
                    f"PROPPATCH returned 207, and {status} for the property",
                    status=status,
                    timing=timing._replace(status=status),
                )
        return timing

    def _page(self, listed: Listed, deadline_ns: int, at: None = None) -> Page:
        """All entries of a folder, or those that begin with what the prefix has behind its last
        slash. WebDAV knows no further pages, no limit, and no delimiter but the slash."""
        folder, slash, beginning = listed.prefix.rpartition("/")
        path = f"{self._path_of(listed.container)}/{self._path_of(folder)}{slash}"
        names: list[str] = []
        response = self._members(path, lambda name, size: names.append(name))
        timing = self._propfind(path, response, deadline_ns)
        response.finish(timing)
        check_names(names, timing)
        items = sum(name.startswith(beginning) for name in names)
        below, further, _ = listed.wanted[len(folder) + len(slash) :].partition("/")
        return Page(timing._replace(items=items), None, below + further in names)

    def _copy(self, job: Job, deadline_ns: int) -> Timing:
        """Copy on the server; refused by it if there is something at the destination."""
        made = self._path(job._replace(object=job.others[0]))
        if made.count("/") > 1:
            self._make_folders(made, deadline_ns)
        try:
            timing = self._send("COPY", self._path(job), deadline_ns, destination=made)
        except StorageError as error:
            if error.status in _NO_FOLDER_OF_COPY:
                self._folders.clear()
            raise
        return timing._replace(bytes_moved=0)

    def _probe(self, job: Job, deadline_ns: int) -> tuple[Timing, bool]:
        """By length and first bytes: WebDAV keeps no metadata of a PUT."""
        body = _Beginning(max(self._longest[job.size_class], RESPONSE_MAX))
        probe = self._send(
            "GET", self._path(job), deadline_ns, None, body, f"Range: bytes=0-{_PROBE - 1}\r\n",
            accepted=(404, 416),
        )  # fmt: skip
        return probe, probe.status != 404 and self._is_initial(job, probe.status, body)

    def _is_initial(self, job: Job, status: int, body: _Beginning) -> bool:
        size = body.length
        if status != 200:  # 200: all of it; it is empty, or the server knows no ranges
            stated = _RANGE.fullmatch(body.headers.get("content-range", ""))
            size = int(stated[1]) if stated else -1
        beginning = bytes(self._upload(job).first[:_PROBE])
        return size == job.size and (size == 0 or body.body == beginning)

    def _make_folders(self, path: str, deadline_ns: int) -> None:
        """Make the folders between the container and an object, unless they are known."""
        if path.rpartition("/")[0] in self._folders:
            return
        if len(self._folders) >= _FOLDERS_MAX:
            self._folders.clear()
        folder, *names, _ = path.split("/")
        for name in names:
            folder = f"{folder}/{name}"
            if folder not in self._folders:
                self._make_collection(folder, deadline_ns)
                self._folders.add(folder)

    def connect(self, count: int) -> None:
        super().connect(count)
        for site, pool in zip(self._sites, self._pools, strict=True):
            if site.digest is not None and site.signer is None:
                self._take_nonce(site, pool)


class _Beginning(Collector):
    """Keeps the first bytes of a body, and counts all."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.length = 0

    def add(self, part: memoryview) -> None:
        self.length += len(part)
        self.body += part[: _PROBE - len(self.body)]
