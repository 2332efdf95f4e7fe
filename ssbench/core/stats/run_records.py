"""Header, workers, marks and footer of a run, or of several."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

from msgspec import Struct

from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.operations import OPERATIONS, Operation, row_of, rows_of
from ssbench.core.records import (
    AddressRecord,
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
from ssbench.core.text import first_of

_MOST_DAMAGE = 100  #: lines
_NO_SCENARIO = Scenario.of_header({})


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


class _Load(Struct, frozen=True):
    """What the marks of a run say of its load."""

    stages: list[MarkRecord]  #: their beginnings
    users: list[StageUsers]  #: of each
    spans: list[Span]  #: the part of each that counts
    lengths_ns: list[int]  #: of each; [] where the end is unknown
    end_ns: int | None  #: None: unknown


class RunRecords:
    """The records that a file has once per run, stage or worker."""

    def __init__(self, budget: Budget | None = None, chosen: Selection = WHOLE) -> None:
        self._budget = budget or Budget()
        self.chosen = chosen  #: the part of the run that its figures are of
        self.run_id = ""  #: of the newest header; later records belong to it
        self.headers: dict[str, RunHeader] = {}  #: by run id
        self.footers: dict[str, RunFooter] = {}  #: by run id
        self.workers: dict[tuple[str, int], WorkerRecord] = {}  #: by run id and index
        #: By run id and worker: of the run phase.
        self.addresses: dict[tuple[str, int], AddressRecord] = {}
        self.profiles: dict[tuple[str, int], ProfileRecord] = {}  #: by run id and worker
        #: What is missing or unreadable, one line each; also added to by the reader.
        self.damage: list[str] = []
        #: Kinds of records that the budget had no room for, a line each. No result is missing.
        self.left_out: list[str] = []
        self.scenario_faults: list[str] = []  #: impossible values in the headers' scenarios
        self.unknown_records = 0  #: of types that only a newer release knows, which were skipped
        self.marks: dict[str, list[MarkRecord]] = {}  #: by run id
        self.events: list[EventRecord] = []  #: that somebody marked
        #: By number: the rows of this process, replaced and completed by those of the headers.
        self.operations: dict[int, Operation] = dict(OPERATIONS)
        self._scenarios: dict[str, Scenario] = {}
        self._loads: dict[str, _Load] = {}  # by run id, until a record is added

    def worker_id(self, run_id: str, index: int) -> str:
        """The worker's id; ``#7`` without its record."""
        worker = self.workers.get((run_id, index))
        return worker.worker_id if worker else f"#{index}"

    def endpoint(self, run_id: str, number: int) -> str:
        """The storage URL of this index in results; "" for a store that has no URLs."""
        header = self.headers.get(run_id)
        urls = header.store.get("urls") if header else None
        if isinstance(urls, list | tuple) and 0 <= number < len(urls):
            return str(urls[number])
        known = header and (urls or header.store or header.driver == "noop")
        return "" if known and not urls and not number else f"endpoint {number + 1}"

    def names_of(self, column: str, number: int) -> list[str]:
        """What names a number in a column of results of this run: first as reports show it."""
        if column == "operation":
            row = row_of(number, self.operations)
            return [row.name, row.alias]
        if column == "size_class":
            sizes = self.scenario.sizes
            return [sizes[number].name if 0 <= number < len(sizes) else f"class {number}"]
        if column == "worker":
            worker = self.workers.get((self.run_id, number))
            return [self.worker_id(self.run_id, number), *([worker.host] if worker else [])]
        if column == "address":
            name = self.address(self.run_id, number)
            return [name, name.rpartition(":")[0].strip("[]")]
        url = self.endpoint(self.run_id, number)
        try:
            parts = urlsplit(url)
        except ValueError:
            return [url]
        return [url, parts.netloc, parts.hostname or ""]

    def address(self, run_id: str, number: int) -> str:
        """The address of the store of this number in results; "" for the only one of a name."""
        if not number:
            return ""
        worker, place = address_of(number)
        record = self.addresses.get((run_id, worker))
        known = record is not None and place <= len(record.names)
        return record.names[place - 1] if record and known else f"address {place} of #{worker}"

    def __repr__(self) -> str:
        return f"<RunRecords {len(self.headers)} runs, {len(self.workers)} workers>"

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
        self._loads.clear()
        if isinstance(record, RunHeader):
            self.run_id = record.run_id
            self.headers[record.run_id] = record
            self.operations = rows_of(
                entry for header in self.headers.values() for entry in header.operations
            )
            faults = ValidationErrors("scenario", of_header=self.operations)
            scenario = Scenario.of_header(record.scenario, self.operations, faults)
            self._scenarios[record.run_id] = scenario
            self.scenario_faults += faults.lines
        elif isinstance(record, WorkerRecord):
            if self._budget.keeps("workers", (self.run_id, record.index)):
                self.workers[self.run_id, record.index] = record
        elif isinstance(record, MarkRecord):
            self.marks.setdefault(self.run_id, []).append(record)
        elif isinstance(record, EventRecord):
            if self._budget.keeps("marks", (self.run_id, len(self.events))):
                self.events.append(record)
        elif isinstance(record, AddressRecord):
            kept = record.phase is Phase.RUN
            if kept and self._budget.keeps("addresses", (self.run_id, record.worker)):
                self.addresses[self.run_id, record.worker] = record
        elif isinstance(record, ProfileRecord):
            if self._budget.keeps("profiles", (self.run_id, record.worker)):
                self.profiles[self.run_id, record.worker] = record
        else:
            self.footers[self.run_id] = record

    def add_damage(self, fault: str) -> None:
        """Note a fault of the file in one line; only the first 100 are kept."""
        if len(self.damage) < _MOST_DAMAGE:
            self.damage.append(fault)
        elif len(self.damage) == _MOST_DAMAGE:
            self.damage.append("and more")

    @property
    def header(self) -> RunHeader | None:
        """Of the run that began first; None if there is none."""
        return min(self.headers.values(), key=lambda header: header.started_at, default=None)

    @property
    def footer(self) -> RunFooter | None:
        """Of the run that ended last; None if none has one."""
        return max(self.footers.values(), key=lambda footer: footer.ended_at, default=None)

    @property
    def unrecorded(self) -> frozenset[str]:
        """What the file lacks by its version."""
        return self.header.unrecorded if self.header else frozenset()

    @property
    def no_store(self) -> bool:
        """Whether a run was made with ``--noop``: no byte was moved, whatever its results say."""
        return any(header.driver == "noop" for header in self.headers.values())

    @property
    def complete(self) -> bool:
        """False if a run's records end before its footer, or something of them is missing."""
        return bool(self.headers) and not self.damage and self.headers.keys() <= self.footers.keys()

    @property
    def scenario(self) -> Scenario:
        """The scenario of the run that began first."""
        header = self.header
        return self._scenarios[header.run_id] if header else _NO_SCENARIO

    def scenario_of(self, run_id: str) -> Scenario:
        """The scenario of one of the runs."""
        return self._scenarios.get(run_id, _NO_SCENARIO)

    @property
    def stages(self) -> list[MarkRecord]:
        """The beginnings of the stages of the first run."""
        return self._load().stages

    @property
    def stage_users(self) -> list[StageUsers]:
        """The users of each of these stages."""
        return self._load().users

    @property
    def users_ran(self) -> int | None:
        """The fewest users that ran at any time; None: unknown."""
        return min((users.least for users in self.stage_users), default=None)

    @property
    def short_of_users(self) -> bool:
        """Whether fewer users ran than a stage asked for."""
        return any(users.short for users in self.stage_users)

    def _stage_users(self, run_id: str) -> Iterator[StageUsers]:
        asked, most, missing, ran = 0, 0, 0, list[tuple[float, int]]()
        for mark in self.marks.get(run_id, []):
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

    @property
    def end_ns(self) -> int | None:
        """End of the load, as an offset from the run phase's start; None: unknown."""
        return self._load().end_ns

    @property
    def spans(self) -> list[Span]:
        """The part of each of these stages that counts."""
        return self._load().spans

    @property
    def stage_lengths_ns(self) -> list[int]:
        """How long each stage lasted, without waits behind it; [] where the end is unknown."""
        return self._load().lengths_ns

    def spans_s(self, run_id: str) -> list[tuple[float, float]]:
        """The parts of a run that count, in seconds from the run phase's start."""
        parts = self._load(run_id).spans
        if not parts:
            return [(0.0, math.inf)]
        return [(low / SECOND_NS, high / SECOND_NS) for low, high in joined(parts)]

    def _load(self, run_id: str | None = None) -> _Load:
        """Of this run; None: of the one that began first."""
        if run_id is None:
            run_id = self.header.run_id if self.header else ""
        if run_id not in self._loads:
            marks, scenario = self.marks.get(run_id, []), self.scenario_of(run_id)
            stages = [mark for mark in marks if mark.name == "stage"]
            begins, end_ns = [mark.at_ns for mark in stages], load_end_ns(scenario, marks)
            pauses = {mark.stage: mark.at_ns for mark in marks if mark.name == "pause"}
            spans = spans_of(scenario, begins, end_ns, self.chosen, pauses) if begins else []
            users = list(self._stage_users(run_id))
            ends = [] if end_ns is None else [*begins[1:], end_ns]
            lengths = [
                max(min(end, pauses.get(at, end)) - begin, 0)
                for at, (begin, end) in enumerate(zip(begins, ends, strict=False))
            ]
            self._loads[run_id] = _Load(stages, users, spans, lengths, end_ns)
        return self._loads[run_id]

    @property
    def ending(self) -> str:
        """How the run ended, by its footer; ``cut off`` if records are missing."""
        return self.footer.ended if self.footer and self.complete else "cut off"

    @property
    def lost(self) -> int:
        """Operations lost with their worker."""
        return sum(footer.lost for footer in self.footers.values())

    @property
    def sent(self) -> int | None:
        """Operations sent in the run phase; None if unknown for one of the runs."""
        counts = [self.footers[run].sent if run in self.footers else None for run in self.headers]
        known = [count for count in counts if count is not None]
        return sum(known) if known and len(known) == len(counts) else None

    @property
    def late(self) -> int:
        """Operations that fell due and were never started."""
        return sum(footer.late for footer in self.footers.values())

    @property
    def refused(self) -> int:
        """Result messages that were stale or malformed."""
        return sum(footer.refused for footer in self.footers.values())

    @property
    def left_behind(self) -> int:
        """Objects of the runs that are known to be in the store still."""
        if self.no_store:
            return 0
        return sum(f.left_behind - f.left_unknown for f in self.footers.values())

    @property
    def left_unknown(self) -> int:
        """Further objects that may be in the store."""
        return 0 if self.no_store else sum(f.left_unknown for f in self.footers.values())

    @property
    def skipped(self) -> dict[str, int]:
        """Operations that found no object, by name."""
        total: Counter[str] = Counter()
        for footer in self.footers.values():
            total.update(footer.skipped)
        return dict(sorted(total.items()))

    @property
    def skipped_count(self) -> int:
        """All operations that found no object."""
        return sum(self.skipped.values())

    @property
    def warnings(self) -> list[str]:
        """Warnings shown during the run, and one on records that were skipped."""
        found = [text for footer in self.footers.values() for text in footer.warnings]
        if self.scenario_faults:
            found.append(f"impossible values in the header: {first_of(self.scenario_faults, 3)}")
        if self.unknown_records:
            found.append(
                f"records of a newer release of ssbench were skipped: {self.unknown_records:,}"
            )
        return found

    @property
    def workers_lost(self) -> list[str]:
        return [worker for footer in self.footers.values() for worker in footer.workers_lost]
