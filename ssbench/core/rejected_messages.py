"""Log lines for rejected messages, of which any peer may send any number."""

from __future__ import annotations

import logging

from ssbench import __version__
from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.messages import PROTOCOL

log = logging.getLogger(__name__)

MAX_LOGGED = 5  #: per port; a flood must fill neither the screen nor the disk
MAX_WORKERS = 16  #: workers of another protocol that are named


class RejectedMessages:
    """Counts the rejected messages of one port, and logs the first few of them."""

    def __init__(self, port: str) -> None:
        self._port = port
        self.count = 0
        self._logged = 0
        self._other_protocol = False  # a message of one was logged
        self._workers: set[str] = set()  # of another protocol, and named
        self._lines: list[str] = []

    def add(self, error: MessageError) -> None:
        """One more message was rejected."""
        self.count += 1
        if isinstance(error, ProtocolError):
            if error.sender:
                self._name(error)
                return
            if self._other_protocol:
                return  # probably of the same peer
            self._other_protocol = True
        if self._logged >= MAX_LOGGED:
            return
        self._logged += 1
        last = "; further ones are only counted" if self._logged == MAX_LOGGED else ""
        log.warning("Rejected a message on the %s port: %s%s", self._port, error, last)

    def _name(self, error: ProtocolError) -> None:
        """One line per worker of another protocol, which repeats its hello."""
        self._other_protocol = True
        if error.sender in self._workers or len(self._workers) >= MAX_WORKERS:
            return
        self._workers.add(error.sender)
        last = len(self._workers) == MAX_WORKERS
        self._lines.append(
            f"Worker {error.sender} can't join: its ssbench {error.release} speaks protocol"
            f" {error.protocol}, this ssbench {__version__} protocol {PROTOCOL}; install the same"
            f" release on every host{'; further ones are not named' if last else ''}"
        )

    def workers(self) -> list[str]:
        """New lines about workers of another protocol."""
        lines, self._lines = self._lines, []
        return lines

    def __repr__(self) -> str:
        return f"<RejectedMessages of the {self._port} port: {self.count}>"
