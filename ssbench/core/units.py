"""The units of settings: seconds, bytes, counts, rates, percent. Each is declared once.

A unit reads a value of a scenario or of the Python API when it is called, and the text of an option
or a variable by ``of_text``. Both give the same value, and the same error: what is wrong; what
would be right.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar, cast

from msgspec import Struct

from ssbench.core.errors import UsageError
from ssbench.core.text import (
    MAX_DURATION_S,
    MAX_SEED,
    MAX_WHOLE,
    parse_duration,
    parse_size,
    printable,
    shortened,
)

N = TypeVar("N", int, float)

PREVIEW_LENGTH = 60  #: characters of a value that an error quotes
MAX_RATE = 10_000_000

_KINDS: dict[type, str] = {
    str: "a string",
    bool: "a truth value",
    dict: "an object",
    list: "a list",
    int: "a number",
    float: "a number",
    type(None): "null",
}


_TEXT = "is a string"


class ValidationError(UsageError):
    """A value is wrong: ``wrong`` says how, ``right`` what would be accepted."""

    def __init__(self, wrong: str, right: str) -> None:
        super().__init__(f"{wrong}; {right}")


class Unit(Struct, Generic[N], frozen=True, kw_only=True):
    """Numbers from ``low`` to ``high``."""

    what: str  #: which values are right, without their units
    kind: type[N]
    low: float = 0
    high: float
    above_0: bool = False  #: 0 is not among them
    high_excluded: bool = False
    parse: Callable[[str], float] | None = None  #: a text with a unit, such as "2h"
    examples: tuple[str, ...] = ()  #: of such texts
    metavar: str = ""  #: of options in the help

    def __call__(self, raw: object) -> N:
        """The value of a number, or of a string with a unit; not of true and "3".

        :raises ValidationError: it is none.
        """
        number = raw
        if isinstance(raw, str) and self.parse:
            if not raw[-1:].isalpha():  # "3" is probably a mistake
                raise self._error(preview(raw), "is a string without a unit", in_json=True)
            number = self._parsed(raw)
        if wrong := self._wrong(number):
            raise self._error(preview(raw), wrong, in_json=True)
        return self.kind(cast("float", number))

    def of_text(self, text: str) -> N:
        """The value of a text, with or without a unit.

        :raises ValidationError: it is none.
        """
        number: float | str = text
        with suppress(ValueError):
            number = float(text)
            number = int(text)
        if isinstance(number, str):
            number = self._parsed(text)
        wrong = self._wrong(number)
        if wrong == _TEXT:
            wrong = f"is not a {'whole ' if self.kind is int else ''}number"
        if wrong:
            raise self._error(preview(text) if number == text else clipped(text), wrong)
        return self.kind(number)

    def _parsed(self, text: str) -> float | str:
        """The number in a text with a unit; the text, if it is none."""
        with suppress(ValueError):
            return self.parse(text) if self.parse else text
        return text

    def _wrong(self, raw: object) -> str:
        """What is wrong with a number; "" for nothing."""
        if isinstance(raw, str) and self.parse:
            return "can't be read"
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            return f"is {kind(raw)}"
        if isinstance(raw, float) and not math.isfinite(raw):
            return "is not a finite number"
        if self.kind is int and raw != int(raw):
            return "is not a whole number"
        if raw <= 0 and self.above_0:
            return "is not above 0"
        if raw < self.low:
            return f"is below {self.low:g}"
        if raw > self.high or (self.high_excluded and raw == self.high):
            return f"is {'not below' if self.high_excluded else 'above'} {self.high}"
        return ""

    def _error(self, shown: str, wrong: str, *, in_json: bool = False) -> ValidationError:
        right = self.what
        if self.examples:
            words = [preview(each) for each in self.examples] if in_json else self.examples
            right += f", or {'a string ' if in_json else ''}with a unit, as in {_either(words)}"
        return ValidationError(f"{shown} {wrong}", right)


_DURATIONS = ("500ms", "90s", "2h")
_SIZES = ("4k", "10MiB")


def _range(low: int, high: int) -> str:
    return f"from {low} {'up' if high == MAX_WHOLE else f'to {high}'}"


def whole(low: int, high: int = MAX_WHOLE) -> Unit[int]:
    """Whole numbers, such as 1000 and 1e3."""
    return Unit(what=f"a whole number {_range(low, high)}", kind=int, low=low, high=high)


def size_from(low: int, high: int = MAX_WHOLE) -> Unit[int]:
    """Whole bytes: 4096, 4k, 10MiB."""
    return Unit(
        what=f"bytes {_range(low, high)}", kind=int, low=low, high=high, parse=parse_size,
        examples=_SIZES, metavar="BYTES",
    )  # fmt: skip


def whole_seconds(low: int, high: int = MAX_DURATION_S) -> Unit[int]:
    return Unit(
        what=f"a whole number of seconds from {low} up", kind=int, low=low, high=high,
        parse=parse_duration, examples=("90s", "2h"), metavar="SECONDS",
    )  # fmt: skip


count = Unit(what="a whole number from 1 up", kind=int, low=1, high=MAX_WHOLE, metavar="COUNT")
count_or_none = whole(0)
expiry = whole_seconds(0, MAX_WHOLE)
port = Unit(what="a whole number from 1 to 65535", kind=int, low=1, high=65535, metavar="PORT")
seed = whole(0, MAX_SEED)
size = size_from(1)
seconds = Unit(
    what="a number of seconds above 0", kind=float, high=MAX_DURATION_S, above_0=True,
    parse=parse_duration, examples=_DURATIONS, metavar="SECONDS",
)  # fmt: skip
seconds_or_none = Unit(
    what="a number of seconds of 0 or more", kind=float, high=MAX_DURATION_S,
    parse=parse_duration, examples=_DURATIONS, metavar="SECONDS",
)  # fmt: skip
#: At least one operation in MAX_DURATION_S.
rate = Unit(
    what=f"a number of operations a second, above 0 and at most {MAX_RATE:,}", kind=float,
    low=1 / MAX_DURATION_S, above_0=True, high=MAX_RATE, metavar="RATE",
)  # fmt: skip
percentile = Unit(what="a percentile above 0 and at most 100", kind=float, high=100, above_0=True)
#: Percent of a difference that counts as none.
tolerance = Unit(
    what="percent, above 0 and below 100", kind=float, high=100, above_0=True,
    high_excluded=True, metavar="PERCENT",
)  # fmt: skip
share = Unit(what="a share from 0 to 1", kind=float, high=1)
factor = Unit(
    what="a factor from 0.001 to 1000000", kind=float, low=0.001, above_0=True, high=1_000_000
)


def number(raw: object, right: str = "a number of 0 or more") -> float:
    """A finite number of 0 or more.

    :raises ValidationError: it is none.
    """
    return Unit(what=right, kind=float, high=sys.float_info.max)(raw)


def kind(raw: object) -> str:
    """The type of a JSON value in words: ``a string``, ``a list``."""
    if isinstance(raw, float) and not math.isfinite(raw):
        return "not a finite number"
    return _KINDS.get(type(raw), f"of type {type(raw).__name__}")


def preview(raw: object) -> str:
    """A value as JSON, clipped and safe to print."""
    import json  # only after a mistake

    if isinstance(raw, int) and raw.bit_length() > 128:
        return "a very large number"
    return clipped(json.dumps(raw, ensure_ascii=False, default=repr))


def clipped(words: str) -> str:
    """One short line without control characters."""
    return printable(shortened(words, PREVIEW_LENGTH))


def _either(words: Sequence[str]) -> str:
    return " or ".join(", ".join(words).rsplit(", ", 1))
