"""Parsing of Swift's JSON responses, treated as untrusted input. Pure."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeGuard, TypeVar
from urllib.parse import unquote

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.naming import MARKER_HEADER
from ssbench.core.text import plural, printable
from ssbench.storage.base import (
    ContainerEntry,
    ContainerInfo,
    ObjectEntry,
    StoreLimits,
    order_fault,
)
from ssbench.storage.http.response import StreamingCollector

Entry = TypeVar("Entry")

_SCAN_SIZE = 1 << 16  #: bytes of a listing that are scanned at a time
_ROW_MAX = 1 << 17  #: characters of one row: a name of 1,024 bytes and a content type, escaped
_RETRY = 1 << 12  #: characters to wait for before an incomplete row is tried again
_CONTAINER_META = "x-container-meta-"
#: Words in names of metadata with secrets: Temp-URL-Key, for one.
_SECRET_META = ("key", "secret", "token", "password")
_SLO_SEGMENTS = 1000  #: of an object, unless /info says otherwise
_DLO_SEGMENTS = 10_000  #: the proxy pages through longer listings; no run needs them
_NAME_MAX = 4096  #: bytes of UTF-8; Swift's own default is 1,024
_VALUES_MAX = 100_000  #: of one JSON text
_BEFORE_VALUES = (b",", b":", b"[", b"{")
_SPACES = re.compile(r"[ \t\r\n]*").match
_decode_row = json.JSONDecoder().raw_decode
#: After which character of a listing which ones may follow; "{" is a whole row.
_FOLLOWING = {"[": "{]", "{": ",]", ",": "{", "]": ""}


class Listing(StreamingCollector, Generic[Entry]):
    """Incremental parser of an account's or container's listing. Buffers at most one row, and
    keeps at most ``limit`` entries. Only ``entries`` raises errors.

    :param entry: converts a row to an entry; raises StorageError if the row is invalid.
    :param limit: the number of rows that were requested.
    """

    def __init__(self, entry: Callable[[dict[str, Any]], Entry], limit: int) -> None:
        super().__init__()
        self._entry = entry
        self._limit = limit
        self._entries: list[Entry] = []
        self._rows = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text = ""  #: behind the rows so far
        self._wanted = 0  #: characters of it that make parsing worthwhile
        self._expected = "["  #: any of these characters
        self._error: StorageError | None = None

    def feed(self, data: bytes | memoryview) -> None:
        """Parse more data; data after an error is ignored."""
        for start in range(0, len(data), _SCAN_SIZE):
            self._parse(bytes(data[start : start + _SCAN_SIZE]))

    def entries(self) -> list[Entry]:
        """All entries, after all data was fed.

        :raises StorageError: PROTOCOL: invalid, or longer than requested.
        """
        self._parse(b"", is_last=True)
        if self._error is not None:
            raise self._error
        return self._entries

    def _parse(self, data: bytes, *, is_last: bool = False) -> None:
        if self._error is not None:
            return
        try:
            self._text += self._utf8.decode(data, is_last)
            if is_last or len(self._text) >= self._wanted:
                self._take_rows()
            # Nothing at all is the body of a 204: an empty listing.
            is_cut = self._text.strip() or self._expected not in ("", "[")
            if len(self._text) > _ROW_MAX or (is_last and is_cut):
                raise _malformed("a listing")
        except UnicodeDecodeError:
            self._error = _malformed("a listing")
        except StorageError as error:
            self._error = error
        if self._error is not None:
            self._text = ""
            self._entries.clear()

    def _take_rows(self) -> None:
        """Take what is complete off the text."""
        text, done = self._text, 0
        while (at := _SPACES(text, done).end()) < len(text):  # type: ignore[union-attr]
            mark = text[at]
            if mark not in self._expected:
                raise _malformed("a listing")
            if mark == "{":
                try:
                    row, done = _decode_row(text, at)
                except RecursionError as error:
                    raise _malformed("a listing") from error
                except ValueError:  # incomplete; what is wrong stays so to the end
                    break
                self._add(row)
            else:
                done = at + 1
            self._expected = _FOLLOWING[mark]
        self._text = text[done:]
        self._wanted = len(self._text) + _RETRY

    def _add(self, row: dict[str, Any]) -> None:
        self._rows += 1
        if self._rows > self._limit:
            raise _malformed("a listing")
        if "subdir" not in row:  # only in delimited listings, which we don't request
            self._entries.append(self._entry(row))


class NameCounter(StreamingCollector):
    """Counts the entries of a listing in plain text: one name a line. Keeps at most one line.

    Plain text is a fifth of the JSON, and counting its lines costs next to nothing. A name with a
    line break would count twice; ssbench's own names have none.

    :param prefix: with which all entries begin.
    :param limit: the number of entries that were requested.
    """

    def __init__(self, prefix: bytes, limit: int) -> None:
        super().__init__()
        self.count = 0
        self._prefix, self._limit = prefix, limit
        self._line = b""  #: the start of a line whose end is still to come
        self._last = b""  #: the last name so far
        self._wrong = ""

    def feed(self, data: memoryview) -> None:
        lines, end, rest = bytes(data).rpartition(b"\n")
        if not end:
            self._line = (self._line + rest)[: _NAME_MAX + 1]
            return
        names = (self._line + lines).split(b"\n")
        if not self._wrong:
            self._wrong = order_fault([self._last, *names] if self.count else names, self._prefix)
        self.count += len(names)
        self._last = names[-1]
        self._line = rest[: _NAME_MAX + 1]

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


def container_entry(row: Mapping[str, Any]) -> ContainerEntry:
    """A row of an account's listing.

    :raises StorageError: PROTOCOL: the row is invalid.
    """
    name, count, used = row.get("name"), row.get("count"), row.get("bytes")
    if not (_is_name(name) and _is_count(count) and _is_count(used)):
        raise _malformed("a container's entry")
    return ContainerEntry(name, count, used)


def object_entry(row: Mapping[str, Any]) -> ObjectEntry:
    """A row of a container's listing.

    :raises StorageError: PROTOCOL: the row is invalid.
    """
    name, size = row.get("name"), row.get("bytes", 0)
    if not (_is_name(name) and _is_count(size)):
        raise _malformed("an object's entry")
    return ObjectEntry(name, size)


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


def bulk_result(body: bytes) -> BulkResult:
    """The outcome of a bulk delete.

    :raises StorageError: STATUS or UNAUTHORIZED: the bulk delete failed as a whole (the HTTP
        status is always 200); PROTOCOL: the response is invalid.
    """
    response = _load_json(body)
    if not isinstance(response, dict):
        raise _malformed("a bulk response")
    errors = response.get("Errors", [])
    whole = _status_of(response.get("Response Status"))
    if not isinstance(errors, list):
        raise _malformed("a bulk response's errors")
    if whole == 401 or (not errors and whole // 100 != 2):
        kind = ErrorKind.UNAUTHORIZED if whole == 401 else ErrorKind.STATUS
        raise StorageError(kind, f"bulk delete failed with {whole}", status=whole)
    deleted, not_found = response.get("Number Deleted", 0), response.get("Number Not Found", 0)
    if not (_is_count(deleted) and _is_count(not_found)):
        raise _malformed("a bulk response's numbers")
    return BulkResult(deleted, not_found, list(map(_bulk_failure, errors)))


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


def store_limits(body: bytes) -> StoreLimits:
    """The limits in /info; None for those that are missing or invalid."""
    try:
        info = _load_json(body)
    except StorageError:
        return StoreLimits()
    if not isinstance(info, dict):
        return StoreLimits()
    swift = _part(info, "swift")
    bulk_delete_max = _count_of(_part(info, "bulk_delete"), "max_deletes_per_request")
    if swift and "bulk_delete" not in info:
        bulk_delete_max = 0
    return StoreLimits(
        max_object_size=_count_of(swift, "max_file_size"),
        max_object_name_length=_count_of(swift, "max_object_name_length"),
        max_container_name_length=_count_of(swift, "max_container_name_length"),
        listing_limit=_count_of(swift, "container_listing_limit"),
        policies=_policies(swift.get("policies")),
        large_objects=_large_objects(info) if swift else None,
        bulk_delete_max=bulk_delete_max,
    )


def _large_objects(info: Mapping[str, Any]) -> dict[str, int]:
    most = _count_of(_part(info, "slo"), "max_manifest_segments") or _SLO_SEGMENTS
    # Swift's /info does not list the DLO middleware.
    return {"slo": most if "slo" in info else 0, "dlo": _DLO_SEGMENTS}


def _load_json(body: bytes) -> Any:
    # Each value but the first follows one of these, which bounds their number before parsing.
    if sum(map(body.count, _BEFORE_VALUES)) > _VALUES_MAX:
        raise _malformed("JSON")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _malformed("JSON") from error


def _is_name(value: Any) -> TypeGuard[str]:
    """Whether this is text that a URL can hold (JSON may contain a lone surrogate)."""
    if not (isinstance(value, str) and value):
        return False
    try:
        return len(value.encode()) <= _NAME_MAX
    except UnicodeEncodeError:
        return False


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 63


def _bulk_failure(error: Any) -> tuple[str, int]:
    if not (isinstance(error, list) and len(error) == 2 and _is_name(error[0])):
        raise _malformed("a bulk response's error")
    return unquote(error[0]).lstrip("/"), _status_of(error[1])


def _status_of(value: Any) -> int:
    """``409 Conflict`` -> 409."""
    code = value[:3] if isinstance(value, str) else ""
    if not (len(code) == 3 and code.isascii() and code.isdigit()):
        raise _malformed("a bulk response's status")
    return int(code)


def _part(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = values.get(key)
    return part if isinstance(part, dict) else {}


def _count_of(values: Mapping[str, Any], key: str) -> int | None:
    value = values.get(key)
    return value if _is_count(value) else None


def _policies(rows: Any) -> list[str] | None:
    """The names of all policies, aliases included."""
    if not isinstance(rows, list):
        return None
    names: dict[str, None] = {}
    for row in rows:
        if isinstance(row, dict):
            aliases = row.get("aliases")
            texts = [row.get("name"), *(aliases.split(",") if isinstance(aliases, str) else ())]
            names.update({text.strip(): None for text in texts if _is_name(text)})
    return list(names)


def _malformed(what: str) -> StorageError:
    return StorageError(ErrorKind.PROTOCOL, f"the store's response is not {what} of Swift's form")
