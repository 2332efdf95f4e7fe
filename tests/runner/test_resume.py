"""What a run left behind, found by results and listings; nothing else is touched."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import gevent
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.columns import MAX_LISTED
from ssbench.core.errors import MessageError, StorageError
from ssbench.core.messages import pack, unpack
from ssbench.core.model import ErrorKind, LargeObject, Phase, Result
from ssbench.core.naming import HashedNaming, RunNaming
from ssbench.core.operations import (
    CREATE,
    DELETE,
    ENSURE,
    OPERATIONS,
    READ,
    REMOVE,
    UPDATE,
    Effect,
    Operation,
    Target,
)
from ssbench.core.records import ResultBatch
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import StorageSettings
from ssbench.runner.containers import GIVE_UP_AFTER, CleanupResult
from ssbench.runner.orphans import (
    OrphanedObjects,
    OrphanedReplay,
    SearchResult,
    abort_orphaned_uploads,
    delete_orphaned,
    find_orphaned,
    own_versions,
)
from ssbench.storage.base import ListedVersion, ObjectEntry, OpenUpload
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error
from tests.runner.clients import client
from tests.runner.test_deletions import VersionedStorage

RUN = "5e1f5e1f00"
INITIAL = 10
SCENARIO = Scenario.from_json(
    '{"name": "s", "user_count": 1, "crud_profile": [1, 1, 1, 1], "container_count": 3,'
    ' "container_base": "b", "operation_count": 9,'
    ' "sizes": [{"name": "tiny", "size_min": 1, "size_max": 1},'
    '           {"name": "tiny_", "size_min": 1, "size_max": 1}],'
    ' "initial_files": {"tiny": 10, "tiny_": 10}}'
)
NAMING = RunNaming(
    StorageSettings(run_id=RUN, sizes=SCENARIO.sizes, container_base="b", container_count=3)
)


def row(operation: int, number: int, *, size_class: int = 0, error: int = 0, unknown: int = 0
        ) -> Result:  # fmt: skip
    return Result(
        number + 1, operation, size_class, number, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 201,
        error, unknown,
    )  # fmt: skip


def orphans_by(*rows: Result) -> OrphanedObjects:
    left = OrphanedObjects(SCENARIO, RUN)
    if rows:
        left.add(ResultBatch.of_rows(Phase.RUN, 0, rows))
    return left


COPY = Operation(500, "COPY", Effect.CREATES, target=Target.PAIR)
BULK_DELETE = Operation(501, "BULK_DELETE", Effect.REMOVES, target=Target.OBJECTS)
LIST = Operation(502, "LIST", Effect.NONE, target=Target.CONTAINER)


def test_each_object_of_an_operation_on_several_counts() -> None:
    left = OrphanedObjects(SCENARIO, RUN, {**OPERATIONS, 500: COPY, 501: BULK_DELETE, 502: LIST})
    rows = [
        row(CREATE, 20), row(CREATE, 21), row(CREATE, 22), row(CREATE, 23),
        row(COPY, 3)._replace(others=(30,)),
        row(COPY, 3, error=1, unknown=1)._replace(others=(31,)),
        row(COPY, 3, error=1)._replace(others=(32,)),
        row(BULK_DELETE, 20)._replace(others=(21,)),
        row(BULK_DELETE, 22, error=1)._replace(others=(23, 33), statuses=(204, 500, 0)),
        row(LIST, 40),
    ]  # fmt: skip
    left.add(ResultBatch.of_rows(Phase.RUN, 0, rows))
    assert known(left) == [(0, 23), (0, 30), (0, 31), (0, 33)]


def known(left: OrphanedObjects) -> list[tuple[int, int]]:
    return list(left.unlisted())


def stored(*objects: tuple[int, int], store: MemoryStore | None = None) -> MemoryStorage:
    """A store with these objects of the run, by size class and number."""
    store = store or MemoryStore()
    for container in NAMING.containers:
        store.add(container, marker=True)
    for size_class, number in objects:
        name = NAMING.object(size_class, number)
        store.add(NAMING.container(size_class, number), name, run=RUN)
    return MemoryStorage(store)


class Lagging(MemoryStorage):
    """Lists no objects yet."""

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        return []


def clean_up(
    storage: MemoryStorage, left: OrphanedObjects, concurrency: int = 4
) -> tuple[SearchResult, CleanupResult]:
    found = find_orphaned(client(storage, concurrency), left)
    return found, delete_orphaned(client(storage, concurrency), left, found)


def names(store: MemoryStore) -> list[str]:
    return sorted(name for c in store.containers.values() for name in c.objects)


FAILED = int(ErrorKind.STATUS)


@pytest.mark.parametrize(
    ("rows", "is_left"),
    [
        ([row(CREATE, 12)], True),
        ([row(CREATE, 12, error=FAILED)], False),
        ([row(CREATE, 12, error=FAILED, unknown=1)], True),
        ([row(READ, 12)], True),
        ([row(READ, 12, error=FAILED)], False),
        ([row(CREATE, 12), row(DELETE, 12)], False),
        ([row(DELETE, 12)], False),
        ([row(CREATE, 12), row(DELETE, 12, error=FAILED)], True),
        ([row(CREATE, 12), row(DELETE, 12, error=FAILED, unknown=1)], True),
        ([row(CREATE, 12), row(REMOVE, 12)], False),
        ([row(CREATE, 9)], False),
        ([row(UPDATE, 3)], False),
        ([row(ENSURE, 3)], False),
        ([row(77, 12)], False),
        ([row(CREATE, 12, size_class=2)], False),
        ([row(CREATE, 12, size_class=-1)], False),
        ([row(CREATE, 1 << 32)], False),
    ],
)
def test_results_are_applied_to_the_objects(rows: Sequence[Result], is_left: bool) -> None:
    assert known(orphans_by(*rows)) == ([(0, 12)] if is_left else [])


@given(st.lists(st.tuples(st.sampled_from([CREATE, DELETE]), st.integers(0, 5000)), max_size=40))
def test_created_and_not_deleted_objects_are_left(done: list[tuple[Operation, int]]) -> None:
    """Each created number that no DELETE names, in order, and no other."""
    left = orphans_by(*(row(operation, number) for operation, number in done))
    created = {n for operation, n in done if operation is CREATE and n >= INITIAL}
    deleted = {n for operation, n in done if operation is DELETE}
    assert known(left) == [(0, n) for n in sorted(created - deleted)]


@pytest.mark.parametrize("bulk", [None, 4])
def test_all_objects_of_the_run_are_deleted_and_no_others(bulk: int | None) -> None:
    store = MemoryStore(listing_limit=3, bulk_delete_max=bulk)
    ours = [(size_class, number) for size_class in (0, 1) for number in range(INITIAL, 40)]
    storage = stored(*ours, store=store)
    initial = [f"tiny_{number:06d}" for number in range(INITIAL)]
    store.add("b_000000", *initial)
    near = [
        f"tiny_{RUN}", f"tiny_{RUN}_", f"tiny_{RUN}_000012x", f"tiny_{RUN}_00012",
        f"tiny_{RUN}_0000012", f"tiny_{RUN}_000003", f"tiny_{RUN}_٠٠٠٠١٢", f"tiny_{RUN}x_000012",
        f"tiny_{RUN}_{'9' * 5000}", f"small_{RUN}_000012", f"xtiny_{RUN}_000012",
        f"Tiny_{RUN}_000012", f"tiny_{RUN[:-1]}_000012", f"tiny_{RUN}_000012\n", "tiny__000012",
        "tiny_aaaa_000012", "zzz",
    ]  # fmt: skip
    store.add("b_000000", *near, run=RUN)
    misplaced = NAMING.object(0, 12)
    elsewhere = next(c for c in NAMING.containers if c != NAMING.container(0, 12))
    store.add(elsewhere, misplaced, run=RUN)
    for neighbour in ("b_000003", "b_000000_gold", "b", "bb_000000"):
        store.add(neighbour, NAMING.object(0, 12), marker=True, run=RUN)
    found, result = clean_up(storage, orphans_by(row(CREATE, 10)))
    assert (found.listed, found.unlisted, len(found.containers)) == (60, 0, 3)
    assert sum(found.containers.values()) == 60
    assert (result.objects, result.left, result.ok) == (60, 0, True)
    assert names(store) == sorted([*initial, *near, misplaced, *[NAMING.object(0, 12)] * 4])
    assert store.count("bulk_delete") == 0, "each object is looked at first"


def test_without_account_listing_each_container_is_checked() -> None:
    storage = stored((0, 10))
    storage.store.refuse("list_containers", "", status_error(403))
    assert clean_up(storage, orphans_by())[1].objects == 1
    before = storage.store.count("container_facts")
    find_orphaned(client(storage, 10, stopping=lambda: True), orphans_by())
    assert storage.store.count("container_facts") == before
    storage.store.refuse("list_containers", "", status_error(500))
    with pytest.raises(StorageError, match="500"):
        find_orphaned(client(storage, 10), orphans_by())


@pytest.mark.parametrize("name", ["others", "statuses"])
def test_lists_of_equal_numbers_cost_nothing(name: str) -> None:
    """80 bytes of a crafted file took 0.3 s, and 8 MB."""
    plain = ResultBatch.of_rows(
        Phase.RUN, 0, [row(CREATE, 12)._replace(others=(17,), statuses=(200, 200))]
    )
    columns = unpack(plain.packed)
    columns[1 + plain.names.index(name)] = [MAX_LISTED, 5]
    orphans, crafted = orphans_by(), replace(plain, packed=pack(columns))
    tracemalloc.start()
    try:
        with pytest.raises(MessageError):
            orphans.add(crafted)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    orphans.add(plain)
    assert known(orphans) == [(0, 12), (0, 17)]


def test_memory_follows_existing_objects_not_the_file() -> None:
    """Ten million containers, and results that are spread over all numbers."""
    scenario = Scenario.resolve(
        '{"name": "s", "user_count": 1, "crud_profile": [1, 1, 1, 1], "operation_count": 9,'
        ' "container_base": "b", "container_count": 10000000,'
        ' "sizes": [{"name": "tiny", "size_min": 1, "size_max": 1}], "initial_files": {"tiny": 1}}'
    )
    rows = [row(CREATE, number << 16) for number in range(1 << 16)]
    batch = ResultBatch.of_rows(Phase.RUN, 0, rows)
    assert batch.columns  # unpacked: only what is kept of it is measured
    store = MemoryStore()
    store.add("b_000007", marker=True)
    tracemalloc.start()
    try:
        left = OrphanedObjects(scenario, RUN)
        left.add(batch)
        ignored = left.ignored_results  # its repr goes through all that is kept
        assert ignored > 60_000
        found = find_orphaned(client(MemoryStorage(store), 10), left)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20
    assert found.containers == {"b_000007": 0}


def test_listed_names_are_not_kept() -> None:
    class Endless(MemoryStorage):
        """90,000 names in each of the run's containers, spread over many numbers."""

        def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
            if not marker.startswith(NAMING.created_prefix(0)):
                return []
            last = NAMING.created_number(0, marker) or 1_000_000
            numbers = range(last + 100, min(last + 100 * limit, 10_000_000), 100)
            return [ObjectEntry(NAMING.object(0, number), 1) for number in numbers]

    store = MemoryStore()
    store.add("b_000000", marker=True)
    tracemalloc.start()
    try:
        found = find_orphaned(client(Endless(store), 10), orphans_by())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.listed > 29_000
    assert peak < 4 << 20


def test_unlisted_objects_are_looked_at_and_deleted_by_the_results() -> None:
    store = stored((0, 10), (0, 11)).store
    left = orphans_by(row(CREATE, 10), row(CREATE, 11), row(CREATE, 12))
    found, result = clean_up(Lagging(store), left)
    assert (found.listed, found.unlisted) == (0, 3)
    assert (result.objects, result.absent, result.ok) == (2, 1, True)
    assert names(store) == []
    store.add("b_000002", NAMING.object(0, 11))  # not by the run
    _, result = clean_up(Lagging(store), orphans_by(row(CREATE, 11)))
    assert (result.objects, result.foreign, result.ok) == (0, 1, False)
    assert names(store) == [NAMING.object(0, 11)]


def test_listed_objects_deleted_in_the_results_are_deleted_again() -> None:
    storage = stored((0, 10))
    _, result = clean_up(storage, orphans_by(row(CREATE, 10), row(DELETE, 10)))
    assert result.objects == 1


def test_a_container_that_cannot_be_listed_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    storage = stored((0, 10))
    storage.store.refuse("list_objects", "b_000001", status_error(403))
    with pytest.raises(StorageError, match="403"):
        find_orphaned(client(storage, 10), orphans_by())
    assert capfd.readouterr().err == ""


def test_a_container_is_listed_from_where_the_runs_names_begin() -> None:
    storage = stored((0, 10))
    storage.store.add("b_000000", *(f"aaa_{n:06d}" for n in range(5000)))
    find_orphaned(client(storage, 10), orphans_by())
    assert storage.store.count("list_objects") <= 8


def test_a_store_that_rejects_everything_ends_it() -> None:
    numbers = range(10, 500)
    storage = stored(*((0, number) for number in numbers))
    for number in numbers:
        storage.store.refuse("delete_object", NAMING.object(0, number), status_error(403))
    _, result = clean_up(storage, orphans_by())
    assert "failures in a row" in result.abort_reason
    assert result.left == 490 - result.failed_objects > 0
    assert storage.store.count("delete_object") <= GIVE_UP_AFTER + 8


def test_stopping_ends_resume_cleanup() -> None:
    store = MemoryStore(pause=lambda: gevent.sleep(0))
    storage = stored(*((0, number) for number in range(10, 100)), store=store)
    done: list[tuple[int, int]] = []
    left = orphans_by()
    found = find_orphaned(client(storage, 10), left)
    stopped = client(storage, 4, stopping=lambda: len(done) >= 30)
    result = delete_orphaned(stopped, left, found, lambda gone, total: done.append((gone, total)))
    assert result.interrupted
    assert 30 <= result.objects <= 34
    assert result.left == 90 - result.objects
    assert (done[0], done[-1]) == ((1, 90), (len(done), 90))
    assert store.most_in_flight == 4


IN_PARTS = replace(SCENARIO, large_object=LargeObject(above=0, segment=1))


class EndlessUploads(MemoryStorage):
    """Lists open uploads in pages, and counts the names that are held at a time."""

    held = most = 0

    def open_uploads(self, container: str, after: str) -> list[OpenUpload]:
        first = int(after or 0)
        return [OpenUpload(HeldName(self, number), "1") for number in range(first, first + 100)]


class HeldName(str):
    storage: EndlessUploads

    def __new__(cls, storage: EndlessUploads, number: int) -> HeldName:
        name = super().__new__(cls, f"{number + 1:09d}")
        name.storage = storage
        storage.held += 1
        storage.most = max(storage.most, storage.held)
        return name

    def __del__(self) -> None:
        self.storage.held -= 1


def test_open_uploads_are_not_all_held_at_once() -> None:
    store = MemoryStore()
    store.add("b_000001", marker=True)
    storage = EndlessUploads(store)
    endless = client(storage, listed_max=5000)
    with pytest.raises(StorageError, match="open uploads of b_000001: the listing has no end"):
        find_orphaned(endless, OrphanedObjects(IN_PARTS, RUN))
    assert storage.most <= 300  # two pages, and one that is being made


def test_an_upload_of_an_initial_object_stays_where_times_are_not_known() -> None:
    """A run of which only results were read, and a store that reports no time of uploads."""
    left = OrphanedObjects(IN_PARTS, RUN)
    container = NAMING.container(0, 4)
    for begun_at in (0.0, 1500.0):
        assert not left.has_upload(container, OpenUpload("tiny_000004", "1", begun_at))
    assert left.has_upload(NAMING.container(0, 13), OpenUpload(NAMING.object(0, 13), "2"))


@pytest.mark.parametrize("marked", [True, False])
def test_versions_of_initial_objects_are_those_of_the_run_only_with_a_mark(marked: bool) -> None:
    store = MemoryStore()
    store.add("b_000001", marker=marked)
    is_own = own_versions(OrphanedObjects(SCENARIO, RUN), "b_000001", marked=marked)
    created = NAMING.object(0, 13)
    versions = [
        ListedVersion(created, "1", is_newest=False), ListedVersion("precious", "2", False),
        ListedVersion("tiny_000004", "3", True), ListedVersion("tiny_000004", "4", False),
        ListedVersion("tiny_000005", "5", True), ListedVersion(created, "6", True),
        ListedVersion(created, "7", False),
    ]  # fmt: skip
    assert [each.id for each in versions if is_own(each)] == ["1", *(["4"] if marked else [])]


@pytest.mark.parametrize("marked", [True, False])
def test_versions_are_deleted_only_in_containers_with_a_mark(marked: bool) -> None:
    store = MemoryStore()
    store.add("b_000001", marker=marked)
    storage, name = VersionedStorage(store), NAMING.object(0, 13)
    storage.versions = [ListedVersion(name, id_, False) for id_ in ("2", "1")]
    left = OrphanedObjects(SCENARIO, RUN)
    found = find_orphaned(client(storage), left, use_existing=True)
    assert (found.versions, found.unproven) == ((2, 0) if marked else (0, 2))
    assert delete_orphaned(client(storage), left, found).ok
    assert storage.deleted == (["2", "1"] if marked else [])


def test_versions_and_uploads_stay_where_the_container_was_replaced_since_the_search() -> None:
    store, name = MemoryStore(), NAMING.object(0, 13)
    store.add("b_000001", marker=True)
    store.containers["b_000001"].uploads = uploads = [OpenUpload(name, "1")]
    storage = VersionedStorage(store)
    storage.versions = [ListedVersion(name, id_, False) for id_ in ("2", "1")]
    left = OrphanedObjects(IN_PARTS, RUN)
    found = find_orphaned(client(storage), left)
    assert (found.versions, found.uploads) == (2, 1)
    store.containers["b_000001"].marker = False
    result = delete_orphaned(client(storage), left, found)
    assert result.examples == [
        "b_000001: its mark of ssbench is gone: another container took its place"
    ]
    assert (storage.deleted, store.containers["b_000001"].uploads) == ([], uploads)


def test_uploads_of_lost_workers_are_aborted_in_all_containers() -> None:
    store = MemoryStore()
    ours = {}
    for number in (10, 11, 12):
        container = NAMING.container(0, number)
        store.add(container)
        ours[container] = OpenUpload(NAMING.object(0, number), "1")
        store.containers[container].uploads = [ours[container], OpenUpload("precious", "2")]
    assert len(ours) == 3
    left = OrphanedObjects(IN_PARTS, RUN)
    result = abort_orphaned_uploads(client(MemoryStorage(store), 2), left)
    assert (result.uploads, result.ok, result.objects) == (3, True, 0)
    assert [[each.name for each in found.uploads] for found in store.containers.values()] == [
        ["precious"]
    ] * 3
    store.refuse("open_uploads", "b_000001", status_error(403))
    result = abort_orphaned_uploads(client(MemoryStorage(store), 2), left)
    assert (result.uploads, result.failed_containers) == (0, 1)
    assert result.examples == ["b_000001: the store answered 403"]


def test_uploads_stay_in_containers_without_a_mark_and_are_not_looked_for_in_vain() -> None:
    store = MemoryStore()
    store.add("b_000001")
    store.containers["b_000001"].uploads = uploads = [OpenUpload(NAMING.object(0, 13), "1")]
    left = OrphanedObjects(IN_PARTS, RUN)
    assert find_orphaned(client(MemoryStorage(store)), left).total == 0
    found = find_orphaned(client(MemoryStorage(store)), left, use_existing=True)
    assert (found.total, found.unproven) == (0, 1)
    assert delete_orphaned(client(MemoryStorage(store)), left, found).ok
    assert store.containers["b_000001"].uploads == uploads
    store.refuse("container_facts", "b_000001", status_error(403))
    assert find_orphaned(client(MemoryStorage(store)), left, use_existing=True).unproven == 1
    storage = stored()
    find_orphaned(client(storage), orphans_by())
    assert storage.store.count("open_uploads") == 0, "objects are stored as one"


def test_an_upload_that_stays_open_is_a_failure() -> None:
    storage = stored()
    name = NAMING.object(0, 13)
    storage.store.containers["b_000001"].uploads = [OpenUpload(name, "1")]
    storage.store.refuse("abort_upload", name, status_error(403))
    left = OrphanedObjects(IN_PARTS, RUN)
    result = delete_orphaned(client(storage), left, find_orphaned(client(storage), left))
    assert not result.ok
    assert result.examples == [f"b_000001/{name}: its upload stays open: the store answered 403"]


# Replays -----------------------------------------------------------------------------------


def test_what_a_replay_created_is_deleted_and_what_was_prepared_stays() -> None:
    names = HashedNaming(NAMING.containers)
    prepared, created, copy, gone, unrecorded, of_another = (n << 44 | n for n in range(1, 7))
    store = MemoryStore()
    for container in names.containers:
        store.add(container, marker=True)
    for number in (prepared, created, copy, unrecorded, of_another):
        run = RUN if number != of_another else "another"
        store.add(names.container(0, number), names.object(0, number), run=run)
    store.add(names.containers[0], "replay_x", run=RUN)
    store.add(names.containers[0], f"{names.object(0, created)}0", run=RUN)
    left = OrphanedReplay(SCENARIO, RUN, {**OPERATIONS, 500: COPY})
    left.add(ResultBatch.of_rows(Phase.POPULATE, 0, [row(ENSURE, prepared)]))
    rows = [
        row(UPDATE, prepared), row(CREATE, created), row(CREATE, gone), row(DELETE, gone),
        row(COPY, prepared)._replace(others=(copy,)),
    ]  # fmt: skip
    left.add(ResultBatch.of_rows(Phase.RUN, 0, rows))
    assert sorted(number for _, number in left.unlisted()) == [created, copy]
    _, result = clean_up(MemoryStorage(store), left)
    assert (result.objects, result.foreign) == (3, 1)
    assert {each for c in store.containers.values() for each in c.objects} == {
        names.object(0, prepared), names.object(0, of_another), "replay_x",
        f"{names.object(0, created)}0",
    }  # fmt: skip


def test_one_result_does_not_make_a_replay_hold_any_number_of_objects() -> None:
    """Names of several objects are no results, and take few bytes of a file."""
    left = OrphanedReplay(SCENARIO, RUN, {**OPERATIONS, 500: COPY})
    many = row(COPY, 1)._replace(others=tuple(range(2, 100_000)))
    left.add(ResultBatch.of_rows(Phase.RUN, 0, [many]))
    held = sum(1 for _ in left.unlisted())
    assert 5000 < held < 20_000
    assert left.ignored_results == 99_999 - held


@given(st.lists(st.integers(0, 1 << 62), min_size=1, max_size=9))
def test_numbers_that_no_replay_has_are_ignored(numbers: list[int]) -> None:
    left = OrphanedReplay(SCENARIO, RUN)
    left.add(ResultBatch.of_rows(Phase.RUN, 0, [row(CREATE, number) for number in numbers]))
    known = {number for _, number in left.unlisted()}
    assert known == {number for number in numbers if number < 1 << 53}
