"""The worker's second thread: it answers control states, whatever the event loop does.

It owns the control socket and the heartbeats' socket. A heartbeat says how long ago the event loop
last ran, so that the master can tell a blocked worker from a dead one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from itertools import islice

from ssbench.core.messages import MAX_MOVING, ControlState, Heartbeat, Host
from ssbench.host.live import HostLive
from ssbench.transport.worker_transport import Control
from ssbench.worker.machine import WorkerMachine

_POLL_S = 0.25


class HeartbeatThread(threading.Thread):
    """Answers each control state with a heartbeat, and keeps the newest one.

    :param machine: only attributes that are safe to read in another thread are used.
    :param host: metrics of this host, sent once a second; None: no metrics.
    :param notify: called in this thread after each new control state.
    """

    def __init__(
        self,
        control: Control,
        machine: WorkerMachine,
        host: HostLive | None,
        notify: Callable[[], None],
    ) -> None:
        super().__init__(name="ssbench-heartbeat", daemon=True)
        self.newest: tuple[ControlState, int] | None = None  #: with its arrival by the clock
        self.fault: Exception | None = None  #: what ended the thread
        #: Bytes sent so far of the objects that take long; set by the event loop's thread.
        self.moving: Callable[[], Mapping[int, int]] = dict
        self._control = control
        self._machine = machine
        self._host = host
        self._notify = notify
        self._stopping = threading.Event()

    def run(self) -> None:
        """Until ``stop``, or until there is a ``fault``."""
        try:
            while not self._stopping.is_set():
                message = self._control.receive(_POLL_S)
                if isinstance(message, ControlState):
                    self.newest = (message, time.perf_counter_ns())
                    self._notify()
                    self._control.send(self._heartbeat(*self.newest))
                for sample in self._host.take() if self._host else ():
                    at = sample.at_ns, sample.boot_id, sample.figures
                    self._control.send(Host(self._machine.incarnation, *at))
        except Exception as error:  # noqa: BLE001 - the event loop's thread raises it
            self.fault = error
        self._control.close()

    def _heartbeat(self, state: ControlState, arrived_ns: int) -> Heartbeat:
        machine = self._machine
        phase = machine.phase  # read once: it may end meanwhile
        busy = phase.held.busy if phase else 0
        queued = max(phase.held.total - busy, 0) if phase else 0
        now_ns = time.perf_counter_ns()
        return Heartbeat(
            machine.incarnation, state.serial, now_ns, now_ns - arrived_ns,
            max(now_ns - machine.ticked_ns, 0), busy, queued, time.time_ns(),
            dict(islice(self.moving().items(), MAX_MOVING)),
        )  # fmt: skip

    def stop(self) -> None:
        """End the thread, and close its sockets."""
        self._stopping.set()
        self.join()
