"""A connection whose other side has said all it has to say; it comes in pieces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any


class PiecewiseStream:
    """As ``ssbench.storage.http.stream.PlainStream``, without a socket or a wait.

    What it gives is there when it is read.

    :param size: gives the most bytes of each piece.
    :param room: bytes that can be sent before the answer begins to come; None: any number.
    """

    address = None  #: not known

    arrived_ns = staticmethod(perf_counter_ns)

    def __init__(self, data: bytes, size: Callable[[], int], room: int | None = None) -> None:
        self.left = memoryview(data)
        self._size = size
        self._room = room

    def send(self, data: Any) -> int:
        return self.send_parts([data])

    def send_parts(self, parts: Sequence[Any]) -> int:
        total = sum(map(len, parts))
        if self._room is None:
            return total
        if not self._room:
            raise BlockingIOError
        taken = min(self._room, total)
        self._room -= taken
        return taken

    def wait_writable(self) -> bool:
        """The answer is there; when it has all been heard, there is room again."""
        if not self.left:
            self._room = None
        return True

    def recv_into(self, buffer: Any) -> int:
        count = min(self._size(), len(buffer), len(self.left))
        buffer[:count] = self.left[:count]
        self.left = self.left[count:]
        return count

    def recv_now(self, buffer: Any) -> int:
        return self.recv_into(buffer)

    def discard(self, count: int) -> int:
        return self.recv_into(bytearray(count))

    def beginning_ns(self, at_ns: int, count: int) -> int:
        return at_ns

    def count_segments(self) -> None:
        pass

    def never_acknowledged(self, count: int) -> bool:
        return False

    def wake_reader(self) -> None:
        pass

    def shut(self) -> None:
        self.left = self.left[:0]

    def close(self) -> None:
        pass
