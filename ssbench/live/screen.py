"""Stderr for progress displays: it may be no terminal, stall, or be closed at any time.

None of that may delay or end a run.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from shutil import get_terminal_size
from typing import TextIO

from ssbench.live.console import discard

#: Values of TERM of terminals that can't move their cursor.
_DUMB = frozenset({"dumb", "unknown"})
#: A pipe that is "ready" takes at least this much without blocking (PIPE_BUF).
PIECE = 4096


class Screen:
    """Lines of text, and a text file (``write``, ``flush``, ``isatty``) that rich draws on.

    :param environ: has TERM and NO_COLOR.
    """

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self.gone = False  #: it was closed; everything is dropped
        self.environ = environ
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        self._stream = stream
        self._fd = _descriptor(stream)
        self.moves_cursor = _is_terminal(stream) and environ.get("TERM", "") not in _DUMB
        self.colour = self.moves_cursor and not environ.get("NO_COLOR")

    @property
    def size(self) -> tuple[int, int]:
        """Present columns and lines of the terminal; 80 and 24 if unknown."""
        columns, lines = get_terminal_size((80, 24))
        if self._fd is not None:
            try:
                found = os.get_terminal_size(self._fd)
            except OSError:
                pass  # no terminal
            else:
                columns, lines = found.columns or 80, found.lines or 24
        return columns, lines

    def ready(self) -> bool:
        """Whether a little text can be written now. A stopped terminal or full pipe takes none."""
        if self.gone:
            return False
        if self._fd is None:
            return True
        try:
            return bool(select.select([], [self._fd], [], 0)[1])
        except (OSError, ValueError):
            return True  # writing will show it

    def write(self, text: str) -> int:
        """Write; never raises. Returns the length, as files do."""
        if not self.gone:
            try:
                self._stream.write(text)
                self._stream.flush()
            except BlockingIOError:
                pass  # the descriptor is non-blocking and full: the text is lost
            except (OSError, ValueError) as error:
                self._vanished(error)
        return len(text)

    def flush(self) -> None:
        """Nothing to do: every write is flushed."""

    def isatty(self) -> bool:
        """Whether control characters may be written."""
        return self.moves_cursor

    def line(self, text: str) -> None:
        self.write(text + "\n")

    def _vanished(self, error: Exception) -> None:
        self.gone = True
        if isinstance(error, BrokenPipeError):
            discard(self._stream)


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError, AttributeError):
        return None  # text in memory


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (OSError, ValueError):
        return False  # closed
