"""The table of operations: all that the engine knows of an operation is its row.

Workload, retries, statistics, thresholds, progress and reports go by a row's properties and never
by its name. A new operation is a row here, or ``register`` in a driver's module, and a method of
each driver that supports it. A stat file's header lists the rows of its run, so that a process
without a row still reports it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from msgspec import Struct

from ssbench.core.model import Job, Phase

FIRST_BYTE = ".oO*"  #: progress characters by latency to the first byte: from 0, 1, 3 and 10 s
LAST_BYTE = "_|^@"  #: the same by latency to the last byte
MAX_SET = 10_000  #: objects of one operation

#: ``draw(random, size in bytes of the job's object, **parameters of the row)`` gives the values of
#: a row's arguments.
Draw = Callable[..., tuple[int | bytes, ...]]
_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,31}")
_Value = TypeVar("_Value", bound=Enum)


class Target(Enum):
    """What an operation reserves. Which objects these can be follows from its effect."""

    OBJECT = "object"  #: one: a new one if the operation creates, else one of the population
    VERSION = "version"  #: an older version of an object, which may be gone itself
    OBJECTS = "objects"  #: up to ``set_size`` of them, each with an outcome of its own
    PAIR = "pair"  #: a source, which stays as it is, and a new object with the source's content
    CONTAINER = "container"  #: none: the job's ``object`` is the index of a container


class Effect(Enum):
    """What an operation does to its object, and so which objects it can be drawn for."""

    NONE = "none"  #: reads an object of the population
    CREATES = "creates"  #: makes a new object
    CONTESTS = "contests"  #: makes a new object, unless another operation on it was first
    REPLACES = "replaces"  #: gives an object of the population new content
    TOUCHES = "touches"  #: changes an object's metadata or expiry, not its content
    REMOVES = "removes"  #: an object of the population goes away
    PRUNES = "prunes"  #: an older version goes away, for good


class Body(Enum):
    """Whether the operation sends the object's content, receives it, or neither."""

    NONE = "none"
    SENT = "sent"
    RECEIVED = "received"  #: has a first-byte latency
    ENTRIES = "entries"  #: receives entries of a listing, and no content: has that latency, too


class NotFound(Enum):
    """What a 404 means."""

    ERROR = "error"
    RETRIED = "retried"  #: tried once more (eventual consistency), then an error
    SUCCESS = "success"  #: the object is gone, which was the goal


class Parameter(Struct, frozen=True):
    """A key of a scenario that says how an operation is drawn: a whole number or a text."""

    key: str
    default: int | str  #: also tells the type
    low: int = 0
    high: int = 255  #: of a text: bytes of UTF-8
    is_size: bool = False  #: a number of bytes, which may have a unit in a scenario
    store_limit: str = ""  #: the field of storage.base.StoreLimits that bounds it, if one does
    meaning: str = ""  #: for the reference of keys, in reStructuredText


class Operation(int):
    """A row: the operation's number on the wire and in stat files, with its properties.

    It equals its number, so that a number from the wire finds the row in any mapping.

    :raises ValueError: if the target can't have this effect.
    """

    name: str  #: in capitals, as reports show it; lower case is its key in a scenario
    effect: Effect
    target: Target
    body: Body
    not_found: NotFound
    phase: Phase  #: the phase that draws it
    progress: str  #: four characters, by latency: FIRST_BYTE or LAST_BYTE
    arguments: tuple[str, ...]  #: names of the values in ``Job.arguments``
    draw: Draw | None  #: gives these values; None if there are no arguments
    parameters: tuple[Parameter, ...]  #: keys of a scenario for ``draw`` and ``set_key``
    #: Bytes that an object must have for this operation: a scenario with smaller ones is invalid.
    least_size: int
    set_size: int  #: objects that an operation on Target.OBJECTS reserves at most
    set_key: str  #: the parameter that says so instead; "": none
    alias: str  #: another name that users may give, in capitals; "" if there is none
    #: Requests that access logs show for it, named as in those of S3: ``METHOD RESOURCE``, and
    #: ``206`` behind it for a partial GET. If two rows have the same request, the second applies
    #: to existing objects.
    logged: tuple[str, ...]
    conditional: bool  #: a write that the store refuses where another client was first
    crud: bool  #: has a weight in ``crud_profile`` and a block in every report

    def __new__(
        cls,
        number: int,
        name: str,
        effect: Effect,
        *,
        target: Target = Target.OBJECT,
        body: Body = Body.NONE,
        not_found: NotFound = NotFound.RETRIED,
        phase: Phase = Phase.RUN,
        progress: str = LAST_BYTE,
        arguments: tuple[str, ...] = (),
        draw: Draw | None = None,
        parameters: tuple[Parameter, ...] = (),
        least_size: int = 0,
        set_size: int = 10,
        set_key: str = "",
        alias: str = "",
        logged: tuple[str, ...] = (),
        conditional: bool = False,
        crud: bool = False,
    ) -> Operation:
        if effect not in _EFFECTS[target]:
            raise ValueError(f"{name}: an operation on a {target.value} can't have {effect}")
        row = super().__new__(cls, number)
        row.name, row.effect, row.target, row.body = name, effect, target, body
        row.not_found, row.phase, row.progress = not_found, phase, progress
        row.arguments, row.draw, row.parameters = arguments, draw, parameters
        row.least_size, row.set_size, row.set_key = least_size, min(set_size, MAX_SET), set_key
        row.alias, row.logged, row.crud = alias, logged, crud
        row.conditional = conditional
        return row

    def __repr__(self) -> str:
        return f"<Operation {int(self)} {self.name}>"

    def __bool__(self) -> bool:
        """A row is there, also the one of number 0."""
        return True

    @property
    def changes_content(self) -> bool:
        """Whether an attempt without a response leaves unknown what content the store has."""
        return self.effect not in (Effect.NONE, Effect.TOUCHES)

    @property
    def moves_content(self) -> bool:
        """Whether the object's bytes travel."""
        return self.body in (Body.SENT, Body.RECEIVED)

    @property
    def receives(self) -> bool:
        """Whether it has a first-byte latency."""
        return self.body in (Body.RECEIVED, Body.ENTRIES)

    @property
    def depends_on_content(self) -> bool:
        """Whether a job states the object's version or size, so that no other operation may
        replace its content meanwhile."""
        is_listing = self.target is Target.CONTAINER or self.body is Body.ENTRIES
        drawn_from_size = self.draw is not None and not is_listing
        return (
            drawn_from_size
            or self.target in (Target.PAIR, Target.VERSION)
            or self.effect is Effect.TOUCHES
        )

    def parameter_values(self, given: Mapping[str, int | str]) -> dict[str, int | str]:
        """The values of the row's parameters: those that are given, otherwise the defaults."""
        return {each.key: given.get(each.key, each.default) for each in self.parameters}

    def to_map(self) -> dict[str, Any]:
        """The row in a stat file's header."""
        return {
            "number": int(self), "name": self.name, "effect": self.effect.value,
            "target": self.target.value, "body": self.body.value,
            "not_found": self.not_found.value, "phase": self.phase.name.lower(),
            "progress": self.progress, "arguments": [*self.arguments], "alias": self.alias,
            "crud": self.crud,
        }  # fmt: skip

    @classmethod
    def from_map(cls, row: Mapping[str, Any]) -> Operation:
        """The row of ``to_map``. Properties that this release doesn't know get their defaults.

        :raises ValueError: if it has no valid number and name.
        """
        number, name = row.get("number"), row.get("name")
        if type(number) is not int or number < 0 or not _NAME.fullmatch(str(name)):
            raise ValueError("no valid number and name")
        effect = _known(row.get("effect"), Effect.NONE)
        target = _known(row.get("target"), Target.OBJECT)
        phases = {phase.name.lower(): phase for phase in Phase}
        arguments, alias = row.get("arguments"), str(row.get("alias"))
        progress = row.get("progress")
        if not (isinstance(progress, str) and len(progress) == len(LAST_BYTE)):
            progress = LAST_BYTE
        return cls(
            number,
            str(name),
            effect,
            target=target if effect in _EFFECTS[target] else Target.OBJECT,
            body=_known(row.get("body"), Body.NONE),
            not_found=_known(row.get("not_found"), NotFound.RETRIED),
            phase=phases.get(str(row.get("phase")), Phase.RUN),
            progress=progress,
            arguments=tuple(map(str, arguments)) if isinstance(arguments, list) else (),
            alias=alias if _NAME.fullmatch(alias) else "",
            crud=row.get("crud") is True,
        )


#: The effects that a target can have, if not all.
_EFFECTS = {
    Target.OBJECT: {*Effect} - {Effect.PRUNES},
    Target.VERSION: {Effect.NONE, Effect.PRUNES},
    Target.OBJECTS: {*Effect} - {Effect.CONTESTS, Effect.PRUNES},
    Target.PAIR: {Effect.CREATES},
    Target.CONTAINER: {Effect.NONE},
}


def _known(value: object, default: _Value) -> _Value:
    return next((each for each in type(default) if each.value == value), default)


OPERATIONS: dict[int, Operation] = {}  #: number -> row
LOGGED: dict[str, list[Operation]] = {}  #: request in access logs -> rows
RECEIVING: set[int] = set()  #: those with a first-byte latency


def register(row: Operation) -> Operation:
    """Add a row to the table.

    :raises ValueError: if its name is no word of at most 32 capitals, digits and underscores, or
        another row has its number, name or alias.
    """
    if not _NAME.fullmatch(row.name):
        raise ValueError(f"{row!r}: a name is made of capitals, digits and underscores")
    for known in OPERATIONS.values():
        if known == row or {known.name, known.alias} & {row.name, row.alias or row.name}:
            raise ValueError(f"{row!r}: {known!r} has that number or name")
    OPERATIONS[int(row)] = row
    for request in row.logged:
        LOGGED.setdefault(request, []).append(row)
    if row.receives:
        RECEIVING.add(int(row))
    return row


_LIST_PREFIX = Parameter("list_prefix", "", meaning="List only names that begin with it.")
_LIST_PAGE = (
    Parameter(
        "list_limit", 1000, 1, 1_000_000, store_limit="listing_limit", meaning="Entries of a page.",
    ),
    Parameter(
        "list_delimiter", "",
        meaning="List names with it behind the prefix as one entry: as folders with ``/``.",
    ),
)  # fmt: skip

# Numbers are on the wire and in stat files: append only.
# fmt: off
CREATE = register(Operation(
    0, "CREATE", Effect.CREATES, body=Body.SENT, not_found=NotFound.ERROR, alias="PUT", crud=True,
    logged=("PUT OBJECT", "POST UPLOAD"),
))
READ = register(Operation(
    1, "READ", Effect.NONE, body=Body.RECEIVED, progress=FIRST_BYTE, alias="GET", crud=True,
    logged=("GET OBJECT",),
))
UPDATE = register(Operation(
    2, "UPDATE", Effect.REPLACES, body=Body.SENT, crud=True, logged=("PUT OBJECT", "POST UPLOAD"),
))
DELETE = register(Operation(3, "DELETE", Effect.REMOVES, crud=True, logged=("DELETE OBJECT",)))
#: HEAD, and PUT unless an object of the right size is there.
ENSURE = register(Operation(
    4, "ENSURE", Effect.CREATES, body=Body.SENT, not_found=NotFound.ERROR, phase=Phase.POPULATE,
))
#: DELETE; "not found" is a success.
REMOVE = register(Operation(
    5, "REMOVE", Effect.REMOVES, not_found=NotFound.SUCCESS, phase=Phase.CLEANUP,
))
HEAD = register(Operation(6, "HEAD", Effect.NONE, logged=("HEAD OBJECT", "PROPFIND OBJECT")))
POST = register(Operation(
    7, "POST", Effect.TOUCHES, logged=("POST OBJECT", "PROPPATCH OBJECT"),
))
#: One page of a container's listing. Timing.items: its entries, subdirectories included.
LIST = register(Operation(
    8, "LIST", Effect.NONE, target=Target.CONTAINER,
    logged=("GET BUCKET", "PROPFIND BUCKET"),
    parameters=(_LIST_PREFIX, *_LIST_PAGE), arguments=("prefix", "limit", "delimiter"),
    draw=lambda random, size, *, list_prefix, list_limit, list_delimiter: (
        list_prefix.encode(), list_limit, list_delimiter.encode()
    ),
))
#: The store copies the object to the new one, ``Job.others[0]``; no content passes the client.
#: A log names the source.
COPY = register(Operation(
    9, "COPY", Effect.CREATES, target=Target.PAIR, logged=("COPY OBJECT", "COPY OBJECT_GET"),
))
#: A part of an object. Any other part than the one asked for is an error.
RANGE_READ = register(Operation(
    10, "RANGE_READ", Effect.NONE, body=Body.RECEIVED, progress=FIRST_BYTE, least_size=1,
    logged=("GET OBJECT 206",),
    parameters=(Parameter(
        "range_bytes", 65536, 1, 1 << 40, is_size=True,
        meaning="The length of the part; of a shorter object the whole object is read.",
    ),),
    arguments=("offset", "length"), draw=lambda random, size, *, range_bytes: (
        random.randrange(max(size - range_bytes, 0) + 1), min(range_bytes, size)  # nosec B311 # which part
    ),
))
#: Many objects by one request. An object that is already gone is no failure: the stores don't say
#: which these are. Timing.items: objects that were deleted.
BULK_DELETE = register(Operation(
    11, "BULK_DELETE", Effect.REMOVES, target=Target.OBJECTS, not_found=NotFound.ERROR,
    parameters=(Parameter(
        "bulk_count", 100, 1, MAX_SET, store_limit="bulk_delete_max",
        meaning="Objects that one request deletes; fewer if not enough are free.",
    ),),
    set_key="bulk_count", logged=("POST MULTI_OBJECT_DELETE",),
))
#: The pages of a container's listing, to the end. Timing.items: as of LIST; Timing.pages.
LIST_ALL = register(Operation(
    12, "LIST_ALL", Effect.NONE, target=Target.CONTAINER, body=Body.ENTRIES, progress=FIRST_BYTE,
    parameters=LIST.parameters, arguments=LIST.arguments, draw=LIST.draw,
))
#: As LIST_ALL, of the names that begin as that of an object does. Nothing removes the object
#: meanwhile, so the listing must have it.
LIST_RANDOM = register(Operation(
    13, "LIST_RANDOM", Effect.NONE, body=Body.ENTRIES, progress=FIRST_BYTE,
    parameters=(
        Parameter(
            "list_random_cut", 2, 0, 1024,
            meaning="Characters to cut off the end of an object's name; the rest is the prefix.",
        ),
        *_LIST_PAGE,
    ),
    arguments=("cut", "limit", "delimiter"),
    draw=lambda random, size, *, list_random_cut, list_limit, list_delimiter: (
        list_random_cut, list_limit, list_delimiter.encode()
    ),
))
#: All tags of an object: others go. They follow from its name.
PUT_TAGS = register(Operation(
    14, "PUT_TAGS", Effect.TOUCHES,
    parameters=(
        Parameter("tag_count", 3, 1, 50, meaning="Tags of an object; Amazon takes at most 10."),
        Parameter("tag_bytes", 16, 0, 256, meaning="Characters of the value of a tag."),
    ),
    arguments=("count", "length"),
    draw=lambda random, size, *, tag_count, tag_bytes: (tag_count, tag_bytes),
))
#: Timing.items: the tags.
GET_TAGS = register(Operation(15, "GET_TAGS", Effect.NONE))
#: An upload of a new object with If-None-Match: of its rivals one is first.
CREATE_IF_ABSENT = register(Operation(
    16, "CREATE_IF_ABSENT", Effect.CONTESTS, body=Body.SENT, not_found=NotFound.ERROR,
    conditional=True,
    parameters=(Parameter(
        "rivals", 2, 1, 1000, meaning="Operations that create the same object, of which one wins.",
    ),),
))
#: HEAD, and an upload with If-Match of the ETag that it states.
UPDATE_IF_MATCH = register(Operation(
    17, "UPDATE_IF_MATCH", Effect.REPLACES, body=Body.SENT, conditional=True,
))
READ_VERSION = register(Operation(
    18, "READ_VERSION", Effect.NONE, target=Target.VERSION, body=Body.RECEIVED,
    not_found=NotFound.ERROR, progress=FIRST_BYTE, arguments=("version_id",),
))
DELETE_VERSION = register(Operation(
    19, "DELETE_VERSION", Effect.PRUNES, target=Target.VERSION, not_found=NotFound.ERROR,
    arguments=("version_id",),
))
# fmt: on

#: The rows with ``crud``, in the order of a crud_profile.
CRUD = tuple(row for row in OPERATIONS.values() if row.crud)


def of_phase(phase: Phase) -> list[Operation]:
    """The rows that a phase draws, by number."""
    return sorted(row for row in OPERATIONS.values() if row.phase is phase)


def operation_named(name: str, known: Mapping[int, Operation] = OPERATIONS) -> Operation | None:
    """The row of a run's operation, by its name or alias in any case; None if there is none."""
    word = name.upper()
    rows = (row for row in known.values() if row.phase is Phase.RUN)
    return next((row for row in rows if word and word in (row.name, row.alias)), None)


def parameters_of(numbers: Iterable[int]) -> dict[str, Parameter]:
    """The parameters of these operations, by key."""
    return {each.key: each for number in numbers for each in row_of(number).parameters}


def row_of(number: int, known: Mapping[int, Operation] = OPERATIONS) -> Operation:
    """The row of a number; if it is unknown, one without effect and body."""
    row = known.get(number)
    return Operation(number, f"OPERATION {number}", Effect.NONE) if row is None else row


def moved_bytes(job: Job) -> int:
    """Bytes of an object that a job sends or receives, if it succeeds; below 0: not known."""
    row = row_of(job.operation)
    if not row.moves_content:
        return 0
    if "length" in row.arguments:
        return int(job.arguments[row.arguments.index("length")])
    return job.size * (1 + len(job.others))


def rows_of(maps: Iterable[object]) -> dict[int, Operation]:
    """This process's rows, replaced and completed by those of a stat file's header.

    Invalid entries are left out, and so are rows with the name of another row.
    """
    rows = dict(OPERATIONS)
    numbers = {row.name: int(row) for row in rows.values()}
    for entry in maps:
        try:
            row = Operation.from_map(entry if isinstance(entry, Mapping) else {})
        except ValueError:
            continue
        if numbers.setdefault(row.name, int(row)) == row:
            if int(row) in rows and rows[int(row)].name != row.name:
                del numbers[rows[int(row)].name]
            rows[int(row)] = row
    return rows
