"""The orphaned objects of an aborted run, as its stat file shows them.

The results say which objects the run created and did not delete. Memory is a few bytes for each
result of the file, of a replay's more, whatever numbers a damaged or crafted file has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any

from ssbench import statfile
from ssbench.core.errors import MessageError, UsageError
from ssbench.core.model import Phase
from ssbench.core.naming import (
    HashedNaming,
    ObjectNaming,
    container_name,
    container_parts,
    is_run_id,
    without_segment,
)
from ssbench.core.operations import OPERATIONS, Effect, Operation, Target, rows_of
from ssbench.core.records import HostRecord, PhaseRecord, ResultBatch, RunHeader
from ssbench.core.retry import leaves_unknown
from ssbench.core.scenario.checks import ValidationErrors
from ssbench.core.scenario.scenario import Scenario
from ssbench.storage.base import OpenUpload

NOOP = "noop"  #: the driver of --noop
_INSTEAD = "cleanup-containers -b BASE deletes whole containers"

#: Flags of an object: created by the run, deleted by the run, present in a listing.
_CREATED, _DELETED, _LISTED = 1, 2, 4
_PAGE_BITS = 10
#: A run numbers its objects without gaps, so marks take at most so many bytes for each result, and
#: so many to start with. Results beyond that are ignored.
_BYTES_PER_RESULT = 4
_BYTES_TO_START = 1 << 20
_HIGHEST = (1 << 32) - 1
#: Seconds in which workers may still begin uploads after the last record of the stat file.
WORKERS_END_S = 60
_HIGHEST_HASH = (1 << 53) - 1
#: Columns of results that show what happened to an object.
_RESULT_COLUMNS = ("operation", "size_class", "object", "error", "unknown")


class OrphanedObjects:
    """The objects that a run may have left: one byte for each number in the results.

    The bytes are in pages, so that a number from a damaged file takes one page. The number of pages
    is limited by the number of results.

    :param operations: the rows of the run's operations.
    :param period: Unix times between which the run may have begun uploads, but for those of workers
        that have not noticed its end; (0, 0): not known.
    """

    def __init__(
        self,
        scenario: Scenario,
        run_id: str,
        operations: Mapping[int, Operation] = OPERATIONS,
        driver: str = "",
        period: tuple[float, float] = (0, 0),
    ) -> None:
        self.run_id, self.driver, self.period = run_id, driver, period
        self._operations = operations
        self.base, self.policy = scenario.container_base, scenario.policy
        self.container_count = scenario.container_count
        self.naming: ObjectNaming | HashedNaming = ObjectNaming(
            scenario.sizes, run_id, scenario.container_count, scenario.key_names
        )
        self.classes = len(scenario.sizes)
        self.in_parts = scenario.large_object is not None
        self.ignored_results = 0  #: results with numbers that no run assigns
        self._initial = [size.initial_files for size in scenario.sizes]
        self._pages: list[dict[int, bytearray]] = [{} for _ in scenario.sizes]
        self._held = 0  #: bytes of all pages
        self._results = 0

    def __repr__(self) -> str:
        return f"<OrphanedObjects of {self.run_id}: {sum(1 for _ in self.unlisted())}>"

    def add(self, batch: ResultBatch) -> None:
        self._results += batch.count
        # Only operations on several objects have these, so most batches need no lists of them.
        lists = [
            batch.column(name) if name in batch.columns else repeat((), batch.count)
            for name in ("others", "statuses")
        ]
        for operation, size_class, number, error, unknown, others, statuses in zip(
            *map(batch.column, _RESULT_COLUMNS), *lists, strict=True
        ):
            row = self._operations.get(operation)
            if row is None or row.target is Target.CONTAINER:
                continue
            seen = _DELETED if row.effect is Effect.REMOVES else _CREATED
            # A mutation without a known outcome may have happened, but for one that deletes.
            mark = seen if not error else _CREATED if unknown else 0
            if len(statuses) != 1 + len(others):
                statuses = repeat(None)
            for each, status in zip((number, *others), statuses, strict=False):
                if error and status is not None:
                    unknown = status // 100 != 2 and leaves_unknown(status)
                    mark = _CREATED if unknown else seen if 200 <= status < 300 else 0
                if mark:
                    self._mark(size_class, each, mark)

    def listed(self, size_class: int, container: str, name: str) -> bool:
        """Note that a container lists this name; whether it is an object of the run, or a segment
        of one, in its place.

        Such an object is not ``unlisted`` any more."""
        number = self.naming.created_number(size_class, name)
        if number is None and self.in_parts:
            owner = self.naming.created_number(size_class, without_segment(name))
            return owner is not None and self.container(size_class, owner) == container
        if number is None or self.container(size_class, number) != container:
            return False
        page = self._pages[size_class].get(number >> _PAGE_BITS)
        if page is not None:
            page[number & ((1 << _PAGE_BITS) - 1)] |= _LISTED
        return True

    def has_upload(self, container: str, upload: OpenUpload) -> bool:
        """Whether an open upload is of an object of the run, in its place: of one that it created,
        or of an initial one if the upload began during the run (an ENSURE or UPDATE)."""
        first, last = self.period[0] // 1, self.period[1] + WORKERS_END_S  # stores state seconds
        for size_class, initial in enumerate(self._initial):
            number = self.naming.number(size_class, upload.name)
            if number is not None and self.container(size_class, number) == container:
                return number >= initial or 0 < first <= upload.begun_at <= last
        return False

    def container(self, size_class: int, number: int) -> str:
        index = self.naming.container_index(size_class, number)
        return container_name(self.base, index, self.policy)

    def is_container(self, name: str) -> bool:
        """Whether the run has a container of this name."""
        parts = container_parts(name, self.base)
        return parts is not None and parts[0] < self.container_count and parts[1] == self.policy

    def container_names(self) -> Iterator[str]:
        return (
            container_name(self.base, index, self.policy) for index in range(self.container_count)
        )

    def unlisted(self) -> Iterator[tuple[int, int]]:
        """Size class and number of each object that remains by the results, in no listing."""
        for size_class, marked in enumerate(self._pages):
            for index in sorted(marked):
                for at, marks in enumerate(marked[index], index << _PAGE_BITS):
                    if marks == _CREATED:
                        yield size_class, at

    def _mark(self, size_class: int, number: int, mark: int) -> None:
        if not 0 <= size_class < self.classes:
            return
        if not self._initial[size_class] <= number <= _HIGHEST:
            return
        marked, index = self._pages[size_class], number >> _PAGE_BITS
        page = marked.get(index)
        if page is None:
            if self._held >= _BYTES_TO_START + _BYTES_PER_RESULT * self._results:
                self.ignored_results += 1
                return
            self._held += 1 << _PAGE_BITS
            page = marked[index] = bytearray(1 << _PAGE_BITS)
        page[number & ((1 << _PAGE_BITS) - 1)] |= mark


class OrphanedReplay(OrphanedObjects):
    """The same of a replay, whose numbers are hashes, so a number takes about 100 bytes. Objects
    that were prepared for it stay."""

    def __init__(self, scenario: Scenario, *args: Any) -> None:
        super().__init__(scenario, *args)
        self.naming = HashedNaming([*self.container_names()])
        self._marks: dict[int, int] = {}  #: by number
        self._prepared: set[int] = set()  #: numbers

    def add(self, batch: ResultBatch) -> None:
        if batch.phase is Phase.POPULATE:
            self._prepared.update(batch.column("object"))
        else:
            super().add(batch)

    def listed(self, size_class: int, container: str, name: str) -> bool:
        number = self.naming.created_number(size_class, name)
        if number is None or self.container(size_class, number) != container:
            return False
        if number in self._marks:
            self._marks[number] |= _LISTED
        return number not in self._prepared

    def unlisted(self) -> Iterator[tuple[int, int]]:
        for number, marks in self._marks.items():
            if marks == _CREATED and number not in self._prepared:
                yield 0, number

    def _mark(self, size_class: int, number: int, mark: int) -> None:
        if 0 <= number <= _HIGHEST_HASH:
            self._marks[number] = self._marks.get(number, 0) | mark


#: ``kind`` of a run's names -> what it may have left.
KINDS: dict[str, type[OrphanedObjects]] = {"run": OrphanedObjects, "hashed": OrphanedReplay}


def read_orphans(path: str, tell: Callable[[str], None]) -> OrphanedObjects:
    """The objects that the run of a stat file may have left.

    :param tell: called with each line on what is wrong with the file.
    :raises UsageError: the file does not say which objects these are.
    :raises StatFileError: it is not a stat file.
    """
    path = statfile.existing_path(path)
    if path != "-" and statfile.is_being_written(path):
        raise UsageError(
            f"{path}: its run is still in progress; Ctrl-C there ends it and cleans up"
        )
    with statfile.read(path) as reader:
        orphans = orphans_of(reader)
        for line in reader.damage:
            tell(f"{path}: {line}")
    if orphans.ignored_results:
        tell(f"{path}: {orphans.ignored_results:,} results name objects that no run creates")
    return orphans


def orphans_of(reader: statfile.StatFileReader) -> OrphanedObjects:
    """The objects that the run of an open stat file may have left.

    :raises UsageError, StatFileError: as ``read_orphans``.
    """
    path, orphans = reader.name, None
    phase_at = last_at = 0.0
    for record in reader:
        if isinstance(record, RunHeader):
            orphans = _orphans_of_run(path, record)
        elif orphans is None:
            continue
        elif isinstance(record, ResultBatch):
            try:
                orphans.add(record)
            except MessageError as error:
                reader.add_damage(f"a record is malformed: {error}")
        elif isinstance(record, PhaseRecord):
            phase_at = last_at = record.started_at
        elif isinstance(record, HostRecord):  # there is one each second
            last_at = phase_at + record.at_s
    if orphans is None:
        raise UsageError(
            f"{path}: the run's header is lost, and with it the names of its objects; {_INSTEAD}"
        )
    orphans.period = (orphans.period[0], last_at)
    return orphans


def _orphans_of_run(path: str, header: RunHeader) -> OrphanedObjects:
    if "containers" in header.unrecorded:
        raise UsageError(
            f"{path}: objects of ssbench 0.3.9 carry no run ID, so it is unknown which are"
            f" this run's; {_INSTEAD}"
        )
    if header.driver == NOOP:
        raise UsageError(f"{path}: its run sent nothing to a store (--noop), so it left nothing")
    if not is_run_id(header.run_id):
        raise UsageError(f"{path}: its run has no ID by which to find its objects; {_INSTEAD}")
    kind = KINDS.get(header.names.get("kind", "run"))
    if kind is None:
        raise UsageError(
            f"{path}: its run used names without its ID (bench, upload, --existing), so its objects"
            ' cannot be recognized; delete those of bench with "bench delete"'
        )
    known = rows_of(header.operations)
    faults = ValidationErrors(path, of_header=known)
    scenario = Scenario.of_header(header.scenario, known, faults)
    if faults or not scenario.sizes:
        wrong = faults.lines[0] if faults else f"{path}: no sizes"
        raise UsageError(f"the scenario in its header can't be used: {wrong}")
    period = (header.started_at, 0.0)
    return kind(scenario, header.run_id, known, header.driver, period)
