from __future__ import annotations

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, SizeClass
from ssbench.core.operations import CREATE, DELETE, ENSURE, READ, REMOVE, UPDATE, Operation
from ssbench.core.scenario.fields import crud_profile
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import ObjectEntry, ObjectStore
from tests.fakes.drivers import with_token
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error

SIZES = (SizeClass("tiny", 1, 9, crud_profile([1, 1, 1, 1]), 5),)


def driver(store: MemoryStore | None = None, **settings: object) -> MemoryStorage:
    defaults = {"sizes": SIZES, "run_id": "r1", "container_count": 3}
    return MemoryStorage(store, StorageSettings(**{**defaults, **settings}))  # type: ignore[arg-type]


def ready_driver(store: MemoryStore | None = None, **settings: object) -> MemoryStorage:
    made = driver(store, **settings)
    for index in range(3):
        made.make_container(f"ssbench_{index:06d}")
    return made


def job(operation: Operation, number: int = 0, size: int = 7, version: int = 0) -> Job:
    return Job(1, operation, 0, number, version, size)


def status_of(call: object, *args: object) -> int:
    with pytest.raises(StorageError) as caught:
        call(*args)  # type: ignore[operator]
    return caught.value.status


def test_the_fake_implements_the_protocols() -> None:
    storage: ObjectStore = ready_driver()
    for operation, moved, status in [
        (CREATE, 7, 201),
        (READ, 7, 200),
        (UPDATE, 7, 201),
        (ENSURE, 0, 200),
        (DELETE, 0, 204),
        (ENSURE, 7, 201),
        (REMOVE, 0, 204),
    ]:
        timing = storage.actions[operation](job(operation), 0)
        assert (timing.bytes_moved, timing.status) == (moved, status)


@pytest.mark.parametrize("operation", [READ, DELETE])
def test_a_missing_object_is_a_404_with_times(operation: Operation) -> None:
    with pytest.raises(StorageError) as caught:
        ready_driver().actions[operation](job(operation), 0)
    assert caught.value.status == 404
    assert caught.value.timing is not None


def test_removing_a_missing_object_succeeds() -> None:
    assert ready_driver().actions[REMOVE](job(REMOVE), 0).status == 404


def test_an_upload_without_a_container_is_a_404() -> None:
    storage = driver()
    assert status_of(storage.actions[CREATE], job(CREATE), 0) == 404


def test_ensure_replaces_an_object_of_another_size() -> None:
    storage = ready_driver()
    storage.actions[ENSURE](job(ENSURE, size=3), 0)
    assert storage.actions[ENSURE](job(ENSURE, size=4), 0).bytes_moved == 4


def test_objects_expire() -> None:
    storage = ready_driver(delete_after_s=10)
    storage.actions[CREATE](job(CREATE), 0)
    storage.store.now = 9.9
    storage.actions[READ](job(READ), 0)
    storage.store.now = 10.0
    assert status_of(storage.actions[READ], job(READ), 0) == 404


@pytest.mark.parametrize(
    ("version", "kind"), [(2, ErrorKind.STALE), (1, ErrorKind.NONE), (0, ErrorKind.CORRUPT)]
)
def test_another_version_is_reported_with_verify(version: int, kind: ErrorKind) -> None:
    storage = ready_driver(verify=True)
    storage.actions[CREATE](job(CREATE, version=1), 0)
    try:
        storage.actions[READ](job(READ, version=version), 0)
        found = ErrorKind.NONE
    except StorageError as error:
        found = error.kind
    assert found is kind


def test_a_passed_deadline_fails_the_operation() -> None:
    with pytest.raises(StorageError, match="too long"):
        ready_driver().actions[CREATE](job(CREATE), 1)


def test_containers_have_policies() -> None:
    store = MemoryStore()
    assert driver(store, placement="silver").make_container("c") is None
    assert store.containers["c"].marker
    assert driver(store).make_container("c") is not None
    assert driver(store).container_info("c").policy == "silver"
    assert status_of(driver(store, placement="gold").make_container, "c") == 409
    assert status_of(driver(store, placement="tin").make_container, "d") == 400
    assert status_of(driver(store).container_info, "d") == 404


def test_listings_come_in_pages() -> None:
    store = MemoryStore(listing_limit=2)
    store.add("c", "a", "b", "ü", size=5)
    store.add("other")
    storage = driver(store)
    assert storage.list_objects("c", "", 2) == [ObjectEntry("a", 5), ObjectEntry("b", 5)]
    assert storage.list_objects("c", "b", 2) == [ObjectEntry("ü", 5)]
    assert storage.list_objects("c", "ü", 2) == []
    assert status_of(storage.list_objects, "c", "", 3) == 412
    assert status_of(storage.list_objects, "gone", "", 2) == 404
    (entry,) = storage.list_containers("c", "", 2)
    assert (entry.name, entry.object_count, entry.bytes_used) == ("c", 3, 15)


def test_deleting() -> None:
    store = MemoryStore(bulk_delete_max=2)
    store.add("c", "a", "b", "stubborn")
    store.refuse("delete_object", "stubborn", status_error(403))
    storage = driver(store)
    assert storage.delete_object("c", "a")
    assert not storage.delete_object("c", "a")
    assert status_of(storage.delete_container, "c") == 409
    assert storage.bulk_delete("c", ["b", "stubborn"]) == [("stubborn", 403)]
    assert status_of(storage.bulk_delete, "c", ["1", "2", "3"]) == 413
    store.containers["c"].objects.clear()
    assert storage.delete_container("c")
    assert not storage.delete_container("c")
    assert status_of(driver().bulk_delete, "c", ["b"]) == 400


def test_tokens_are_checked() -> None:
    store = MemoryStore(tokens={"new"})
    storage = driver(store, credentials=(with_token("old"),))
    assert status_of(storage.make_container, "c") == 401
    storage.set_credentials(with_token("new", 2))
    assert storage.credentials_serial == 2
    assert storage.make_container("c") is None


def test_failures_are_scripted_and_calls_recorded() -> None:
    store = MemoryStore()
    store.fail("make_container", status_error(503), None, status_error(429))
    storage = driver(store)
    assert status_of(storage.make_container, "c") == 503
    assert storage.make_container("c") is None
    assert status_of(storage.make_container, "c") == 429
    assert storage.make_container("c") is not None
    assert store.count("make_container") == 4
    assert (store.in_flight, store.most_in_flight) == (0, 1)


def test_limits_and_closing() -> None:
    storage = driver(MemoryStore(bulk_delete_max=100))
    storage.connect(4)
    assert storage.connected == 4
    assert storage.limits().bulk_delete_max == 100
    storage.close()
    with pytest.raises(StorageError, match="closed"):
        storage.limits()
