"""Receive timestamps: when bytes arrived, not when we read them.

When the event loop wakes, it handles the responses of several connections one after another, while
more arrive. The last response has waited for as long as all the others took: with 64 users, 0.1 to
3 ms, which is time of the load generator and not of the store. Another thread or the garbage
collector can delay the loop further.

So we let the kernel timestamp each packet (socket(7), SO_TIMESTAMPNS). Without a kernel timestamp,
the time at which the loop woke is used.

The timestamp is that of the last segment that a receive call returned. A late read may return
several segments; how long before the last one the first arrived is then unknown.
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

_SO_TIMESTAMPNS = 35  #: on Linux; Python has no constant for it
_TIMESPEC = Struct("ll")
_unpack = _TIMESPEC.unpack
ANCILLARY_SIZE = socket.CMSG_SPACE(_TIMESPEC.size)  #: recvmsg's ``ancbufsize``

#: Two clocks read in succession count as simultaneous if that took no longer than this (0.2 µs is
#: usual). Otherwise the process was preempted in between, possibly for milliseconds.
_CLOCK_PAIR_NS = 20_000
#: What an undelayed loop finds when it wakes arrived at most this long before.
_LATE_NS = 1_000_000
#: What arrived this long after the wake-up is not what the loop woke for.
_AFTER_WAKE_NS = 200_000
_TRIES = 5

AncillaryData = list[tuple[int, int, bytes]]  #: recvmsg's ``ancdata``


def enable_timestamps(sock: socket.socket) -> None:
    """Have each receive call return the arrival time of its last bytes, where supported."""
    if sys.platform == "linux":
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


class RxTimestamps:
    """Arrival times of the bytes that one hub's greenlets receive.

    Set ``ancillary`` after a receive call, and call ``now`` before the next wait.
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
        self.watcher: Any = None  #: the loop watcher, kept alive by this reference
        self._woken_ns = 0
        self._timely_since_ns = 0  #: what arrived between this and the wake-up was read in time
        self._wall_offset_ns = _wall_offset()  #: wall clock minus perf_counter_ns
        self.wake()

    def wake(self) -> None:
        """Record that the loop returned from waiting for events."""
        self._before_ns = before_ns = self._woken_ns
        self._woken_ns = now_ns = perf_counter_ns()
        certain_ns = now_ns - _LATE_NS
        self._timely_since_ns = certain_ns if certain_ns > before_ns else before_ns
        wall_ns = time_ns()
        if perf_counter_ns() - now_ns < _CLOCK_PAIR_NS:
            self._wall_offset_ns = wall_ns - now_ns  # else the previous offset is more accurate

    def came_after_wake(self, at_ns: int) -> bool:
        """Whether bytes of this time arrived after those that the loop woke for."""
        return at_ns - self._woken_ns > _AFTER_WAKE_NS

    def now(self) -> int:
        """The perf_counter_ns time at which the last of the bytes arrived.

        Negated if they were read late, so that the first of them may have arrived long before.
        Kernel timestamps are of the wall clock, which may be set. But what arrived before the
        previous wake-up was reported then, which bounds the error.
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
    """Wall clock minus perf_counter_ns; of several attempts, the least delayed one."""
    tries = []
    for _ in range(_TRIES):
        before_ns = perf_counter_ns()
        wall_ns = time_ns()
        tries.append((perf_counter_ns() - before_ns, wall_ns - before_ns))
    return min(tries)[1]


class _ReadTime(RxTimestamps):
    """For libuv, which reports events before our wake-up callback runs."""

    def now(self) -> int:
        return perf_counter_ns()


_BY_HUB: WeakKeyDictionary[Any, RxTimestamps] = WeakKeyDictionary()


def hub_timestamps() -> RxTimestamps:
    """The instance of the current hub. Callers must wait for the loop before each receive call."""
    hub: Any = get_hub()
    found = _BY_HUB.get(hub)
    if found is None:
        found = _BY_HUB[hub] = _timestamps_of(hub.loop)
    return found


def _timestamps_of(loop: Any) -> RxTimestamps:
    if not type(loop).__module__.startswith("gevent.libev"):
        return _ReadTime()
    found = RxTimestamps()
    # Runs before all other callbacks of a wake-up.
    watcher = loop.check(ref=False, priority=loop.MAXPRI)
    watcher.start(found.wake)
    found.watcher = watcher
    return found
