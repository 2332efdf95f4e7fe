"""A part of a run that a report or a comparison is of: a time of its load, or some operations.

``RunStats`` takes the part before it counts anything, so that every figure is of the part. What a
file has once for the whole run stays so: operations lost, late and skipped, and orphaned objects.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import force_setattr

from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.operations import operation_named
from ssbench.core.option import Option, of_field, options_of_fields
from ssbench.core.text import printable
from ssbench.core.units import preview

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ssbench.core.stats.results import PhaseResults

PART = "part of the run"


def _operation(text: str) -> str:
    """As reports show it; one of a driver's own as it was given."""
    found = operation_named(text)
    return found.name if found else text


def _names(flag: str, help: str, metavar: str = "NAME") -> Option:
    return of_field(
        flag, str, PART, f"{help}; may be repeated", metavar=metavar, repeat=True,
        command_line_only=True,
    )  # fmt: skip


class _Moment:
    """The type of an option: a time of the load in seconds, or the text of a mark of the run."""

    metavar = "TIME|MARK"
    python_type = float | str  #: of programs

    def __init__(self, unit: units.Unit[float]) -> None:
        self._unit = unit

    def __call__(self, text: str) -> float | str:
        """:raises UsageError: it looks like a time, and is none."""
        try:
            return self._unit.of_text(text)
        except UsageError:
            if not text.strip() or (text[0] in "+-.0123456789" and " " not in text.strip()):
                raise
            return text


class Selection(Struct, frozen=True):
    """What is chosen of a run; by default all of it. Times count from the start of the load.

    An operation belongs to the time at which it was due or, in a closed loop, started.
    """

    # fmt: off
    from_s: Annotated[float | None,
        of_field("--from", _Moment(units.seconds_or_none), PART,
            "only operations from this time of the load on, such as 60s, or from this mark on",
            command_line_only=True)] = None
    to_s: Annotated[float | None,
        of_field("--to", _Moment(units.seconds), PART,
            "only operations before this time of the load, such as 5m, or before this mark",
            command_line_only=True)] = None
    warmup_s: Annotated[float | None,
        of_field("--warmup", units.seconds_or_none, PART,
            "exclude this much of the load's beginning, in place of the run's warm-up",
            command_line_only=True)] = None
    stage: Annotated[str | None,
        of_field("--stage", str, PART,
            "only this stage of the load: its name, or its number from 1", metavar="STAGE",
            command_line_only=True)] = None
    operation_names: Annotated[Sequence[str],
        _names("--operation", "only this operation, such as READ", "OPERATION")] = ()
    size_class_names: Annotated[Sequence[str],
        _names("--size-class", "only objects of this size class")] = ()
    endpoint_names: Annotated[Sequence[str],
        _names("--endpoint", "only requests to this endpoint: its URL, its HOST or HOST:PORT",
            "URL")] = ()
    address_names: Annotated[Sequence[str],
        _names("--address",
            "only requests to this address, HOST or HOST:PORT, of a name that has several",
            "ADDRESS")] = ()
    identity_names: Annotated[Sequence[str],
        _names("--identity", "only operations of this identity, of a run with several")] = ()
    worker_names: Annotated[Sequence[str],
        _names("--worker",
            "only operations of this worker: its id, or its host for all workers there")] = ()
    # fmt: on

    #: Texts of marks, whose times only the run knows.
    from_mark: str | None = None
    to_mark: str | None = None

    def __post_init__(self) -> None:
        named = tuple(map(_operation, self.operation_names))
        force_setattr(self, "operation_names", named)
        for time, mark in (("from_s", "from_mark"), ("to_s", "to_mark")):
            if isinstance(value := getattr(self, time), str):
                force_setattr(self, mark, value)
                force_setattr(self, time, None)

    def check(self) -> None:
        """:raises UsageError: the times exclude each other."""
        if self.to_s is not None and (self.from_s or 0) >= self.to_s:
            raise UsageError(f"--to {self.to_s:g} s is not after --from {self.from_s or 0:g} s")
        if self.stage is not None and (self.in_time or self.from_mark or self.to_mark):
            raise UsageError("--stage has its own times: leave out --from and --to")

    @property
    def needs_times(self) -> bool:
        """Whether only the run's own records say its beginning or its end."""
        return (
            (self.stage is not None and not self.in_time)
            or (self.from_mark is not None and self.from_s is None)
            or (self.to_mark is not None and self.to_s is None)
        )

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
        parts = [f"stage {printable(self.stage)}"] if self.stage is not None else []
        if self.in_time:
            until = "the end" if self.to_s is None else f"{_at(self.to_s, self.to_mark)}"
            parts.append(f"{_at(self.from_s or 0, self.from_mark)} to {until} of the load")
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


def _at(seconds: float, mark: str | None) -> str:
    """``60 s``; ``60 s ("node 3 down")``."""
    return f"{seconds:g} s" if mark is None else f"{seconds:.3g} s ({preview(mark)})"


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
    "address_names": Kind("address", "address", "--address"),
    "identity_names": Kind("identity", "identity", "--identity"),
    "worker_names": Kind("worker", "worker", "--worker"),
}


class Chosen:
    """Which results have the names of a selection, and which names there are.

    :param names_of: what names a number in a column of results: first as reports show it.
    """

    def __init__(self, selection: Selection, names_of: Callable[[str, int], Sequence[str]]) -> None:
        self._wanted = dict(selection.names)
        self._names_of = names_of
        #: Field of Selection -> names of what results are there, as reports show them; and of the
        #: given names those that occur.
        self._there: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._found: defaultdict[str, set[str]] = defaultdict(set)

    def __repr__(self) -> str:
        return f"<Chosen of {self._wanted}>"

    def rows(self, results: "PhaseResults") -> "npt.NDArray[np.bool_] | None":
        """Whether each row is chosen; None: all are."""
        import numpy as np  # not loaded for the options

        mask = None
        for kind, given in self._wanted.items():
            column = results.numbers(KINDS[kind].column)
            numbers = []
            for number in np.unique(column).tolist():
                shown, *others = self._names_of(KINDS[kind].column, number)
                self._there[kind][shown] = None
                found = {name for name in given if _alike(kind, name, [shown, *others])}
                self._found[kind] |= found
                if found:
                    numbers.append(number)
            own = np.isin(column, numbers)
            mask = own if mask is None else mask & own
        return mask

    def missing(self) -> Iterator[str]:
        """A line for each name that no result of the run has, with those that occur."""
        for kind, given in self._wanted.items():
            there = ", ".join(map(printable, self._there[kind])) or "none"
            for name in given:
                if name not in self._found[kind]:
                    what = KINDS[kind]
                    yield (
                        f"{what.flag} {preview(name)}: the run has no results of such "
                        f"{'an' if what.word[0] in 'aeio' else 'a'} {what.word}; it has: {there}"
                    )


def _alike(kind: str, given: str, names: Sequence[str]) -> bool:
    """Whether one of the names is the given one; those of operations are so in any case."""
    return (given.upper() if kind == "operation_names" else given) in filter(None, names)
