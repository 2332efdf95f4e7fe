from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.errors import SsbenchError, StorageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.runner.containers import pages
from ssbench.storage.base import ObjectEntry, StoreLimits
from ssbench.storage.http.response import BodyTooLong
from ssbench.storage.swift.bodies import (
    BulkResult,
    Listing,
    NameCounter,
    bulk_result,
    free_bytes,
    store_limits,
)

LIMIT = 1000


def read(body: bytes, limit: int = LIMIT) -> Listing:
    listing = Listing(limit)
    listing.add(memoryview(body))
    return listing


def peak_bytes(call: Callable[[], object]) -> int:
    """What a call takes in memory at most, beyond what there was."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("again", [b"{},", b'{"subdir":"a"},', b"[],", b'{"name":"a"},', b" "])
def test_a_listing_uses_bounded_memory(again: bytes) -> None:
    """A page of 1,000 rows from Swift has 0.2 MiB."""
    body = b"[" + again * ((7 << 20) // len(again))
    listing = read(body)

    def decode() -> None:
        with pytest.raises(StorageError):
            listing.objects()

    assert peak_bytes(decode) < 16 << 20  # the body once more as bytes, and what was decoded
    with pytest.raises(BodyTooLong):
        read(bytes(9 << 20))


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1), max_size=5)
)
def test_listings_are_judged_alike_on_the_hot_and_on_the_cold_path(names: list[str]) -> None:
    """LIST reads plain text, an administrative listing JSON."""

    def page_after(marker: str) -> list[ObjectEntry]:
        body = json.dumps([{"name": name} for name in names]).encode()
        return [] if marker else read(body).objects()

    def cold() -> object:
        return [*pages(page_after)]

    def hot() -> object:
        return counted("".join(f"{name}\n" for name in names).encode())

    assert is_taken(cold) is is_taken(hot)


def is_taken(call: Callable[[], object]) -> bool:
    try:
        call()
    except SsbenchError:
        return False
    return True


def counted(
    body: bytes, prefix: bytes = b"", limit: int = 10, step: int = 3, kind: str = ""
) -> int:
    names = NameCounter(prefix, limit)
    for start in range(0, len(body), step):
        names.feed(memoryview(body)[start : start + step])
    names.headers = {"content-type": kind or "text/plain; charset=utf-8"}
    names.check(Timing(1, 1, 1, 0, 200))
    return names.count


@pytest.mark.parametrize(("body", "wrong"), [
    (b"tiny_1\ntiny", "cut off within a name"),
    (b"tiny_1\nsmall_1\n", "of 1 name outside of the prefix"),
    (b"tiny_1\ntiny_1\n", "of names that are not in order, or there twice"),
    (b"tiny_2\ntiny_1\n", "of names that are not in order, or there twice"),
    (b"".join(b"tiny_%02d\n" % n for n in range(11)), "of 11 names, where 10 were requested"),
])  # fmt: skip
def test_other_listings_are_rejected(body: bytes, wrong: str) -> None:
    with pytest.raises(StorageError, match=wrong) as caught:
        counted(body, b"tiny")
    assert caught.value.kind is ErrorKind.PROTOCOL
    assert caught.value.timing is not None


def test_a_listing_of_more_rows_than_were_requested_is_an_error() -> None:
    rows = b'[{"name": "a"}, {"name": "b"}, {"name": "c"}]'
    assert len(read(rows, 3).objects()) == 3
    with pytest.raises(StorageError, match="3 rows, where 2 were requested"):
        read(rows, 2).objects()


def test_other_json_has_at_most_100_000_objects_and_arrays() -> None:
    start, end = b'{"Response Status": "200 OK", "Errors": [', b'["c/a", "409 Conflict"]]}'
    for count, valid in ((99_000, True), (100_000, False)):
        body = start + b'["c/a", "409 Conflict"],' * count + end
        if valid:
            assert len(bulk_result(body).failures) == count + 1
        else:
            with pytest.raises(StorageError):
                bulk_result(body)


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
        ({"swift": {"max_file_size": "5G"}}, StoreLimits()),
        ({"swift": {}, "bulk_delete": []}, StoreLimits()),
        (
            {"swift": {"policies": [{"name": "gold", "aliases": "gold, yellow"}]}},
            StoreLimits(
                policies=["gold", "yellow"], large_objects={"slo": 0, "dlo": 10_000},
                bulk_delete_max=0, versions=False, versions_in_parts=False,
            ),
        ),
        (
            {"swift": {"max_file_size": 5}, "object_versioning": {}},
            StoreLimits(
                5, large_objects={"slo": 0, "dlo": 10_000}, bulk_delete_max=0, versions=True,
                versions_in_parts=False,
            ),
        ),
        (
            {"swift": {"container_listing_limit": 7}, "slo": {}, "bulk_delete": {}},
            StoreLimits(
                listing_limit=7, large_objects={"slo": 1000, "dlo": 10_000}, versions=False,
                versions_in_parts=False,
            ),
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
                versions=False, versions_in_parts=False,
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
