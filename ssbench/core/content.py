"""The content of objects: slices of a block of pseudo-random bytes. Sizes of initial objects.

A store must not gain by compression or deduplication, and the client must not spend time on making
bytes. So there is one block, the same in every run, on every host and Python. An object's content
begins at an offset in it that follows from the object's name and version, so a later run can check
it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b, shake_128
from itertools import repeat
from zlib import crc32

from ssbench.core.model import SizeClass
from ssbench.core.settings import StorageSettings

#: Length of the block. A prime, so that no two pieces of a large object that a store would
#: deduplicate (they begin at multiples of a power of two) are alike.
PERIOD = 4_194_301

_SEED = b"ssbench content 1"
_VERSION_STEP = 1_500_007  #: neighbouring versions lie far apart in the block
_LETTER = b"A"
_STEP = 1024 * 1024


def block() -> bytes:
    """The block: PERIOD bytes of SHAKE-128."""
    return shake_128(_SEED).digest(PERIOD)


@lru_cache(maxsize=1)
def repeated_block(length: int) -> bytes:
    """The block, which goes on from its start, up to this length."""
    whole = block()
    return b"".join([*repeat(whole, length // PERIOD), memoryview(whole)[: length % PERIOD]])


class SyntheticSource:
    """Bodies in pieces of at most ``block_size`` bytes; no piece is a copy.

    :param compressible: one repeated letter in place of pseudo-random bytes.
    """

    def __init__(self, block_size: int, *, compressible: bool = False) -> None:
        self.block_size = block_size
        self._compressible = compressible
        self._ready: memoryview | None = None

    def offset(self, name: bytes, version: int) -> int:
        """Offset in the block at which this object begins."""
        return (crc32(name) + version * _VERSION_STEP) % PERIOD

    def piece(self, name: bytes, version: int, size: int) -> memoryview:
        """The whole body of an object of at most ``block_size`` bytes."""
        at = (crc32(name) + version * _VERSION_STEP) % PERIOD
        return (self._ready or self.prepare())[at : at + size]

    def pieces(self, name: bytes, version: int, size: int, start: int = 0) -> Iterator[memoryview]:
        """The body of an object: whole blocks and, last, what is left. Nothing for size 0.

        :param start: offset in the object from which on ``size`` bytes are given.
        """
        ready = self._ready or self.prepare()
        at = (self.offset(name, version) + start) % PERIOD
        step = self.block_size
        while size > 0:
            count = min(step, size)
            yield ready[at : at + count]
            at = (at + count) % PERIOD
            size -= count

    def agreement(self, at: int, part: memoryview) -> int:
        """How many bytes from the start of ``part`` are those of the block from ``at`` on.

        ``at`` may lie beyond the block's end: it goes on from its start.
        """
        ready = self._ready or self.prepare()
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


def version_of_copy(source: bytes, version: int, copy: bytes) -> int:
    """The version of an object named ``copy`` that has the content of this version of ``source``.

    A version moves the offset by a step that is prime to the period, so there is exactly one below
    PERIOD.
    """
    apart = crc32(source) - crc32(copy)
    return (version + apart * pow(_VERSION_STEP, -1, PERIOD)) % PERIOD


def _first_difference(whole: bytes, begin: int, piece: memoryview) -> int:
    """Offset of the first difference in a piece that has one."""
    right, wrong = 0, len(piece)  # so many bytes agree, and so many don't
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
    return SyntheticSource(block_size, compressible=settings.compressible)


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
