"""What is logged of messages that are none of ours: anybody may send any number of them."""

from __future__ import annotations

import logging

from ssbench.core.errors import MessageError

log = logging.getLogger(__name__)

TOLD = 5  #: of one port; a flood must fill neither the screen nor the disk


class Refusals:
    """Warns of the first few messages that a port had to refuse; of more not at all."""

    def __init__(self, port: str) -> None:
        self._port = port
        self.count = 0  #: of all of them

    def tell(self, error: MessageError) -> None:
        """One more came."""
        self.count += 1
        if self.count > TOLD:
            return
        last = "; more of them are only counted" if self.count == TOLD else ""
        log.warning("Refused a message on the %s port: %s%s", self._port, error, last)

    def __repr__(self) -> str:
        return f"<Refusals of the {self._port} port: {self.count}>"
