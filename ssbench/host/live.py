"""A thread that samples the metrics of this host and process once a second."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, NamedTuple

from ssbench.core.model import SECOND_NS

if TYPE_CHECKING:
    from ssbench.host.metrics import HostSampler

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
LAG_INTERVAL_S = 0.05  #: of the timer that measures the event loop's lag
#: Samples kept until ``take``; older ones are dropped.
_MAX_WAITING = 60
#: Latenesses kept until ``take``, of a timer that runs twenty times a second.
_MOST_LATE = 10_000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Sample(NamedTuple):
    """Metrics of one interval."""

    at_ns: int  #: its end, by perf_counter_ns
    boot_id: str
    figures: Mapping[str, float]


class LoopLag:
    """The lateness of a timer that the loop should run every ``interval_s``.

    Written in the loop's thread, read in another one.

    :param clock: monotonic, nanoseconds.
    """

    def __init__(self, interval_s: float, clock: Callable[[], int] = perf_counter_ns) -> None:
        self._interval_ns = round(interval_s * SECOND_NS)
        self._clock = clock
        self._due_ns: int | None = None
        # Appending to a deque and popping from it is thread-safe.
        self._late_ns: deque[int] = deque(maxlen=_MOST_LATE)

    def __repr__(self) -> str:
        return f"<LoopLag {len(self._late_ns)} not yet taken>"

    def ran(self) -> None:
        """The timer ran: record its lateness."""
        now_ns = self._clock()
        due_ns = now_ns if self._due_ns is None else self._due_ns
        self.add(now_ns - due_ns)
        # As libev does: a timer that is late by more than its interval is due at once.
        self._due_ns = max(due_ns + self._interval_ns, now_ns)

    def add(self, late_ns: int) -> None:
        """Record a lateness in ns; negative ones count as 0."""
        self._late_ns.append(max(late_ns, 0))

    def take(self) -> tuple[float, float] | None:
        """Maximum and mean lateness since the last call, in seconds; None if nothing was due.

        For a blocked loop, the lateness of the timer so far counts.
        """
        late_ns = []
        while self._late_ns:
            late_ns.append(self._late_ns.popleft())
        due_ns = self._due_ns
        if due_ns is not None:
            overdue_ns = self._clock() - due_ns
            if overdue_ns > self._interval_ns or not late_ns:
                late_ns.append(max(overdue_ns, 0))
        if not late_ns:
            return None
        return max(late_ns) / SECOND_NS, sum(late_ns) / len(late_ns) / SECOND_NS


class HostLive(threading.Thread):
    """Samples once a second. Create it in the thread of the event loop.

    :param store_pids: as of HostSampler.

    Keeps samples only while ``wanted`` is set. If sampling fails, it ends, and logs why.
    """

    def __init__(
        self,
        *,
        interval_s: float = INTERVAL_S,
        store_pids: Sequence[int] = (),
        make_sampler: Callable[[int, int, Sequence[int]], HostSampler] | None = None,
    ) -> None:
        super().__init__(name="ssbench-host", daemon=True)
        self.wanted = False
        self.lag = LoopLag(LAG_INTERVAL_S)
        self.boot_id = boot_id()
        self.newest: Mapping[str, float] = {}  #: figures of the last interval
        self._interval_ns = round(interval_s * SECOND_NS)
        self._store_pids = store_pids
        self._make_sampler = make_sampler
        self._loop_thread = (threading.get_ident(), threading.get_native_id())
        self._samples: deque[Sample] = deque(maxlen=_MAX_WAITING)
        self._ending = threading.Event()

    def run(self) -> None:
        """Sample until ``stop``."""
        from ssbench.host import metrics  # loads slowly, and the event loop need not wait for it

        try:
            self._run(
                (self._make_sampler or metrics.HostSampler)(*self._loop_thread, self._store_pids)
            )
        except metrics.FAULTS as error:  # a run does not need these metrics
            log.info("No metrics of this host: %s: %s", type(error).__name__, error)

    def _run(self, sampler: HostSampler) -> None:
        due_ns = perf_counter_ns() + self._interval_ns
        while not self._ending.wait(max(due_ns - perf_counter_ns(), 0) / SECOND_NS):
            figures = sampler.sample()
            late_s = self.lag.take()
            if late_s is not None:
                figures["loop_lag_max_s"], figures["loop_lag_mean_s"] = late_s
            self.newest = figures
            now_ns = perf_counter_ns()
            if self.wanted:
                self._samples.append(Sample(now_ns, self.boot_id, figures))
            due_ns = max(due_ns + self._interval_ns, now_ns)

    def take(self) -> Iterator[Sample]:
        """The samples since the last call. Call it from one thread only."""
        while self._samples:
            yield self._samples.popleft()

    def stop(self) -> None:
        """End the thread; wait at most a second, since a system call may hang."""
        self._ending.set()
        if self.is_alive():
            self.join(1.0)

    def __enter__(self) -> HostLive:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def boot_id() -> str:
    """Identifies the running kernel, whatever the host's name; "" if unknown."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
