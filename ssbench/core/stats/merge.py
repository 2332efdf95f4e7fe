"""The records of several masters' runs as those of one run.

Several masters drive one store when one cannot drive enough workers: each runs the same scenario at
the same time and leaves a stat file. Their records become one stream, which statistics count as
those of one run: users, rates, counts and lengths of the parts are added up; offsets count from the
phase that began first, by the masters' wall clocks, which are taken to agree.

Only the time in which all of them ran can count. What precedes the last beginning becomes part of
the warm-up, and what follows the first end part of the cool-down, which all figures exclude
already. A run of a number of operations has no common end: its rates are up to the last completion.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from msgspec import Struct, structs

from ssbench.core.errors import UsageError
from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.records import (
    MASTER,
    AddressRecord,
    ClockRecord,
    EventRecord,
    HostRecord,
    MarkRecord,
    PhaseRecord,
    ProfileRecord,
    Record,
    ResultBatch,
    RunFooter,
    RunHeader,
    WorkerRecord,
)
from ssbench.core.stats.run_records import RunRecords
from ssbench.core.text import shortened

#: Keys of a scenario that may differ; and those whose values are added up.
_FREE = {
    "container_base", "container_count", "container_concurrency", "seed", "warmup", "cooldown",
}  # fmt: skip
_ADDED = ("user_count", "rate", "operation_count", "bandwidth")
#: The gravest ending first.
_ENDINGS = ("failed", "interrupted", "exhausted", "complete")


class Part(Struct, frozen=True):
    """A run that is merged: what its records say, but for its results."""

    name: str  #: its file
    header: RunHeader
    run: RunRecords
    phases: Mapping[Phase, PhaseRecord]

    @classmethod
    def of(cls, name: str, records: Iterable[Record]) -> Part:
        """The part of a file's records; results are ignored.

        :raises UsageError: the run cannot be merged with any other.
        """
        run, phases = RunRecords(), dict[Phase, PhaseRecord]()
        for record in records:
            if isinstance(record, PhaseRecord):
                phases[record.phase] = record
            elif not isinstance(record, ResultBatch | HostRecord | ClockRecord):
                run.add(record)
        header = run.header
        if header is None:
            raise UsageError(f"{name}: has no header")
        if "load" in header.unrecorded:
            raise UsageError(f"{name}: results of ssbench 0.3.9 cannot be merged")
        if Phase.RUN not in phases or not run.stages or run.end_ns is None:
            raise UsageError(f"{name}: unknown when its load began and ended")
        return cls(name, header, run, phases)

    @property
    def scenario(self) -> dict[str, Any]:
        """The keys of its scenario that have a value."""
        return {key: value for key, value in self.header.scenario.items() if value is not None}

    @property
    def origin_ns(self) -> int:
        """Wall clock of the run phase's start."""
        return round(self.phases[Phase.RUN].started_at * SECOND_NS)

    @property
    def begins_ns(self) -> list[int]:
        """Wall clock: the beginning of each stage."""
        return [self.origin_ns + mark.at_ns for mark in self.run.stages]

    @property
    def end_ns(self) -> int:
        """Wall clock: the end of the load."""
        return self.origin_ns + (self.run.end_ns or 0)


def check(parts: Sequence[Part]) -> None:
    """Check that runs can be merged.

    :raises UsageError: a line on each run that does not go together with the first.
    """
    check_distinct((part.name, part.header) for part in parts)
    faults: list[str] = []
    first, *others = parts
    for part in others:
        try:
            faults += _differences(first, part)
        except (AttributeError, TypeError, ValueError):
            faults.append(f"{part.name}: its scenario, or that of {first.name}, is malformed")
    if faults:
        raise UsageError("\n".join(faults))
    try:
        _header(parts)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{first.name}: its scenario is malformed") from error
    late, early = max(parts, key=_begin_ns), min(parts, key=lambda part: part.end_ns)
    if _begin_ns(late) >= early.end_ns:
        apart_s = (_begin_ns(late) - early.end_ns) / SECOND_NS
        raise UsageError(
            f"{late.name}: its load began {apart_s:.1f} s after that of {early.name} had ended, by"
            " the clocks of their masters: runs that are merged must run at the same time"
        )


def check_distinct(named: Iterable[tuple[str, RunHeader | None]]) -> None:
    """Check that no run is given twice. Runs of ssbench 0.3.9 have no id: their names count.

    :param named: each run's name and header.
    :raises UsageError: a line on each run that is the same as one before it.
    """
    faults, seen = [], dict[str, str]()
    for name, header in named:
        run_id = (header and header.run_id) or name
        if run_id in seen:
            faults.append(f"{name}: is the same run as {seen[run_id]}")
        seen.setdefault(run_id, name)
    if faults:
        raise UsageError("\n".join(faults))


def _begin_ns(part: Part) -> int:
    return part.begins_ns[0]


def _differences(first: Part, part: Part) -> Iterator[str]:
    """What must be the same, and isn't."""
    ours, theirs = _fixed(first), _fixed(part)
    for key in sorted({*ours, *theirs}):
        one, other = (json.dumps(each.get(key), default=str) for each in (ours, theirs))
        if one != other:
            shown = [shortened(text, 60) for text in (other, one)]
            yield (
                f"{part.name}: {key} is {shown[0]}, and {shown[1]} in {first.name}: runs that are"
                " merged have the same scenario"
            )
    if first.run.scenario.has_barriers:
        yield (
            f"{part.name}: its stages wait for each other, those of {first.name} for others: runs"
            " with barriers can't be merged"
        )
    if len(part.run.stages) != len(first.run.stages):
        yield (
            f"{part.name}: ran {len(part.run.stages)} stages, and {first.name}"
            f" {len(first.run.stages)}"
        )


def _fixed(part: Part) -> Mapping[str, Any]:
    """What the runs must have in common."""
    header, given = part.header, part.scenario
    scenario = {key: value for key, value in given.items() if key not in _FREE}
    for key in _ADDED:
        if key in scenario:
            scenario[key] = "given"
    scenario["initial_files"] = sorted(given.get("initial_files") or ())
    for key in ("stages", "groups"):
        rows = given.get(key) or ()
        rows = rows.values() if isinstance(rows, Mapping) else rows
        scenario[key] = [
            {name: "given" if name in ("users", "rate") else value for name, value in row.items()}
            for row in rows
        ]
    own = ("warmup", "cooldown")  # equal, although the merged run has longer ones
    scenario |= {key: given.get(key) or 0 for key in own}
    return {
        **scenario,
        "storage driver": header.driver,
        "--verify": header.verify,
        "operations": list(header.operations),
        "identities": header.store.get("identities"),
    }


def merged(parts: Sequence[Part], streams: Sequence[Iterable[Record]]) -> Iterator[Record]:
    """The records of one run.

    :param parts: that passed ``check``.
    :param streams: the records of each part, once more.
    """
    starts_s = {
        phase: min(part.phases[phase].started_at for part in parts if phase in part.phases)
        for phase in sorted({phase for part in parts for phase in part.phases})
    }
    header = _header(parts)
    yield header
    urls = _urls_of(header.store)
    open_streams = []
    first_index, ids = 0, set[str]()
    for number, (part, records) in enumerate(zip(parts, streams, strict=True)):
        open_streams.append(_Stream(part, number, first_index, starts_s, ids, iter(records), urls))
        first_index += 1 + max(part.run.workers, default=0)
    for stream in open_streams:
        yield from stream.until_a_phase()
    for phase, started_s in starts_s.items():
        users = sum(part.phases[phase].users for part in parts if phase in part.phases)
        yield PhaseRecord(phase, started_s, users)
        if phase is Phase.RUN:
            yield from _marks(parts)
        for stream in open_streams:
            while stream.phase is not None and stream.phase <= phase:
                yield from stream.until_a_phase()
    if all(part.run.footer for part in parts):
        yield _footer(parts)


def end_of_load_ns(parts: Sequence[Part]) -> int:
    """The end of the last load, as an offset from the merged run phase's start."""
    return max(part.end_ns for part in parts) - _origin_ns(parts)


def common_s(parts: Sequence[Part]) -> tuple[float, float]:
    """(length of the time in which all of them ran, from the first beginning to the last end)."""
    begins, ends = [_begin_ns(part) for part in parts], [part.end_ns for part in parts]
    return (min(ends) - max(begins)) / SECOND_NS, (max(ends) - min(begins)) / SECOND_NS


class _Stream:
    """The records of a part as those of the merged run."""

    def __init__(
        self,
        part: Part,
        number: int,
        first_index: int,
        starts_s: Mapping[Phase, float],
        ids: set[str],
        records: Iterator[Record],
        urls: Sequence[str],
    ) -> None:
        own = _urls_of(part.header.store)
        self._urls = () if own == urls[: len(own)] else tuple(urls.index(url) for url in own)
        self.phase: Phase | None = None  #: that begins next; None at the end of the records
        self._master = MASTER - number
        self._first_index = first_index
        self._later_s = {
            phase: record.started_at - starts_s[phase] for phase, record in part.phases.items()
        }
        self._ids = ids  # of all workers so far
        self._run_id = part.header.run_id
        self._records = records

    def until_a_phase(self) -> Iterator[Record]:
        """The records up to the start of the next phase."""
        self.phase = None
        for record in self._records:
            if isinstance(record, PhaseRecord):
                self.phase = record.phase
                return
            if isinstance(record, ResultBatch):
                later_ns = round(self._later_s.get(record.phase, 0) * SECOND_NS)
                worker = self._index(record.worker)
                yield ResultBatch(
                    record.phase, worker, record.count, record.names, record.packed, later_ns,
                    self._urls,
                )  # fmt: skip
            elif isinstance(record, HostRecord):
                at_s = record.at_s + self._later_s.get(record.phase, 0)
                yield structs.replace(record, worker=self._index(record.worker), at_s=at_s)
            elif isinstance(record, EventRecord):
                yield record
            elif isinstance(record, ClockRecord | ProfileRecord | AddressRecord):
                yield structs.replace(record, worker=self._index(record.worker))
            elif isinstance(record, WorkerRecord):
                worker_id = record.worker_id
                if worker_id in self._ids:
                    worker_id = f"{worker_id} of {self._run_id}"
                self._ids.add(worker_id)
                yield structs.replace(record, index=self._index(record.index), worker_id=worker_id)

    def _index(self, worker: int) -> int:
        return self._master if worker == MASTER else worker + self._first_index


def _origin_ns(parts: Sequence[Part]) -> int:
    return min(part.origin_ns for part in parts)


def _header(parts: Sequence[Part]) -> RunHeader:
    first = parts[0].header
    scenario = parts[0].scenario
    for key in _ADDED:
        if key in scenario:
            scenario[key] = sum(part.scenario[key] for part in parts)
    initial: Counter[str] = Counter()
    for part in parts:
        initial.update(part.scenario.get("initial_files") or {})
    scenario["initial_files"] = dict(initial)
    base = parts[0].run.scenario
    begins = list(zip(*[part.begins_ns for part in parts], strict=True))
    skews_s = [_rounded_up_s(max(of_stage) - min(of_stage)) for of_stage in begins]
    ends = [part.end_ns for part in parts]
    scenario["warmup"] = base.warmup + skews_s[0]
    if not all(map(_ran_all, parts)):
        scenario["cooldown"] = base.cooldown + _rounded_up_s(max(ends) - min(ends))
    if "run_seconds" in scenario:
        scenario["run_seconds"] = _rounded_up_s(max(ends) - min(begins[0]))
    if "stages" in scenario:
        scenario["stages"] = [
            {
                **row,
                **_added([part.scenario["stages"][at] for part in parts]),
                "warmup": base.warmup_of(at) + skews_s[at],
            }
            for at, row in enumerate(scenario["stages"][: len(skews_s)])
        ]
    if "groups" in scenario:
        scenario["groups"] = {
            name: {**row, **_added([part.scenario["groups"][name] for part in parts])}
            for name, row in scenario["groups"].items()
        }
    overrides = {
        key: value
        for key, value in first.overrides.items()
        if key not in _ADDED and all(part.header.overrides.get(key) == value for part in parts)
    }
    return structs.replace(
        first,
        overrides=overrides,
        run_id="+".join(part.header.run_id for part in parts),
        started_at=min(part.header.started_at for part in parts),
        scenario=scenario,
        store=_stores([part.header.store for part in parts]),
    )


def _stores(stores: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where the load of all went: each value once."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for store in stores for key in store):
        values = [store[key] for store in stores if key in store]
        if key == "urls":
            found[key] = [*dict.fromkeys(url for store in stores for url in _urls_of(store))]
        elif key == "identities":  # the same in all
            found[key] = values[0]
        else:
            found[key] = " and ".join(dict.fromkeys(map(str, values)))
    return found


def _urls_of(store: Mapping[str, Any]) -> list[str]:
    urls = store.get("urls")
    return list(map(str, urls)) if isinstance(urls, list | tuple) else []


def _added(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums of the users and the rates of a stage or a group, where it has them."""
    return {key: sum(row[key] for row in rows) for key in ("users", "rate") if key in rows[0]}


def _rounded_up_s(span_ns: int) -> float:
    """Seconds, to a millisecond."""
    return math.ceil(span_ns / 1e6) / 1e3


def _ran_all(part: Part) -> bool:
    """Whether the run ended because all its operations were done."""
    planned = part.run.scenario.operation_count
    return planned is not None and part.run.sent == planned


def _marks(parts: Sequence[Part]) -> Iterator[MarkRecord]:
    """Of each stage its first beginning, and each change of the users that ran; the last end."""
    origin_ns = _origin_ns(parts)
    of_parts = [list(_stage_marks(part)) for part in parts]
    for stage, marks in enumerate(zip(*of_parts, strict=True)):
        begins = [of_part[0] for of_part in marks]
        rates = [mark.rate for _at_ns, mark in begins if mark.rate is not None]
        users = [mark.users for _at_ns, mark in begins]
        first_ns = min(at_ns for at_ns, _mark in begins)
        yield MarkRecord(
            first_ns - origin_ns, "stage", stage, sum(users), sum(rates) if rates else None
        )
        changes = sorted(
            (max(at_ns, first_ns), number, mark.users)
            for number, of_part in enumerate(marks)
            for at_ns, mark in of_part[1:]
        )
        for at_ns, number, count in changes:
            users[number] = count
            yield MarkRecord(at_ns - origin_ns, "users", stage, sum(users))
    yield MarkRecord(end_of_load_ns(parts), "end", stage)


def _stage_marks(part: Part) -> Iterator[list[tuple[int, MarkRecord]]]:
    """(wall clock, mark) of each stage: its beginning, then changes of its users."""
    marks = [
        (part.origin_ns + mark.at_ns, mark)
        for mark in part.run.marks
        if mark.name in ("stage", "users")
    ]
    begins = [at for at, (_ns, mark) in enumerate(marks) if mark.name == "stage"]
    for begin, end in zip(begins, [*begins[1:], len(marks)], strict=True):
        yield marks[begin:end]


def _footer(parts: Sequence[Part]) -> RunFooter:
    named = [(part, footer) for part in parts if (footer := part.run.footer)]
    footers = [footer for _part, footer in named]
    skipped: Counter[str] = Counter()
    for footer in footers:
        skipped.update(footer.skipped)
    sent = [footer.sent for footer in footers if footer.sent is not None]
    until_ns = max(part.origin_ns + round(f.run_seconds * SECOND_NS) for part, f in named)
    sums = {
        name: sum(getattr(footer, name) for footer in footers)
        for name in ("lost", "refused", "late", "left_behind", "left_unknown")
    }
    return RunFooter(
        ended_at=max(footer.ended_at for footer in footers),
        ended=min((footer.ended for footer in footers), key=_gravity),
        reason="; ".join(f"{part.name}: {f.reason}" for part, f in named if f.reason),
        run_seconds=(until_ns - _origin_ns(parts)) / SECOND_NS,
        skipped=skipped,
        workers_lost=tuple(chain.from_iterable(footer.workers_lost for footer in footers)),
        warnings=tuple(chain.from_iterable(footer.warnings for footer in footers)),
        sent=sum(sent) if len(sent) == len(footers) else None,
        **sums,
    )


def _gravity(ended: str) -> int:
    return _ENDINGS.index(ended) if ended in _ENDINGS else 0
