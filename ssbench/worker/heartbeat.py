"""The worker's second thread: it hears beats and answers them, whatever the event loop does.

It owns the control and pulse sockets. A worker whose loop stands still is told from one that is
dead by what it says here: how long ago the loop last ran.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ssbench.core import live
from ssbench.core.messages import ControlState, Heartbeat, Message
from ssbench.transport.worker_transport import Control

_POLL_S = 0.25


class Figures(NamedTuple):
    """What a pulse says of the event loop's thread."""

    incarnation: int
    hub_idle_ns: int
    busy: int
    queued: int
    live: dict[int, int]


class LiveCounts:
    """Latencies that the event loop's thread counts and pulses take along."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._lock = threading.Lock()

    def add(self, latencies_ns: list[int]) -> None:
        """Count them."""
        counts = live.buckets(latencies_ns)
        with self._lock:
            self._counts.update(counts)

    def take(self) -> dict[int, int]:
        """What was counted since the last time, by core.live's buckets."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return dict(counts)


class HeartbeatThread(threading.Thread):
    """Answers each beat with a pulse, and keeps the newest beat.

    :param figures: asked for each pulse, in this thread.
    :param notify: called in this thread after each new beat; must be thread-safe.
    :param more: asked a few times a second, in this thread: what else is to be told.
    """

    def __init__(
        self,
        control: Control,
        figures: Callable[[], Figures],
        notify: Callable[[], None],
        more: Callable[[], Iterable[Message]] = lambda: (),
    ) -> None:
        super().__init__(name="ssbench-pulse", daemon=True)
        self.newest: tuple[ControlState, int] | None = None  #: with its arrival on our clock
        self.fault: Exception | None = None  #: what ended the thread; without it a worker is deaf
        self._control = control
        self._figures = figures
        self._notify = notify
        self._more = more
        self._stopping = threading.Event()

    def run(self) -> None:
        """Until ``stop``, or until there is a ``fault``."""
        try:
            while not self._stopping.is_set():
                message = self._control.receive(_POLL_S)
                if isinstance(message, ControlState):
                    self._reply(message)
                for other in self._more():
                    self._control.send(other)
        except Exception as error:  # noqa: BLE001 - nothing is swallowed: the loop's thread gets it
            self.fault = error
        self._control.close()

    def _reply(self, state: ControlState) -> None:
        arrived_ns = time.perf_counter_ns()
        self.newest = (state, arrived_ns)
        self._notify()
        figures = self._figures()
        now_ns = time.perf_counter_ns()
        wall_ns = time.time_ns()
        self._control.send(
            Heartbeat(
                figures.incarnation, state.serial, now_ns, now_ns - arrived_ns,
                figures.hub_idle_ns, figures.busy, figures.queued, figures.live, wall_ns,
            )
        )  # fmt: skip

    def stop(self) -> None:
        """End the thread and close its sockets."""
        self._stopping.set()
        self.join()
