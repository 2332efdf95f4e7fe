"""A worker's own live figures: its loop's lag is measured, each second is told the master."""

from __future__ import annotations

from collections.abc import Iterator

from gevent.hub import get_hub

from ssbench.core.messages import Host
from ssbench.core.model import Phase
from ssbench.host.live import LAG_INTERVAL_S, HostLive


class HostMetricsSender:
    """To be made, started and stopped in the loop's thread.

    :param live: None: there is nothing to tell.
    """

    def __init__(self, live: HostLive | None) -> None:
        self._live = live
        self._timer = get_hub().loop.timer(LAG_INTERVAL_S, LAG_INTERVAL_S)

    def start(self) -> None:
        """Begin to measure."""
        if self._live:
            self._live.start()
            self._timer.start(self._live.lag.ran)

    def follow(self, phase: Phase) -> None:
        """Another phase, or IDLE, of which there is nothing to tell."""
        if self._live:
            self._live.wanted = phase is not Phase.IDLE

    def messages(self, incarnation: int) -> Iterator[Host]:
        """What there is to tell; from any one thread."""
        for sample in self._live.take() if self._live else ():
            yield Host(incarnation, sample.at_ns, sample.boot_id, sample.figures)

    def stop(self) -> None:
        """No more of it."""
        self._timer.stop()
        self._timer.close()
        if self._live:
            self._live.stop()
