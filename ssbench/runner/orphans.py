"""Finds and deletes the orphaned objects of an aborted run, by its results and the listings.

The results in its stat file say which objects the run created and did not delete. Memory is a few
bytes for each result of the file, of a replay's more, whatever numbers a damaged file has.

Results of the run's last moments may be missing, so its containers are also searched for names with
its ID. The stat file may have been crafted to delete other objects. Therefore an object is deleted
only if three things agree: its exact name and container (core.naming), our mark on the container,
and the run's ID on the object, which a HEAD shows just before the DELETE. Listed names are not
kept.

Open uploads of objects in parts have no metadata to look at, nor have delete markers: for these,
and for versions, name, container and mark must agree. In containers without a mark they stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat
from typing import Any

from msgspec import Struct, field

from ssbench import statfile
from ssbench.core.columns import unpack_lengths
from ssbench.core.errors import MessageError, StorageError, UsageError
from ssbench.core.model import Phase
from ssbench.core.naming import (
    HashedNaming,
    ObjectNaming,
    container_parts,
    is_run_id,
    why_not_ours,
    without_segment,
)
from ssbench.core.operations import OPERATIONS, Effect, Operation, Target, rows_of
from ssbench.core.records import HostRecord, PhaseRecord, ResultBatch, RunHeader
from ssbench.core.retry import leaves_unknown
from ssbench.core.scenario.checks import ValidationErrors
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.values import container_name
from ssbench.core.text import plural, printable
from ssbench.runner.containers import (
    CleanupResult,
    Deletions,
    KeptContainers,
    Work,
    for_each,
    keeping_versions,
    list_containers,
    list_objects,
    open_uploads,
)
from ssbench.storage.base import (
    ListedVersion,
    OpenUpload,
    UploadAdmin,
    VersionAdmin,
    all_versions,
)
from ssbench.storage.retrying_client import RetryingClient

NOOP = "noop"  #: the driver of --noop
DELETES_ALL = "cleanup-containers -b BASE deletes whole containers"

#: Flags of an object: created by the run, deleted by the run, present in a listing.
_CREATED, _DELETED, _LISTED = 1, 2, 4
_PAGE_BITS = 10
#: Marks take at most this many bytes to start with, and ``bytes_per_result`` for each result.
_BYTES_TO_START = 1 << 20
_HIGHEST = (1 << 32) - 1
#: Seconds in which workers may still begin uploads after the last record of the stat file.
WORKERS_END_S = 60
_HIGHEST_HASH = (1 << 53) - 1
#: Columns of results that show what happened to an object.
_RESULT_COLUMNS = ("operation", "size_class", "object", "error", "unknown")


class OrphanedObjects:
    """The objects that a run may have left: one byte for each number in the results.

    The bytes are in pages, so that a number from a damaged file takes one page. What all take is
    limited by the number of results: one may name any number of objects. Marks beyond it are
    ignored.

    :param operations: the rows of the run's operations.
    :param period: Unix times between which the run may have begun uploads, but for those of workers
        that have not noticed its end; (0, 0): not known.
    """

    #: A run numbers its objects without gaps.
    bytes_per_result = 4

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
        self.identities: tuple[str, ...] = ()  #: names of those that own the containers
        self.identity = 0  #: place of the one whose containers are looked at
        self._initial = [size.initial_files for size in scenario.sizes]
        self._pages: list[dict[int, bytearray]] = [{} for _ in scenario.sizes]
        self._held = 0  #: bytes of all marks
        self._results = 0

    def __repr__(self) -> str:
        return f"<OrphanedObjects of {self.run_id}: {sum(1 for _ in self.unlisted())}>"

    def add(self, batch: ResultBatch) -> None:
        self._results += batch.count
        # Only operations on several objects have these, so most batches need no lists of them.
        others_of: Iterable[Sequence[int]] = repeat((), batch.count)
        statuses_of: Iterable[Sequence[int]] = repeat((), batch.count)
        objects = batch.count
        if "others" in batch.columns:
            others_of = batch.column("others")
            objects += sum(map(len, others_of))
        if "statuses" in batch.columns:
            if sum(unpack_lengths(batch.columns["statuses"], batch.count)) > objects:
                raise MessageError("results of more statuses than objects")
            statuses_of = batch.column("statuses")
        for operation, size_class, number, error, unknown, others, statuses in zip(
            *map(batch.column, _RESULT_COLUMNS), others_of, statuses_of, strict=True
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

    def is_created(self, container: str, name: str) -> bool | None:
        """Whether the run created the object of this name, or segment of one, in its place; False:
        it is an initial one; None: of others."""
        if self.in_parts:
            name = without_segment(name)
        for size_class, initial in enumerate(self._initial):
            number = self.naming.number(size_class, name)
            if number is not None and self.container(size_class, number) == container:
                return number >= initial
        return None

    def container(self, size_class: int, number: int) -> str:
        index = self.naming.container_index(size_class, number)
        return container_name(self.base, index, self.policy)

    def is_container(self, name: str) -> bool:
        """Whether the run has a container of this name."""
        parts = container_parts(name, self.base)
        return parts is not None and parts[0] in self._indexes and parts[1] == self.policy

    def container_names(self) -> Iterator[str]:
        return (container_name(self.base, index, self.policy) for index in self._indexes)

    @property
    def _indexes(self) -> range:
        """Of the containers of the identity."""
        return range(self.identity, self.container_count, len(self.identities) or 1)

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
            if not self._takes(1 << _PAGE_BITS):
                return
            page = marked[index] = bytearray(1 << _PAGE_BITS)
        page[number & ((1 << _PAGE_BITS) - 1)] |= mark

    def _takes(self, size: int) -> bool:
        """Whether marks may take so many bytes more, which are counted."""
        if self._held >= _BYTES_TO_START + self.bytes_per_result * self._results:
            self.ignored_results += 1
            return False
        self._held += size
        return True


class OrphanedReplay(OrphanedObjects):
    """The same of a replay, whose numbers are hashes, so each takes ``bytes_per_result``. Objects
    that were prepared for it stay."""

    bytes_per_result = 100

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

    def is_created(self, container: str, name: str) -> bool | None:
        number = self.naming.number(0, name)
        if number is None or self.container(0, number) != container:
            return None
        return number not in self._prepared

    def unlisted(self) -> Iterator[tuple[int, int]]:
        for number, marks in self._marks.items():
            if marks == _CREATED and number not in self._prepared:
                yield 0, number

    def _mark(self, size_class: int, number: int, mark: int) -> None:
        if not 0 <= number <= _HIGHEST_HASH or number in self._prepared:
            return
        if number in self._marks or self._takes(self.bytes_per_result):
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
                reader.damage.note(f"a record is malformed: {error}")
        elif isinstance(record, PhaseRecord):
            phase_at = last_at = record.started_at
        elif isinstance(record, HostRecord):  # there is one each second
            last_at = phase_at + record.at_s
    if orphans is None:
        raise UsageError(
            f"{path}: the run's header is lost, and with it the names of its objects; {DELETES_ALL}"
        )
    orphans.period = (orphans.period[0], last_at)
    return orphans


def _orphans_of_run(path: str, header: RunHeader) -> OrphanedObjects:
    if "containers" in header.unrecorded:
        raise UsageError(
            f"{path}: objects of ssbench 0.3.9 carry no run ID, so it is unknown which are"
            f" this run's; {DELETES_ALL}"
        )
    if header.driver == NOOP:
        raise UsageError(f"{path}: its run sent nothing to a store (--noop), so it left nothing")
    if not is_run_id(header.run_id):
        raise UsageError(f"{path}: its run has no ID by which to find its objects; {DELETES_ALL}")
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
    orphans = kind(scenario, header.run_id, known, header.driver, period)
    names = header.store.get("identities")
    orphans.identities = tuple(map(str, names)) if isinstance(names, list | tuple) else ()
    return orphans


class SearchResult(Struct):
    """The containers and objects of the run that were found."""

    #: The run's containers that exist -> number of the run's names that each lists.
    containers: dict[str, int] = {}
    marked: set[str] = set()  #: those of these that carry our mark
    unlisted: int = 0  #: objects in these that only the results name
    uploads: int = 0  #: open uploads of objects in parts in these that are marked
    versioned: list[str] = []  #: those of these that are marked and keep versions
    versions: int = 0  #: of the run's objects in these, but those that are there
    unproven: int = 0  #: open uploads and versions named as the run's, in containers without a mark
    #: Containers that are left alone, because they carry no mark.
    unmarked: KeptContainers = field(default_factory=KeptContainers)

    @property
    def listed(self) -> int:
        """Number of objects in listings."""
        return sum(self.containers.values())

    @property
    def objects(self) -> int:
        """Number of all objects."""
        return self.listed + self.unlisted

    @property
    def total(self) -> int:
        """Number of all objects, uploads and versions."""
        return self.objects + self.uploads + self.versions


def find_orphaned(
    client: RetryingClient,
    orphans: OrphanedObjects,
    show: Callable[[str], None] = lambda text: None,
    *,
    use_existing: bool = False,
) -> SearchResult:
    """Search the run's containers, and note in ``orphans`` what they list. Ends early once the
    client is stopping.

    :param show: called with what is done, after each page.
    :param use_existing: also search containers without our mark.
    :raises SsbenchError: a container can't be listed.
    """
    found = SearchResult()

    def has_mark(container: str) -> bool:
        try:
            return client.call(client.storage.owns, container)
        except StorageError as error:
            if error.status != 403 or not use_existing:
                raise
            return False

    def search(container: str) -> None:
        try:
            marked = has_mark(container)
            chosen = marked or use_existing
            reason = why_not_ours(container, orphans.base, orphans.policy, (), lambda: chosen)
            if not chosen or reason is not None or client.stopping():
                found.unmarked.add(container)
                return
            listed = 0
            for page in _listed(client, orphans, container):
                listed += len(page)
                show(f"Listing {printable(container)}: {plural(listed, 'object')} of the run")
            uploads = open_uploads(client, container) if orphans.in_parts else ()
            named = sum(orphans.has_upload(container, each) for each in uploads)
            found.containers[container] = listed
            if marked:
                found.uploads += named
                found.marked.add(container)
            else:
                found.unproven += named
        except StorageError as error:
            if error.status != 404:  # 404: it does not exist, or no longer
                raise

    for_each(client, search, _containers_there(client, orphans))
    show("")
    _count_versions(client, orphans, found)
    found.unlisted = sum(1 for _ in _unlisted(orphans, found))
    return found


def _count_versions(client: RetryingClient, orphans: OrphanedObjects, found: SearchResult) -> None:
    """Add the versions that the run may have left in the containers that were found."""
    storage = client.storage
    for container in keeping_versions(client, [*found.containers]):
        assert isinstance(storage, VersionAdmin)  # nosec B101 # it said that these keep some
        marked = container in found.marked
        is_own = own_versions(orphans, container, marked=marked, spares=False)
        pages = all_versions(
            partial(storage.list_versions, container), container, client.listed_max
        )
        named = sum(is_own(each) for page in pages for each in page)
        if marked:
            found.versions += named
            found.versioned.append(container)
        else:
            found.unproven += named


def own_versions(
    orphans: OrphanedObjects, container: str, *, marked: bool, spares: bool = True
) -> Callable[[ListedVersion], bool]:
    """Tells which versions and delete markers of a container a clean-up deletes for good: all of
    objects that the run created and of its initial objects, if these are gone, and older ones of
    initial objects that are there. Those of initial objects only if the container has our mark.

    :param marked: whether it has.
    :param spares: False: also older ones of objects that are there.
    """
    there = ""

    def is_own(version: ListedVersion) -> bool:
        nonlocal there
        created = orphans.is_created(container, version.name)
        if version.is_newest and not version.is_marker:
            there = version.name  # its older versions follow
            return False
        if created:
            return not spares or version.name != there
        return created is False and marked

    return is_own


def delete_run_versions(
    client: RetryingClient, orphans: OrphanedObjects, containers: Sequence[str]
) -> CleanupResult:
    """Delete the versions of a run, whose objects were deleted before. Ends, and fails, as
    ``cleanup.delete`` does."""
    deletions = Deletions(client, lambda: None)

    def clean(container: str) -> None:
        marked = client.call(client.storage.owns, container)
        deletions.delete_versions(container, own_versions(orphans, container, marked=marked))

    deletions.run(containers, clean)
    return deletions.result


def abort_orphaned_uploads(client: RetryingClient, orphans: OrphanedObjects) -> CleanupResult:
    """Abort the run's open uploads of objects in parts, in all its containers. Ends, and fails, as
    ``cleanup.delete`` does; a store without such uploads is not asked."""
    deletions = Deletions(client, lambda: None)

    def clean(container: str) -> None:
        deletions.abort_uploads(container, partial(orphans.has_upload, container))

    if isinstance(client.storage, UploadAdmin):
        deletions.run([*orphans.container_names()], clean)
    return deletions.result


def _containers_there(
    client: RetryingClient,
    orphans: OrphanedObjects,
) -> Iterable[str]:
    """Names of the run's containers that the account lists; all of them if the user may not list
    the account."""
    try:
        return [
            entry.name
            for page in list_containers(client, orphans.base)
            for entry in page
            if orphans.is_container(entry.name)
        ]
    except StorageError as error:
        if error.status != 403:
            raise
        return orphans.container_names()


def _listed(
    client: RetryingClient,
    orphans: OrphanedObjects,
    container: str,
) -> Iterator[list[str]]:
    """Pages of the run's names in a container."""
    classes: dict[str, list[int]] = {}  # by the prefix of their objects' names
    for size_class in range(orphans.classes):
        classes.setdefault(orphans.naming.created_prefix(size_class), []).append(size_class)
    for prefix, those in classes.items():
        for page in list_objects(client, container, prefix):
            names = [entry.name for entry in page]
            yield [n for n in names if any(orphans.listed(each, container, n) for each in those)]


def _unlisted(orphans: OrphanedObjects, found: SearchResult) -> Iterator[Work]:
    """Container and name of objects that only the results name, in containers that exist."""
    for size_class, number in orphans.unlisted():
        container = orphans.container(size_class, number)
        if container in found.containers:
            yield container, [orphans.naming.object(size_class, number)]


def delete_orphaned(
    client: RetryingClient,
    orphans: OrphanedObjects,
    found: SearchResult,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    dry_run: bool = False,
) -> CleanupResult:
    """Delete the objects that were found, each after a HEAD showed that it is the run's. Ends, and
    fails, as ``cleanup.delete`` does.

    :param progress: called with the number of processed objects, and of all.
    :param dry_run: delete nothing; ``objects`` counts those that would be deleted.
    """

    def on_done() -> None:
        result = deletions.result
        done = result.objects + result.absent + result.foreign + result.uploads + result.versions
        progress(done, max(done, found.total))

    deletions = Deletions(client, on_done, run_id=orphans.run_id, dry_run=dry_run)
    result = deletions.result

    def clean(container: str) -> None:
        for names in _listed(client, orphans, container):
            deletions.delete_all((container, [name]) for name in names)
            deletions.raise_if_stopping()
        in_parts = orphans.in_parts and container in found.marked
        if in_parts or container in found.versioned:  # it may have been replaced since the search
            deletions.check_mark(container)
        if in_parts:
            deletions.abort_uploads(container, partial(orphans.has_upload, container))
        if container in found.versioned:
            is_own = own_versions(orphans, container, marked=True, spares=not dry_run)
            deletions.delete_versions(container, is_own)

    deletions.run([*found.containers], clean, lambda: _unlisted(orphans, found))
    if result.ended_early:
        done = result.objects + result.absent + result.foreign + result.failed_objects
        result.left = max(found.total - done - result.uploads - result.versions, 0)
    return result
