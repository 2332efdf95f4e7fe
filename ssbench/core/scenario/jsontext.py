"""Text that a user wrote -> a JSON object, with faults told by line and column.

The standard library's parser does the parsing; here is what it lets pass (keys given twice,
brackets without end) and a helpful word for what people get wrong.
"""

from __future__ import annotations

import codecs
import json
import re
from typing import NamedTuple

from ssbench.core.scenario.checks import ValidationErrors, clipped, kind, member
from ssbench.core.unpacking import MAX_KEY

MAX_BYTES = 4 << 20  #: longer texts are refused unread
MAX_DEPTH = 20  #: brackets within brackets; a scenario needs three
MAX_TRAILING_COMMAS = 20  #: so many are told at once

#: A string, closed or not (so that no text takes quadratic time), or a bracket.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]|[\]}]', re.DOTALL)
_BLANK = " \t\r\n"


class _Hint(NamedTuple):
    """What to say where the parser's message and the text from there on match."""

    message: str
    rest: str
    wrong: str
    right: str


_HINTS = [
    _Hint("Unterminated", "", "this string never ends", 'a " at its end'),
    _Hint("", r"\s*\Z", "the text ends too early", "close every bracket, brace and quote"),
    _Hint("", "[‘’“”'`]", "a quote that JSON doesn't have", 'double quotes: "name"'),
    _Hint("", r"#|//|/\*", "a comment", "leave it out: JSON has none"),
    _Hint("", r"(True|False|None)\b", "a word of Python's", "true, false or null"),
    _Hint("Extra data", "", "text behind the end of the object", "one object and nothing else"),
    _Hint("Expecting ','", "", "a comma is missing before this", "a comma between two entries"),
    _Hint("Expecting ':'", "", "a colon is missing before this", '"key": value'),
    _Hint("Expecting property", ",", "a comma too many", "one comma between two entries"),
    _Hint("Expecting property", "", "no key where one is due", 'a key in double quotes: "name"'),
    _Hint("Expecting value", ",", "a comma too many", "one comma between two entries"),
    _Hint("Expecting value", r"[+.\d]", "a number as JSON doesn't write it", "as in 5, 0.5, 1e3"),
    _Hint("Expecting value", "", "no value where one is due", "a number, string, list or object"),
    _Hint("Invalid control", "", "a line break or tab within a string", 'a " at its end'),
    _Hint("Invalid", "", "no escape of JSON's", r"\\ for a backslash"),
    _Hint("", "", "this is no JSON", "JSON as RFC 8259 has it"),
]


def read_object(text: str | bytes, faults: ValidationErrors) -> dict[str, object] | None:
    """The object that the text holds, or None where there is none.

    Every fault is noted: None always comes with one; an object may (a key that is given twice,
    a trailing comma), so that the caller can look for more. NaN and Infinity come as floats, and
    so do whole numbers of more than 25 digits.
    """
    unicode = _decoded(text, faults)
    if unicode is None or not _sane(unicode, faults):
        return None
    value = _parsed(unicode, faults)
    if isinstance(value, _Object):
        return _plain_object(value, "", faults)
    if value is not _NOTHING:
        faults.add("1:1", f"{kind(value)}, where the scenario belongs", "an object: {...}")
    return None


class _Object(dict[str, object]):
    """A JSON object that remembers which keys it was given more than once."""

    repeated: tuple[str, ...] = ()


_NOTHING = object()


def _decoded(text: str | bytes, faults: ValidationErrors) -> str | None:
    if len(text) > MAX_BYTES:
        faults.add("1:1", f"more than {MAX_BYTES >> 20} MiB", "a scenario is a page of text")
        return None
    try:
        # A str may hold undecoded bytes as surrogates (stdin does that): the round trip finds them.
        raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        return raw.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeEncodeError as error:
        place, wrong = _line_column(str(text), error.start), "half a surrogate pair"
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        place, wrong = _line_column(before, len(before)), f"byte 0x{error.object[error.start]:02x}"
    faults.add(place, f"{wrong} is not UTF-8", "save the file as UTF-8")
    return None


def _sane(text: str, faults: ValidationErrors) -> bool:
    if not text.strip(_BLANK):
        faults.add("1:1", "the file is empty", "a scenario: {...}")
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            place = _line_column(text, token.start())
            faults.add(place, f"{depth} brackets within one another", "a scenario needs three")
            return False
    return True


def _parsed(text: str, faults: ValidationErrors) -> object:
    """The value; past trailing commas, for what comes behind them is to be told as well."""
    for _ in range(MAX_TRAILING_COMMAS):
        try:
            return json.loads(text, object_pairs_hook=_object, parse_int=_int)
        except json.JSONDecodeError as error:
            comma = _trailing_comma(text, error.pos)
            if comma is None:
                faults.add(_line_column(text, error.pos), *_words(text, error))
                return _NOTHING
        closing = text[comma + 1 :].lstrip(_BLANK)[0]
        faults.add(
            _line_column(text, comma), f'a trailing comma before "{closing}"', "no comma there"
        )
        text = f"{text[:comma]} {text[comma + 1 :]}"
    return _NOTHING


def _trailing_comma(text: str, pos: int) -> int | None:
    # Where the parser points: Python 3.13 at the comma, those before at what comes behind it.
    before = text[:pos].rstrip(_BLANK)
    behind = text[pos:].lstrip(_BLANK)
    if behind[:1] in ("]", "}") and before[-1:] == ",":
        return len(before) - 1
    if behind[:1] == "," and behind[1:].lstrip(_BLANK)[:1] in ("]", "}"):
        comma = len(text) - len(behind)
        return comma if before[-1:] not in ("[", "{", ",", ":") else None
    return None


def _words(text: str, error: json.JSONDecodeError) -> tuple[str, str]:
    for hint in _HINTS:
        if error.msg.startswith(hint.message) and re.compile(hint.rest).match(text, error.pos):
            return hint.wrong, hint.right
    raise AssertionError("the last hint matches everything")


def _line_column(text: str, pos: int) -> str:
    line = text.count("\n", 0, pos) + 1
    return f"{line}:{pos - text.rfind(chr(10), 0, pos)}"


def _object(pairs: list[tuple[str, object]]) -> _Object:
    value = _Object(pairs)
    if len(value) < len(pairs):
        seen: set[str] = set()
        repeated = [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
        value.repeated = tuple(dict.fromkeys(repeated))
    return value


def _int(digits: str) -> int | float:
    # int() refuses thousands of digits with an error of its own; as a float they are "too large".
    return int(digits) if len(digits) <= 25 else float(digits)


def _plain_object(value: _Object, place: str, faults: ValidationErrors) -> dict[str, object]:
    for key in value.repeated:
        faults.add(member(place, key), "the key is given more than once", "give it once")
    for key in value:
        if len(key) > MAX_KEY:  # no reader would take a stat file with such a header
            faults.add(
                member(place, clipped(key)), f"a key of {len(key)} characters", f"at most {MAX_KEY}"
            )
    return {key: _plain(item, member(place, key), faults) for key, item in value.items()}


def _plain(value: object, place: str, faults: ValidationErrors) -> object:
    if isinstance(value, _Object):
        return _plain_object(value, place, faults)
    if isinstance(value, list):
        return [_plain(item, f"{place}[{i}]", faults) for i, item in enumerate(value)]
    return value
