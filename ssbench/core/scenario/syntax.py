"""The text of a scenario, or of a site's defaults: JSON or TOML. Errors name line and column.

The standard library's parsers do the parsing. JSON may have comments, ``//`` and ``/* */``, and
commas before closing brackets. This module adds what the parser accepts (keys given twice, deep
nesting) and says how to correct common mistakes. The parser of TOML takes memory by the square of a
dotted key's length, and a list in a list for each opening bracket; so both are bounded before it
reads.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections import Counter
from typing import Any, NamedTuple, NoReturn

from ssbench.core.scenario.checks import ValidationErrors, member
from ssbench.core.text import MAX_KEY
from ssbench.core.units import clipped, kind

MAX_BYTES = 4 << 20  #: longer texts are refused unread
#: Of nested brackets, and of the parts of a dotted key in TOML; a scenario needs three.
MAX_DEPTH = 20

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"?'  #: closed or not, so that no text takes quadratic time
_TOKEN = re.compile(_STRING + r"|[\[{\]}]", re.DOTALL)
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
#: A string or the end of another value, perhaps with a comma before a closing bracket.
_VALUE = re.compile(rf"(?:{_STRING}|[\]}}\w])(?:[ \t\r\n]*,(?=[ \t\r\n]*[\]}}]))?", re.DOTALL)
_BLANK = " \t\r\n"
#: The first line of TOML: a key, or a table's name. JSON begins with a brace.
_TOML = re.compile(
    r"\ufeff?(?:\s|#[^\n]*\n)*"
    r"(?:[A-Za-z_][\w-]*[ \t]*[=.]|\[\[?[ \t]*[A-Za-z_][\w.-]*[ \t]*\]\]?[ \t]*[#\n])"
)


class _Hint(NamedTuple):
    """What to report if the parser's message and the text from there on match."""

    message: str
    rest: str
    wrong: str
    right: str


_HINTS = [
    _Hint("Unterminated", "", "a string is not closed", 'a " at its end'),
    _Hint("", r"\s*\Z", "the text ends too early", "close every bracket, brace and quote"),
    _Hint("", "[‘’“”'`]", "not a JSON quote", 'double quotes: "name"'),
    _Hint("", r"/\*", "a comment is not closed", "*/ at its end"),
    _Hint("", "#", "not a comment of JSON", "// before a comment"),
    _Hint("", r"(True|False|None)\b", "a Python constant", "true, false or null"),
    _Hint("Extra data", "", "text after the end of the object", "one object and nothing else"),
    _Hint("Expecting ','", "", "expected a comma before this", "a comma between two entries"),
    _Hint("Expecting ':'", "", "expected a colon before this", '"key": value'),
    _Hint("Expecting property", ",", "an extra comma", "one comma between two entries"),
    _Hint("Expecting property", "", "expected a key", 'a key in double quotes: "name"'),
    _Hint("Expecting value", ",", "an extra comma", "one comma between two entries"),
    _Hint("Expecting value", r"[+.\d]", "not a JSON number", "as in 5, 0.5, 1e3"),
    _Hint("Expecting value", "", "expected a value", "a number, string, list or object"),
    _Hint("Invalid control", "", "a line break or tab in a string", 'a " at its end'),
    _Hint("Invalid", "", "not a JSON escape", r"\\ for a backslash"),
]


def read_object(
    text: str | bytes, faults: ValidationErrors, what: str = "scenario"
) -> dict[str, object] | None:
    """The object in the text; None if there is none.

    It is TOML if the source's name ends in .toml, or its first line is. All errors are added to
    ``faults``, which call it ``what``. None always comes with one; an object may, too (a key given
    twice), so that the caller can look for more. NaN, Infinity and whole numbers of more than 25
    digits become floats.
    """
    unicode = _decoded(text, faults)
    if unicode is None:
        return None
    if faults.source.lower().endswith(".toml") or _TOML.match(unicode):
        try:
            value: object = parse_toml(unicode)
        except TomlError as error:
            faults.add(error.place, f"invalid TOML: {error.wrong}", "TOML 1.0, as in key = value")
            return None
    else:
        value = _parsed(unicode, faults)
    if isinstance(value, dict):
        return _plain_object(value, "", faults)
    if value is not _NOTHING:
        faults.add("1:1", f"the {what} is {kind(value)}", "an object: {...}")
    return None


class _Object(dict[str, object]):
    """A JSON object with the keys that it had more than once."""

    repeated: tuple[str, ...] = ()


_NOTHING = object()


def _decoded(text: str | bytes, faults: ValidationErrors) -> str | None:
    if len(text) > MAX_BYTES:
        faults.add("1:1", f"more than {MAX_BYTES >> 20} MiB", "less text")
        return None
    try:
        # A str may hold undecoded bytes as surrogates (stdin does that): the round trip finds them.
        raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        return raw.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeEncodeError as error:
        place, wrong = line_column(str(text), error.start), "half a surrogate pair"
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8")
        place, wrong = line_column(before, len(before)), f"byte 0x{error.object[error.start]:02x}"
    faults.add(place, f"{wrong} is not UTF-8", "save the file as UTF-8")
    return None


def _sane(text: str, faults: ValidationErrors) -> bool:
    if not text.strip(_BLANK):
        faults.add("1:1", "the file is empty", "an object: {...}")
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if depth > MAX_DEPTH:
            place = line_column(text, token.start())
            faults.add(place, f"brackets are nested {depth} deep", "three levels")
            return False
    return True


def _parsed(text: str, faults: ValidationErrors) -> object:
    text = _plain_json(text)
    if not _sane(text, faults):
        return _NOTHING
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_int)
    except json.JSONDecodeError as error:
        faults.add(line_column(text, error.pos), *_words(text, error))
        return _NOTHING


def _plain_json(text: str) -> str:
    """With blanks for comments and trailing commas, so that places stay what they are."""
    if "/" in text:
        text = _COMMENT.sub(lambda found: _blanked(found[0]), text)
    return _VALUE.sub(lambda found: _without_comma(found[0]), text) if "," in text else text


def _blanked(token: str) -> str:
    is_comment = token[:2] == "//" or (token[0] == "/" and token[2:].endswith("*/"))
    return re.sub(r"[^\n]", " ", token) if is_comment else token


def _without_comma(value: str) -> str:
    return f"{value[:-1]} " if value[-1] == "," else value


def _words(text: str, error: json.JSONDecodeError) -> tuple[str, str]:
    for hint in _HINTS:
        if error.msg.startswith(hint.message) and re.compile(hint.rest).match(text, error.pos):
            return f"invalid JSON: {hint.wrong}", hint.right
    return "invalid JSON", "JSON as in RFC 8259"


def _object(pairs: list[tuple[str, object]]) -> _Object:
    value = _Object(pairs)
    if len(value) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        value.repeated = tuple(key for key, count in counts.items() if count > 1)
    return value


def _int(digits: str) -> int | float:
    # int() refuses thousands of digits with another error; as a float they are "too large".
    return int(digits) if len(digits) <= 25 else float(digits)


def _plain_object(value: dict[str, Any], place: str, faults: ValidationErrors) -> dict[str, object]:
    for key in value.repeated if isinstance(value, _Object) else ():
        faults.add(member(place, key), "the key is given more than once", "give it once")
    for key in value:
        if len(key) > MAX_KEY:  # no reader accepts a stat file with such a header
            faults.add(
                member(place, clipped(key)), f"a key of {len(key)} characters", f"at most {MAX_KEY}"
            )
    return {key: _plain(item, member(place, key), faults) for key, item in value.items()}


def _plain(value: object, place: str, faults: ValidationErrors) -> object:
    if isinstance(value, dict):
        return _plain_object(value, place, faults)
    if isinstance(value, list):
        return [_plain(item, f"{place}[{i}]", faults) for i, item in enumerate(value)]
    return value


#: Of a text in TOML: the parser takes a kilobyte for each short key.
MAX_CHARACTERS = 1 << 18

#: A string, closed or not, a comment, or a character that counts.
_TOML_TOKEN = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:""")?'
    r"|'''[^']*(?:'(?!'')[^']*)*(?:''')?"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*"
    r"|[.,=\n\[\]{}]",
    re.DOTALL,
)
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


class TomlError(ValueError):
    """What is wrong, and where: ``place`` is ``line:column``."""

    def __init__(self, place: str, wrong: str) -> None:
        super().__init__("{2} (at line {0}, column {1})".format(*place.split(":"), wrong))
        self.place, self.wrong = place, wrong


def parse_toml(text: str) -> dict[str, Any]:
    """The document as values of Python.

    :raises TomlError: it is not TOML, too long, or nested too deeply.
    """
    # From 3.11 on the standard library has it.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    text = text.replace("\r\n", "\n")
    _check_bounds(text)
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also of a number with thousands of digits
        wrong = str(error)
        found = _PLACE.search(wrong)
        if found is None:
            raise TomlError("1:1", "a value that can't be read") from error
        place = f"{found[1]}:{found[2]}" if found[1] else line_column(text, len(text))
        raise TomlError(place, f"{wrong[0].lower()}{wrong[1 : found.start()]}") from error


def line_column(text: str, at: int) -> str:
    """``line:column``, both from 1."""
    return f"{text.count(chr(10), 0, at) + 1}:{at - text.rfind(chr(10), 0, at)}"


def _check_bounds(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise TomlError("1:1", f"more than {MAX_CHARACTERS >> 10} KiB")
    depth = dots = 0
    for token in _TOML_TOKEN.finditer(text):
        mark = token[0]
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(mark, 0)
        if mark == ".":
            dots += 1
        elif len(mark) == 1 and mark not in "\"'#":
            dots = 0
        if depth > MAX_DEPTH:
            _refuse(text, token, f"brackets are nested {depth} deep, {MAX_DEPTH} are allowed")
        if dots >= MAX_DEPTH:
            _refuse(text, token, f"a key of more than {MAX_DEPTH} parts")


def _refuse(text: str, token: re.Match[str], wrong: str) -> NoReturn:
    raise TomlError(line_column(text, token.start()), wrong)
