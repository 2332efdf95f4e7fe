"""A stream that is a terminal, and what one would obey, or not show, in a text."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence

#: One of each kind: escape, bell, carriage return, C1's CSI, right-to-left override, zero width,
#: line separator, private use, delete.
NASTY = "\x1b[2J\x07\r\x9b31m\u202e\u200b\u2028\ue000\x7f"

_STEERING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


class FakeTerminal(io.StringIO):
    """:param text: what is typed."""

    def __init__(self, text: str = "", *, isatty: bool = True) -> None:
        super().__init__(text)
        self._isatty = isatty

    def isatty(self) -> bool:
        return self._isatty


def steering(text: str) -> set[str]:
    """Characters of the text, but for our own newlines, that are not shown as they are."""
    return {c for c in set(text) if c != "\n" and unicodedata.category(c) in _STEERING}


def must_be_line(text: object) -> None:
    """It is shown as it is, in one line."""
    shown = str(text)
    assert "\n" not in shown, shown
    assert not steering(shown), shown


def must_be_lines(texts: Sequence[object]) -> None:
    """Each of them is; there is one at least."""
    assert texts
    for text in texts:
        must_be_line(text)
