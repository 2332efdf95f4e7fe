"""A part of a run that a report or a comparison is of: a time of its load, or some operations.

``RunStats`` takes the part before it counts anything, so that every figure is of the part. What a
file has once for the whole run stays so: operations lost, late and skipped, and orphaned objects.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Struct
from msgspec.structs import force_setattr

from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.operations import operation_named
from ssbench.core.option import of_field, options_of_fields
from ssbench.core.text import printable

PART = "part of the run"


def _operation(text: str) -> str:
    """As reports show it; one of a driver's own as it was given."""
    found = operation_named(text)
    return found.name if found else text


class Selection(Struct, frozen=True):
    """What is chosen of a run; by default all of it. Times count from the start of the load.

    An operation belongs to the time at which it was due or, in a closed loop, started.
    """

    from_s: Annotated[
        float | None,
        of_field(
            "--from",
            units.seconds_or_none,
            PART,
            "only operations from this time of the load on, such as 60s",
            command_line_only=True,
        ),
    ] = None
    to_s: Annotated[
        float | None,
        of_field(
            "--to",
            units.seconds,
            PART,
            "only operations before this time of the load, such as 5m",
            command_line_only=True,
        ),
    ] = None
    warmup_s: Annotated[
        float | None,
        of_field(
            "--warmup",
            units.seconds_or_none,
            PART,
            "exclude this much of the load's beginning, in place of the run's warm-up",
            command_line_only=True,
        ),
    ] = None
    operation_names: Annotated[
        Sequence[str],
        of_field(
            "--operation",
            str,
            PART,
            "only this operation, such as READ; may be repeated",
            metavar="OPERATION",
            repeat=True,
            command_line_only=True,
        ),
    ] = ()
    size_class_names: Annotated[
        Sequence[str],
        of_field(
            "--size-class",
            str,
            PART,
            "only objects of this size class; may be repeated",
            metavar="NAME",
            repeat=True,
            command_line_only=True,
        ),
    ] = ()
    endpoint_names: Annotated[
        Sequence[str],
        of_field(
            "--endpoint",
            str,
            PART,
            "only requests to this endpoint: its URL, its HOST or HOST:PORT; may be repeated",
            metavar="URL",
            repeat=True,
            command_line_only=True,
        ),
    ] = ()
    worker_names: Annotated[
        Sequence[str],
        of_field(
            "--worker",
            str,
            PART,
            "only operations of this worker: its id, or its host for all workers there; may be "
            "repeated",
            metavar="NAME",
            repeat=True,
            command_line_only=True,
        ),
    ] = ()

    def __post_init__(self) -> None:
        named = tuple(map(_operation, self.operation_names))
        force_setattr(self, "operation_names", named)

    def check(self) -> None:
        """:raises UsageError: the times exclude each other."""
        if self.to_s is not None and (self.from_s or 0) >= self.to_s:
            raise UsageError(f"--to {self.to_s:g} s is not after --from {self.from_s:g} s")

    @property
    def in_time(self) -> bool:
        """Whether it has a beginning or an end of its own."""
        return self.from_s is not None or self.to_s is not None

    @property
    def has_times(self) -> bool:
        """Whether any of its times counts from the start of the load."""
        return self.in_time or self.warmup_s is not None

    @property
    def text(self) -> str:
        """``60 s to 300 s of the load, READ, worker bench-02``; "" for the whole run."""
        parts = []
        if self.in_time:
            until = "the end" if self.to_s is None else f"{self.to_s:g} s"
            parts.append(f"{self.from_s or 0:g} s to {until} of the load")
        if self.warmup_s is not None:
            parts.append(f"warm-up {self.warmup_s:g} s")
        for kind, names in self.names:
            parts.append(f"{KINDS[kind].word} {' or '.join(map(printable, names))}")
        return ", ".join(parts)

    @property
    def names(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Name of a field, and the names that are given for it."""
        for kind in KINDS:
            if names := getattr(self, kind):
                yield kind, names

    def __bool__(self) -> bool:
        return self != WHOLE


WHOLE = Selection()
OPTIONS = options_of_fields(Selection)


class Kind(Struct, frozen=True):
    """What operations are chosen by."""

    word: str
    column: str  #: of results
    flag: str


KINDS = {
    "operation_names": Kind("operation", "operation", "--operation"),
    "size_class_names": Kind("size class", "size_class", "--size-class"),
    "endpoint_names": Kind("endpoint", "url", "--endpoint"),
    "worker_names": Kind("worker", "worker", "--worker"),
}
