"""Stderr for progress displays: it may be no terminal, stall, or be closed at any time.

None of that may delay or end a run.
"""

from __future__ import annotations

import os
import select
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from shutil import get_terminal_size
from typing import TextIO

from ssbench.cli.console import discard

#: Values of TERM of terminals that can't move their cursor.
_DUMB = frozenset({"dumb", "unknown"})
#: A pipe that is "ready" takes at least this much without blocking (PIPE_BUF).
PIECE = 4096
_ERASE_LINE = "\r\x1b[K"


class Screen:
    """Lines of text, and one line that is replaced in place if the terminal can do that.

    Also a text file (``write``, ``flush``, ``isatty``), for rich.

    :param environ: has TERM and NO_COLOR.
    """

    def __init__(self, stream: TextIO, environ: Mapping[str, str] = os.environ) -> None:
        self.gone = False  #: it was closed; everything is dropped
        self.environ = environ
        self.encoding = getattr(stream, "encoding", None) or "utf-8"
        self._stream = stream
        self._fd = _descriptor(stream)
        self._shown = ""
        self.moves_cursor = _is_terminal(stream) and environ.get("TERM", "") not in _DUMB
        self.colour = self.moves_cursor and not environ.get("NO_COLOR")

    @property
    def width(self) -> int:
        """Present columns of the terminal; 80 if unknown."""
        if self._fd is not None:
            try:
                return os.get_terminal_size(self._fd).columns or 80
            except OSError:
                pass  # no terminal
        return get_terminal_size((80, 24)).columns

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
        """Write a line; the replaced line is cleared first."""
        self.clear()
        self.write(text + "\n")

    def replace(self, text: str) -> None:
        """Show the text, cut to one line, in place of the last replaced one.

        Skipped while the terminal is stopped; only where ``moves_cursor``.
        """
        text = cut(text, self.width - 1)
        if text != self._shown and self.ready():
            self.write(_ERASE_LINE + text)
            self._shown = text

    def clear(self) -> None:
        """Clear the replaced line."""
        if self._shown:
            self.write(_ERASE_LINE)
            self._shown = ""

    def _vanished(self, error: Exception) -> None:
        self.gone = True
        if isinstance(error, BrokenPipeError):
            discard(self._stream)


def cut(text: str, width: int) -> str:
    """The text in at most ``width`` columns of a terminal; it ends with ``...`` if it was cut."""
    if len(text) <= width and text.isascii():
        return text
    columns = list(accumulate(map(_columns, text)))
    if not columns or columns[-1] <= width:
        return text
    dots = "..."[: max(width, 0)]
    return text[: bisect_right(columns, width - len(dots))] + dots


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


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
