"""What is logged of messages that are none of ours: anybody may send any number of them."""

from __future__ import annotations

import logging

from ssbench import __version__
from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.messages import PROTOCOL

log = logging.getLogger(__name__)

TOLD = 5  #: of one port; a flood must fill neither the screen nor the disk
MOST_WORKERS = 16  #: of another protocol that are named


class RejectedMessages:
    """Warns of the first few messages that a port had to refuse; of more not at all."""

    def __init__(self, port: str) -> None:
        self._port = port
        self.count = 0  #: of all of them
        self._told = 0
        self._other_protocol = False  # a message of one was told of
        self._workers: set[str] = set()  # of another protocol that were named
        self._lines: list[str] = []

    def tell(self, error: MessageError) -> None:
        """One more came."""
        self.count += 1
        if isinstance(error, ProtocolError):
            if error.sender:
                self._name(error)
                return
            if self._other_protocol:
                return  # of whoever was told of
            self._other_protocol = True
        if self._told >= TOLD:
            return
        self._told += 1
        last = "; more of them are only counted" if self._told == TOLD else ""
        log.warning("Refused a message on the %s port: %s%s", self._port, error, last)

    def _name(self, error: ProtocolError) -> None:
        """One line for each worker of another protocol, which says hello again and again."""
        self._other_protocol = True
        if error.sender in self._workers or len(self._workers) >= MOST_WORKERS:
            return
        self._workers.add(error.sender)
        last = len(self._workers) == MOST_WORKERS
        self._lines.append(
            f"Worker {error.sender} can't join: its ssbench {error.release} speaks protocol"
            f" {error.protocol}, this ssbench {__version__} protocol {PROTOCOL}; install the same"
            f" release on every host{'; no more such workers are named' if last else ''}"
        )

    def workers(self) -> list[str]:
        """Lines about workers of another protocol; each is given once."""
        lines, self._lines = self._lines, []
        return lines

    def __repr__(self) -> str:
        return f"<RejectedMessages of the {self._port} port: {self.count}>"
