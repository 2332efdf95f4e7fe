from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.storage.base import ContainerEntry, ContainerInfo, ObjectEntry, StoreLimits
from ssbench.storage.swift.bodies import (
    BulkResult,
    Listing,
    NameCounter,
    bulk_result,
    container_entry,
    container_info,
    free_bytes,
    object_entry,
    store_limits,
)
from tests.corpus import recorded
from tests.fakes.mutations import fuzzed
from tests.fakes.terminal import must_be_line
from tests.fakes.values import any_of, boolean, integer, none, number, one_of, scripted, text

LIMIT = 1000


def listed(entry: Callable[[dict[str, Any]], Any], *pieces: bytes) -> list[Any]:
    """The entries of a listing that arrives in these pieces."""
    listing = Listing(entry, LIMIT)
    for piece in pieces:
        listing.feed(memoryview(piece))
    return listing.entries()


def container_entries(body: bytes) -> list[ContainerEntry]:
    return listed(container_entry, body)


def object_names(body: bytes) -> list[str]:
    return [entry.name for entry in listed(object_entry, body)]


PARSERS: list[Callable[[bytes], Sequence[Any]]] = [
    container_entries,
    object_names,
    lambda body: bulk_result(body).failures,
]

KEYS = ["name", "count", "bytes", "subdir", "Errors", "Response Status", "swift", "policies"]
any_json = any_of(
    none, boolean, integer, number, text,
    key=any_of(one_of(*KEYS), text, key=none, depth=0),
)  # fmt: skip
ANY_JSON = scripted(any_json)


def outcome(call: Callable[..., list[Any]], *args: Any) -> list[Any] | None:
    """What it gives; None for a StorageError."""
    try:
        return call(*args)
    except StorageError:
        return None


def parsed(body: bytes) -> None:
    """Invariant: each parser gives names that fit a URL, or StorageError, whatever the pieces that
    a listing arrives in, and in bounded memory; limits never raise."""
    in_bytes = [body[at : at + 1] for at in range(len(body))]
    for entry in (container_entry, object_entry):
        assert outcome(listed, entry, *in_bytes) == outcome(listed, entry, body)
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
    facts = container_info({"x-container-object-count": body.decode("latin-1")})
    assert facts.object_count is None or 0 <= facts.object_count < 10**18


@given(st.binary(max_size=100) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_parsed_or_rejected(body: bytes) -> None:
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
def test_damaged_responses_are_parsed_or_rejected(body: bytes) -> None:
    """Invariant: that of ``parsed``."""
    parsed(body)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_unchanged(name: str) -> None:
    row = {"name": name, "count": 1, "bytes": 2}
    for ascii_only in (True, False):
        body = json.dumps([row], ensure_ascii=ascii_only).encode()
        assert object_names(body) == [name]
        assert container_entries(body) == [ContainerEntry(name, 1, 2)]
    answer = {"Response Status": "400 Bad", "Errors": [[f"/c/{quote(name)}", "409 Conflict"]]}
    assert bulk_result(json.dumps(answer).encode()).failures == [(f"c/{name}", 409)]


@pytest.mark.parametrize("body", [b"[" * 200_000, b'[{"a":' * 100_000, b"9" * 10_000])
def test_json_bombs_are_rejected(body: bytes) -> None:
    for parse in PARSERS:
        with pytest.raises(StorageError):
            parse(body)
    assert store_limits(body) == StoreLimits()


def peak_bytes(call: Callable[[], object]) -> int:
    """What a call takes in memory at most, beyond what there was."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"[", b"{},"), (b"[", b"{}"), (b"[", b"[],"), (b"[", b"1,"), (b'["', b"\\\""),
        (b"[{", b"{"), (b"[", b" "), (b"", b" "), (b"[]", b" "), (b"", b"["),
        (b'[{"name": "a"}', b" "), (b'[{"name": "', b"x"),
        (b"[", b'{"name": "a", "count": 0, "bytes": 0},'),
        (b"[", b'{"subdir": "a"},'),
    ],
)  # fmt: skip
def test_a_listing_uses_bounded_memory(first: bytes, again: bytes) -> None:
    """32 MiB of it (a Swift's page of 1,000 rows is 0.2 MiB), in pieces as they arrive."""
    piece = memoryview(again * ((1 << 16) // len(again)))

    def read() -> None:
        for entry in (container_entry, object_entry):
            listing = Listing(entry, LIMIT)
            listing.feed(first)
            for _ in range(256):
                listing.feed(piece)
            with pytest.raises(StorageError):
                listing.entries()

    assert peak_bytes(read) < 4 << 20


@pytest.mark.parametrize(("size", "taken"), [(1 << 17, True), ((1 << 17) + 1, False)])
def test_a_row_is_at_most_128_kib(size: int, taken: bool) -> None:
    """With what follows it."""
    start, end = b'{"name": "a", "bytes": 1, "content_type": "', b'"}]'
    body = b"[" + start + b"x" * (size - len(start) - len(end)) + end
    if taken:
        assert object_names(body) == ["a"]
    else:
        with pytest.raises(StorageError, match="not a listing of Swift's form"):
            object_names(body)


def test_a_page_with_too_many_rows_is_rejected() -> None:
    rows = [{"name": f"{number:06d}", "bytes": 1} for number in range(LIMIT + 1)]
    assert len(object_names(json.dumps(rows[:LIMIT]).encode())) == LIMIT
    with pytest.raises(StorageError, match="not a listing of Swift's form"):
        object_names(json.dumps(rows).encode())


@pytest.mark.parametrize("body", [b'{"Errors": [', b"[", b'{"swift": ['])
def test_other_responses_use_bounded_memory(body: bytes) -> None:
    """8 MiB is the longest of them that is taken in."""
    bomb = body + b"{}," * ((8 << 20) // 3)

    def read() -> None:
        with pytest.raises(StorageError):
            bulk_result(bomb)
        assert store_limits(bomb) == StoreLimits()

    assert peak_bytes(read) < 4 << 20


@pytest.mark.parametrize(
    "body",
    [
        b"[{}", b"[{},]", b"[,{}]", b"[{} {}]", b"[{},,{}]", b"[{}}", b"{}", b"[]]", b"[][]",
        b"x[]", b"[]x", b"[x]", b'["x"]', b"[[]]", b"[null]", b'[{"name": "a]"}', b"[{]", b"\\[]",
    ],
)  # fmt: skip
def test_almost_valid_listings_are_rejected(body: bytes) -> None:
    for entry in (container_entry, object_entry):
        with pytest.raises(StorageError, match="of Swift's form"):
            listed(entry, body)


def test_sizes_of_objects() -> None:
    body = b'[{"name": "a", "bytes": 7, "hash": "]}\\"{["}, {"name": "b"}]'
    assert listed(object_entry, body) == [ObjectEntry("a", 7), ObjectEntry("b", 0)]
    for size in ("-1", "true", '"7"', "9" * 30):
        with pytest.raises(StorageError, match="not an object's entry"):
            listed(object_entry, b'[{"name": "a", "bytes": %s}]' % size.encode())


def test_an_overlong_name_is_rejected() -> None:
    longest = "\u4e2d" * 1365 + "a"
    assert len(longest.encode()) == 4096
    assert object_names(json.dumps([{"name": longest}]).encode()) == [longest]
    with pytest.raises(StorageError, match="not an object's entry"):
        object_names(json.dumps([{"name": longest + "a"}]).encode())


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
def test_malformed_entries_are_rejected(row: dict[str, object]) -> None:
    with pytest.raises(StorageError, match="not a container's entry of Swift's form"):
        container_entries(json.dumps([row]).encode())


def test_container_metadata() -> None:
    said = {"x-storage-policy": "gold", "x-container-object-count": "12"}
    assert container_info(said) == ContainerInfo("gold", marked=False, object_count=12)
    marked = {"x-container-meta-ssbench": "run1", "x-container-object-count": "0"}
    metadata = {"ssbench": "run1"}
    assert container_info(marked) == ContainerInfo(None, True, 0, metadata)
    secret = container_info({"x-container-meta-temp-url-key-2": "hidden"})
    assert secret.metadata == {"temp-url-key-2": "..."}


@pytest.mark.parametrize("count", ["", "-1", "many", "1e3", "9" * 5000, "\u0663"])
def test_an_invalid_count_is_unknown(count: str) -> None:
    assert container_info({"x-container-object-count": count}).object_count is None


def test_object_names_without_pseudo_directories() -> None:
    assert object_names(b'[{"name": "a/b"}, {"subdir": "c/"}]') == ["a/b"]


def counted(
    body: bytes, prefix: bytes = b"", limit: int = 10, step: int = 3, kind: str = ""
) -> int:
    names = NameCounter(prefix, limit)
    for start in range(0, len(body), step):
        names.feed(memoryview(body)[start : start + step])
    names.headers = {"content-type": kind or "text/plain; charset=utf-8"}
    names.check(Timing(1, 1, 1, 0, 200))
    return names.count


@pytest.mark.parametrize("step", [1, 3, 100])
def test_names_in_plain_text_are_counted_whatever_the_pieces(step: int) -> None:
    assert counted(b"", step=step) == 0
    assert counted(b"tiny/\ntiny_1\ntiny_2\n", b"tiny", step=step) == 3


@pytest.mark.parametrize(("body", "wrong"), [
    (b"tiny_1\ntiny", "cut off within a name"),
    (b"tiny_1\nsmall_1\n", "of 1 names that don't begin with the prefix"),
    (b"tiny_1\ntiny_1\n", "of names that are not in order, or there twice"),
    (b"tiny_2\ntiny_1\n", "of names that are not in order, or there twice"),
    (b"".join(b"tiny_%02d\n" % n for n in range(11)), "of 11 names, where 10 were requested"),
])  # fmt: skip
def test_other_listings_are_rejected(body: bytes, wrong: str) -> None:
    with pytest.raises(StorageError, match=wrong) as caught:
        counted(body, b"tiny")
    assert caught.value.kind is ErrorKind.PROTOCOL
    assert caught.value.timing is not None


def test_a_page_of_html_is_no_listing() -> None:
    with pytest.raises(StorageError, match="text/html"):
        counted(b"<html>\n", kind="text/html")


def test_a_listing_without_line_breaks_uses_bounded_memory() -> None:
    def read() -> None:
        names = NameCounter(b"", 10)
        for _ in range(64):
            names.feed(memoryview(bytes(1 << 16)))
        with pytest.raises(StorageError, match="cut off"):
            names.check(Timing(1, 1, 1, 0, 200))

    assert peak_bytes(read) < 1 << 18


@pytest.mark.parametrize(
    ("headers", "free"),
    [
        ({"x-account-bytes-used": "300", "x-account-meta-quota-bytes": "1000"}, 700),
        ({"x-account-bytes-used": "300", "x-account-quota-bytes": "1000"}, 700),
        ({"x-account-bytes-used": "1300", "x-account-meta-quota-bytes": "1000"}, 0),
        ({"x-account-bytes-used": "300"}, None),
        ({"x-account-bytes-used": "-1", "x-account-meta-quota-bytes": "1000"}, None),
        ({"x-account-bytes-used": "300", "x-account-meta-quota-bytes": "ten"}, None),
        ({}, None),
    ],
)
def test_a_quota_leaves_what_is_not_used(headers: dict[str, str], free: int | None) -> None:
    assert free_bytes(headers) == free


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({}, StoreLimits()),
        ({"slo": {"max_manifest_segments": 9}}, StoreLimits()),  # no Swift
        (
            {
                "swift": {
                    "max_file_size": "5G",
                    "policies": [{"name": "gold", "aliases": "gold, yellow"}, {"name": 5}, "x"],
                },
                "bulk_delete": [],
            },
            StoreLimits(policies=["gold", "yellow"], large_objects={"slo": 0, "dlo": 10_000}),
        ),
        (
            {"swift": {"max_file_size": 5}},
            StoreLimits(5, large_objects={"slo": 0, "dlo": 10_000}, bulk_delete_max=0),
        ),
        (
            {"swift": {"container_listing_limit": 7}, "slo": {}, "bulk_delete": {}},
            StoreLimits(listing_limit=7, large_objects={"slo": 1000, "dlo": 10_000}),
        ),
        (
            {
                "swift": {"max_object_name_length": 3, "max_container_name_length": 4},
                "slo": {"max_manifest_segments": 9},
                "bulk_delete": {"max_deletes_per_request": 8},
            },
            StoreLimits(
                max_object_name_length=3, max_container_name_length=4,
                large_objects={"slo": 9, "dlo": 10_000}, bulk_delete_max=8,
            ),
        ),
    ],
)  # fmt: skip
def test_limits_of_a_store_are_those_that_it_states(
    info: dict[str, object], expected: StoreLimits
) -> None:
    assert store_limits(json.dumps(info).encode()) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"Response Status": "200 OK", "Number Deleted": 2}, BulkResult(2, 0, [])),
        ({"Response Status": "200 OK", "Number Not Found": 3}, BulkResult(0, 3, [])),
        ({"Response Status": "200 OK", "Errors": [["c/a", "409 Conflict"]], "Number Deleted": 1},
         BulkResult(1, 0, [("c/a", 409)])),
        ({"Response Status": "401 Unauthorized", "Errors": [["c/a", "401 Unauthorized"]]},
         ErrorKind.UNAUTHORIZED),
        ({"Response Status": "401 Unauthorized"}, ErrorKind.UNAUTHORIZED),
        ({"Response Status": "300 Choice"}, ErrorKind.STATUS),
        ({"Response Status": "199 Early"}, ErrorKind.STATUS),
        ({}, ErrorKind.PROTOCOL),
        ({"Response Status": "20"}, ErrorKind.PROTOCOL),
        ({"Response Status": "2x0 OK"}, ErrorKind.PROTOCOL),
        ({"Response Status": "\u0662\u0660\u0660 OK"}, ErrorKind.PROTOCOL),
        ({"Response Status": 200}, ErrorKind.PROTOCOL),
        ({"Response Status": "200 OK", "Errors": "none"}, ErrorKind.PROTOCOL),
        ({"Response Status": "200 OK", "Errors": [["c/a"]]}, ErrorKind.PROTOCOL),
        ({"Response Status": "200 OK", "Errors": [["", "409 Conflict"]]}, ErrorKind.PROTOCOL),
        ({"Response Status": "200 OK", "Errors": [["c/a", "Conflict"]]}, ErrorKind.PROTOCOL),
        ({"Response Status": "200 OK", "Number Deleted": -1}, ErrorKind.PROTOCOL),
        ({"Response Status": "200 OK", "Number Not Found": "3"}, ErrorKind.PROTOCOL),
    ],
)  # fmt: skip
def test_a_bulk_response_gives_numbers_and_failures_or_is_an_error(
    said: dict[str, object], expected: BulkResult | ErrorKind
) -> None:
    body = b" \r\n\r\n" + json.dumps(said).encode()  # a long one begins with life signs
    if isinstance(expected, BulkResult):
        assert bulk_result(body) == expected
    else:
        with pytest.raises(StorageError) as caught:
            bulk_result(body)
        assert caught.value.kind is expected
