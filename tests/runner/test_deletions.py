"""Pieces of work, their failures, and when to give up."""

from __future__ import annotations

import pytest

from ssbench.runner.containers import (
    GIVE_UP_AFTER,
    Deletions,
)
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
