"""Header, workers, marks and footer of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from urllib.parse import urlsplit

from msgspec import Struct, structs

from ssbench.core.errors import UsageError
from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.operations import OPERATIONS, Operation, row_of, rows_of
from ssbench.core.records import (
    AddressRecord,
    Damage,
    EventRecord,
    MarkRecord,
    ProfileRecord,
    RunFooter,
    RunHeader,
    WorkerRecord,
)
from ssbench.core.scenario.checks import ValidationErrors
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.budget import Budget
from ssbench.core.stats.results import address_of
from ssbench.core.stats.selection import WHOLE, Selection
from ssbench.core.stats.windows import Span, joined, load_end_ns, spans_of
from ssbench.core.text import first_of, printable
from ssbench.core.units import preview

_NO_SCENARIO = Scenario.of_header({})
_NO_FOOTER = RunFooter(0.0, "", "", 0.0)
#: What follows from the records, until another is added.
_OF_MARKS = ("stages", "stage_users", "end_ns", "_pauses_ns", "spans", "stage_lengths_ns")


class StageUsers(Struct, frozen=True):
    """How many users a stage of the load had."""

    asked: int  #: when it began
    #: Seconds from the run phase's start, and how many users ran from then on; at least one.
    ran: tuple[tuple[float, int], ...]
    missing: int = 0  #: at most, of those that were asked for at that time
    most_asked: int = 0  #: at any time; more than ``asked`` on a ramp

    @property
    def least(self) -> int:
        """The fewest that ran at any time."""
        return min(users for _at_s, users in self.ran)

    @property
    def short(self) -> bool:
        """Whether fewer ran than were asked for, at least for some time."""
        return self.missing > 0


class RunRecords:
    """The records that a file has once per run, stage or worker."""

    def __init__(self, budget: Budget | None = None, chosen: Selection = WHOLE) -> None:
        self._budget = budget or Budget()
        self.chosen = chosen  #: the part of the run that its figures are of
        self.header: RunHeader | None = None
        self.footer: RunFooter | None = None
        self.scenario = _NO_SCENARIO
        self.workers: dict[int, WorkerRecord] = {}  #: by index
        self.addresses: dict[int, AddressRecord] = {}  #: by worker: of the run phase
        self.profiles: dict[int, ProfileRecord] = {}  #: by worker
        #: What is missing or unreadable, one line each; also added to by the reader.
        self.damage = Damage()
        #: Kinds of records that the budget had no room for, a line each. No result is missing.
        self.left_out: list[str] = []
        self.scenario_faults: list[str] = []  #: impossible values in the header's scenario
        self.unknown_records = 0  #: of types that only a newer release knows, which were skipped
        self.marks: list[MarkRecord] = []
        self.events: list[EventRecord] = []  #: that somebody marked
        #: By number: the rows of this process, replaced and completed by those of the header.
        self.operations: dict[int, Operation] = dict(OPERATIONS)

    @property
    def run_id(self) -> str:
        return self.header.run_id if self.header else ""

    def worker_id(self, index: int) -> str:
        """The worker's id; ``#7`` without its record."""
        worker = self.workers.get(index)
        return worker.worker_id if worker else f"#{index}"

    def endpoint(self, number: int) -> str:
        """The storage URL of this index in results; "" for a store that has no URLs."""
        header = self.header
        urls = header.store.get("urls") if header else None
        if isinstance(urls, list | tuple) and 0 <= number < len(urls):
            return str(urls[number])
        known = header and (urls or header.store or header.driver == "noop")
        return "" if known and not urls and not number else f"endpoint {number + 1}"

    def names_of(self, column: str, number: int) -> list[str]:
        """What names a number in a column of results: first as reports show it."""
        if column == "operation":
            row = row_of(number, self.operations)
            return [row.name, row.alias]
        if column == "size_class":
            sizes = self.scenario.sizes
            return [sizes[number].name if 0 <= number < len(sizes) else f"class {number}"]
        if column == "worker":
            worker = self.workers.get(number)
            return [self.worker_id(number), *([worker.host] if worker else [])]
        if column == "identity":
            return [self.identity(number)]
        if column == "address":
            name = self.address(number)
            return [name, name.rpartition(":")[0].strip("[]")]
        url = self.endpoint(number)
        try:
            parts = urlsplit(url)
        except ValueError:
            return [url]
        return [url, parts.netloc, parts.hostname or ""]

    @property
    def identities(self) -> list[str]:
        """The names of the identities among which the load was divided; []: it was not."""
        names = self.header.store.get("identities") if self.header else None
        return [str(name) for name in names] if isinstance(names, list | tuple) else []

    def identity(self, number: int) -> str:
        """The name of an identity by its number in results; "" where there are none."""
        names = self.identities
        known = 0 <= number < len(names)
        return names[number] if known else f"identity {number + 1}" if names else ""

    def address(self, number: int) -> str:
        """The address of the store of this number in results; "" for the only one of a name."""
        if not number:
            return ""
        worker, place = address_of(number)
        record = self.addresses.get(worker)
        known = record is not None and place <= len(record.names)
        return record.names[place - 1] if record and known else f"address {place} of #{worker}"

    def __repr__(self) -> str:
        return f"<RunRecords of {self.run_id or 'no run'}, {len(self.workers)} workers>"

    def add(
        self,
        record: RunHeader
        | WorkerRecord
        | MarkRecord
        | EventRecord
        | ProfileRecord
        | AddressRecord
        | RunFooter,
    ) -> None:
        for name in _OF_MARKS:
            vars(self).pop(name, None)
        if isinstance(record, RunHeader):
            self.header = record
            self.operations = rows_of(record.operations)
            faults = ValidationErrors("scenario", of_header=self.operations)
            self.scenario = Scenario.of_header(record.scenario, self.operations, faults)
            self.scenario_faults += faults.lines
        elif isinstance(record, WorkerRecord):
            if self._budget.keeps("workers", record.index):
                self.workers[record.index] = record
        elif isinstance(record, MarkRecord):
            self.marks.append(record)
        elif isinstance(record, EventRecord):
            if self._budget.keeps("marks", len(self.events)):
                self.events.append(record)
        elif isinstance(record, AddressRecord):
            if record.phase is Phase.RUN and self._budget.keeps("addresses", record.worker):
                self.addresses[record.worker] = record
        elif isinstance(record, ProfileRecord):
            if self._budget.keeps("profiles", record.worker):
                self.profiles[record.worker] = record
        else:
            self.footer = record

    @property
    def unrecorded(self) -> frozenset[str]:
        """What the file lacks by its version."""
        return self.header.unrecorded if self.header else frozenset()

    @property
    def no_store(self) -> bool:
        """Whether it was made with ``--noop``: no byte was moved, whatever its results say."""
        return self.header is not None and self.header.driver == "noop"

    @property
    def complete(self) -> bool:
        """False if the records end before the footer, or something of them is missing."""
        return self.header is not None and self.footer is not None and not self.damage

    @cached_property
    def stages(self) -> list[MarkRecord]:
        """The beginnings of the stages."""
        return [mark for mark in self.marks if mark.name == "stage"]

    @cached_property
    def stage_users(self) -> list[StageUsers]:
        """The users of each of these stages."""
        return list(self._stage_users())

    @property
    def users_ran(self) -> int | None:
        """The fewest users that ran at any time; None: unknown."""
        return min((users.least for users in self.stage_users), default=None)

    @property
    def short_of_users(self) -> bool:
        """Whether fewer users ran than a stage asked for."""
        return any(users.short for users in self.stage_users)

    def _stage_users(self) -> Iterator[StageUsers]:
        asked, most, missing, ran = 0, 0, 0, list[tuple[float, int]]()
        for mark in self.marks:
            if mark.name == "stage":
                if ran:
                    yield StageUsers(asked, tuple(ran), missing, most)
                asked, most, missing, ran = mark.users, mark.users, 0, []
            elif mark.name != "users" or not ran:
                continue
            at_s = mark.at_ns / SECOND_NS
            if ran and ran[-1][0] == at_s:
                ran.pop()
            ran.append((at_s, mark.users))
            wanted = asked if mark.asked is None else mark.asked
            most, missing = max(most, wanted), max(missing, wanted - mark.users)
        if ran:
            yield StageUsers(asked, tuple(ran), missing, most)

    @property
    def warmup_s(self) -> float:
        """What is excluded from the beginning of the load."""
        warmup = self.chosen.warmup_s
        return self.scenario.warmup if warmup is None else warmup

    @cached_property
    def end_ns(self) -> int | None:
        """End of the load, as an offset from the run phase's start; None: unknown."""
        return load_end_ns(self.scenario, self.marks)

    @cached_property
    def _pauses_ns(self) -> dict[int, int]:
        return {mark.stage: mark.at_ns for mark in self.marks if mark.name == "pause"}

    @cached_property
    def spans(self) -> list[Span]:
        """The part of each of these stages that counts."""
        begins = [mark.at_ns for mark in self.stages]
        if not begins:
            return []
        return spans_of(self.scenario, begins, self.end_ns, self.chosen, self._pauses_ns)

    @cached_property
    def stage_lengths_ns(self) -> list[int]:
        """How long each stage lasted, without waits behind it; [] where the end is unknown."""
        begins, end_ns = [mark.at_ns for mark in self.stages], self.end_ns
        ends = [] if end_ns is None else [*begins[1:], end_ns]
        return [
            max(min(end, self._pauses_ns.get(at, end)) - begin, 0)
            for at, (begin, end) in enumerate(zip(begins, ends, strict=False))
        ]

    def times_of(self, chosen: Selection, name: str, started_s: float) -> Selection:
        """The part with the times of the stage, or of the marks, that it names.

        :param name: of the run, for errors.
        :param started_s: when the run phase began, wall clock.
        :raises UsageError: the run has no such stage or mark, a line with those that it has.
        """
        if chosen.stage is not None:
            return self._times_of_stage(chosen, name)
        begin_s = started_s + (self.stages[0].at_ns / SECOND_NS if self.stages else 0.0)
        times = {}
        for event in sorted(self.events, key=lambda event: event.at_s, reverse=True):
            times[event.text] = max(round(event.at_s - begin_s, 3), 0.0)  # the first of a text
        for option, key, text in (
            ("--from", "from_s", chosen.from_mark),
            ("--to", "to_s", chosen.to_mark),
        ):
            if text is None:
                continue
            if text not in times:
                there = ", ".join(map(preview, reversed(times))) or "none"
                raise UsageError(
                    f"{name}: {option} {preview(text)}: no such mark; the run's marks: {there}"
                )
            chosen = structs.replace(chosen, **{key: times[text]})
        chosen.check()
        return chosen

    def _times_of_stage(self, chosen: Selection, name: str) -> Selection:
        names = [self.scenario.stage_name(at) for at in range(len(self.stages))]
        known = {each: at for at, each in reversed([*enumerate(names)])}
        known = {str(at + 1): at for at in range(len(names))} | known
        if chosen.stage not in known:
            there = ", ".join(map(printable, names)) or "none"
            raise UsageError(f"{name}: --stage {preview(chosen.stage)}: its stages are {there}")
        at, begins_ns = known[chosen.stage], [mark.at_ns for mark in self.stages]
        # The first stage begins with its first operation, and what began after the load's end
        # belongs to the last one: as in the report of all stages.
        is_only, is_last = len(begins_ns) == 1, at + 1 == len(begins_ns)
        end_ns = None if is_last else begins_ns[at + 1]
        if is_only:
            end_ns = self.end_ns
        paused_ns = self._pauses_ns.get(at)
        if paused_ns is not None:
            end_ns = paused_ns if end_ns is None else min(end_ns, paused_ns)
        from_s = (begins_ns[at] - begins_ns[0]) / SECOND_NS if at or is_only else None
        to_s = None if end_ns is None else (end_ns - begins_ns[0]) / SECOND_NS
        return structs.replace(chosen, from_s=from_s, to_s=to_s)

    @property
    def spans_s(self) -> list[tuple[float, float]]:
        """The parts that count, in seconds from the run phase's start."""
        if not self.spans:
            return [(0.0, math.inf)]
        return [(low / SECOND_NS, high / SECOND_NS) for low, high in joined(self.spans)]

    @property
    def ending(self) -> str:
        """How the run ended, by its footer; ``cut off`` without one, and ``damaged`` if other
        records are missing."""
        if self.footer is None:
            return "cut off"
        return self.footer.ended if self.complete else "damaged"

    @property
    def _ended(self) -> RunFooter:
        return self.footer or _NO_FOOTER

    @property
    def lost(self) -> int:
        """Operations lost with their worker."""
        return self._ended.lost

    @property
    def sent(self) -> int | None:
        """Operations sent in the run phase; None: unknown."""
        return self._ended.sent

    @property
    def late(self) -> int:
        """Operations that fell due and were never started."""
        return self._ended.late

    @property
    def refused(self) -> int:
        """Result messages that were stale or malformed."""
        return self._ended.refused

    @property
    def left_behind(self) -> int:
        """Objects of the run that are known to be in the store still."""
        return 0 if self.no_store else self._ended.left_behind - self._ended.left_unknown

    @property
    def left_unknown(self) -> int:
        """Further objects that may be in the store."""
        return 0 if self.no_store else self._ended.left_unknown

    @property
    def skipped(self) -> dict[str, int]:
        """Operations that found no object, by name."""
        return dict(sorted(self._ended.skipped.items()))

    @property
    def skipped_count(self) -> int:
        """All operations that found no object."""
        return sum(self._ended.skipped.values())

    @property
    def warnings(self) -> list[str]:
        """Warnings shown during the run, and one on records that were skipped."""
        found = list(self._ended.warnings)
        if self.scenario_faults:
            found.append(f"impossible values in the header: {first_of(self.scenario_faults, 3)}")
        if self.unknown_records:
            found.append(
                f"records of a newer release of ssbench were skipped: {self.unknown_records:,}"
            )
        return found

    @property
    def workers_lost(self) -> list[str]:
        return list(self._ended.workers_lost)
