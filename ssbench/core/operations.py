"""The table of operations: all that the engine knows of an operation is its row.

Workload, retries, statistics, thresholds, progress and reports go by a row's properties and never
by its name. A new operation is a row here (or ``register`` in a driver's module) and a method of
each driver that supports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from ssbench.core.model import Phase

FIRST_BYTE = ".oO*"  #: progress characters by latency to the first byte: from 0, 1, 3 and 10 s
LAST_BYTE = "_|^@"  #: the same by latency to the last byte


class Effect(Enum):
    """What an operation does to its object, and so which objects it can be drawn for."""

    NONE = "none"  #: reads an object of the population
    CREATES = "creates"  #: makes a new object
    REPLACES = "replaces"  #: gives an object of the population new content
    TOUCHES = "touches"  #: changes an object's metadata or expiry, not its content
    REMOVES = "removes"  #: an object of the population goes away


class Body(Enum):
    """Which way the object's content travels."""

    NONE = "none"
    SENT = "sent"
    RECEIVED = "received"  #: has a first-byte latency


class NotFound(Enum):
    """What a 404 means."""

    ERROR = "error"
    RETRIED = "retried"  #: it is tried once more (eventual consistency), then an error
    SUCCESS = "success"  #: the goal is reached


class Operation(int):
    """A row: the operation's number on the wire and in stat files, with its properties.

    It equals its number, so that a number from the wire finds the row in any mapping.
    """

    name: str  #: in capitals, as reports show it; lower case is its key in a scenario
    effect: Effect
    body: Body
    not_found: NotFound
    phase: Phase  #: the phase that draws it
    progress: str  #: four characters, by latency: FIRST_BYTE or LAST_BYTE
    alias: str  #: what else a user may call it, in capitals; "" for nothing

    def __new__(
        cls,
        number: int,
        name: str,
        effect: Effect,
        *,
        body: Body = Body.NONE,
        not_found: NotFound = NotFound.RETRIED,
        phase: Phase = Phase.RUN,
        progress: str = LAST_BYTE,
        alias: str = "",
    ) -> Operation:
        row = super().__new__(cls, number)
        row.name, row.effect, row.body = name, effect, body
        row.not_found, row.phase, row.progress = not_found, phase, progress
        row.alias = alias
        return row

    def __repr__(self) -> str:
        return f"<Operation {int(self)} {self.name}>"

    @property
    def changes_content(self) -> bool:
        """Whether an attempt without an answer leaves the object's content unknown."""
        return self.effect in (Effect.CREATES, Effect.REPLACES, Effect.REMOVES)

    @property
    def moves_content(self) -> bool:
        """Whether the object's bytes travel."""
        return self.body is not Body.NONE

    def to_map(self) -> dict[str, Any]:
        """What a stat file's header says of the row."""
        return {"number": int(self), "name": self.name,
                "effect": self.effect.value, "body": self.body.value}  # fmt: skip


OPERATIONS: dict[int, Operation] = {}  #: number -> row
RECEIVING: set[int] = set()  #: those that receive content, and so have a first byte


def register(row: Operation) -> Operation:
    """Add a row to the table.

    :raises ValueError: where its number or its name is taken by another.
    """
    for known in OPERATIONS.values():
        if known == row or known.name == row.name:
            raise ValueError(f"{row!r}: {known!r} has that number or name")
    OPERATIONS[int(row)] = row
    if row.body is Body.RECEIVED:
        RECEIVING.add(int(row))
    return row


# Numbers are on the wire and in stat files: append only.
CREATE = register(
    Operation(
        0, "CREATE", Effect.CREATES, body=Body.SENT, not_found=NotFound.ERROR, alias="PUT"
    )
)  # fmt: skip
READ = register(
    Operation(1, "READ", Effect.NONE, body=Body.RECEIVED, progress=FIRST_BYTE, alias="GET")
)
UPDATE = register(Operation(2, "UPDATE", Effect.REPLACES, body=Body.SENT))
DELETE = register(Operation(3, "DELETE", Effect.REMOVES))
#: HEAD, and PUT unless an object of the right size is there.
ENSURE = register(
    Operation(
        4, "ENSURE", Effect.CREATES,
        body=Body.SENT, not_found=NotFound.ERROR, phase=Phase.POPULATE,
    )
)  # fmt: skip
#: DELETE where "not found" is as good.
REMOVE = register(
    Operation(5, "REMOVE", Effect.REMOVES, not_found=NotFound.SUCCESS, phase=Phase.CLEANUP)
)
HEAD = register(Operation(6, "HEAD", Effect.NONE))
POST = register(Operation(7, "POST", Effect.TOUCHES))

#: Those that a crud_profile has weights of, in its order. Every report has a block of each.
CRUD = (CREATE, READ, UPDATE, DELETE)


def of_phase(phase: Phase) -> list[Operation]:
    """The rows that a phase draws, by number."""
    return sorted(row for row in OPERATIONS.values() if row.phase is phase)


def operation_named(name: str) -> Operation | None:
    """The row of a run's operation, by its name or alias in any case; None where there is none."""
    word = name.upper()
    return next(
        (row for row in of_phase(Phase.RUN) if word and word in (row.name, row.alias)), None
    )


def row_of(number: int, known: Mapping[int, Operation] = OPERATIONS) -> Operation:
    """The row of a number; one without any effect or body where nobody knows it."""
    row = known.get(number)
    return Operation(number, f"OPERATION {number}", Effect.NONE) if row is None else row
