"""TOML: scenarios, and the defaults of a site.

The parser of the standard library takes memory by the square of a dotted key's length, and a list
in a list for each opening bracket; so both are bounded before it reads.
"""

from __future__ import annotations

import re
import sys
from typing import Any, NoReturn

MAX_CHARACTERS = 1 << 18  #: of a text: the parser takes a kilobyte for each short key
MAX_DEPTH = 20  #: of nested brackets, and of the parts of a dotted key

#: A string, closed or not, a comment, or a character that counts.
_TOKEN = re.compile(
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
    for token in _TOKEN.finditer(text):
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
