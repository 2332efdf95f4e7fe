"""Samples where this process spends CPU time.

A signal interrupts the main thread after each 10 ms of CPU time of the process (ITIMER_PROF), so
that the stack of whatever runs then is known: in gevent's loop that is the running greenlet. A
sampling thread would see greenlets only where they release the interpreter's lock. A process that
waits uses no CPU time, and is not sampled.

A sample weighs what the clock of its thread says since the sample before: signals may come late,
and the kernel rounds their interval. Each sample also reads the clocks of all other threads. What
was spent after the last sample counts for "(other stacks)": a process that gets its core in short
slices is sampled less often than it should be, and the sum is its CPU time even so.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from functools import cache
from types import CodeType, FrameType
from typing import ClassVar

from ssbench.core.cpu_profile import OTHER_STACKS, OTHER_THREADS, CpuProfile

INTERVAL_S = 0.01
_MAX_DEPTH = 100  #: calls of a stack, from the innermost
_MAX_STACKS = 10_000  #: different ones; the time of further ones is summed
_MAX_NAME = 100  #: characters of a function's name, or of a file's


class StackSampler:
    """Takes samples from ``start`` to ``stop``; one at a time in a process."""

    _running: ClassVar[StackSampler | None] = None

    def __init__(self) -> None:
        self._stacks: Counter[tuple[int, ...]] = Counter()  # ids of code objects -> ns
        self._codes: dict[int, CodeType] = {}  # by id; keeps them, and so the id, alive
        self._other_ns = 0
        self._samples = 0
        self._overhead_ns = 0
        self._main = threading.main_thread().ident or 0
        self._threads_ns: dict[int, int] = {}  # thread -> its CPU time at the newest sample
        self._process_ns = 0

    def __repr__(self) -> str:
        return f"<StackSampler {self._samples} samples, {len(self._stacks)} stacks>"

    def start(self) -> bool:
        """False if it can't: another one is running, or this is not the main thread."""
        if StackSampler._running or threading.current_thread() is not threading.main_thread():
            return False
        StackSampler._running = self
        self._threads_ns = {thread: _cpu_ns(thread) for thread in sys._current_frames()}
        self._threads_ns[self._main] = time.thread_time_ns()
        self._process_ns = time.process_time_ns()
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)
        return True

    def stop(self) -> CpuProfile:
        """End it, if it runs."""
        if StackSampler._running is self:
            signal.setitimer(signal.ITIMER_PROF, 0)
            # By default a signal that is still on its way would end the process.
            signal.signal(signal.SIGPROF, signal.SIG_IGN)
            StackSampler._running = None
            main_ns = time.thread_time_ns() - self._threads_ns[self._main]
            self._stacks[()] += main_ns
            self._other_ns += max(time.process_time_ns() - self._process_ns - main_ns, 0)
        stacks: Counter[str] = Counter()
        names = {number: _text(code) for number, code in self._codes.items()}
        for key, cpu_ns in self._stacks.items():
            stacks[";".join(names[each] for each in reversed(key)) or OTHER_STACKS] += cpu_ns
        if self._other_ns:
            stacks[OTHER_THREADS] = self._other_ns
        return CpuProfile.of(stacks, self._samples, self._overhead_ns)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        """The signal's handler, in the main thread: it must not switch greenlets."""
        began_ns = time.thread_time_ns()
        threads_ns, process_ns = self._threads_ns, time.process_time_ns()
        self._samples += 1
        main_ns = began_ns - threads_ns[self._main]
        others_ns = 0
        self._add(frame, main_ns)
        current = sys._current_frames()
        for thread, top in current.items():
            if thread != self._main:
                now_ns = _cpu_ns(thread)
                spent_ns = now_ns - threads_ns.get(thread, 0)
                threads_ns[thread] = now_ns
                if spent_ns > 0:
                    others_ns += spent_ns
                    self._add(top, spent_ns)
        if len(threads_ns) > len(current):  # some have ended
            self._threads_ns = {thread: threads_ns[thread] for thread in current}
        other_ns = process_ns - self._process_ns - main_ns - others_ns
        self._other_ns += max(other_ns, 0)
        ended_ns = time.thread_time_ns()
        self._overhead_ns += ended_ns - began_ns
        self._threads_ns[self._main] = ended_ns
        self._process_ns = process_ns + ended_ns - began_ns

    def _add(self, frame: FrameType | None, cpu_ns: int) -> None:
        found: list[int] = []
        codes = self._codes
        while frame is not None and len(found) < _MAX_DEPTH:
            code = frame.f_code
            found.append(id(code))
            codes[id(code)] = code
            frame = frame.f_back
        key = tuple(found)
        if key not in self._stacks and len(self._stacks) >= _MAX_STACKS:
            key = ()
        self._stacks[key] += cpu_ns


def _text(code: CodeType) -> str:
    """``function (file:line)``, the line of its definition."""
    name = getattr(code, "co_qualname", code.co_name)[-_MAX_NAME:]  # Python 3.11 has it
    text = f"{name} ({_short(code.co_filename)[-_MAX_NAME:]}:{code.co_firstlineno})"
    return "".join(each if each.isprintable() and each != ";" else "?" for each in text)


def _cpu_ns(thread: int) -> int:
    """CPU time of a thread, which must be living."""
    return time.clock_gettime_ns(time.pthread_getcpuclockid(thread))


@cache
def _short(path: str) -> str:
    """A file's path from its top package on: the rest says where Python and its packages are, which
    other hosts have elsewhere."""
    folder, name = os.path.split(path)
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = os.path.join(package, name)
    return name
