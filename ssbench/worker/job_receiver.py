"""The work port: a worker's end of the channel that jobs come by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gevent.hub import get_hub

from ssbench.transport.worker_transport import WorkerTransport


class JobReceiver:
    """To be used in the loop's thread. Closed at first; open, it is listened to.

    :param heard: called while messages are there and somebody listens.
    """

    def __init__(self, transport: WorkerTransport, on_readable: Callable[[], None]) -> None:
        self._transport = transport
        self._on_readable = on_readable
        self._watcher: Any = None  # while it is open
        self._listening = False  # whether it is started

    def __repr__(self) -> str:
        state = "closed" if self._watcher is None else "heard" if self._listening else "open"
        return f"<JobReceiver {state}>"

    def open(self, pipe: int) -> None:
        """Let jobs come, with at most ``pipe`` messages waiting.

        :raises TransportError: where no socket is to be had.
        """
        if self._watcher is None:
            self._watcher = get_hub().loop.io(self._transport.open_work(pipe), 1)
            self.listen(True)

    def close(self) -> None:
        """Let none come; what was on its way here is lost to us."""
        if self._watcher is not None:
            self.listen(False)
            self._watcher.close()
            self._watcher = None
        self._transport.close_work()

    def listen(self, on: bool) -> None:
        """Whether to be told. The descriptor shows that there are messages until all have been
        read: who leaves them doesn't listen meanwhile, or the loop would never sleep."""
        if self._watcher is None or on == self._listening:
            return
        self._listening = on
        if on:
            self._watcher.start(self._on_readable)
        else:
            self._watcher.stop()
