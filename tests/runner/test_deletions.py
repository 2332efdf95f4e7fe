"""Pieces of work, their failures, and when to give up."""

from __future__ import annotations

import pytest

from ssbench.runner.containers import (
    BULK_NAMES,
    GIVE_UP_AFTER,
    PAGE,
    CleanupStopped,
    Deletions,
    page_size,
)
from ssbench.storage.base import OpenUpload, StoreLimits
from ssbench.storage.retrying_client import RetryingClient
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error


def deletions(store: MemoryStore, stop: list[bool] | None = None) -> Deletions:
    storage = MemoryStorage(store)
    client = RetryingClient(storage, 2, retries=0, stopping=lambda: bool(stop))
    return Deletions(client, lambda: None)


def filled(**options: int) -> MemoryStore:
    store = MemoryStore(**options)  # type: ignore[arg-type]
    store.add("c", *"abcdef")
    return store


def test_limits_of_the_store_are_respected() -> None:
    found = deletions(filled(listing_limit=7, bulk_delete_max=10**6))
    assert (found.page, found.bulk) == (PAGE, 1)
    found.fetch_limits()
    assert (found.page, found.bulk) == (7, BULK_NAMES)
    assert page_size(StoreLimits(listing_limit=10**9)) == page_size(StoreLimits()) == PAGE


def test_a_store_without_limits_uses_defaults() -> None:
    store = filled()
    store.fail("limits", status_error(404))
    found = deletions(store)
    found.fetch_limits()
    assert (found.page, found.bulk) == (PAGE, 1)


def test_a_bulk_delete_is_one_request_and_failures_are_deleted_singly() -> None:
    store = filled(bulk_delete_max=10)
    store.refuse("delete_object", "b", status_error(403))
    found = deletions(store)
    assert found.delete_all([("c", [*"abcdef"])]) == 1
    assert found.result.objects == 5
    assert (store.count("bulk_delete"), store.count("delete_object")) == (1, 1)


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


def test_stopping_ends_the_requests() -> None:
    stop: list[bool] = []
    store = filled()
    found = deletions(store, stop)
    found.raise_if_stopping()
    stop.append(True)
    with pytest.raises(CleanupStopped):
        found.raise_if_stopping()
    assert found.delete_all([("c", ["a"])]) == 0
    assert store.count("delete_object") == 0
    assert found.result.interrupted


def test_stopping_ends_the_abortion_of_uploads() -> None:
    stop: list[bool] = []
    store = filled()
    store.containers["c"].uploads = [OpenUpload("a", "1"), OpenUpload("b", "2")]
    found = deletions(store, stop)

    def stop_at_the_first(upload: OpenUpload) -> bool:
        stop.append(True)
        return True

    with pytest.raises(CleanupStopped):
        found.abort_uploads("c", stop_at_the_first)
    assert store.count("abort_upload") == 0


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
