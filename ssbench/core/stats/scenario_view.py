"""The keys of a scenario that reports use, read from a stat file's header of any version, and which
parts of a run count by them.

The file may be old, damaged or from another program, so nothing here raises: what is missing or
malformed is None or omitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec import Struct

from ssbench.core.model import SECOND_NS
from ssbench.core.operations import CRUD
from ssbench.core.records import MarkRecord

Profile = Mapping[str, float]  #: operation's name in capitals -> share; they sum to 1

NEVER_NS = (1 << 63) - 1

_YEAR_S = 366 * 86400.0
_LEGACY_SCENARIO = "_scenario_data"  # ssbench 0.3.9 keeps the user's JSON under this key


class Span(NamedTuple):
    """A part of the run, in ns from its start; both are the same if nothing of a stage counts."""

    low_ns: int
    high_ns: int  #: NEVER_NS: the end is unknown

    @property
    def seconds(self) -> float | None:
        """Its length; None: unknown."""
        return None if self.high_ns == NEVER_NS else (self.high_ns - self.low_ns) / SECOND_NS


def joined(parts: Sequence[Span]) -> list[Span]:
    """The same time, with adjacent spans joined and empty ones dropped."""
    found: list[Span] = []
    for part in parts:
        if part.low_ns == part.high_ns:
            continue
        if found and found[-1].high_ns == part.low_ns:
            part = Span(found.pop().low_ns, part.high_ns)
        found.append(part)
    return found


def gaps_ns(parts: Sequence[Span], low_ns: int, high_ns: int) -> int:
    """The time from low to high that lies between the spans."""
    return sum(
        max(0, min(after.low_ns, high_ns) - max(before.high_ns, low_ns))
        for before, after in pairwise(joined(parts))
    )


class SizeView(Struct, frozen=True):
    """A size class; ``share`` is its part of all operations (0 to 1)."""

    name: str
    size_min: int | None
    size_max: int | None
    initial_files: int
    share: float
    profile: Profile | None


class ScenarioView(Struct, frozen=True):
    """A scenario as a report shows it; ``profile`` is the average over the classes by share."""

    name: str
    sizes: tuple[SizeView, ...]
    profile: Profile | None
    user_count: int | None
    container_base: str | None
    container_count: int | None
    operation_count: int | None
    run_seconds: float | None
    delete_after: int | None
    policy: str | None
    block_size: int | None
    rate: float | None  #: operations/s due; None: a closed loop, or stages
    arrivals: str | None
    think_time: tuple[float, float] | None  #: shortest and longest, in seconds
    warmup_s: float  #: 0 if nothing is excluded
    cooldown_s: float
    stage_warmups_s: tuple[float, ...]  #: of each stage; () if none has one

    def stage_warmup_s(self, stage: int) -> float:
        """Seconds excluded from a stage's beginning."""
        return self.stage_warmups_s[stage] if stage < len(self.stage_warmups_s) else 0.0

    def planned_end_ns(self, begin_ns: int) -> int:
        """The planned end of a load that begins then; NEVER_NS if its operations end it."""
        seconds = self.run_seconds
        if seconds is None or not 0 <= seconds < NEVER_NS / SECOND_NS:
            return NEVER_NS
        return begin_ns + round(seconds * SECOND_NS)

    def load_end_ns(self, marks: Sequence[MarkRecord]) -> int | None:
        """The end of a load: its earliest ``end`` mark, but not later than planned. (One that is
        written ahead is followed by another if the run is stopped before.)

        :param marks: of one run.
        :returns: None without an ``end`` mark.
        """
        marked_ns = min((mark.at_ns for mark in marks if mark.name == "end"), default=None)
        begin_ns = next((mark.at_ns for mark in marks if mark.name == "stage"), None)
        if marked_ns is None or begin_ns is None:
            return marked_ns
        return min(marked_ns, self.planned_end_ns(begin_ns))

    def counts_from_ns(self, stage: int, begin_ns: int, first_ns: int) -> int:
        """The end of a stage's warm-up: its own, or the run's, which may extend into it.

        :param begin_ns: when the stage began; ``first_ns``: when the first stage began.
        """
        own_ns = begin_ns + round(self.stage_warmup_s(stage) * SECOND_NS)
        return max(own_ns, first_ns + round(self.warmup_s * SECOND_NS))

    def counts_until_ns(self, end_ns: int | None) -> int:
        """The start of the cool-down; NEVER_NS if the load's end is unknown."""
        return NEVER_NS if end_ns is None else end_ns - round(self.cooldown_s * SECOND_NS)

    def spans(self, begins_ns: Sequence[int], end_ns: int | None) -> list[Span]:
        """The part of each stage that counts.

        :param begins_ns: of each stage.
        :param end_ns: when the load ended; None: unknown.
        """
        last_ns = self.counts_until_ns(end_ns)
        found = []
        for stage, (begin_ns, after_ns) in enumerate(pairwise([*begins_ns, last_ns])):
            low_ns = self.counts_from_ns(stage, begin_ns, begins_ns[0])
            found.append(Span(low_ns, max(low_ns, min(after_ns, last_ns))))
        return found

    @classmethod
    def of(cls, scenario: Mapping[str, Any]) -> ScenarioView:
        """The view of ``RunHeader.scenario``."""
        inner = scenario.get(_LEGACY_SCENARIO)
        merged = {**inner, **scenario} if isinstance(inner, Mapping) else scenario
        sizes = _sizes(merged)
        return cls(
            name=_text(merged.get("name")) or "",
            sizes=sizes,
            profile=_average(sizes),
            user_count=_integer(merged.get("user_count")),
            container_base=_text(merged.get("container_base")),
            container_count=_integer(merged.get("container_count")),
            operation_count=_integer(merged.get("operation_count")),
            run_seconds=_number(merged.get("run_seconds")),
            delete_after=_integer(merged.get("delete_after")),
            policy=_text(merged.get("policy")),
            block_size=_integer(merged.get("block_size")),
            rate=_number(merged.get("rate")),
            arrivals=_text(merged.get("arrivals")),
            think_time=_range(merged.get("think_time")),
            warmup_s=_span(merged.get("warmup")),
            cooldown_s=_span(merged.get("cooldown")),
            stage_warmups_s=_stage_warmups(merged.get("stages")),
        )


def _sizes(scenario: Mapping[str, Any]) -> tuple[SizeView, ...]:
    initial = scenario.get("initial_files")
    counts = initial if isinstance(initial, Mapping) else {}
    rows = scenario.get("sizes")
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    files = [max(0, _integer(counts.get(_text(row.get("name")))) or 0) for row in rows]
    total = sum(files)
    return tuple(
        SizeView(
            name=_text(row.get("name")) or f"class {index}",
            size_min=_integer(row.get("size_min")),
            size_max=_integer(row.get("size_max")),
            initial_files=count,
            share=count / total if total else 0.0,
            profile=_profile(row) or _profile(scenario) or _mix(scenario.get("groups")),
        )
        for index, (row, count) in enumerate(zip(rows, files, strict=True))
    )


def crud_of(profile: Profile | None) -> list[float] | None:
    """The shares of CREATE, READ, UPDATE and DELETE, as a crud_profile has them."""
    return None if profile is None else [profile.get(row.name, 0.0) for row in CRUD]


def other_operations(profile: Profile | None) -> list[str]:
    """The operations of a profile that a crud_profile cannot have."""
    return [name for name in profile or () if name not in {row.name for row in CRUD}]


def _profile(keys: Mapping[str, Any]) -> Profile | None:
    by_name = keys.get("operations")
    if not isinstance(by_name, Mapping):
        weights = keys.get("crud_profile")
        if not isinstance(weights, Sequence) or len(weights) != len(CRUD):
            return None
        by_name = dict(zip((row.name for row in CRUD), weights, strict=True))
    shares = {}
    for name, value in by_name.items():
        weight = _number(value)
        if not isinstance(name, str) or weight is None or weight < 0:
            return None
        shares[name.upper()] = weight
    total = sum(shares.values())
    if not 0 < total < float("inf"):
        return None
    return {name: weight / total for name, weight in shares.items()}


def _mix(groups: object) -> Profile | None:
    """The profile of groups of users together, each weighted by its number of users."""
    weights: dict[str, float] = {}
    for group in groups.values() if isinstance(groups, Mapping) else ():
        shares = _profile(group) if isinstance(group, Mapping) else None
        for name, share in (shares or {}).items():
            weights[name] = weights.get(name, 0.0) + share * (_number(group.get("users")) or 0.0)
    return _profile({"operations": weights})


def _average(sizes: Sequence[SizeView]) -> Profile | None:
    known = [(size.share, size.profile) for size in sizes if size.profile and size.share]
    if not known:
        return None
    names = dict.fromkeys(name for _, profile in known for name in profile)
    return {name: sum(share * p.get(name, 0.0) for share, p in known) for name in names}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None


def _range(value: Any) -> tuple[float, float] | None:
    if not isinstance(value, Sequence) or len(value) != 2:
        return None
    least, longest = map(_number, value)
    return None if least is None or longest is None else (least, longest)


def _span(value: Any) -> float:
    """Seconds from 0 to a year, so that nanoseconds cannot overflow; else 0."""
    number = _number(value)
    return number if number is not None and 0 <= number < _YEAR_S else 0.0


def _stage_warmups(stages: Any) -> tuple[float, ...]:
    rows = stages if isinstance(stages, Sequence) else ()
    found = tuple(_span(row.get("warmup")) if isinstance(row, Mapping) else 0.0 for row in rows)
    return found if any(found) else ()


def _number(value: Any) -> float | None:
    return value if type(value) in (int, float) else None
