"""Text for people, and from people: counts, sizes, durations, names."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ssbench.core.sparse import SPARSE_MARK, Sparse

if TYPE_CHECKING:
    from fractions import Fraction

_UNITS = {
    1000: ("B", "kB", "MB", "GB", "TB", "PB", "EB"),
    1024: ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"),
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  #: how a formula begins
#: Unicode categories that may control a terminal or hide text: controls, formats, surrogates,
#: private use, unassigned, line and paragraph separators.
_UNPRINTABLE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
#: Characters in a key of a map: in messages, stat files, and so in scenarios.
MAX_KEY = 4096
_LONGEST_SAID = 500  #: characters of a reason of another process
#: The largest whole number that a float holds exactly, so 1e3 and 1000 mean the same.
MAX_WHOLE = 2**53 - 1
MAX_SEED = 2**64 - 1
#: Longest duration in options and scenarios: 31 years, which as nanoseconds fit in 64 bits.
MAX_DURATION_S = 1_000_000_000
_LONGEST_MISSPELT = 64  #: characters; difflib is quadratic

DURATION_EXAMPLES = "2.5, 500ms, 90s, 15m or 2h"
#: Fractions as text, because most processes need none, and ``fractions`` loads slowly.
_SECONDS = {
    "us": "1/1000000", "µs": "1/1000000", "μs": "1/1000000", "ms": "1/1000", "s": "1", "m": "60",
    "min": "60", "h": "3600", "d": "86400",
}  # fmt: skip
#: A letter alone is a power of 1,024, as for the swift command's --segment-size.
_BYTES = {
    "b": "1",
    **{letter: str(1024**n) for n, letter in enumerate("kmgtp", 1)},
    **{f"{letter}ib": str(1024**n) for n, letter in enumerate("kmgtp", 1)},
    **{f"{letter}b": str(1000**n) for n, letter in enumerate("kmgtp", 1)},
}
#: Between a number and its unit, or what it counts.
_OF_NUMBER = re.compile(r"(?<=\d) (?=[^\W\d_]|%)")
_QUANTITY = re.compile(r"([0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})[ ]?([^\W\d_]{1,3})")


def wrapped(
    text: str, columns: int, first: str = "", indent: str = "", *, broken: bool = False
) -> list[str]:
    """The lines of a paragraph. A number stays with its unit.

    :param first: begins the first line; ``indent`` begins the others.
    :param broken: break words that are longer than a line; else they stay whole, as a path must.
    """
    from textwrap import wrap  # loads slowly; many commands wrap nothing

    lines = wrap(
        _OF_NUMBER.sub("\0", text), columns, initial_indent=first, subsequent_indent=indent,
        expand_tabs=False, replace_whitespace=False, break_on_hyphens=False,
        break_long_words=broken,
    ) or [first]  # fmt: skip
    return [line.replace("\0", " ") for line in lines]


def parse_duration(text: str) -> float:
    """Seconds: ``90s``, ``500ms``, ``2h``, ``1h30m``; without a unit, any number of seconds.

    :raises ValueError: it is not one.
    """
    number = _plain_number(text)
    return float(_sum(text, _SECONDS, most=len(_SECONDS))) if number is None else number


def parse_size(text: str) -> int:
    """Whole bytes: ``10MiB``, ``4k`` (4,096), ``4kB`` (4,000), ``1.5G``; without a unit, bytes.

    :raises ValueError: it is not one.
    """
    number = _plain_number(text)
    found = _sum(text, _BYTES, most=1) if number is None else number
    if found != int(found):
        raise ValueError(f"{text} is no whole number of bytes")
    return int(found)


def _plain_number(text: str) -> float | None:
    """None if it is not a number."""
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        raise ValueError("it is not finite")
    return number


def _sum(text: str, units: Mapping[str, str], *, most: int) -> Fraction:
    """Sum of numbers with units, each unit smaller than the one before."""
    from fractions import Fraction

    total, at = Fraction(0), 0
    smallest: float | Fraction = math.inf
    for _ in range(most):
        match = _QUANTITY.match(text, at)
        unit = units.get(match[2].lower()) if match else None
        if match is None or unit is None:
            break
        factor = Fraction(unit)
        if factor >= smallest:
            break
        total += Fraction(match[1]) * factor
        at, smallest = match.end(), factor
    if not at or at < len(text):
        raise ValueError(f"{text!r} has no number, or an unknown unit")
    return total


def printable(text: str) -> str:
    """The text with control characters escaped, such as ``\\x1b``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escaped(char) if unicodedata.category(char) in _UNPRINTABLE else char for char in text
    )


def for_spreadsheet(value: Any) -> Any:
    """A cell of a CSV file: a text that is a formula in a spreadsheet gets an apostrophe before it.

    Numbers stay as they are, also as text.
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and three dots where it is longer than ``most``."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def said(text: str) -> str:
    """What another process gives as its reason, to be shown: printable, of bounded length."""
    return printable(shortened(text, _LONGEST_SAID))


def close_matches(word: str, known: Sequence[str], most: int = 1) -> list[str]:
    """The known words that are similar to this one, the most similar first."""
    from difflib import get_close_matches  # only after a mistake

    return get_close_matches(word, known, most) if len(word) <= _LONGEST_MISSPELT else []


def first_of(names: Sequence[str], most: int) -> str:
    """``a, b and 1,000 more``: this many of the names, and how many others there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def plural(count: int, noun: str) -> str:
    """``1 object``, ``12,345 objects``, ``2 identities``."""
    if count == 1:
        return f"{count:,} {noun}"
    has_ies = noun.endswith("y") and noun[-2:-1] not in "aeiou"  # not: keys
    return f"{count:,} {noun[:-1]}ies" if has_ies else f"{count:,} {noun}s"


def bytes_text(count: int) -> str:
    """``999 B``, ``1.5 kB``, ``12.3 GB``: powers of 1,000."""
    if count < 1000:
        return f"{count} B"
    size, unit = in_unit(count)
    if size >= 999.95 and unit != _UNITS[1000][-1]:  # shown as 1.0 of the next unit
        size, unit = 1.0, _UNITS[1000][_UNITS[1000].index(unit) + 1]
    return f"{size:.1f} {unit}"


def in_unit(count: int, step: int = 1000) -> tuple[float, str]:
    """Bytes as a number of the largest unit that it has at least one of, and that unit.

    :param step: from one unit to the next, 1000 or 1024.
    """
    units = _UNITS[step]
    power = 0
    while count >= step ** (power + 1) and power < len(units) - 1:
        power += 1
    return count / step**power, units[power]


def clock_text(seconds: float) -> str:
    """A duration as on a clock: ``0:07``, ``1:02:03``; whole seconds, never negative."""
    minutes, secs = divmod(int(max(seconds, 0.0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def due_text(rate: float) -> str:
    """``172.3``, ``400``: an arrival rate with one digit; with all where these would be 0."""
    return f"{round(rate, 1) or rate:,.10g}"


def latency_text(seconds: float | None) -> str:
    """About three digits: ``4.52 µs``, ``0.45 ms``, ``12.3 ms``, ``1.23 s``; ``-`` for None, and
    ``~12.3 ms`` where it is Sparse."""
    if seconds is None:
        return "-"
    mark = SPARSE_MARK if isinstance(seconds, Sparse) else ""
    if seconds >= 0.9995:
        return f"{mark}{seconds:.2f} s"
    millis = seconds * 1000
    if 0 < millis < 0.009995:
        return f"{mark}{millis * 1000:.2f} µs"
    return f"{mark}{millis:.{1 if millis >= 1 else 2}f} ms"
