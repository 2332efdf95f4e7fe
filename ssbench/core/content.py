"""The content of objects: slices of a block of pseudo-random bytes. Sizes of initial objects.

A store must not gain by compression or deduplication, and the client must not spend time on making
bytes. So there is one block, the same in every run, on every host and Python. An object's content
begins at an offset in it that follows from the object's name and version, so a later run can check
it. A ``ContentMix`` has bytes that a store can save, by the share that is asked for.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b, shake_128
from itertools import repeat
from zlib import crc32

from ssbench.core.model import STAMPED, ContentMix, SizeClass
from ssbench.core.settings import StorageSettings

#: Length of the block. A prime, so that no two pieces of a large object that a store would
#: deduplicate (they begin at multiples of a power of two) are alike.
PERIOD = 4_194_301
#: Keys of contents are below this: a multiple of the period whose versions have nine digits.
KEYS = 238 * PERIOD

_SEED = b"ssbench content 1"
_VERSION_STEP = 1_500_007  #: neighbouring versions lie far apart in the block; prime to KEYS
_LETTER = b"A"
_STEP = 1024 * 1024
_STAMP_BITS = 34  #: of the number of a STAMPED block in its object: 64 TiB


def block() -> bytes:
    """The block: PERIOD bytes of SHAKE-128."""
    return shake_128(_SEED).digest(PERIOD)


@lru_cache(maxsize=1)
def repeated_block(length: int) -> bytes:
    """The block, which goes on from its start, up to this length."""
    return _repeated(block(), length)


def _repeated(whole: bytes, length: int) -> bytes:
    rest = memoryview(whole)[: length % len(whole)]
    return b"".join([*repeat(whole, length // len(whole)), rest])


def content_key(name: bytes, version: int) -> int:
    """What the content of an object depends on: objects of one key have the same content."""
    return (crc32(name) + version * _VERSION_STEP) % KEYS


class SyntheticSource:
    """Bodies in pieces of at most ``block_size`` bytes; no piece is a copy.

    :param compressible: one repeated letter in place of pseudo-random bytes.
    """

    def __init__(self, block_size: int, *, compressible: bool = False) -> None:
        self.block_size = block_size
        self._compressible = compressible
        self._ready: memoryview | None = None

    def piece(self, name: bytes, version: int, size: int, start: int = 0) -> memoryview:
        """At most ``block_size`` bytes of the body of an object, from an offset on."""
        at = (crc32(name) + version * _VERSION_STEP + start) % PERIOD
        return (self._ready or self.prepare())[at : at + size]

    def pieces(self, name: bytes, version: int, size: int, start: int = 0) -> Iterator[memoryview]:
        """The body of an object: whole blocks and, last, what is left. Nothing for size 0.

        :param start: offset in the object from which on ``size`` bytes are given.
        """
        ready = self._ready or self.prepare()
        at = (content_key(name, version) + start) % PERIOD
        step = self.block_size
        while size > 0:
            count = min(step, size)
            yield ready[at : at + count]
            at = (at + count) % PERIOD
            size -= count

    def agreement(self, key: int, offset: int, part: memoryview) -> int:
        """How many bytes from the start of ``part`` are those of the content of this key from
        ``offset`` on."""
        ready, at = self._ready or self.prepare(), key + offset
        whole: bytes = ready.obj  # type: ignore[assignment] # prepare made it of bytes
        done = 0
        while done < len(part):
            begin = (at + done) % PERIOD
            piece = part[done : done + len(whole) - begin]
            # startswith, because memoryviews compare byte by byte: 30 times as slow.
            if not whole.startswith(piece, begin):
                return done + _first_difference(whole, begin, piece)
            done += len(piece)
        return done

    def prepare(self) -> memoryview:
        """Make the block, which takes 15 ms; otherwise the first operation does it."""
        if self._ready:
            return self._ready
        # The block goes on from its start for another block_size bytes, so that a piece that
        # begins anywhere in it is in one part. Whole steps: the sources of a process share it.
        length = PERIOD + -(-self.block_size // _STEP) * _STEP
        self._ready = memoryview(_LETTER * length if self._compressible else repeated_block(length))
        return self._ready


class MixedSource(SyntheticSource):
    """As its base class, of content that compresses and deduplicates by the shares of a mix.

    The block ends at a multiple of the mix's blocks, and an object begins at a multiple of
    ``duplicate_block`` in it. Of each ``compressible_block``, the end is zeros. Every STAMPED bytes
    an object has a number of its own, except in those blocks that are to be duplicates: these are
    the same in all objects. So each piece is a copy.
    """

    def __init__(self, block_size: int, mix: ContentMix) -> None:
        super().__init__(block_size)
        self._mix = mix
        self._starts = _mixed_length(mix) // mix.duplicate_block
        #: Of each STAMPED bytes of the block: the first eight bytes, and whether they stay.
        self._first = array("Q")
        self._stays = b""

    def piece(self, name: bytes, version: int, size: int, start: int = 0) -> memoryview:
        return self._content(content_key(name, version), start, size)

    def pieces(self, name: bytes, version: int, size: int, start: int = 0) -> Iterator[memoryview]:
        whole = content_key(name, version)
        for at in range(start, start + size, self.block_size):
            yield self._content(whole, at, min(self.block_size, start + size - at))

    def agreement(self, key: int, offset: int, part: memoryview) -> int:
        for at in range(0, len(part), self.block_size):
            piece = part[at : at + self.block_size]
            right: bytearray = self._content(key, offset + at, len(piece)).obj  # type: ignore[assignment]
            skipped = (offset + at) % STAMPED
            if not right.startswith(piece, skipped):
                return at + _first_difference(right, skipped, piece)
        return len(part)

    def prepare(self) -> memoryview:
        if not self._ready:
            whole, copies = mixed_block(self._mix), -(-(self.block_size + 2 * STAMPED) // _STEP)
            ready = memoryview(_repeated(whole, len(whole) + copies * _STEP))
            words = ready.cast("Q")[:: STAMPED // 8]
            share, per_block = self._mix.duplicate, self._mix.duplicate_block // STAMPED
            self._first = array("Q", words.tolist())
            self._stays = bytes(
                _is_chosen(number // per_block % self._starts, share)
                for number in range(len(words))
            )
            self._ready = ready
        return self._ready

    def _content(self, key: int, offset: int, size: int) -> memoryview:
        """The bytes of an object from an offset on, in a copy that begins at a STAMPED block."""
        ready = self._ready or self.prepare()
        number, skipped = divmod(offset, STAMPED)
        count = -(-(skipped + size) // STAMPED)
        begin = key % self._starts * self._mix.duplicate_block // STAMPED + number
        begin %= self._starts * self._mix.duplicate_block // STAMPED
        end = begin + count
        content = bytearray(ready[begin * STAMPED : end * STAMPED])
        own = range((key << _STAMP_BITS) + number, (key << _STAMP_BITS) + number + count)
        stamps = array("Q", own)
        if sys.byteorder == "big":
            stamps.byteswap()
        if self._mix.duplicate:
            first, stays = self._first[begin:end], self._stays[begin:end]
            stamps = array(
                "Q", [b if c else a for a, b, c in zip(stamps, first, stays, strict=True)]
            )
        memoryview(content).cast("Q")[:: STAMPED // 8] = memoryview(stamps)
        return memoryview(content)[skipped : skipped + size]


@lru_cache(maxsize=1)
def mixed_block(mix: ContentMix) -> bytes:
    """The block of a mix: of each ``compressible_block`` the share of it that is random, then
    zeros."""
    length, step = _mixed_length(mix), mix.compressible_block
    whole = bytearray(length)
    kept = round(step * (1 - mix.compressible))
    content = memoryview(_repeated(block(), length))
    if kept:
        for at in range(0, length, step):
            whole[at : at + kept] = content[at : at + kept]
    return bytes(whole)


def _mixed_length(mix: ContentMix) -> int:
    """Bytes: at least 128 blocks of duplicates, for shares in steps of 1 %."""
    unit = math.lcm(mix.duplicate_block, mix.compressible_block)
    return -(-max(128 * mix.duplicate_block, PERIOD) // unit) * unit


def _is_chosen(number: int, share: float) -> bool:
    """Whether a number is among those, evenly spread, that make up a share of all numbers."""
    return math.floor((number + 1) * share) > math.floor(number * share)


def version_of_copy(source: bytes, version: int, copy: bytes) -> int:
    """The version of an object named ``copy`` that has the content of this version of ``source``.

    A version moves the key by a step that is prime to KEYS, so there is exactly one below KEYS.
    """
    apart = crc32(source) - crc32(copy)
    return (version + apart * pow(_VERSION_STEP, -1, KEYS)) % KEYS


def _first_difference(whole: bytes | bytearray, begin: int, piece: memoryview) -> int:
    """Offset of the first difference in a piece that has one."""
    right, wrong = 0, len(piece)  # bytes that agree, and that don't
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if whole.startswith(piece[right:middle], begin + right):
            right = middle
        else:
            wrong = middle
    return right


def source_of(settings: StorageSettings, least_block: int = 0) -> SyntheticSource:
    """The source of a run's settings.

    :param least_block: bytes that a piece may have even if the settings' block size is smaller.
    """
    block_size = max(settings.block_size, least_block)
    if settings.mix:
        return MixedSource(block_size, settings.mix)
    return SyntheticSource(block_size, compressible=settings.compressible)


def content_mark(settings: StorageSettings) -> str:
    """What objects say about their content, so that a run with other content uploads them again; ""
    for random bytes."""
    if settings.compressible:
        return "yes"
    mix = settings.mix
    return "" if mix is None else (
        f"compressible {mix.compressible:g}/{mix.compressible_block}"
        f" duplicate {mix.duplicate:g}/{mix.duplicate_block}"
    )  # fmt: skip


def initial_size(size_class: SizeClass, number: int) -> int:
    """Size of an initial object in bytes, by the class's distribution: the same in every run."""
    spread = size_class.size_max - size_class.size_min + 1
    if spread == 1:
        return size_class.size_min
    digest = blake2b(f"{size_class.name}_{number}".encode(), digest_size=8).digest()
    value = int.from_bytes(digest, "big")
    if size_class.distribution is None:
        return size_class.size_min + value % spread
    return size_class.distribution.at((value >> 11) * 2.0**-53)
