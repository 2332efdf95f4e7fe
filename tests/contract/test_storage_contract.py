"""What ssbench.storage.base promises, of every driver: of both halves as one object.

Those that keep no state (noop) are held to what is left then: every call is answered, every
operation succeeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from ssbench.core.content import version_of_copy
from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, LargeObject, LargeRead, SizeClass
from ssbench.core.naming import pack_names
from ssbench.core.operations import (
    BULK_DELETE,
    COPY,
    CREATE,
    CREATE_IF_ABSENT,
    DELETE,
    DELETE_VERSION,
    ENSURE,
    GET_TAGS,
    HEAD,
    LIST,
    LIST_ALL,
    LIST_RANDOM,
    OPERATIONS,
    POST,
    PUT_TAGS,
    RANGE_READ,
    READ,
    READ_VERSION,
    REMOVE,
    UPDATE,
    UPDATE_IF_MATCH,
    Operation,
)
from ssbench.storage.base import ContainerInfo, ObjectEntry, StateAdmin
from ssbench.storage.registry import ROWS
from tests.contract.stores import (
    CONTAINERS,
    OVER_HTTP,
    PLACES,
    SHARED,
    SIZES,
    STORES,
    SUBJECTS,
    Subject,
)
from tests.fakes.drivers import WholeDriver, with_token
from tests.servers.s3 import SwiftS3


def test_every_store_is_held_to_its_contract() -> None:
    assert {*STORES} == {*ROWS, "outside"}
    assert {*OVER_HTTP} == {name for name, row in ROWS.items() if row.urls}
    assert {*PLACES} == {name for name, row in ROWS.items() if row.is_real}
    assert all(row.subjects for row in STORES.values())


@pytest.fixture(scope="module")
def swift() -> Iterator[SwiftS3]:
    """One for Swift's own interface and for S3, with parts of any size."""
    with SwiftS3(more_conf={"filter:s3api": {"min_segment_size": "1"}}) as server:
        yield server


@pytest.fixture(scope="module", params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    if request.param in SHARED:
        yield from request.param(request.getfixturevalue("swift"))
    else:
        yield from request.param()


@pytest.fixture
def storage(subject: Subject) -> Iterator[Any]:
    """An open driver; its containers are there, and empty again afterwards."""
    driver = subject.open()
    for name in CONTAINERS:
        driver.make_container(name)
    yield driver
    for entry in driver.list_containers("contract", "", 100):
        for found in driver.list_objects(entry.name, "", 1000):
            driver.delete_object(entry.name, found.name)
        if entry.name not in CONTAINERS:  # these are for all tests
            driver.delete_container(entry.name)
    driver.close()


def job(operation: Operation, number: int = 3, size: int = 150, size_class: int = 0) -> Job:
    return Job(1, operation, size_class, number, 0, size)


def refused(driver: Any, operation: Operation, number: int = 3) -> StorageError:
    with pytest.raises(StorageError) as caught:
        driver.actions[operation](job(operation, number), 0)
    assert caught.value.kind is ErrorKind.STATUS
    assert caught.value.timing is not None
    assert caught.value.timing.status == caught.value.status
    return caught.value


def test_all_operations_succeed_in_order(subject: Subject, storage: Any) -> None:
    moved = {}
    for operation in (CREATE, READ, UPDATE, HEAD, POST, DELETE, ENSURE, REMOVE):
        if operation in subject.refused:
            continue
        timing = storage.actions[operation](job(operation), 0)
        assert 200 <= timing.status < 300
        # Negative: read late, so that the time is an upper bound.
        assert abs(timing.headers_ns) <= abs(timing.first_byte_ns) <= timing.last_byte_ns
        assert isinstance(timing.transaction_id, bytes)
        moved[operation] = timing.bytes_moved
    for operation, count in moved.items():
        assert count == (150 if OPERATIONS[operation].moves_content else 0)


def test_empty_objects(subject: Subject, storage: Any) -> None:
    for operation in (CREATE, READ, DELETE):
        timing = storage.actions[operation](job(operation, 0, 0, 1), 0)
        assert timing.bytes_moved == 0
        # WebDAV servers may answer a PUT with a page of HTML.
        if operation is READ or not subject.has_folders:
            assert timing.first_byte_ns == timing.headers_ns


def test_missing_objects(subject: Subject, storage: Any) -> None:
    if not subject.stateful:
        return
    assert refused(storage, READ, 7).status == 404
    if subject.tells_missing:
        assert refused(storage, DELETE, 7).status == 404
        assert not storage.delete_object("contract_000001", "nothing")
        assert not storage.delete_object("contract_no_such", "nothing")


def test_ensure_uploads_what_is_missing_or_is_not_as_the_run_would_upload_it(
    subject: Subject, storage: Any
) -> None:
    letters = subject.open(compressible=True)

    def uploads(driver: Any, size: int = 150) -> bool:
        timing = driver.actions[ENSURE](job(ENSURE, size=size), 0)
        if subject.stateful and not timing.bytes_moved:
            assert timing.status == 200
            assert not driver.actions[ENSURE](job(ENSURE, size=size), 0).bytes_moved
        return bool(timing.bytes_moved)

    assert uploads(storage)
    if subject.stateful:
        assert not uploads(storage)
    changed = ((storage, 151), (letters, 151), (storage, 151)) if subject.knows_content else ()
    for driver, size in changed or ((storage, 151),):
        assert uploads(driver, size)
        assert driver.actions[READ](job(READ, size=size), 0).bytes_moved == size
    storage.actions[UPDATE](job(UPDATE, size=151)._replace(version=1), 0)
    assert uploads(storage, 151) or not subject.knows_content
    if subject.stateful:
        assert not uploads(storage, 151)
    letters.close()


def test_listings_come_in_pages(subject: Subject, storage: Any) -> None:
    for number in range(9):
        storage.actions[CREATE](job(CREATE, number), 0)
    entries = storage.list_containers("contract_", "", 100)
    if subject.stateful:
        assert [entry.name for entry in entries] == [f"contract_{n:06d}" for n in range(3)]
        assert storage.list_containers("contract_", "contract_000000", 1) == entries[1:2]
        found = storage.list_objects("contract_000000", "", 100)
        names = [f"tiny \u00e9/?%_{n:06d}" for n in (0, 3, 6)]
        assert found == [ObjectEntry(name, 150) for name in names]
        assert storage.list_objects("contract_000000", names[0], 1) == found[1:2]
        assert storage.list_objects("contract_000000", names[2], 100) == []
    assert storage.list_containers("nobody_has_this", "", 100) == []


def test_objects_carry_the_id_of_their_run(subject: Subject, storage: Any) -> None:
    if not subject.stateful:
        assert storage.object_run_id("contract_000000", "any") is None
        return
    name = "tiny \u00e9/?%_run1_000012"
    for operation in (CREATE, UPDATE):
        storage.actions[operation](job(operation, 12), 0)
        assert storage.object_run_id("contract_000000", name) == "run1"
    with pytest.raises(StorageError) as caught:
        storage.object_run_id("contract_000000", "nothing")
    assert caught.value.status == 404


def test_containers_are_created_once_and_deleted_when_empty(subject: Subject, storage: Any) -> None:
    assert storage.make_container("contract-extra") is None
    if subject.stateful:
        policy = subject.policies[0] if subject.policies else None
        facts = ContainerInfo(policy, marked=True, object_count=0)
        found = storage.make_container("contract-extra"), storage.container_info("contract-extra")
        assert [replace(each, metadata={}) for each in found] == [facts] * 2
        assert storage.owns("contract-extra")
    storage.actions[CREATE](job(CREATE), 0)
    if subject.stateful:
        with pytest.raises(StorageError) as caught:
            storage.delete_container("contract_000000")
        assert caught.value.status == 409
    assert storage.delete_container("contract-extra")
    if subject.stateful:
        assert not storage.delete_container("contract-extra")
        with pytest.raises(StorageError) as caught:
            storage.container_info("contract-extra")
        assert caught.value.status == 404


def test_a_change_is_announced_before_it_is_sent(subject: Subject, storage: Any) -> None:
    def refuse() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        storage.make_container("contract-new", refuse)
    if subject.stateful:
        assert storage.list_containers("contract-new", "", 10) == []
        storage.make_container("contract_000000", refuse)  # it is there, and marked


def test_a_container_with_another_policy_is_rejected(subject: Subject, storage: Any) -> None:
    if not subject.policies:
        with pytest.raises(UsageError):
            subject.open(placement="silver")
        return
    silver = subject.open(placement="silver")
    assert silver.make_container("contract_silver") is None
    assert silver.container_info("contract_silver").policy == "silver"
    if subject.stateful:
        with pytest.raises(StorageError) as caught:
            silver.make_container("contract_000000")
        assert caught.value.status == 409
    silver.close()


def test_bulk_delete(subject: Subject, storage: Any) -> None:
    for number in (0, 3, 6):
        storage.actions[CREATE](job(CREATE, number), 0)
    names = [entry.name for entry in storage.list_objects("contract_000000", "", 100)]
    assert storage.bulk_delete("contract_000000", [*names, "absent"]) == []
    assert storage.list_objects("contract_000000", "", 100) == []


def test_an_object_without_a_name_is_not_its_container(subject: Subject, storage: Any) -> None:
    storage.make_container("contract-extra")
    for call in (storage.delete_object, storage.object_run_id):
        with suppress(StorageError):
            assert not (call("contract-extra", "") and subject.stateful)
    if subject.stateful:
        assert storage.container_info("contract-extra").marked


def test_names_of_others_are_not_changed(subject: Subject, storage: Any) -> None:
    """What one client of exact names writes, another one lists and reads under these names."""
    given = ["50 off", "50%20off", "a+b", "x%3Fy", "\u00e9%C3%A9"]
    container = subject.named(CONTAINERS[0])
    names = {"kind": "listed", "containers": [container], "packed_names": pack_names(given)}
    exact = subject.open(names=names)
    for number in range(len(given)):
        exact.actions[CREATE](job(CREATE, number), 0)
    if subject.stateful:
        found = exact.list_objects(container, "", 100)
        assert found == [ObjectEntry(name, 150) for name in given]
    for number in range(len(given)):
        assert exact.actions[READ](job(READ, number), 0).bytes_moved == 150
    for name in given:
        exact.delete_object(container, name)
    assert exact.list_objects(container, "", 100) == []
    exact.close()


def test_new_credentials_are_used_from_the_next_request(subject: Subject, storage: Any) -> None:
    other = subject.open(token="wrong")
    if subject.stateful and subject.rejection:
        with pytest.raises(StorageError) as caught:
            other.actions[READ](job(READ), 0)
        assert (caught.value.kind, caught.value.status) == (
            ErrorKind.UNAUTHORIZED,
            subject.rejection,
        )
        with pytest.raises(StorageError) as caught:
            other.list_containers("", "", 10)
        assert caught.value.status == subject.rejection
    assert other.credentials_serial == 0
    other.set_credentials(with_token("tk", 5))
    assert other.credentials_serial == 5
    other.close()


def test_limits_are_reported(subject: Subject, storage: Any) -> None:
    limits = storage.limits()
    if subject.stateful and subject.states_limits:
        assert limits.max_object_name_length == subject.longest_name
        assert list(limits.policies or ()) == [*subject.policies]
        assert limits.bulk_delete_max


def test_the_state_is_of_this_moment(subject: Subject, storage: Any) -> None:
    if not isinstance(storage.cold if isinstance(storage, WholeDriver) else storage, StateAdmin):
        pytest.skip("the store reports neither space nor time")
    state = storage.state()
    assert state.free_bytes is None or state.free_bytes >= 0
    assert state.seconds_ahead is None or abs(state.seconds_ahead) < 10


def test_a_closed_driver_may_be_closed_again(subject: Subject) -> None:
    other = subject.open()
    other.connect(2)
    other.close()
    other.close()


def test_content_is_checked_if_requested(subject: Subject, storage: Any) -> None:
    checking = subject.open(verify=True)
    storage.actions[CREATE](job(CREATE), 0)
    read, update = job(READ), job(UPDATE)._replace(version=1)
    assert checking.actions[READ](read, 0).bytes_moved == 150
    assert checking.actions[UPDATE](update, 0).bytes_moved == 150
    assert checking.actions[READ](read._replace(version=1), 0).bytes_moved == 150
    if subject.stateful:
        wrong = {
            ErrorKind.STALE: read._replace(version=2),
            ErrorKind.CORRUPT: read._replace(version=1, size=149),
        }
        for kind, asked in wrong.items():
            with pytest.raises(StorageError) as caught:
                checking.actions[READ](asked, 0)
            assert caught.value.kind is kind
            assert caught.value.timing is not None
            assert caught.value.timing.bytes_moved == 150
    checking.close()


def test_what_a_store_lacks_has_no_action(subject: Subject, storage: Any) -> None:
    registered = {number for number in OPERATIONS if number < 1000}
    assert registered - set(storage.actions) == set(subject.lacks)


def test_a_class_tells_its_operations_unopened(storage: Any) -> None:
    told = getattr(type(getattr(storage, "hot", storage)), "operations", None)
    if told is not None:
        assert set(told) == set(storage.actions)


def test_list_counts_the_entries_of_one_page(subject: Subject, storage: Any) -> None:
    if LIST in subject.lacks:
        return
    listing = storage.actions[LIST]
    for number in (0, 3, 6, 1):  # all but the last one are in the first container
        storage.actions[CREATE](job(CREATE, number), 0)
    prefix = SIZES[0].name.encode()
    counts = (1, 3, 0) if subject.has_folders else (3, 2, 0)
    for arguments, count in zip(
        [(b"", 10, b""), (prefix, 2, b""), (b"no", 10, b"")], counts, strict=True
    ):
        timing = listing(Job(1, LIST, 0, 0, 0, 0, arguments=arguments), 0)
        assert 200 <= timing.status < 300
        assert timing.bytes_moved == 0
        assert timing.items == (count if subject.stateful else 0)


def test_a_whole_listing_has_the_entries_of_all_pages(subject: Subject, storage: Any) -> None:
    if LIST_ALL in subject.lacks:
        return
    for number in (0, 3, 6, 9, 12, 1):  # all but the last one are in the first container
        storage.actions[CREATE](job(CREATE, number), 0)
    folders = SIZES[0].name if subject.has_folders else ""
    for limit, pages in ((2, 3), (5, 1), (1000, 1)):
        for arguments, count in ((folders.encode(), 5), (b"no", 0)):
            asked = Job(1, LIST_ALL, 0, 0, 0, 0, arguments=(arguments, limit, b""))
            timing = storage.actions[LIST_ALL](asked, 0)
            assert 200 <= timing.status < 300
            assert timing.bytes_moved == 0
            if subject.stateful:
                assert timing.items == count
                least = 1 if subject.has_folders or not count else pages
                assert (
                    least <= timing.pages <= least + 1
                )  # Swift says by an empty page that it was the last
                times = timing.headers_ns, timing.first_byte_ns, timing.last_byte_ns
                assert sorted(map(abs, times)) == [*map(abs, times)]  # negated: read late


def test_the_names_that_begin_as_an_object_are_listed(subject: Subject, storage: Any) -> None:
    if LIST_RANDOM in subject.lacks:
        return
    checking = subject.open(verify=True)
    for number in (0, 3, 6, 9, 12, 1):
        storage.actions[CREATE](job(CREATE, number), 0)
    for number, cut, count in ((3, 1, 4), (3, 0, 1), (1, 2, 1), (12, 0, 1), (9, 10, 1)):
        # Without the last ten characters of a name, its beginning is "tiny é".
        delimiter = b"/" if cut == 10 and not subject.has_folders else b""
        asked = job(LIST_RANDOM, number)._replace(arguments=(cut, 2, delimiter))
        timing = checking.actions[LIST_RANDOM](asked, 0)
        assert timing.bytes_moved == 0
        assert timing.items == (count if subject.stateful else 0)
    if subject.stateful:
        asked = job(LIST_RANDOM, 15)._replace(arguments=(2, 2, b""))
        with pytest.raises(StorageError) as caught:
            checking.actions[LIST_RANDOM](asked, 0)
        assert caught.value.kind is ErrorKind.STALE
    checking.close()


def test_list_of_a_missing_container_is_refused(subject: Subject, storage: Any) -> None:
    if LIST in subject.lacks:
        return
    listing = storage.actions[LIST]
    if subject.stateful and not subject.lists_missing:
        storage.delete_container("contract_000002")
        with pytest.raises(StorageError) as caught:
            listing(Job(1, LIST, 0, 2, 0, 0, arguments=(b"", 10, b"")), 0)
        assert caught.value.status == 404


def test_copy_makes_an_object_of_the_run(subject: Subject, storage: Any) -> None:
    if COPY in subject.lacks:
        return
    copy = storage.actions[COPY]
    asked = job(COPY)._replace(others=(13,))
    storage.actions[CREATE](job(CREATE), 0)
    timing = copy(asked, 0)
    assert 200 <= timing.status < 300
    assert timing.bytes_moved == 0
    assert storage.actions[READ](job(READ, 13), 0).bytes_moved == 150
    assert storage.actions[READ](job(READ), 0).bytes_moved == 150
    if subject.stateful:
        (entry,) = storage.list_objects("contract_000001", "", 10)
        assert storage.object_run_id("contract_000001", entry.name) == "run1"
        with pytest.raises(StorageError) as caught:
            copy(asked._replace(object=9, others=(14,)), 0)
        assert caught.value.status == 404


@pytest.mark.parametrize("verify", [False, True])
def test_a_range_read_brings_a_part(subject: Subject, storage: Any, verify: bool) -> None:
    if RANGE_READ in subject.lacks:
        return
    storage.actions[CREATE](job(CREATE), 0)
    reading = subject.open(verify=verify)
    read = reading.actions[RANGE_READ]
    for part in ((0, 150), (149, 1), (20, 100)):
        timing = read(job(RANGE_READ)._replace(arguments=part), 0)
        assert (timing.status, timing.bytes_moved) == (206, part[1])
        assert abs(timing.headers_ns) <= abs(timing.first_byte_ns) <= timing.last_byte_ns
    if subject.stateful:
        with pytest.raises(StorageError):
            read(job(RANGE_READ)._replace(arguments=(100, 51)), 0)  # behind the end
    if subject.stateful and verify:
        with pytest.raises(StorageError) as caught:
            read(job(RANGE_READ)._replace(version=2, arguments=(20, 100)), 0)
        assert caught.value.kind is ErrorKind.STALE
    reading.close()


def test_tags_are_set_and_read(subject: Subject, storage: Any) -> None:
    if PUT_TAGS in {*subject.lacks, *subject.refused}:
        return
    storage.actions[CREATE](job(CREATE), 0)
    checking = subject.open(verify=True)
    for count, length in ((3, 16), (2, 0), (10, 200), (1, 7)):
        tagged = job(PUT_TAGS)._replace(arguments=(count, length))
        timing = checking.actions[PUT_TAGS](tagged, 0)
        assert 200 <= timing.status < 300
        found = checking.actions[GET_TAGS](job(GET_TAGS), 0)
        assert found.items == (count if subject.stateful else 0)
        assert timing.bytes_moved == found.bytes_moved == 0
    if subject.stateful:
        storage.actions[COPY](job(COPY)._replace(others=(13,)), 0)
        assert checking.actions[GET_TAGS](job(GET_TAGS, 13), 0).items == 0
        storage.actions[UPDATE](job(UPDATE), 0)
        assert checking.actions[GET_TAGS](job(GET_TAGS), 0).items == 0
        assert refused(storage, GET_TAGS, number=9).status == 404
    checking.close()


def test_versions_are_kept_read_and_deleted(subject: Subject) -> None:
    if READ_VERSION in {*subject.lacks, *subject.refused} or not subject.stateful:
        return
    given = {"container_base": "versions", "versioning": True, "knows_versions": True}
    driver = subject.open(**given, verify=True)
    containers = [f"versions_{index:06d}" for index in range(3)]
    for each in containers:
        assert driver.make_container(each) is None
        assert driver.make_container(each).marked
    old, new = (
        driver.actions[operation](written, 0).version_id
        for operation, written in (
            (CREATE, job(CREATE)), (UPDATE, job(UPDATE, size=120)._replace(version=1)),
        )
    )  # fmt: skip
    assert len({old, new, b""}) == 3
    of_old = job(READ_VERSION)._replace(arguments=(old,))
    assert driver.actions[READ_VERSION](of_old, 0).bytes_moved == 150
    with pytest.raises(StorageError) as caught:
        driver.actions[READ_VERSION](of_old._replace(version=2), 0)
    assert caught.value.kind is ErrorKind.CORRUPT
    assert driver.actions[ENSURE](job(ENSURE, 4), 0).version_id
    assert driver.actions[DELETE_VERSION](of_old, 0).bytes_moved == 0
    with pytest.raises(StorageError) as caught:
        driver.actions[READ_VERSION](of_old, 0)
    assert caught.value.status == 404
    assert driver.actions[READ](job(READ, size=120)._replace(version=1), 0).bytes_moved == 120
    driver.actions[DELETE](job(DELETE), 0)
    found, after = driver.list_versions(containers[0], None)
    name = SIZES[0].name + "_000003"
    assert [each[:1] + each[2:] for each in found] == [(name, True, True), (name, False, False)]
    assert found[1].id.encode() == new
    assert after is None or not driver.list_versions(containers[0], after).versions
    assert not driver.delete_versions(containers[0], found[1:])
    driver.delete_object(containers[1], SIZES[0].name + "_000004")
    assert [driver.delete_container(each) for each in containers] == [True] * 3
    assert driver.list_containers("versions", "", 10) == []
    driver.close()


@pytest.mark.parametrize("verify", [False, True])
def test_one_of_several_creations_wins(subject: Subject, storage: Any, verify: bool) -> None:
    if CREATE_IF_ABSENT in {*subject.lacks, *subject.refused}:
        return
    driver = subject.open(verify=verify)
    create = driver.actions[CREATE_IF_ABSENT]
    if CREATE_IF_ABSENT in subject.ignores:
        with pytest.raises(StorageError, match="ignores If-None-Match"):
            create(job(CREATE_IF_ABSENT), 0)
        driver.close()
        return
    assert create(job(CREATE_IF_ABSENT), 0).bytes_moved == 150
    if subject.stateful:
        with pytest.raises(StorageError) as caught:
            create(job(CREATE_IF_ABSENT, size=160), 0)
        assert caught.value.kind is ErrorKind.LOST_RACE
        assert driver.actions[READ](job(READ), 0).bytes_moved == 150
        storage.actions[DELETE](job(DELETE), 0)
    assert create(job(CREATE_IF_ABSENT, size=160), 0).bytes_moved == 160
    driver.close()


@pytest.mark.parametrize("verify", [False, True])
def test_an_update_if_match_loses_against_another(
    subject: Subject, storage: Any, verify: bool
) -> None:
    if UPDATE_IF_MATCH in {*subject.lacks, *subject.refused}:
        return
    driver = subject.open(verify=verify)
    update = driver.actions[UPDATE_IF_MATCH]
    storage.actions[CREATE](job(CREATE), 0)
    asked = job(UPDATE_IF_MATCH)
    for version in range(3):
        timing = update(asked._replace(version=version, size=150 + version), 0)
        assert timing.bytes_moved == 150 + version
    if subject.stateful:
        assert driver.actions[READ](job(READ)._replace(version=2, size=152), 0).bytes_moved == 152
        with pytest.raises(StorageError) as caught:
            update(job(UPDATE_IF_MATCH, 9), 0)
        assert caught.value.status == 404
    driver.close()


def test_bulk_delete_is_an_operation(subject: Subject, storage: Any) -> None:
    if BULK_DELETE in subject.lacks:
        return
    delete = storage.actions[BULK_DELETE]
    for number in (3, 4, 5):
        storage.actions[CREATE](job(CREATE, number), 0)
    asked = job(BULK_DELETE)._replace(others=(4, 5, 6))  # the last one is not there
    timing = delete(asked, 0)
    assert (timing.status // 100, timing.bytes_moved, timing.statuses) == (2, 0, ())
    if subject.stateful:
        assert 3 <= timing.items <= 4
        for number in (3, 4, 5):
            assert refused(storage, READ, number).status == 404


def in_parts(subject: Subject, kind: str, **changes: Any) -> Any:
    """A driver that stores objects of more than 50 bytes in parts."""
    profile = tuple((int(operation), 0.125) for operation in (CREATE, READ, UPDATE, DELETE))
    sizes = (SizeClass("large", 1, 3 * subject.part, profile, 2),)
    large = LargeObject(50, subject.part, kind, 2)
    return subject.open(**{"verify": True, "sizes": sizes, "large_object": large, **changes})


def kinds_of(subject: Subject, request: pytest.FixtureRequest) -> Iterator[str]:
    """The kinds of large objects of a store, if it has any, in containers that are there."""
    if subject.kinds:
        request.getfixturevalue("storage")
    yield from subject.kinds


def listed(storage: Any) -> list[str]:
    return [entry.name for name in CONTAINERS for entry in storage.list_objects(name, "", 1000)]


def test_a_large_object_is_read_in_ranges(subject: Subject, request: pytest.FixtureRequest) -> None:
    """One that is stored as one, and ones in parts of another size."""
    if not subject.reads_ranges:
        return
    request.getfixturevalue("storage")
    for kind in ("", *subject.kinds):
        segment = (subject.part or 100) - 10
        read = LargeRead(segment, segment, parallel=3)
        driver = in_parts(
            subject, kind, large_read=read, **({} if kind else {"large_object": None})
        )
        act, size = driver.actions, 2 * (subject.part or 100) + 20
        written = act[CREATE](job(CREATE, size=size), 0)
        assert written.parts[:1] == ((3,) if kind else ())
        found = act[READ](job(READ, size=size), 0)
        assert (found.status, found.bytes_moved) == (206, size)
        assert found.parts[0] == -(-size // segment)
        for other in (size + 7, size - 7):
            act[UPDATE](job(UPDATE, size=other)._replace(version=1), 0)
            assert act[READ](job(READ, size=other)._replace(version=1), 0).bytes_moved == other
        with pytest.raises(StorageError) as caught:
            act[READ](job(READ, size=size)._replace(object=77), 0)
        assert caught.value.status == 404
        act[DELETE](job(DELETE, size=size)._replace(version=1), 0)
        driver.close()


def test_an_object_in_parts_is_used_as_a_whole(
    subject: Subject, request: pytest.FixtureRequest
) -> None:
    for kind in kinds_of(subject, request):
        driver, size = in_parts(subject, kind), subject.part + 20
        act = driver.actions
        assert act[CREATE](job(CREATE, size=size), 0).bytes_moved == size
        assert driver.object_run_id("contract_000000", "large_run1_000003") == "run1"
        read = act[READ](job(READ, size=size), 0)
        assert abs(read.headers_ns) <= abs(read.first_byte_ns) <= read.last_byte_ns
        assert read.bytes_moved == size
        across = job(RANGE_READ, size=size)._replace(arguments=(subject.part - 10, 20))
        assert act[RANGE_READ](across, 0).bytes_moved == 20
        assert act[HEAD](job(HEAD, size=size), 0).bytes_moved == 0
        for number in (1, 2):
            post = job(POST, size=size)._replace(number=number)
            assert act[POST](post, 0).bytes_moved == 0
            assert act[READ](job(READ, size=size), 0).bytes_moved == size
        assert driver.object_run_id("contract_000000", "large_run1_000003") == "run1"
        for version, update in enumerate((size + 5, 10, size), start=1):
            given = job(UPDATE, size=update)._replace(version=version)
            assert act[UPDATE](given, 0).bytes_moved == update
            assert act[READ](given._replace(operation=READ), 0).bytes_moved == update
        assert act[DELETE](job(DELETE, size=size)._replace(version=3), 0).status // 100 == 2
        assert listed(driver) == []
        driver.close()


def test_a_copy_of_an_object_in_parts_has_parts_of_its_own(
    subject: Subject, request: pytest.FixtureRequest
) -> None:
    for kind in kinds_of(subject, request):
        driver, size = in_parts(subject, kind), subject.part + 20
        act = driver.actions
        act[CREATE](job(CREATE, size=size), 0)
        copy = job(COPY, size=size)._replace(others=(13,))
        assert act[COPY](copy, 0).bytes_moved == 0
        assert driver.object_run_id("contract_000001", "large_run1_000013") == "run1"
        assert act[DELETE](job(DELETE, size=size), 0).status // 100 == 2
        version = version_of_copy(b"large_run1_000003", 0, b"large_run1_000013")
        reading = job(READ, 13, size)._replace(version=version)
        assert act[READ](reading, 0).bytes_moved == size
        assert act[POST](reading._replace(operation=POST), 0).status // 100 == 2
        assert act[READ](reading, 0).bytes_moved == size
        assert act[DELETE](reading._replace(operation=DELETE), 0).status // 100 == 2
        assert listed(driver) == []
        with pytest.raises(StorageError) as caught:
            act[COPY](copy, 0)
        assert caught.value.status == 404
        driver.close()


def test_bulk_delete_and_clean_up_leave_no_part(
    subject: Subject, request: pytest.FixtureRequest
) -> None:
    for kind in kinds_of(subject, request):
        driver, size = in_parts(subject, kind, verify=False), subject.part + 20
        act = driver.actions
        for number, each in ((3, size), (4, 10), (5, size), (6, size)):
            act[CREATE](job(CREATE, number, each), 0)
        act[UPDATE](job(UPDATE, 5, size)._replace(version=1), 0)
        timing = act[BULK_DELETE](job(BULK_DELETE, 3, size)._replace(others=(4, 5, 9)), 0)
        assert 3 <= timing.items <= 4
        assert {each.rpartition("_0_")[0] or each for each in listed(driver)} == {
            "large_run1_000006"
        }
        assert act[REMOVE](job(REMOVE, 6, 0), 0).status // 100 == 2
        assert listed(driver) == []
        driver.close()


def test_initial_objects_are_stored_as_the_scenario_says(
    subject: Subject, request: pytest.FixtureRequest
) -> None:
    for kind in kinds_of(subject, request):
        driver, size = in_parts(subject, kind), subject.part + 20
        ensure = driver.actions[ENSURE]
        whole = in_parts(subject, kind, large_object=None)
        assert whole.actions[ENSURE](job(ENSURE, 0, size), 0).bytes_moved == size
        assert ensure(job(ENSURE, 0, size), 0).bytes_moved == size
        assert ensure(job(ENSURE, 0, size), 0).bytes_moved == 0
        assert driver.actions[READ](job(READ, 0, size), 0).bytes_moved == size
        assert driver.actions[DELETE](job(DELETE, 0, size), 0).status // 100 == 2
        assert listed(driver) == []
        for each in (driver, whole):
            each.close()
