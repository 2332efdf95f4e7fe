from __future__ import annotations

import gzip
import io
import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.statfile.format import (
    MAX_BLOCK,
    Block,
    BlockBuilder,
    Bounds,
    Source,
    TooMuchError,
    read_blocks,
    read_plain,
)

pytestmark = pytest.mark.usefixtures("engine")

# Without periods: a match at another distance would give the same bytes.
TEXTS = [bytes(range(45)), b"", random.Random(1).randbytes(99) * 2]


def block(data: bytes, number: int) -> bytes:
    builder = BlockBuilder()
    builder.add(data)
    return builder.finish(number)


def resealed(member: bytes, at: int, new: bytes) -> bytes:
    """A block whose header says something else, under a right checksum."""
    changed = member[:at] + new + member[at + len(new) :]
    return changed[:25] + struct.pack("<I", zlib.crc32(changed[:25])) + changed[29:]


def parsed(data: bytes) -> tuple[list[bytes], list[str]]:
    said: list[str] = []
    blocks = [found.data for found in read_blocks(Source(io.BytesIO(data)), said.append)]
    return blocks, said


BLOCKS = [block(text, number) for number, text in enumerate(TEXTS)]
FILE = b"".join(BLOCKS)
HEADER_BYTES, TRAILER_BYTES = 29, 8  #: around the compressed data of a block


def test_a_block_is_a_gzip_member() -> None:
    assert gzip.decompress(FILE) == b"".join(TEXTS)


@given(st.lists(st.binary(max_size=50)), st.integers(1, 100))
def test_blocks_written_in_pieces_are_read_back(pieces: list[bytes], number: int) -> None:
    builder = BlockBuilder()
    for piece in pieces:
        builder.add(piece)
    data = b"".join(pieces)
    assert builder.size == len(data)
    found = list(read_blocks(Source(io.BytesIO(builder.finish(number))), [].append))
    assert found == [Block(number, 0, data)]


def test_every_flipped_bit_costs_its_own_block_only() -> None:
    """Whatever bit is flipped, all blocks but that one come through, and it is said.

    (Only bits without a meaning pass: those that fill up the last byte of the compressed data, or
    its first byte where the data is stored as it is.)
    """
    bounds = [0]
    for number in range(len(TEXTS)):
        bounds.append(bounds[-1] + len(BLOCKS[number]))
    for at in range(len(FILE)):
        hit = next(i for i in range(len(TEXTS)) if at < bounds[i + 1])
        compressed = slice(bounds[hit] + HEADER_BYTES, bounds[hit + 1] - TRAILER_BYTES)
        for bit in range(8):
            spoilt = bytearray(FILE)
            spoilt[at] ^= 1 << bit
            blocks, said = parsed(bytes(spoilt))
            if said:
                assert blocks == [text for i, text in enumerate(TEXTS) if i != hit]
            else:
                assert blocks == TEXTS
                assert compressed.start <= at < compressed.stop
                inflate = zlib.decompressobj(-zlib.MAX_WBITS)
                assert inflate.decompress(bytes(spoilt[compressed])) == TEXTS[hit]
                assert at in (compressed.start, compressed.stop - 1)


def test_damage_is_described() -> None:
    first, second, third = (block(text, number) for number, text in enumerate(TEXTS))
    assert parsed(first + third)[1] == ["block 1 is missing"]
    assert parsed(third)[1] == ["blocks 0 to 1 are missing"]
    assert parsed(first + b"junk" + second)[1] == [
        f"bytes {len(first)} to {len(first) + 3} are damaged"
    ]
    assert parsed(first + second + first)[1] == [
        f"block 0 at byte {len(first + second)} is out of order and left out"
    ]
    assert parsed(first[:-3])[1] == [
        f"block 0 at byte 0 is cut off after {len(first) - 3} of {len(first)} bytes"
    ]


def test_a_decompression_bomb_is_rejected_early() -> None:
    builder = BlockBuilder()
    for _ in range(MAX_BLOCK // (1 << 20) + 1):
        builder.add(bytes(1 << 20))
    bomb = builder.finish(1)
    blocks, said = parsed(block(b"a", 0) + bomb + block(b"b", 2))
    assert blocks == [b"a", b"b"]
    assert len(said) == 1
    assert said[0].endswith(
        "is damaged: its length would be 68.2 MB, and blocks have at most 67.1 MB"
    )
    # One that lies about its size goes no further than that.
    blocks, said = parsed(bomb[:-4] + struct.pack("<I", 10))
    assert not blocks
    assert "checksum" in said[-1]


def test_an_impossible_length_is_damage() -> None:
    blocks, said = parsed(resealed(FILE[: len(block(TEXTS[0], 0))], 21, struct.pack("<I", 3)))
    assert (blocks, len(said)) == ([], 1)

    class Small(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert size <= 1 << 20, "a file's read() makes room for so many bytes"
            return super().read(size)

    forged = Small(resealed(FILE, 21, struct.pack("<I", 2**32 - 1)))
    assert [each.data for each in read_blocks(Source(forged), said.append)] == TEXTS[1:]
    assert said == ["block 0 at byte 0 is damaged: impossible length"] * 2


def test_a_source_reads_ahead_from_a_slow_pipe() -> None:
    class Drops(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(1)

    source = Source(Drops(b"abcdef"))
    assert source.peek(4) == b"abcd"
    source.skip(2)
    assert (source.peek(99), source.offset) == (b"cdef", 2)


def plain(data: bytes) -> tuple[bytes, list[str]]:
    said: list[str] = []
    return b"".join(read_plain(Source(io.BytesIO(data)), said.append)), said


def test_plain_gzip_is_read_member_by_member_in_small_pieces() -> None:
    data = bytes(5 << 20)
    assert plain(gzip.compress(data) + gzip.compress(b"more")) == (data + b"more", [])
    pieces = read_plain(Source(io.BytesIO(gzip.compress(data))), [].append)
    assert max(map(len, pieces)) <= 1 << 18


def test_plain_gzip_is_read_up_to_the_damage() -> None:
    text = b"".join(b"%d," % number for number in range(5000))
    data = gzip.compress(text)
    inflated, said = plain(data[:-100])
    assert text.startswith(inflated)
    assert len(inflated) > 1000
    assert said == [f"it is cut off at byte {len(data) - 100}"]
    inflated, said = plain(data + b"trailing")
    assert inflated == text
    assert said == [f"what follows byte {len(data)} is not gzip"]
    assert "is damaged before byte" in plain(data[:300] + bytes(50) + data[350:])[1][0]


# What a file may unfold to ------------------------------------------------------------------


def test_bounds_grow_with_how_far_the_file_was_read() -> None:
    source = Source(io.BytesIO(bytes(1 << 20)))
    bounds = Bounds(source)
    bounds.count_bytes(32 << 20)
    bounds.count_items(1 << 18)
    for spend in (bounds.count_bytes, bounds.count_items):
        with pytest.raises(TooMuchError, match="far more than a run writes"):
            spend(1)
    source.peek(1 << 20)
    source.skip(1 << 20)
    bounds.count_bytes(30 << 20)
    bounds.count_items(1 << 19)
    assert bounds.counted("item") == "item"
    bounds.count_bytes((2 << 20) - 1)
    with pytest.raises(TooMuchError):
        bounds.count_bytes(1)


def test_blocks_that_are_damaged_count_as_inflated_as_well() -> None:
    spent: list[int] = []
    bad = bytearray(block(bytes(100_000), 0))
    bad[-8] ^= 1
    said: list[str] = []
    assert list(read_blocks(Source(io.BytesIO(bytes(bad))), said.append, spent.append)) == []
    assert spent == [len(bad), 100_000]
    assert "checksum" in said[0]
    # Where bytes of a block are missing, its size is that of others: it counts as what it can be.
    claims_much = bytes(bad[:-4]) + struct.pack("<I", MAX_BLOCK)
    assert list(read_blocks(Source(io.BytesIO(claims_much)), said.append, spent.append)) == []
    assert spent[2:] == [len(bad), 1032 * len(bad)]


@given(st.lists(st.sampled_from([b"\x1f\x8b\x08\x04", FILE[:29], FILE[:16], FILE, b"x"])))
def test_a_header_is_found_after_false_ones(pieces: list[bytes]) -> None:
    """The last whole file is found, however many headers without a block come before it."""
    blocks, _ = parsed(b"".join(pieces) + FILE)
    assert blocks[-1:] in ([TEXTS[-1]], [])
    assert set(blocks) <= set(TEXTS)
