"""What Swift says in JSON, plain text and headers, as typed values. Untrusted input. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec
from msgspec import Meta, Struct

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.naming import MARKER_HEADER
from ssbench.core.text import plural, printable
from ssbench.storage.base import (
    ContainerEntry,
    ContainerInfo,
    ListedVersion,
    ObjectEntry,
    StoreLimits,
    order_fault,
)
from ssbench.storage.http.response import LISTING_MAX, Collector

Name = Annotated[str, Meta(min_length=1, max_length=4096)]
Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Status = Annotated[str, Meta(pattern=r"^[1-5][0-9][0-9]")]  #: ``409 Conflict``
T = TypeVar("T")
Row = TypeVar("Row")

_ROW_MAX = 1 << 13  #: mean bytes of a listing's row: a name of 1,024 bytes, escaped, and the rest
_BRACKETS_MAX = 100  #: mean number of brackets in a listing's row
_ROWS_MAX = 100_000  #: objects and arrays in any other JSON
_LINE_MAX = 4096  #: bytes of a name in plain text; Swift's own default is 1,024
_CONTAINER_META = "x-container-meta-"
_DELETED = "application/x-deleted"  #: Content-Type of a delete marker
#: Words in names of metadata with secrets: Temp-URL-Key, for one.
_SECRET_META = ("key", "secret", "token", "password")
_DLO_SEGMENTS = 10_000  #: the proxy pages through longer listings; no run needs them


def decode(body: bytes, kind: type[T], what: str, most: int = _ROWS_MAX) -> T:
    """:param most: objects and arrays in it, which bounds its memory before it is decoded.
    :raises StorageError: PROTOCOL: it is no JSON of that kind.
    """
    if body.count(b"{") + body.count(b"[") > most:
        raise _malformed(what, f": more than {most:,} objects and arrays")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(what, f": {error}") from error


class ContainerRow(Struct):
    name: Name
    count: Count
    bytes: Count

    def entry(self) -> ContainerEntry:
        return ContainerEntry(self.name, self.count, self.bytes)


class ObjectRow(Struct):
    name: Name
    bytes: Count = 0

    def entry(self) -> ObjectEntry:
        return ObjectEntry(self.name, self.bytes)


class VersionRow(Struct):
    name: Name
    version_id: Annotated[str, Meta(min_length=1, max_length=1024)] = "null"
    is_latest: bool = True
    content_type: str = ""

    def entry(self) -> ListedVersion:
        is_marker = self.content_type.startswith(_DELETED)
        return ListedVersion(self.name, self.version_id, self.is_latest, is_marker)


class Listing(Collector):
    """A page of an account's or container's listing in JSON.

    :param limit: the number of rows that were requested.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(min(LISTING_MAX, (limit + 1) * _ROW_MAX))
        self._limit = limit

    def containers(self) -> list[ContainerEntry]:
        """:raises StorageError: PROTOCOL: invalid, or longer than requested."""
        return [row.entry() for row in self._rows(list[ContainerRow])]

    def objects(self) -> list[ObjectEntry]:
        """:raises StorageError: PROTOCOL: invalid, or longer than requested."""
        return [row.entry() for row in self._rows(list[ObjectRow])]

    def versions(self) -> list[ListedVersion]:
        """:raises StorageError: PROTOCOL: invalid, or longer than requested."""
        return [row.entry() for row in self._rows(list[VersionRow])]

    def _rows(self, kind: type[list[Row]]) -> list[Row]:
        # A 204 has no body at all. Names may hold brackets.
        most = (self._limit + 1) * _BRACKETS_MAX
        rows = decode(bytes(self.body).strip() or b"[]", kind, "a listing", most)
        if len(rows) > self._limit:
            raise _malformed("a listing", f": {len(rows)} rows, where {self._limit} were requested")
        return rows


class NameCounter(Collector):
    """Counts the entries of a listing in plain text: one name a line. Keeps at most one line.

    Plain text is a fifth of the JSON, and counting its lines costs next to nothing. A name with a
    line break would count twice; ssbench's own names have none.

    :param prefix: with which all entries begin.
    :param limit: the number of entries that were requested.
    :param after: the last entry of the page before; b"": this is the first.
    :param wanted: an entry to look for.
    """

    def __init__(self, prefix: bytes, limit: int, after: bytes = b"", wanted: bytes = b"") -> None:
        super().__init__(LISTING_MAX)
        self.count = 0
        self.has_wanted = False
        self.last = after  #: the last name so far
        self._prefix, self._limit, self._wanted = prefix, limit, wanted
        self._line = b""  #: the start of a line whose end is still to come
        self._wrong = ""

    def feed(self, data: memoryview) -> None:
        lines, end, rest = bytes(data).rpartition(b"\n")
        if not end:
            self._line = (self._line + rest)[: _LINE_MAX + 1]
            return
        names = (self._line + lines).split(b"\n")
        if not self._wrong:
            self._wrong = order_fault([self.last, *names] if self.last else names, self._prefix)
        self.has_wanted = self.has_wanted or (self._wanted != b"" and self._wanted in names)
        self.count += len(names)
        self.last = names[-1]
        self._line = rest[: _LINE_MAX + 1]

    def check(self, timing: Timing) -> None:
        """Check what was counted.

        :raises StorageError: PROTOCOL: no listing, cut off, longer than requested, or with names
            that don't begin with the prefix, or are not in order.
        """
        form = self.headers.get("content-type", "text/plain")
        if not form.startswith("text/plain"):
            wrong = f"of Content-Type {form[:80]!r}, not text/plain"
        elif self._line:
            wrong = "cut off within a name"
        elif self._wrong:
            wrong = f"of {self._wrong}"
        elif self.count > self._limit:
            wrong = f"of {self.count} names, where {self._limit} were requested"
        else:
            return
        raise StorageError(
            ErrorKind.PROTOCOL, f"a listing {wrong}", status=timing.status, timing=timing
        )


def container_info(headers: Mapping[str, str]) -> ContainerInfo:
    """Of a response to HEAD; header names are in lower case."""
    count = headers.get("x-container-object-count", "")
    return ContainerInfo(
        policy=headers.get("x-storage-policy"),
        marked=bool(headers.get(MARKER_HEADER.lower())),
        object_count=int(count) if re.fullmatch("[0-9]{1,18}", count) else None,
        metadata={
            name.removeprefix(_CONTAINER_META): (
                "..." if any(word in name for word in _SECRET_META) else value
            )
            for name, value in headers.items()
            if name.startswith(_CONTAINER_META)
        },
    )


def free_bytes(headers: Mapping[str, str]) -> int | None:
    """What an account's quota leaves, from the response to HEAD; None: there is no quota.

    Swift's account_quotas: the quota is metadata in the account, in newer releases a header.
    """
    used = headers.get("x-account-bytes-used", "")
    for name in ("x-account-meta-quota-bytes", "x-account-quota-bytes"):
        quota = headers.get(name, "")
        if _COUNT.fullmatch(quota) and _COUNT.fullmatch(used):
            return max(int(quota) - int(used), 0)
    return None


_COUNT = re.compile("[0-9]{1,18}")


class BulkResult(NamedTuple):
    deleted: int
    not_found: int
    failures: list[tuple[str, int]]  #: (container/object, status)


class _Bulk(
    Struct,
    rename={
        "status": "Response Status",
        "errors": "Errors",
        "deleted": "Number Deleted",
        "not_found": "Number Not Found",
    },
):
    status: Status
    errors: list[tuple[Name, Status]] = []
    deleted: Count = 0
    not_found: Count = 0


def bulk_result(body: bytes) -> BulkResult:
    """The outcome of a bulk delete.

    :raises StorageError: STATUS or UNAUTHORIZED: the bulk delete failed as a whole (the HTTP
        status is always 200); PROTOCOL: the response is invalid.
    """
    found = decode(body, _Bulk, "a bulk response")
    whole = int(found.status[:3])
    if whole == 401 or (not found.errors and whole // 100 != 2):
        kind = ErrorKind.UNAUTHORIZED if whole == 401 else ErrorKind.STATUS
        raise StorageError(kind, f"bulk delete failed with {whole}", status=whole)
    failures = [(unquote(name).lstrip("/"), int(status[:3])) for name, status in found.errors]
    return BulkResult(found.deleted, found.not_found, failures)


def bulk_error(result: BulkResult, names: Sequence[str], timing: Timing) -> StorageError:
    """The error of a bulk delete in which not all objects were deleted.

    Its timing has the status of each name: 0 (unknown) if the store says nothing of the name and
    did not process all of them.

    :param names: container/object, in the order of the job.
    """
    failures = dict(result.failures)
    all_done = result.deleted + result.not_found + len(failures) == len(names)
    statuses = tuple(failures.get(name, 200 if all_done else 0) for name in names)
    detail = f"bulk delete of {plural(len(names), 'object')}: {result.deleted} deleted, "
    detail += f"{result.not_found} not found, {len(failures)} failed"
    status = 0
    for name, status in failures.items():
        detail += f"; {printable(name)}: {status}"
        break
    timing = timing._replace(items=result.deleted, statuses=statuses)
    return StorageError(ErrorKind.STATUS, detail, status=status or timing.status, timing=timing)


class _Policy(Struct):
    name: str = ""
    aliases: str = ""


class _Swift(Struct):
    max_file_size: Count | None = None
    max_object_name_length: Count | None = None
    max_container_name_length: Count | None = None
    container_listing_limit: Count | None = None
    policies: list[_Policy] | None = None


class _Slo(Struct):
    max_manifest_segments: Count = 1000


class _BulkDelete(Struct):
    max_deletes_per_request: Count | None = None


class _Info(Struct):
    swift: _Swift | None = None
    slo: _Slo | None = None
    bulk_delete: _BulkDelete | None = None
    object_versioning: dict[str, msgspec.Raw] | None = None


def store_limits(body: bytes) -> StoreLimits:
    """The limits in /info; None for those that are missing, or if it isn't of Swift's form."""
    try:
        info = decode(body, _Info, "/info")
    except StorageError:
        return StoreLimits()
    swift = info.swift
    if swift is None:
        return StoreLimits()
    names = [
        name.strip()
        for each in swift.policies or ()
        for name in (each.name, *each.aliases.split(","))
    ]
    return StoreLimits(
        max_object_size=swift.max_file_size,
        max_object_name_length=swift.max_object_name_length,
        max_container_name_length=swift.max_container_name_length,
        listing_limit=swift.container_listing_limit,
        policies=None if swift.policies is None else [*dict.fromkeys(filter(None, names))],
        # /info does not list the DLO middleware.
        large_objects={
            "slo": info.slo.max_manifest_segments if info.slo else 0,
            "dlo": _DLO_SEGMENTS,
        },
        bulk_delete_max=info.bulk_delete.max_deletes_per_request if info.bulk_delete else 0,
        versions=info.object_versioning is not None,
        versions_in_parts=False,
    )


def _malformed(what: str, why: str) -> StorageError:
    detail = f"the store's response is not {what} of Swift's form{why}"
    return StorageError(ErrorKind.PROTOCOL, detail)
