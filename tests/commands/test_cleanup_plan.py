from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator

import gevent
import pytest

from ssbench.commands import cleanup as cleanup
from ssbench.commands.cleanup import CleanupPlan, count, delete, plan
from ssbench.core.errors import AuthError, StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.naming import LeftAlone
from ssbench.core.scenario.values import container_name
from ssbench.core.settings import Credentials
from ssbench.runner.containers import CleanupResult
from ssbench.storage.base import ContainerEntry, OpenUpload, StoreLimits
from tests.fakes.drivers import with_token
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error
from tests.runner.clients import client


def filled(store: MemoryStore, containers: int = 3, objects: int = 25) -> MemoryStorage:
    for index in range(containers):
        names = [f"tiny_{number:06d}" for number in range(objects)]
        store.add(container_name("ssbench", index), *names, size=10, marker=True)
    return MemoryStorage(store)


def planned(
    storage: MemoryStorage, policy: str | None = None, *, unmarked: bool = False
) -> list[ContainerEntry]:
    return plan(client(storage, 10), "ssbench", policy, unmarked=unmarked).entries


def delete_all(storage: MemoryStorage, concurrency: int = 4) -> CleanupResult:
    entries = planned(storage)
    storage.store.most_in_flight = 0
    return delete(client(storage, concurrency), entries)


def names_of(found: CleanupPlan) -> dict[LeftAlone, list[str]]:
    return {reason: neighbours.examples for reason, neighbours in found.kept.items()}


def test_any_policy_selects_policies_of_the_cluster_or_marked_containers() -> None:
    store = MemoryStore(policies=("gold", "Silver"))
    ours = ["ssbench_000001", "ssbench_000001_GOLD", "ssbench_000001_silver",
            "ssbench_000001_default_policy"]  # fmt: skip
    others = ["ssbench_000001_backup", "ssbench_000001_old"]
    store.add("ssbench_000002_gone", "a", marker=True)
    for name in (*ours, *others):
        store.add(name, "precious")
    storage = MemoryStorage(store)
    found = plan(client(storage, 10), "ssbench", "*", unmarked=True)
    assert sorted(entry.name for entry in found.entries) == sorted([*ours, "ssbench_000002_gone"])
    assert names_of(found) == {LeftAlone.NO_POLICY: others}
    assert store.count("container_facts") == 3, "it is asked only where the name leaves it open"
    marked = plan(client(storage, 10), "ssbench", "*")
    assert [entry.name for entry in marked.entries] == ["ssbench_000002_gone"]
    assert names_of(marked)[LeftAlone.NO_MARK] == sorted(ours)
    assert delete(client(storage, 10), found.entries, unmarked=True).ok
    assert list(store.containers) == others
    assert not planned(storage, "old")
    (old,) = planned(storage, "old", unmarked=True)
    assert old.name == "ssbench_000001_old"


def test_without_policies_of_the_store_the_mark_decides() -> None:
    class Silent(MemoryStorage):
        def limits(self) -> StoreLimits:
            return StoreLimits()

    store = MemoryStore()
    store.add("ssbench_000001_gold", "precious")
    store.add("ssbench_000002_gold", "a", marker=True)
    found = [entry.name for entry in plan(client(Silent(store), 10), "ssbench", "*").entries]
    assert found == ["ssbench_000002_gold"]


def test_a_container_that_takes_the_place_of_ours_keeps_its_objects() -> None:
    store = MemoryStore(listing_limit=10)
    storage = filled(store, containers=1, objects=45)
    entries = planned(storage)
    (container,) = store.containers.values()

    def replace() -> None:
        container.marker = store.count("delete_object") < 10

    store.pause = replace
    result = delete(client(storage, 1), entries)
    assert (result.objects, result.containers, result.failed_containers) == (10, 0, 1)
    assert result.examples == [
        "ssbench_000000: its mark of ssbench is gone: another container took its place"
    ]
    assert len(container.objects) == 35


@pytest.mark.parametrize("last", ["delete_object", "open_uploads"])
def test_a_container_that_takes_the_place_of_an_emptied_one_stays(last: str) -> None:
    store = MemoryStore()
    storage = filled(store, containers=1, objects=1)
    entries = planned(storage)
    (container,) = store.containers.values()
    upload = OpenUpload("tiny_000001", "theirs")

    def replace() -> None:
        if container.marker and store.count(last):
            container.marker = False
            container.uploads[:] = [upload] if last == "delete_object" else []

    store.pause = replace
    result = delete(client(storage, 1), entries)
    assert (result.containers, result.failed_containers, result.uploads) == (0, 1, 0)
    assert "ssbench_000000" in store.containers
    assert container.uploads == ([upload] if last == "delete_object" else [])


def test_a_failed_check_of_a_mark_ends_cleanup_and_a_missing_container_does_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    store = MemoryStore()
    store.add("ssbench_000001_backup", "precious")
    store.refuse("container_facts", "ssbench_000001_backup", status_error(404))
    assert plan(client(MemoryStorage(store), 10), "ssbench", "*") == CleanupPlan()
    store.refuse("container_facts", "ssbench_000001_backup", status_error(403))
    with pytest.raises(StorageError, match="403"):
        plan(client(MemoryStorage(store), 10), "ssbench", "*")
    assert capfd.readouterr().err == ""


def test_a_name_that_repeats_the_token_is_masked() -> None:
    store = MemoryStore()
    store.add("ssbench_000001_token-of-a-user", "a")
    storage = MemoryStorage(store)
    found = plan(client(storage, 10, credentials=with_token("token-of-a-user")), "ssbench")
    assert names_of(found) == {LeftAlone.NAMES_A_POLICY: ["ssbench_000001_***"]}


def test_only_a_few_other_containers_are_remembered() -> None:
    store = MemoryStore()
    for number in range(50):
        store.add(f"ssbench_{number:06d}_backup")
    (neighbours,) = plan(client(MemoryStorage(store), 10), "ssbench").kept.values()
    assert (neighbours.count, len(neighbours.examples)) == (50, 5)


def test_stopping_ends_the_listing() -> None:
    store = MemoryStore(listing_limit=1)
    storage = filled(store, containers=9)

    def stopping() -> bool:
        return store.count("list_containers") >= 2

    found = plan(client(storage, 10, stopping=stopping), "ssbench")
    assert len(found.entries) == 1
    assert store.count("list_containers") == 2
    assert [
        one.complete for one in count(client(storage, 10, stopping=stopping), found.entries)
    ] == [False]
    assert store.count("list_objects") == 0


def test_object_counts_come_from_listings() -> None:
    store = MemoryStore(listing_limit=10)
    storage = filled(store, containers=2)
    store.add("ssbench_000002", marker=True)
    stale = [ContainerEntry(container_name("ssbench", index), 0, 0) for index in range(4)]
    found = count(client(storage, 10), stale)
    assert [(one.objects, one.bytes_used, one.complete) for one in found] == [
        (25, 250, True), (25, 250, True), (0, 0, True), (0, 0, True),
    ]  # fmt: skip
    assert [one.entry for one in found] == stale


def test_for_many_large_containers_one_page_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "COUNTED_IN_ALL", 50)
    store = MemoryStore(listing_limit=10)
    storage = filled(store, containers=6)
    store.add("ssbench_000009", "a", size=10, marker=True)
    found = count(client(storage, 1), planned(storage))
    assert [one.objects for one in found] == [25, 25, 10, 10, 10, 10, 1]
    assert [one.complete for one in found] == [True, True, False, False, False, False, True]


@pytest.mark.parametrize(("bulk", "most"), [(None, 1), (4, 4), (10_000, 7)])
def test_all_objects_of_all_pages_are_deleted_and_no_others(bulk: int | None, most: int) -> None:
    """Progress counts those as well that the account does not report yet."""
    store = MemoryStore(listing_limit=7, bulk_delete_max=bulk)
    storage = filled(store)
    store.add("ssbench_backup", "precious")
    seen: list[tuple[int, int]] = []
    stale = [ContainerEntry(entry.name, 0, 0) for entry in planned(storage)]
    result = delete(client(storage, 1), stale, lambda done, total: seen.append((done, total)))
    assert (result.objects, result.containers, result.ok) == (75, 3, True)
    assert result.rate(result.objects) == 75 / result.seconds > 0
    assert list(store.containers) == ["ssbench_backup"]
    assert (seen[0], seen[-1]) == ((most, 10), (78, 78))
    pages = [7, 14, 21, 25, 32, 39, 46, 50, 57, 64, 71, 75]
    assert [*dict.fromkeys(total for _, total in seen)] == [3 + listed for listed in pages]
    assert (store.count("bulk_delete") > 0) is (bulk is not None)
    assert (store.count("delete_object") > 0) is (bulk is None)


def test_one_big_container_uses_all_of_the_concurrency() -> None:
    store = MemoryStore(pause=lambda: gevent.sleep(0))
    assert delete_all(filled(store, containers=1, objects=50), concurrency=6).ok
    assert store.most_in_flight == 6


def test_transient_failures_are_retried() -> None:
    storage = filled(MemoryStore(), containers=1)
    for method in ("list_objects", "delete_object", "delete_container"):
        storage.store.fail(method, status_error(503), StorageError(ErrorKind.RESET, "reset"))
    assert delete_all(storage).ok


def test_a_lagging_listing_is_read_again() -> None:
    store = MemoryStore()
    storage = filled(store, containers=1)
    store.fail("delete_container", status_error(409))
    pauses: list[float] = []

    def straggler(seconds: float) -> None:
        pauses.append(seconds)
        store.add("ssbench_000000", "came late")

    result = delete(client(storage, 4, sleep=straggler), planned(storage))
    assert result.ok
    assert result.objects == 26
    assert pauses == [0.5]


def test_a_container_that_others_fill_is_abandoned() -> None:
    store = MemoryStore()
    storage = filled(store, containers=1)
    store.refuse("delete_container", "ssbench_000000", status_error(409))
    result = delete_all(storage)
    assert result.failed_containers == 1
    assert "still not empty" in result.examples[0]
    assert "the store answered 409" in result.examples[0]


def test_a_missing_container_counts_as_deleted() -> None:
    result = delete(client(MemoryStorage(), 10), [ContainerEntry("ssbench_000000", 3, 30)])
    assert result.ok
    assert (result.containers, result.objects) == (1, 0)


def test_the_token_is_renewed_once() -> None:
    store = MemoryStore()
    storage = filled(store)
    entries = planned(storage)
    store.tokens = {"new"}
    serials = itertools.count(1)
    result = delete(client(storage, 4, renew=lambda: with_token("new", next(serials))), entries)
    assert result.ok
    assert storage.credentials_serial == 1


def test_a_token_that_cannot_be_renewed_ends_it() -> None:
    store = MemoryStore()
    storage = filled(store, containers=50)
    entries = planned(storage)
    store.tokens = set()

    def renew() -> Credentials:
        raise AuthError("wrong password")

    result = delete(client(storage, 2, renew=renew), entries)
    assert result.abort_reason == "the store refuses our token: wrong password"
    assert result.left > 40
    assert not result.ok


@pytest.mark.parametrize("bulk", [None, 3])
@pytest.mark.parametrize("reason", ["stop", "token", "Ctrl-C"])
def test_a_cleanup_that_ends_early_sends_nothing_more(reason: str, bulk: int | None) -> None:
    store = MemoryStore(listing_limit=5, bulk_delete_max=bulk)
    storage = filled(store, containers=1)
    entries = planned(storage)

    def deleted() -> bool:
        return store.count("bulk_delete") + store.count("delete_object") > 0

    if reason == "token":
        for number in range(25):
            store.refuse("delete_object", f"tiny_{number:06d}", status_error(401))
    elif reason == "Ctrl-C":
        script = interrupting(0)
        store.pause = lambda: next(script, None) if deleted() else None
    stopping = deleted if reason == "stop" else lambda: False
    result = delete(client(storage, 1, stopping=stopping), entries)
    assert (result.interrupted, bool(result.abort_reason)) == (reason != "token", reason == "token")
    requests = [store.count(name) for name in ("list_objects", "open_uploads", "delete_container")]
    assert requests == [1, 0, 0]
    assert (result.containers, result.left, result.ok) == (0, 1, False)


def interrupting(after: int) -> Iterator[None]:
    yield from (None for _ in range(after))
    raise KeyboardInterrupt


def test_a_real_ctrl_c_during_a_request() -> None:
    requests = itertools.count(1)

    def pause() -> None:
        if next(requests) == 100:
            gevent.spawn(os.kill, os.getpid(), signal.SIGINT)
        gevent.sleep(0.001)

    store = MemoryStore()
    storage = filled(store, containers=20)
    entries = planned(storage)
    store.pause = pause
    result = delete(client(storage, 4), entries)
    assert result.interrupted
    assert result.left > 0
    assert 0 < result.objects < 500


def test_open_uploads_of_objects_are_aborted_with_their_container() -> None:
    store = MemoryStore()
    storage = filled(store, containers=3, objects=1)
    ours, foreign = OpenUpload("tiny_0123456789_000003", "1"), OpenUpload("precious", "2")
    store.containers["ssbench_000000"].uploads = [ours]
    store.containers["ssbench_000001"].uploads = [ours, foreign]
    store.refuse("open_uploads", "ssbench_000002", status_error(403))
    result = delete_all(storage)
    assert (result.containers, result.uploads, result.failed_containers) == (2, 2, 1)
    assert [*store.containers] == ["ssbench_000001"]
    assert store.containers["ssbench_000001"].uploads == [foreign]
    assert "does it keep versions, or is another client writing to it?" in result.examples[0]
