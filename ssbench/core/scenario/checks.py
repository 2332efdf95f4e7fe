"""Checks of values in a scenario, and the list of errors.

A check is a function ``raw value -> value`` that raises ``ValidationError``. ``ValidationErrors``
collects those of a file, so that the user sees all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

from msgspec import Struct

from ssbench.core.errors import ScenarioError
from ssbench.core.text import close_matches, printable
from ssbench.core.units import ValidationError, clipped, kind, preview

T = TypeVar("T")
Check = Callable[[object], T]

#: Lines in all; a hostile file must not fill a terminal for hours.
MAX_FAULTS = 1000

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ValidationErrors:
    """The errors of one source: lines ``source: place: what is wrong; what would be right``.

    :param places: key that was overridden -> where: an option, a setting of the API.
    """

    def __init__(self, source: str, places: Mapping[str, str] = {}) -> None:
        self.source = printable(source)
        self.places = places
        self.lines: list[str] = []
        self._left_out = 0

    def __bool__(self) -> bool:
        return bool(self.lines)

    @property
    def full(self) -> bool:
        """Whether further errors are only counted."""
        return len(self.lines) >= MAX_FAULTS

    def add(self, place: str, wrong: str, right: str) -> None:
        """Add an error at a place of the source."""
        self._note(f"{self.source}: {place}: {wrong}; {right}")

    def add_to(self, keys: Sequence[str], wrong: str, right: str) -> None:
        """Add an error of values that do not go together. Its place is where they were overridden;
        the first of the keys if none was."""
        overridden = [self.places[key] for key in keys if key in self.places]
        place = ", ".join(overridden) or f"{self.source}: {keys[0]}"
        self._note(f"{place}: {wrong}; {right}")

    def is_object(self, raw: object, place: str, right: str) -> TypeGuard[dict[str, Any]]:
        """Whether a value is a JSON object; adds an error if not."""
        if not isinstance(raw, dict):
            self.add(place, f"{preview(raw)} is {kind(raw)}", right)
        return isinstance(raw, dict)

    def check(self, place: str, check: Check[T], raw: object) -> T | None:
        """The checked value; None after an error, which is added at this place of the source."""
        return self.check_option(f"{self.source}: {place}", check, raw)

    def check_option(self, option: str, check: Check[T], raw: object) -> T | None:
        """As ``check``, for a value of the command line: the option is the place."""
        try:
            return check(raw)
        except ValidationError as fault:
            self._note(f"{option}: {fault}")
            return None

    def raise_any(self) -> None:
        """:raises ScenarioError: with all lines, if there are any."""
        if self.lines:
            more = [f"{self.source}: and {self._left_out:,} more errors"] if self._left_out else []
            raise ScenarioError(self.lines + more)

    def _note(self, line: str) -> None:
        if self.full:
            self._left_out += 1
        else:
            self.lines.append(line)


class KeyRule(Struct, frozen=True):
    """What a key may have as its value, and what the reference (docs/generate.py) says of it."""

    check: Check[Any]
    meaning: str = ""  #: in reStructuredText
    default: str = ""  #: in words; "": the one of the field that has the value
    required: bool = False
    example: str = ""  #: of a required key
    option: str = ""  #: that overrides it on the command line; the place of its errors


def read_keys(
    raw: Mapping[str, object],
    keys: Mapping[str, KeyRule],
    place: str,
    faults: ValidationErrors,
    others: Collection[str] = (),
) -> dict[str, Any]:
    """The values of the keys in ``raw``; None if wrong. A key with null counts as absent.

    :param others: further keys that are allowed, but not read here.
    """
    known = list(dict.fromkeys([*keys, *others]))
    for name in raw:
        if name not in known:
            right = suggest(name, known) if not faults.full else ""
            faults.add(member(place, name), "unknown key", right)
    values = {}
    for name, key in keys.items():
        if raw.get(name) is not None:
            values[name] = faults.check(member(place, name), key.check, raw[name])
        elif key.required:
            faults.add(member(place, name), "missing", f'as in "{name}": {key.example}')
    return values


def member(place: str, key: str) -> str:
    """The JSON path of an object's member: ``sizes[2].name``, ``initial_files["odd name"]``."""
    if not _IDENTIFIER.fullmatch(key):
        return f"{place}[{preview(key)}]"
    return f"{place}.{key}" if place else key


def text(raw: object) -> str:
    """A check for strings of one or more printable characters that UTF-8 can encode."""
    right = "a string of one or more printable characters"
    if not isinstance(raw, str):
        raise ValidationError(f"{preview(raw)} is {kind(raw)}", right)
    if not raw:
        raise ValidationError("the string is empty", right)
    if any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in raw):
        raise ValidationError(f"{preview(raw)} has a control character", right)
    if any(0xD800 <= ord(c) < 0xE000 for c in raw):
        raise ValidationError(
            f"{preview(raw)} has half a surrogate pair", "characters that UTF-8 can encode"
        )
    return raw


def suggest(word: str, known: Sequence[str]) -> str:
    """``did you mean "tiny"?`` if a known word is similar, otherwise ``one of ...``."""
    close = close_matches(word.lower(), known)
    if close:
        return f"did you mean {preview(close[0])}?"
    return "one of " + ", ".join(map(clipped, known[:40])) if known else "leave it out"
