"""Pieces of work, their failures, and when to give up."""

from __future__ import annotations

from collections.abc import Sequence

import gevent
import pytest

from ssbench.core.errors import StorageError
from ssbench.runner.containers import (
    GIVE_UP_AFTER,
    Deletions,
)
from ssbench.storage.base import Kept, ListedVersion, VersionMarker, VersionPage
from ssbench.storage.retrying_client import RetryingClient
from tests.fakes.memory_storage import MemoryStorage, MemoryStore


def deletions(store: MemoryStore, stop: list[bool] | None = None) -> Deletions:
    storage = MemoryStorage(store)
    client = RetryingClient(storage, 2, retries=0, stopping=lambda: bool(stop))
    return Deletions(client, lambda: None)


def filled(**options: int) -> MemoryStore:
    store = MemoryStore(**options)  # type: ignore[arg-type]
    store.add("c", *"abcdef")
    return store


@pytest.mark.parametrize("named", ["", "zzz"])
def test_a_bulk_delete_whose_failures_are_not_ours_deleted_nothing(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.setattr(MemoryStorage, "bulk_delete", lambda *_: [(named, 403)])
    store = filled(bulk_delete_max=10)
    found = deletions(store)
    assert found.delete_all([("c", [*"abcdef"])]) == 0
    assert (found.result.objects, found.result.absent) == (6, 0)
    assert sorted(name for call, name in store.calls if call == "delete_object") == [*"abcdef"]


DOTTED = [".", "..", "../../AUTH_b/c/o", "a/../b"]


@pytest.mark.parametrize("bulk", [None, 10])
def test_ambiguous_names_are_not_sent(bulk: int | None) -> None:
    store = MemoryStore(bulk_delete_max=bulk)
    store.add("c", "a", "b", *DOTTED)
    found = deletions(store)
    assert found.delete_all([("c", ["a", *DOTTED, "b"])]) == len(DOTTED)
    assert found.delete_all([("c", [".."])]) == 1
    assert (found.result.objects, found.result.failed_objects) == (2, len(DOTTED) + 1)
    assert sorted(store.containers["c"].objects) == sorted(DOTTED)
    assert not {name for _, name in store.calls} & set(DOTTED)
    assert 'c/..: not sent: its name has a segment "." or ".."' in found.result.examples


def test_unsent_names_are_no_consecutive_failures() -> None:
    store = filled()
    found = deletions(store)
    dotted = [f"../{number}" for number in range(GIVE_UP_AFTER + 50)]
    assert found.delete_all([("c", [*dotted, *"abcdef"])]) == len(dotted)
    assert (found.result.abort_reason, found.result.objects) == ("", 6)


class VersionedStorage(MemoryStorage):
    """Lists versions of an object in pages of one, and deletes those that are not locked."""

    def __init__(self, store: MemoryStore, *locked: str) -> None:
        super().__init__(store)
        self.versions = [
            ListedVersion("a", "marker", True, True),
            *(ListedVersion("a", id_, False, False) for id_ in ("2", "1")),
        ]
        self.locked, self.deleted, self.busy = locked, list[str](), list[str]()
        self.gone = set[str]()

    def keeps_versions(self, container: str) -> bool:
        return True

    def list_versions(self, container: str, at: VersionMarker | None) -> VersionPage:
        gevent.sleep(0)  # as a request does
        ids = [each.id for each in self.versions]
        rest = self.versions[0 if at is None else ids.index(at[1]) + 1 :]
        left = [each for each in rest if each.id not in self.gone]
        return VersionPage(left[:1], ("a", left[0].id) if len(left) > 1 else None)

    def delete_versions(self, container: str, versions: Sequence[ListedVersion]) -> list[Kept]:
        left = {each.id: Kept(each, "locked") for each in versions if each.id in self.locked}
        for each in versions:
            if each.id in self.busy:
                self.busy.remove(each.id)
                left[each.id] = Kept(each, "SlowDown", is_busy=True)
        gone = [each.id for each in versions if each.id not in left]
        self.deleted += gone
        self.gone.update(gone)
        return [*left.values()]


@pytest.mark.parametrize(("locked", "deleted"), [((), ["2", "1", "marker"]), (("1",), ["2"])])
def test_a_delete_marker_goes_after_all_versions_on_later_pages(
    locked: tuple[str, ...], deleted: list[str]
) -> None:
    storage = VersionedStorage(filled(), *locked)
    client = RetryingClient(storage, 2, retries=0, stopping=lambda: False)
    Deletions(client, lambda: None).delete_versions("c", lambda version: True)
    assert storage.deleted == deleted


@pytest.mark.parametrize("locked", [(), ("1",)])
def test_no_more_markers_of_an_object_are_held_than_its_newest(locked: tuple[str, ...]) -> None:
    """A store may list any number of them."""
    storage = VersionedStorage(filled(), *locked)
    markers = [f"marker{number}" for number in range(5)]
    listed = [*markers, "3", "marker5", "2", "marker6", "1"]
    storage.versions = [ListedVersion("a", id_, False, "marker" in id_) for id_ in listed]
    client = RetryingClient(storage, 2, retries=0, stopping=lambda: False)
    Deletions(client, lambda: None).delete_versions("c", lambda version: True)
    rest = [*listed[1:], listed[0]]
    assert storage.deleted == (rest[:-2] if locked else rest)


def test_versions_that_a_busy_store_keeps_are_deleted_later() -> None:
    storage = VersionedStorage(filled())
    storage.busy = ["1", "1", "marker"]
    client = RetryingClient(storage, 2, retries=3, sleep=lambda seconds: None)
    found = Deletions(client, lambda: None)
    found.delete_versions("c", lambda version: True)
    assert (storage.deleted, found.result.versions) == (["2", "1", "marker"], 3)
    storage = VersionedStorage(filled())
    storage.busy = ["1"] * 5
    client = RetryingClient(storage, 2, retries=3, sleep=lambda seconds: None)
    with pytest.raises(StorageError, match="a version of a stays: SlowDown") as caught:
        Deletions(client, lambda: None).delete_versions("c", lambda version: True)
    assert caught.value.status == 503


def test_a_dry_run_counts_the_versions_of_all_containers() -> None:
    client = RetryingClient(VersionedStorage(filled()), 2, retries=0, stopping=lambda: False)
    found = Deletions(client, lambda: None, dry_run=True)
    found.run(["c", "d"], lambda container: found.delete_versions(container, lambda _: True))
    assert found.result.versions == 6
