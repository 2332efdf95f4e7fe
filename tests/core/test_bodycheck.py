from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.bodycheck import (
    BodyCheck,
    BodyFault,
    Expected,
    claimed_md5,
    expected_content,
    wrong_length,
)
from ssbench.core.content import SyntheticSource, initial_size
from ssbench.core.model import UNKNOWN_SIZE, ErrorKind, Job, Profile, SizeClass
from ssbench.core.operations import (
    OPERATIONS,
    RANGE_READ,
    READ,
    UPDATE,
    Body,
    Effect,
    Operation,
)
from ssbench.core.text import plural

CORRUPT, STALE = ErrorKind.CORRUPT, ErrorKind.STALE
BLOCK_SIZE = 1000  #: less than what is received at a time
LETTERS = SyntheticSource(BLOCK_SIZE, compressible=True)
RANDOM = SyntheticSource(BLOCK_SIZE)
SIZES = range(1, 5_000_001)
NAME = b"tiny_000007"


def body(
    version: int = 0, size: int = 3000, name: bytes = NAME, content: SyntheticSource = RANDOM
) -> bytes:
    return b"".join(content.pieces(name, version, size))


def judged(
    parts: Sequence[bytes],
    version: int = 0,
    size: int = 3000,
    *,
    content: SyntheticSource = RANDOM,
    old_sizes: range = SIZES,
    first_size: int | None = None,
    said: str | None = None,
) -> BodyFault | None:
    check = BodyCheck(content, Expected(NAME, version, size, old_sizes, first_size))
    for part in parts:
        check.add(memoryview(part))
    return check.finding({} if said is None else {"x-object-meta-ssbench-version": said})


def kind(found: BodyFault | None) -> ErrorKind:
    return found.kind if found else ErrorKind.NONE


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    return [data[low:high] for low, high in pairwise(places)]


CUTS = st.lists(st.integers(0, 10_000), max_size=8)


def flipped(data: bytes, bit: int) -> bytes:
    at = bit // 8
    return data[:at] + bytes([data[at] ^ (1 << bit % 8)]) + data[at + 1 :]


WRONG = {
    "right": body(2),
    "older": body(1),
    "oldest, of another size": body(0, 2500),
    "too old a size": body(1, 7),
    "another object's": body(2, name=b"tiny_000008"),
    "truncated": body(2, 2999),
    "longer": body(2, 3001),
    "empty": b"",
    "first bit": flipped(body(2), 0),
    "last bit": flipped(body(2), 23999),
    "older and spoilt": flipped(body(1), 12_000),
    "two blocks in the wrong order": body(2)[1000:2000] + body(2)[:1000] + body(2)[2000:],
    "begins older, goes on as it should": body(1)[:1500] + body(2)[1500:],
    "begins as it should, goes on older": body(2)[:1500] + body(1)[1500:],
}
KINDS = {
    "right": ErrorKind.NONE,
    "older": STALE,
    "oldest, of another size": STALE,
}


def judged_of_many_sizes(parts: Sequence[bytes]) -> BodyFault | None:
    return judged(parts, 2, old_sizes=range(100, 5000))


def test_each_wrong_content_has_its_kind() -> None:
    found = {name: kind(judged_of_many_sizes([data])) for name, data in WRONG.items()}
    assert found == {**dict.fromkeys(WRONG, CORRUPT), **KINDS}


@settings(max_examples=300)
@given(st.sampled_from([*WRONG.values()]), CUTS)
def test_the_verdict_does_not_depend_on_the_pieces(data: bytes, cuts: list[int]) -> None:
    assert judged_of_many_sizes(cut(data, cuts)) == judged_of_many_sizes([data])


@given(st.integers(1, 4000), st.integers(0), CUTS, st.integers(0, 3))
def test_any_flipped_bit_is_located(size: int, bit: int, cuts: list[int], version: int) -> None:
    bit %= 8 * size
    found = judged(cut(flipped(body(version, size), bit), cuts), version, size)
    assert found is not None
    # One or two bytes may be the beginning of an older version.
    if size > 8:
        assert found == (CORRUPT, f"wrong from byte offset {bit // 8} on ({plural(size, 'byte')})")


def test_wrong_lengths_are_reported() -> None:
    assert judged([body(0, 2999)]) == (
        CORRUPT,
        "wrong from byte offset 2999 on (2,999 bytes in place of 3,000)",
    )
    assert judged([body(0, 3000), b"more"]) == (
        CORRUPT,
        "wrong from byte offset 3000 on (3,004 bytes in place of 3,000)",
    )
    assert judged([]) == (CORRUPT, "wrong from byte offset 0 on (0 bytes in place of 3,000)")


def test_an_old_version_is_identified_by_number() -> None:
    assert judged([body(3, 700)], 9) == (STALE, "version 3, expected 9")
    assert kind(judged([body(9, 700)], 3)) is CORRUPT  # no version is ahead


def test_the_latest_10_000_earlier_versions_are_stale_and_older_ones_corrupt() -> None:
    assert judged([body(1, 700)], 10_001) == (STALE, "version 1, expected 10001")
    assert kind(judged([body(0, 700)], 10_001)) is CORRUPT


def test_the_first_version_of_an_initial_object_has_one_size() -> None:
    assert kind(judged([body(0, 700)], 1, first_size=700)) is STALE
    assert kind(judged([body(0, 700)], 1, first_size=701)) is CORRUPT
    assert kind(judged([body(1, 700)], 2, first_size=701)) is STALE


SIZE_CLASS = SizeClass("tiny", 100, 900, ((int(READ), 1.0),), 5)


def read_back(
    data: bytes, operation: Operation, number: int, offset: int = 0, length: int | None = None
) -> ErrorKind:
    """What is wrong with the content that a READ of version 2, of 500 bytes, returns."""
    job = Job(1, operation, 0, number, 2, 500)
    check = BodyCheck(RANDOM, expected_content(SIZE_CLASS, NAME.decode(), job, offset, length))
    check.add(memoryview(data))
    return kind(check.finding({}))


def test_an_earlier_version_has_a_size_of_its_class() -> None:
    assert read_back(body(2, 500), READ, 7) is ErrorKind.NONE
    for size, found in ((99, CORRUPT), (100, STALE), (900, STALE), (901, CORRUPT)):
        assert read_back(body(1, size), READ, 7) is found


def test_an_initial_object_had_the_size_that_it_was_uploaded_with() -> None:
    size = initial_size(SIZE_CLASS, 4)
    for number, other in ((4, CORRUPT), (5, STALE)):  # the first five are initial
        assert read_back(body(0, size), READ, number) is STALE
        assert read_back(body(0, size - 1), READ, number) is other
    assert read_back(body(1, size - 1), READ, 4) is STALE


def test_a_part_of_an_earlier_version_has_the_length_that_was_requested() -> None:
    assert read_back(body(2)[100:150], RANGE_READ, 7, 100, 50) is ErrorKind.NONE
    for length, found in ((49, CORRUPT), (50, STALE), (51, CORRUPT)):
        assert read_back(body(1)[100 : 100 + length], RANGE_READ, 7, 100, 50) is found
    assert read_back(body(2)[101:151], RANGE_READ, 7, 100, 50) is CORRUPT


@pytest.mark.parametrize("offset", [0, 100])
def test_an_old_version_is_found_behind_a_byte_that_both_versions_have(offset: int) -> None:
    newest, size = 1000, offset + 50
    first = body(newest, size)[offset]
    older = next(version for version in range(newest) if body(version, size)[offset] == first)
    data = body(older, size)[offset:]
    check = BodyCheck(RANDOM, Expected(NAME, newest, 50, range(50, 51), None, offset))
    for part in (data[:1], data[1:]):
        check.add(memoryview(part))
    assert check.finding({}) == (STALE, f"version {older}, expected {newest}")


@pytest.mark.parametrize(
    ("said", "size", "wanted"),
    [
        ("1", 700, STALE),
        (None, 700, STALE),  # version 0 carries no header
        ("2", 700, CORRUPT),  # it says that it is the right one, and is too short
        ("3", 700, CORRUPT),
        ("x", 700, STALE),
        ("1", 9, CORRUPT),  # no version can be as short
        ("1", 3000, ErrorKind.NONE),  # nothing tells them apart
    ],
)
def test_the_stores_etag_identifies_versions_of_compressible_content(
    said: str | None, size: int, wanted: ErrorKind
) -> None:
    whole = body(0, size, content=LETTERS)
    found = judged([whole], 2, content=LETTERS, old_sizes=range(10, 5000), said=said)
    assert kind(found) is wanted


def test_a_truncated_body_is_not_an_old_version_by_its_etag() -> None:
    assert kind(judged([body(2, 700)], 2, said="1")) is CORRUPT


MD5 = "d41d8cd98f00b204e9800998ecf8427e"


@pytest.mark.parametrize(
    ("headers", "claimed"),
    [
        ({"etag": MD5}, MD5),
        ({"etag": f'"{MD5}"'}, MD5),
        ({"etag": MD5.upper()}, MD5),
        ({"etag": f'W/"{MD5}"'}, None),
        ({"etag": f'"{MD5}-2"'}, None),
        ({"etag": f'"{MD5}'}, None),
        ({"etag": MD5[1:]}, None),
        ({"etag": ""}, None),
        ({}, None),
        ({"etag": f'"{MD5}"', "x-static-large-object": "True"}, None),
        ({"etag": f'"{MD5}"', "x-object-manifest": "c/o"}, None),
        ({"etag": MD5, "x-amz-server-side-encryption": "AES256"}, MD5),
        ({"etag": MD5, "x-amz-server-side-encryption": "aws:kms:dsse"}, None),
        ({"etag": MD5, "x-amz-server-side-encryption-customer-algorithm": "AES256"}, None),
    ],
)
def test_etags_that_are_an_md5(headers: dict[str, str], claimed: str | None) -> None:
    assert claimed_md5(headers) == claimed


READING = ((int(READ), 1.0),)
UPDATING = ((int(READ), 0.5), (int(UPDATE), 0.5))


@pytest.mark.parametrize(
    ("job", "profile", "received", "text"),
    [
        (Job(1, READ, 0, 0, 0, 150), READING, 150, ""),
        (Job(1, READ, 0, 0, 0, 150), READING, 149, "149 bytes in place of 150"),
        (Job(1, READ, 0, 0, 0, 150), UPDATING, 149, ""),  # an update may be in flight
        (Job(1, READ, 0, 0, 0, 150), UPDATING, 99, "99 bytes in place of 150"),
        (Job(1, READ, 0, 0, 0, 150), UPDATING, 201, "201 bytes in place of 150"),
        (Job(1, READ, 0, 0, 0, 0), READING, 26, "26 bytes in place of 0"),
        (Job(1, READ, 0, 0, 0, UNKNOWN_SIZE), READING, 26, ""),
        (Job(1, RANGE_READ, 0, 0, 0, 150, arguments=(7, 20)), READING, 20, ""),
        (
            Job(1, RANGE_READ, 0, 0, 0, 150, arguments=(7, 20)),
            READING,
            150,
            "150 bytes in place of 20",
        ),
    ],
)
def test_the_length_of_what_a_read_received(
    job: Job, profile: Profile, received: int, text: str
) -> None:
    assert wrong_length(job, SizeClass("a", 100, 200, profile, 10), received) == text


def test_of_an_operation_with_other_arguments_no_length_is_known() -> None:
    row = Operation(4000, "READ_FROM", Effect.NONE, body=Body.RECEIVED, arguments=("offset",),
                    draw=lambda random, size: (0,))  # fmt: skip
    OPERATIONS[4000] = row
    try:
        job = Job(1, row, 0, 0, 0, 150, arguments=(100,))
        assert wrong_length(job, SizeClass("a", 100, 200, READING, 10), 50) == ""
    finally:
        del OPERATIONS[4000]
