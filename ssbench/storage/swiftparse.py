"""What Swift says in JSON, taken as hostile. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, TypeGuard
from urllib.parse import unquote

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.naming import MARKER_HEADER
from ssbench.storage.base import ContainerEntry, ContainerFacts, StoreLimits


def container_entries(body: bytes) -> list[ContainerEntry]:
    """An account's listing.

    :raises StorageError: PROTOCOL, where it is none.
    """
    entries = []
    for row in _rows(body):
        name, count, used = row.get("name"), row.get("count"), row.get("bytes")
        if not (_is_name(name) and _is_count(count) and _is_count(used)):
            raise _refused("a container's entry")
        entries.append(ContainerEntry(name, count, used))
    return entries


def object_names(body: bytes) -> list[str]:
    """A container's listing.

    :raises StorageError: PROTOCOL, where it is none.
    """
    names = []
    for row in _rows(body):
        name = row.get("name")
        if not _is_name(name):
            raise _refused("an object's entry")
        names.append(name)
    return names


def container_facts(headers: Mapping[str, str]) -> ContainerFacts:
    """What the answer to a HEAD of a container tells; names of headers in lower case."""
    count = headers.get("x-container-object-count", "")
    return ContainerFacts(
        policy=headers.get("x-storage-policy"),
        marked=bool(headers.get(MARKER_HEADER.lower())),
        object_count=int(count) if re.fullmatch("[0-9]{1,18}", count) else None,
    )


def bulk_failures(body: bytes, container: str) -> list[tuple[str, int]]:
    """What a bulk delete could not delete: (object name, status).

    :raises StorageError: STATUS, where it failed as a whole (its answer's own status is always
        200); PROTOCOL, where it is no such answer.
    """
    answer = _loaded(body)
    if not isinstance(answer, dict):
        raise _refused("a bulk answer")
    errors = answer.get("Errors", [])
    whole = _status_of(answer.get("Response Status"))
    if not isinstance(errors, list):
        raise _refused("a bulk answer's errors")
    if not errors and whole // 100 != 2:
        raise StorageError(
            ErrorKind.STATUS, f"bulk delete in {container!r} failed with {whole}", status=whole
        )
    return [_bulk_failure(error, container) for error in errors]


def store_limits(body: bytes) -> StoreLimits:
    """What /info says; None for all that it doesn't say, or says in a form that we don't know."""
    try:
        info = _loaded(body)
    except StorageError:
        return StoreLimits()
    if not isinstance(info, dict):
        return StoreLimits()
    swift = _part(info, "swift")
    return StoreLimits(
        max_object_size=_count_of(swift, "max_file_size"),
        max_object_name_length=_count_of(swift, "max_object_name_length"),
        max_container_name_length=_count_of(swift, "max_container_name_length"),
        listing_limit=_count_of(swift, "container_listing_limit"),
        policies=_policies(swift.get("policies")),
        bulk_delete_max=_count_of(_part(info, "bulk_delete"), "max_deletes_per_request"),
        raw=info,
    )


def _loaded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _refused("JSON") from error


def _rows(body: bytes) -> list[dict[str, Any]]:
    rows = _loaded(body) if body else []
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise _refused("a listing")
    # A pseudo-directory of a delimited listing has no name; we ask for none.
    return [row for row in rows if "subdir" not in row]


def _is_name(value: Any) -> TypeGuard[str]:
    """Text that can be sent back in a URL (JSON may smuggle in half a surrogate pair)."""
    if not (isinstance(value, str) and value):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _bulk_failure(error: Any, container: str) -> tuple[str, int]:
    if not (isinstance(error, list) and len(error) == 2 and _is_name(error[0])):
        raise _refused("a bulk answer's error")
    name = unquote(error[0]).lstrip("/")
    return name.removeprefix(container + "/"), _status_of(error[1])


def _status_of(value: Any) -> int:
    """``409 Conflict`` -> 409."""
    code = value[:3] if isinstance(value, str) else ""
    if not (len(code) == 3 and code.isascii() and code.isdigit()):
        raise _refused("a bulk answer's status")
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


def _refused(what: str) -> StorageError:
    return StorageError(ErrorKind.PROTOCOL, f"the store's answer is not {what} of Swift's form")
