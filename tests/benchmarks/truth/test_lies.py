"""Each lie differs from the truth in what it is named for, and in nothing else."""

from __future__ import annotations

from benchmarks.truth.lies import LIES, Stored

STORED = Stored(b"abcdef", "e1", "X-Object-Meta-A: 1\r\n")
OTHER = Stored(b"another", "e2", "X-Object-Meta-A: 2\r\n")


def told(how: str) -> Stored:
    return LIES[how](STORED, OTHER)


def test_a_wrong_etag_comes_with_the_right_body() -> None:
    lie = told("etag")
    assert lie.etag != STORED.etag
    assert lie == STORED._replace(etag=lie.etag)


def test_another_objects_content_comes_with_its_own_headers() -> None:
    assert told("other") == OTHER


def test_a_body_is_short_by_a_byte() -> None:
    assert told("short") == STORED._replace(body=b"abcde")


def test_one_bit_of_the_body_is_flipped() -> None:
    lie = told("bit")
    differing = int.from_bytes(lie.body, "big") ^ int.from_bytes(STORED.body, "big")
    assert differing.bit_count() == 1
    assert lie == STORED._replace(body=lie.body)
