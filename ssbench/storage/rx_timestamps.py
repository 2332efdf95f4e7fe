"""When bytes came, not when we got to reading them.

A loop that wakes finds the answers of several connections and hands them out one after another, and
while it does more come in. By the time that the last one is read, it has been there for as long as
all the others took: with 64 users that is 0.1 to 3 ms, which is ours and not the store's. Another
thread, or the garbage collector, can keep the loop from waking at all.

So the kernel is asked to note when it took each packet in (socket(7), SO_TIMESTAMPNS). Where there
is no such note, the clock that is looked at as the loop wakes has to do.

The note is of the last segment that one reading took in. Who reads late may take in several, of
which the first came before: how long before isn't known.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from struct import Struct
from time import perf_counter_ns, time_ns
from typing import Any
from weakref import WeakKeyDictionary

from gevent import get_hub

_SO_TIMESTAMPNS = 35  #: of Linux; Python has no name for it
_TIMESPEC = Struct("ll")
_unpack = _TIMESPEC.unpack
ANCILLARY_SIZE = socket.CMSG_SPACE(_TIMESPEC.size)  #: recvmsg's ``ancbufsize``

#: Two clocks read one after the other are of one moment if it took no longer than this (0.2 µs is
#: usual). Else another process had the core in between, which can be milliseconds.
_CLOCK_PAIR_NS = 20_000
#: What a loop that isn't held up finds as it wakes came no longer ago than this.
_LATE_NS = 1_000_000
#: What came so long after the waking came behind what the loop was woken for.
_AFTER_WAKE_NS = 200_000
_TRIES = 5

AncillaryData = list[tuple[int, int, bytes]]  #: recvmsg's ``ancdata``


def enable_timestamps(sock: socket.socket) -> None:
    """Have each receiving note when the last of its bytes came, if the system can do that."""
    if sys.platform == "linux":
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


class RxTimestamps:
    """Tells when bytes came that one hub's greenlets received.

    Set ``ancillary`` after a receiving, and ask before the next wait.
    """

    __slots__ = (
        "_before_ns",
        "_timely_since_ns",
        "_wall_offset_ns",
        "_woken_ns",
        "ancillary",
        "watcher",
    )

    def __init__(self) -> None:
        self.ancillary: AncillaryData = []
        self.watcher: Any = None  #: kept for as long as this is
        self._woken_ns = 0
        self._timely_since_ns = 0  #: what came between this and the waking was read in time
        self._wall_offset_ns = _wall_offset()  #: how far the wall clock is ahead
        self.wake()

    def wake(self) -> None:
        """The loop has come back from the system, with what had come by now."""
        self._before_ns = before_ns = self._woken_ns
        self._woken_ns = now_ns = perf_counter_ns()
        certain_ns = now_ns - _LATE_NS
        self._timely_since_ns = certain_ns if certain_ns > before_ns else before_ns
        wall_ns = time_ns()
        if perf_counter_ns() - now_ns < _CLOCK_PAIR_NS:
            self._wall_offset_ns = (
                wall_ns - now_ns
            )  # else that of the waking before is the better one

    def came_after_wake(self, at_ns: int) -> bool:
        """Whether other bytes were there before what came then: those that the loop woke for."""
        return at_ns - self._woken_ns > _AFTER_WAKE_NS

    def now(self) -> int:
        """The time of perf_counter_ns at which the last of the bytes was there.

        Negative, of the same amount, where the first of them may have been there long before: they
        were read late. The notes are of the wall clock, which may be set. But what came before the
        waking before this one was told of then: nothing is further off than that.
        """
        ancillary = self.ancillary
        if not ancillary:
            return self._woken_ns
        seconds, ns = _unpack(ancillary[0][2])
        at_ns: int = seconds * 1_000_000_000 + ns - self._wall_offset_ns
        if self._timely_since_ns <= at_ns <= self._woken_ns:
            return at_ns
        at_ns = max(min(at_ns, perf_counter_ns()), self._before_ns)
        return at_ns if -_LATE_NS <= at_ns - self._woken_ns <= _AFTER_WAKE_NS else -at_ns


def _wall_offset() -> int:
    """How far the wall clock is ahead of perf_counter_ns: of some tries, the one least held up."""
    tries = []
    for _ in range(_TRIES):
        before_ns = perf_counter_ns()
        wall_ns = time_ns()
        tries.append((perf_counter_ns() - before_ns, wall_ns - before_ns))
    return min(tries)[1]


class _ReadTime(RxTimestamps):
    """For libuv, which tells of what came before it lets us look at the clock."""

    def now(self) -> int:
        return perf_counter_ns()


_BY_HUB: WeakKeyDictionary[Any, RxTimestamps] = WeakKeyDictionary()


def hub_timestamps() -> RxTimestamps:
    """This hub's. Only for who has waited for the loop before each receiving."""
    hub: Any = get_hub()
    found = _BY_HUB.get(hub)
    if found is None:
        found = _BY_HUB[hub] = _timestamps_of(hub.loop)
    return found


def _timestamps_of(loop: Any) -> RxTimestamps:
    if not type(loop).__module__.startswith("gevent.libev"):
        return _ReadTime()
    found = RxTimestamps()
    # Before anything else that the loop does as it wakes.
    watcher = loop.check(ref=False, priority=loop.MAXPRI)
    watcher.start(found.wake)
    found.watcher = watcher
    return found
