from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from zlib import compress

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.content import (
    PERIOD,
    MixedSource,
    SyntheticSource,
    block,
    content_key,
    content_mark,
    initial_size,
    source_of,
)
from ssbench.core.model import ContentMix
from ssbench.core.settings import StorageSettings
from tests.core.test_naming import size_class
from tests.fakes.drivers import pieces

#: The first 100,000 bytes of tiny_000000.
GOLDEN = "f3cb3e4c5d45d57063b3ea98f956e000bca9c4a2ab6af6e7c7e5d31f2834ec0f"

TWICE = block() * 2
SIZES = st.integers(0, 300_000)
BLOCK_SIZES = st.integers(200, 100_000)


def body(name: bytes, version: int, size: int, block_size: int = 65536) -> bytes:
    return b"".join(pieces(name, version, size, block_size))


def test_the_block_is_the_same_on_every_python() -> None:
    assert len(block()) == PERIOD
    assert sha256(block()).hexdigest() == (
        "c5ad0142e2ba51dcb1ed9b0c768724e20e544ff172f465d6a28bfe03877c7ed2"
    )


def test_a_body_is_the_same_in_every_release() -> None:
    # Objects of an earlier run stay in the store, and are checked against this.
    assert sha256(body(b"tiny_000000", 0, 100_000)).hexdigest() == GOLDEN


@given(SIZES, BLOCK_SIZES, BLOCK_SIZES, st.binary(), st.integers(0, 2**40))
def test_a_body_does_not_depend_on_the_size_of_its_pieces(
    size: int, one: int, other: int, name: bytes, version: int
) -> None:
    assert body(name, version, size, one) == body(name, version, size, other)


def test_pieces_are_no_copies() -> None:
    content = SyntheticSource(1000)
    first, second = content.piece(b"x", 0, 10), content.piece(b"y", 0, 10)
    assert first.obj is second.obj


@given(st.integers(0, 3 * PERIOD), st.integers(1, 5000), st.integers(0), st.booleans())
def test_agreement_ends_at_the_first_byte_that_differs(
    at: int, size: int, wrong: int, compressible: bool
) -> None:
    content = SyntheticSource(300, compressible=compressible)
    whole = b"A" * 5000 if compressible else TWICE[at % PERIOD :][:size]
    part = bytearray(whole[:size])
    assert content.agreement(at, 0, memoryview(part)) == size
    part[wrong % size] ^= 1
    assert content.agreement(at, 0, memoryview(part)) == wrong % size


def test_settings_name_the_letter_and_the_longest_piece() -> None:
    settings = StorageSettings(block_size=100, compressible=True)
    assert bytes(source_of(settings).piece(b"x", 0, 5)) == b"AAAAA"
    assert content_mark(settings) == "yes"
    assert (source_of(settings).block_size, source_of(settings, 500).block_size) == (100, 500)


MIXES = [
    ContentMix(0.6, 4096, 0.3, 4096),
    ContentMix(compressible=0.25),
    ContentMix(compressible=1.0, duplicate=1.0),
    ContentMix(0.5, 65536, 0.2, 131072),
    ContentMix(compressible_block=512, duplicate=0.75, duplicate_block=8192),
]


def mixed(mix: ContentMix, name: bytes, size: int, version: int = 0) -> bytes:
    return b"".join(MixedSource(65536, mix).pieces(name, version, size))


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize(
    "compressed",
    [
        lambda data: len(compress(data)),
        lambda data: len(zstandard.compress(data)),
        lambda data: len(lz4.frame.compress(data)),
    ],
    ids=["gzip", "zstd", "lz4"],
)
def test_a_mix_compresses_by_its_share(mix: ContentMix, compressed: Callable[[bytes], int]) -> None:
    data = mixed(mix, b"tiny_000000", 2_000_000)
    assert 1 - compressed(data) / len(data) == pytest.approx(mix.compressible, abs=0.02)


@pytest.mark.parametrize("mix", MIXES[:4])
def test_a_mix_has_its_share_of_duplicate_blocks(mix: ContentMix) -> None:
    for unit in {mix.duplicate_block, 4096}:  # a store may look for duplicates in smaller blocks
        content = MixedSource(unit, mix)
        found = Counter(
            hash(bytes(block))
            for number in range(8)
            for block in content.pieces(b"tiny_%06d" % number, 0, 32 << 20)
        )
        assert 1 - len(found) / found.total() == pytest.approx(mix.duplicate, abs=0.02)


def test_a_mix_has_its_share_of_duplicate_small_objects() -> None:
    content = MixedSource(4096, MIXES[0])
    seen = {bytes(content.piece(b"tiny_%06d" % number, 0, 3000)) for number in range(30_000)}
    assert 1 - len(seen) / 30_000 == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("mix", [MIXES[0], MIXES[3]])
@settings(max_examples=30)
@given(st.integers(0, 200_000), st.integers(0, 200_000), st.integers(100, 70_000))
def test_each_part_of_a_mix_is_that_of_the_whole(
    mix: ContentMix, start: int, size: int, block_size: int
) -> None:
    whole = memoryview(mixed(mix, b"x", start + size, 3))
    content = MixedSource(block_size, mix)
    assert b"".join(content.pieces(b"x", 3, size, start)) == whole[start:]
    assert content.piece(b"x", 3, min(size, block_size)) == whole[: min(size, block_size)]
    assert content.agreement(content_key(b"x", 3), start, whole[start:]) == size
    if size:
        wrong = bytearray(whole[start:])
        wrong[size // 3] ^= 1
        assert content.agreement(content_key(b"x", 3), start, memoryview(wrong)) == size // 3


def test_a_mix_is_the_same_in_every_release() -> None:
    assert sha256(mixed(MIXES[0], b"tiny_000000", 100_000)).hexdigest() == (
        "1c1a0774c84c0d3f8b5ae70f9d0e04f12b0693aebfdbfdeab8f702e1f4d8c9ae"
    )


def test_settings_name_a_mix() -> None:
    settings = StorageSettings(mix=ContentMix(0.5, duplicate=0.25))
    assert isinstance(source_of(settings), MixedSource)
    assert content_mark(settings) == "compressible 0.5/4096 duplicate 0.25/4096"
    assert StorageSettings.from_map(settings.to_map()).mix == settings.mix


@given(st.integers(0, 2**40), st.integers(0, 2**33), st.integers(0, 10**7))
def test_initial_sizes_are_within_the_class_and_reproducible(
    size_min: int, spread: int, number: int
) -> None:
    size = size_class("any", size_min, size_min + spread)
    assert size_min <= initial_size(size, number) <= size_min + spread
    assert initial_size(size, number) == initial_size(size, number)


def test_initial_sizes_equal_those_of_earlier_releases() -> None:
    """Were they to change, every object of a cluster would be uploaded again."""
    assert [initial_size(size_class(), number) for number in range(4)] == [173, 232, 372, 375]
