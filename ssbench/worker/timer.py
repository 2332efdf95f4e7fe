"""A timer that is late by a tenth of what the event loop's own timers are late by."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from gevent.hub import get_hub

from ssbench.core.model import SECOND_NS

_CLOCK_MONOTONIC = 1  # perf_counter_ns, on Linux
_TFD_TIMER_ABSTIME = 1
_READ = 1


class _Timerspec(ctypes.Structure):
    """struct itimerspec: the interval, then the time."""

    _fields_ = [(name, ctypes.c_long) for name in ("every_s", "every_ns", "at_s", "at_ns")]


class Timerfd:
    """A timerfd(2) of the clock of perf_counter_ns: its descriptor is readable once it expired.

    The loop's own timers count from the start of its iteration and in whole milliseconds: they are
    late by 0.5 to 1.1 ms. A timerfd is late by a tenth of that.

    :raises OSError: no descriptor is left.
    """

    def __init__(self) -> None:
        libc: Any = ctypes.CDLL(None, use_errno=True)
        self._settime = libc.timerfd_settime
        self.fd: int = libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._spec = _Timerspec()
        self._pointer = ctypes.byref(self._spec)

    def set(self, at_ns: int) -> None:
        """Expire at this time, and at no time set before."""
        # A time of 0 would disarm it.
        self._spec.at_s, self._spec.at_ns = divmod(max(at_ns, 1), SECOND_NS)
        self._settime(self.fd, _TFD_TIMER_ABSTIME, self._pointer, None)

    def expired(self) -> bool:
        """Whether it expired since the last call; False if ``set`` was called after that."""
        with suppress(BlockingIOError):
            os.read(self.fd, 8)
            return True
        return False

    def close(self) -> None:
        os.close(self.fd)
        self.fd = -1


class Timer(Timerfd):
    """A timerfd that the event loop watches. It calls once at the time that was set last; at once
    if that is past.

    :param call: called in the hub: it must not wait for anything.

    :raises OSError: as ``Timerfd``.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self._call = call
        self._watcher = get_hub().loop.io(self.fd, _READ)
        self._watcher.start(self._on_readable)

    def _on_readable(self) -> None:
        if self.fd >= 0 and self.expired():
            self._call()

    def close(self) -> None:
        if self.fd >= 0:
            self._watcher.close()
            super().close()
