"""When a worker can't go on: it leaves, and says why.

What escapes every handler would take a user or a message along in silence: the event loop prints
it and turns on. Here it is told to who can end the worker instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Leaving in good order takes memory, too. More than malloc keeps: freed, it can be had anew.
RESERVE_BYTES = 1 << 20


class CrashHandler:
    """Watches an event loop for errors that nobody has caught.

    :param tell: called with the reason in a line, once; may be called while the loop is in the
        middle of something.
    """

    def __init__(self, hub: Any, tell: Callable[[str], None]) -> None:
        self._reserve: bytearray | None = bytearray(RESERVE_BYTES)
        self._tell = tell
        self._print = hub.handle_error
        hub.handle_error = self._on_error

    def __repr__(self) -> str:
        return f"<CrashHandler {'not yet' if self._reserve else 'reserve used'}>"

    def reason(self, error: object) -> str:
        """Why the worker ends, in a line; frees what was kept for it to do so in good order."""
        self._reserve = None
        if isinstance(error, MemoryError):
            return "out of memory"
        return f"it can't go on: {type(error).__name__}: {error}"

    def _on_error(self, context: object, kind: type[BaseException], error: Any, tb: Any) -> None:
        """As Hub.handle_error; must not raise."""
        if issubclass(kind, Exception):
            self._tell(self.reason(error if isinstance(error, kind) else kind(error)))
        if not issubclass(kind, MemoryError):  # of that a traceback tells nothing more
            self._print(context, kind, error, tb)
