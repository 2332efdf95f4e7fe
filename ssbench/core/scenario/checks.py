"""Checks of values in a scenario, and the list of errors.

A check is a function ``raw value -> value`` that raises ``ValidationError``. ``ValidationErrors``
collects those of a file, so that the user sees all of them at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeGuard, TypeVar, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.errors import ScenarioError, UsageError
from ssbench.core.operations import OPERATIONS, Operation
from ssbench.core.option import Option, row
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
    :param of_header: the rows of a stat file's header, which a scenario is read from: it may be of
        any release, so unknown keys and missing ones are no errors. None: from a user.
    """

    def __init__(
        self,
        source: str,
        places: Mapping[str, str] = {},
        of_header: Mapping[int, Operation] | None = None,
    ) -> None:
        self.source = printable(source)
        self.places = places
        self.of_header = of_header is not None
        self.operations = OPERATIONS if of_header is None else of_header
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

    def check_text(self, place: str, check: Callable[[str, str], object], text: str) -> None:
        """Check a text by a grammar of another package, whose errors name the place themselves."""
        try:
            check(text, f"{self.source}: {place}")
        except UsageError as error:
            self._note(str(error))

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


class Key(Struct, frozen=True):
    """A key of a scenario. It stands in the annotation of the field that has its value."""

    check: Callable[..., Any] | None  #: None: a function of its own reads it
    meaning: str  #: for the reference (docs/generate.py), in reStructuredText
    default: str = ""  #: in words; "": the one of the field
    example: str = ""  #: of a key that must be given
    field: str = ""  #: that has its value; "": that of the key's name
    by_name: bool = False  #: the value names operations
    of_header: Callable[..., Any] | None = None  #: of a stat file's value; None: ``check``
    option: Option | None = None  #: that overrides it, as ``overriding`` makes it

    @property
    def required(self) -> bool:
        return bool(self.example) or self.default == "required"


@cache
def keys_of(kind: type[Struct]) -> dict[str, Key]:
    """The keys in the annotations of a struct's fields, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    found = (
        (name, key)
        for name in kind.__struct_fields__
        for key in getattr(hints[name], "__metadata__", ())
    )
    return {name: key for name, key in found if isinstance(key, Key)}


def overriding(flags: str, group: str, text: str, *, name: str = "", **more: Any) -> Option:
    """The option that overrides a key: of its type, unless ``more`` has another for texts.

    :param name: "": that of the key.
    """
    return row(flags, name, more.pop("type", None), group, text, **more)


@cache
def options_of_keys(kind: type[Struct]) -> tuple[Option, ...]:
    """The options that override the keys of a struct, in the order of the keys."""
    found = []
    for name, key in keys_of(kind).items():
        if option := key.option:
            text, default, value = option.help.partition(" [default")
            if "overrides" not in text:
                text = f"{text}; overrides the scenario's {name}"
            found.append(
                replace(
                    option,
                    name=option.name or name,
                    scenario_key=name,
                    type=option.type or key.check,
                    metavar=option.metavar or getattr(key.check, "metavar", None),
                    help=f"{text}{default}{value}",
                )
            )
    return tuple(found)


def read_keys(
    raw: Mapping[str, object],
    keys: Mapping[str, Key],
    place: str,
    faults: ValidationErrors,
    others: Collection[str] = (),
) -> dict[str, Any]:
    """The values by field; None if wrong. A key with null counts as absent.

    :param others: further keys that are allowed, but not read here.
    """
    known = list(dict.fromkeys([*keys, *others]))
    for name in raw if not faults.of_header else ():
        if name not in known:
            right = suggest(name, known) if not faults.full else ""
            faults.add(member(place, name), "unknown key", right)
    values: dict[str, Any] = {}
    given: dict[str, str] = {}  # field -> key
    for name, key in keys.items():
        if raw.get(name) is None:
            if key.example and not faults.of_header:
                faults.add(member(place, name), "missing", f'as in "{name}": {key.example}')
        elif key.check is not None:
            other = given.setdefault(key.field or name, name)
            if other != name and not faults.of_header:
                faults.add(member(place, name), f"{other} is given as well", "one of the two")
            check = (faults.of_header and key.of_header) or key.check
            told = faults
            if key.by_name:
                check = partial(check, known=faults.operations)
                if faults.of_header:  # perhaps a driver's operations, which this process lacks
                    told = ValidationErrors(faults.source)
            values[key.field or name] = told.check(member(place, name), check, raw[name])
    return values


def read_rows(
    raw: object,
    keys: Mapping[str, Key],
    place: str,
    example: str,
    faults: ValidationErrors,
    rule: Callable[[dict[str, Any], str, ValidationErrors], None],
) -> list[tuple[str, dict[str, Any]]]:
    """Place and values, as of ``read_keys``, of each object in a list, or in an object.

    :param example: ``{"seconds": 30}`` of a list, ``"puts": {"users": 5}`` of an object.
    :param rule: checks the values of one against each other.
    """
    is_list = example.startswith("{")
    right = f"a list like [{example}]" if is_list else f"an object like {{{example}}}"
    if not isinstance(raw, list if is_list else dict) or not raw:
        wrong = "missing" if raw is None else f"{preview(raw)} is {kind(raw)}"
        wrong = f"the {kind(raw).partition(' ')[2]} is empty" if raw in ([], {}) else wrong
        if raw is not None or not faults.of_header:
            faults.add(place, wrong, right)
        return []
    of_one = f"an object like {{{example.partition('{')[2]}"
    rows = []
    for name, item in raw.items() if isinstance(raw, dict) else enumerate(raw):
        at = f"{place}[{name}]" if is_list else member(place, str(name))
        row = dict.fromkeys(key.field or name for name, key in keys.items())
        if faults.is_object(item, at, of_one):
            row = read_keys(item, keys, at, faults)
            rule(row, at, faults)
        rows.append((at, row))
    return rows


def member(place: str, key: str) -> str:
    """The JSON path of an object's member: ``sizes[2].name``, ``initial_files["odd name"]``."""
    if not _IDENTIFIER.fullmatch(key):
        return f"{place}[{preview(key)}]"
    return f"{place}.{key}" if place else key


#: Keys of other levels, and of other tools, for the same thing.
_ALIKE = (
    ("user_count", "users", "concurrency", "concurrent", "vus", "threads", "workers"),
    ("run_seconds", "seconds", "duration", "runtime"),
    ("operation_count", "iterations", "totalOps"),
    ("sizes", "objects"),
)


def suggest(word: str, known: Sequence[str]) -> str:
    """``did you mean "tiny"?`` if a known word is similar, otherwise ``one of ...``."""
    alike = next((names for names in _ALIKE if word in names), ())
    close = [name for name in alike if name in known] or close_matches(word.lower(), known)
    if close:
        return f"did you mean {preview(close[0])}?"
    return "one of " + ", ".join(map(clipped, known[:40])) if known else "leave it out"
