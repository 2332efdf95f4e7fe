"""Words and figures for people: counts, bytes, durations, and names that came from outside."""

from __future__ import annotations

import unicodedata

_BYTE_UNITS = ("kB", "MB", "GB", "TB", "PB", "EB")
#: Unicode categories that may steer a terminal or hide text: controls, formats, surrogates,
#: private use, unassigned, line and paragraph separators.
_UNPRINTABLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def printable(text: str) -> str:
    """The text without anything that a terminal would obey; such characters as ``\\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escaped(char) if unicodedata.category(char) in _UNPRINTABLE else char for char in text
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def plural(count: int, noun: str) -> str:
    """``1 object``, ``12,345 objects``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def bytes_text(count: int) -> str:
    """``999 B``, ``1.5 kB``, ``12.3 GB``: powers of 1,000."""
    size = float(count)
    if size < 1000:
        return f"{count} B"
    for unit in _BYTE_UNITS:
        size /= 1000
        if size < 999.95:  # what rounds to 1000.0 is shown in the next unit
            return f"{size:.1f} {unit}"
    return f"{size:.1f} {_BYTE_UNITS[-1]}"


def clock_text(seconds: float) -> str:
    """A span as a clock shows it: ``0:07``, ``1:02:03``; whole seconds, never negative."""
    minutes, secs = divmod(int(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def latency_text(seconds: float | None) -> str:
    """Three digits or so in the unit that suits: ``0.45 ms``, ``12.3 ms``, ``1.23 s``; ``-``."""
    if seconds is None:
        return "-"
    if seconds >= 0.9995:
        return f"{seconds:.2f} s"
    millis = seconds * 1000
    return f"{millis:.1f} ms" if millis >= 1 else f"{millis:.2f} ms"
