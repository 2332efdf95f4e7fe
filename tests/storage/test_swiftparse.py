from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.errors import StorageError
from ssbench.storage.base import ContainerEntry, ContainerFacts, StoreLimits
from ssbench.storage.swiftparse import (
    bulk_failures,
    container_entries,
    container_facts,
    object_names,
    store_limits,
)
from tests.corpus import recorded
from tests.fakes.mutations import fuzzed
from tests.fakes.terminal import must_be_line

PARSERS: list[Callable[[bytes], Sequence[Any]]] = [
    container_entries,
    object_names,
    lambda body: bulk_failures(body, "c"),
]

KEYS = ["name", "count", "bytes", "subdir", "Errors", "Response Status", "swift", "policies"]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANY_JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def parsed(body: bytes) -> None:
    """Invariant: each parser gives names that fit a URL, or StorageError; limits never raise."""
    for parse in PARSERS:
        try:
            found = parse(body)
        except StorageError as error:
            must_be_line(error)
            continue
        for item in found:
            name = item.name if isinstance(item, ContainerEntry) else item
            name = name if isinstance(name, str) else name[0]
            assert unquote(quote(name, safe="")) == name
    assert isinstance(store_limits(body), StoreLimits)


@given(st.binary(max_size=100) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_anything_is_parsed_or_refused(body: bytes) -> None:
    """Invariant: that of ``parsed``."""
    parsed(body)


#: Names as stores may have them.
NAMES = [
    "a/b", "a\nb", 'a"b', "a'b", "ü", "\U0001f600", "&lt;b&gt;", "<b>", "%41", "a?b#c", "..", " ",
    "\x1b[2J", "\u202e", "a\\b", "\x85", "c/", "/c",
]  # fmt: skip
NAME_WORDS = [json.dumps(name).encode() for name in NAMES] + [
    b'"\\ud800"', b'"\\udc00\\ud800"', b'""', b"null", b"-1", b"true", b"1e999",
    b"9" * 5000, b"[]", b"{}",
    b'"subdir"', b'"name"', b"\xff", b'"499 "', b'"200 OK"', b'"Response Status"', b'"Errors"',
]  # fmt: skip


@fuzzed(recorded("swift-json"), NAME_WORDS)
def test_spoilt_answers_are_parsed_or_refused(body: bytes) -> None:
    """Invariant: that of ``parsed``."""
    parsed(body)


@pytest.mark.parametrize("name", NAMES)
def test_names_come_through_as_they_are(name: str) -> None:
    row = {"name": name, "count": 1, "bytes": 2}
    for ascii_only in (True, False):
        body = json.dumps([row], ensure_ascii=ascii_only).encode()
        assert object_names(body) == [name]
        assert container_entries(body) == [ContainerEntry(name, 1, 2)]
    answer = {"Response Status": "400 Bad", "Errors": [[f"/c/{quote(name)}", "409 Conflict"]]}
    assert bulk_failures(json.dumps(answer).encode(), "c") == [(name, 409)]


@pytest.mark.parametrize("body", [b"[" * 200_000, b'[{"a":' * 100_000, b"9" * 10_000])
def test_bombs_are_refused(body: bytes) -> None:
    for parse in PARSERS:
        with pytest.raises(StorageError):
            parse(body)
    assert store_limits(body) == StoreLimits()


def test_container_entries() -> None:
    body = b'[{"name": "a", "count": 2, "bytes": 30, "last_modified": "x"}]'
    assert container_entries(body) == [ContainerEntry("a", 2, 30)]
    assert container_entries(b"[]") == container_entries(b"") == []


@pytest.mark.parametrize(
    "row",
    [
        {"name": "a", "count": -1, "bytes": 0},
        {"name": "a", "count": True, "bytes": 0},
        {"name": "a", "count": "1", "bytes": 0},
        {"name": "", "count": 1, "bytes": 0},
        {"name": "\ud800", "count": 1, "bytes": 0},
        {"count": 1, "bytes": 0},
    ],
)
def test_malformed_entries_are_refused(row: dict[str, object]) -> None:
    with pytest.raises(StorageError, match="not a container's entry of Swift's form"):
        container_entries(json.dumps([row]).encode())


def test_what_a_container_says_of_itself() -> None:
    said = {"x-storage-policy": "gold", "x-container-object-count": "12"}
    assert container_facts(said) == ContainerFacts("gold", marked=False, object_count=12)
    marked = {"x-container-meta-ssbench": "run1", "x-container-object-count": "0"}
    assert container_facts(marked) == ContainerFacts(None, marked=True, object_count=0)


@pytest.mark.parametrize("count", ["", "-1", "many", "1e3", "9" * 5000, "\u0663"])
def test_a_count_that_is_none_is_not_taken_for_0(count: str) -> None:
    assert container_facts({"x-container-object-count": count}).object_count is None


def test_object_names_without_pseudo_directories() -> None:
    assert object_names(b'[{"name": "a/b"}, {"subdir": "c/"}]') == ["a/b"]


def test_bulk_failures_are_unquoted_and_lose_their_container() -> None:
    answer = {"Errors": [["/c/a%2Fb%0A", "409 Conflict"], ["c/x", "503 Busy"]]}
    answer["Response Status"] = "400 Bad Request"  # type: ignore[assignment]
    body = b" \r\n\r\n" + json.dumps(answer).encode()  # a long one begins with life signs
    assert bulk_failures(body, "c") == [("a/b\n", 409), ("x", 503)]


def test_a_bulk_delete_that_failed_as_a_whole() -> None:
    body = b'{"Response Status": "502 Bad Gateway", "Errors": []}'
    with pytest.raises(StorageError, match="failed with 502") as caught:
        bulk_failures(body, "c")
    assert caught.value.status == 502


def test_limits_that_are_missing_or_odd_are_none() -> None:
    info = {
        "swift": {
            "max_file_size": "5G",
            "policies": [{"name": "gold", "aliases": "gold, yellow"}, {"name": 5}, "x"],
        },
        "bulk_delete": [],
    }
    limits = store_limits(json.dumps(info).encode())
    assert limits.max_object_size is None
    assert limits.bulk_delete_max is None
    assert limits.policies == ["gold", "yellow"]
    assert limits.raw == info
