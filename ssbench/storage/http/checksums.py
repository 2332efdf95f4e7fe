"""Checksums of objects: summed as they are sent, and compared as they are read.

awscrt has CRC32C and CRC64NVME with the instructions of the processor; hashlib the others.
Contents of objects begin at different places of one block, so no sum is known beforehand: each
upload is summed, as an SDK does, and the time is part of the operation's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import md5, sha256
from typing import Any, Protocol

from ssbench.core.errors import UsageError
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import Collector
from ssbench.storage.http.verify import fed

#: Headers of a response -> the checksum that it says the object has; None: it says none.
Stated = Callable[[Mapping[str, str]], bytes | None]


class Sum(Protocol):
    """As of hashlib."""

    def update(self, data: memoryview | bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class Crc:
    """:param add: the CRC of bytes that follow those of a CRC.
    :param size: bytes of it."""

    def __init__(self, add: Callable[[Any, int], int], size: int) -> None:
        self._add, self._size, self._value = add, size, 0

    def update(self, data: memoryview | bytes, /) -> None:
        self._value = self._add(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._size, "big")


def begin_of(name: str) -> Callable[[], Sum]:
    """What begins a sum.

    :param name: of values.CHECKSUMS, but "none".
    :raises UsageError: what it needs is not installed.
    """
    if name == "md5":
        return partial(md5, usedforsecurity=False)
    if name == "sha256":
        return sha256
    try:
        from awscrt import checksums
    except ImportError:
        raise UsageError(
            f"checksum {name} needs awscrt: in ssbench's checkout, pip install '.[checksum]', here"
            " and on the hosts of workers"
        ) from None
    return partial(Crc, getattr(checksums, name), 4 if name == "crc32c" else 8)


def sum_of(begin: Callable[[], Sum], upload: Upload) -> bytes:
    """The checksum of a body; other greenlets run in between."""
    found = begin()
    found.update(upload.first)
    fed(found, upload.rest)
    return found.digest()


class SummedBody(Collector):
    """Sums a body as it arrives, if the store states a checksum.

    :param inner: gets the body as well; None: it is not kept.
    """

    def __init__(
        self, limit: int, begin: Callable[[], Sum], stated: Stated, inner: Collector | None
    ) -> None:
        super().__init__(limit)
        self.inner = inner
        self._begin, self._stated = begin, stated
        self._claimed: bytes | None = None
        self._sum: Sum | None = None

    def add(self, part: memoryview) -> None:
        if self._sum is None:
            self._sum, self._claimed = self._begin(), self._stated(self.headers)
            if self.inner is not None:
                self.inner.headers = self.headers
        if self._claimed is not None:
            self._sum.update(part)
        if self.inner is not None:
            self.inner.add(part)

    def mismatch(self) -> str:
        """How the sum differs from what the store states; "" if it doesn't."""
        if self._sum is None or self._claimed is None:
            return ""
        found = self._sum.digest()
        if found == self._claimed:
            return ""
        return f"the store's checksum is {self._claimed.hex()}, that of what it sent {found.hex()}"
