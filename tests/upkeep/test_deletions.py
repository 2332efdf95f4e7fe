"""Pieces of work, their failures, and when to give up."""

from __future__ import annotations

import pytest

from ssbench.core.errors import SsbenchError
from ssbench.storage.errands import Errands
from ssbench.upkeep.deletions import BULK_NAMES, EXAMPLES, PAGE, Deletions, Ended, advanced
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error


def deletions(store: MemoryStore, stop: list[bool] | None = None) -> Deletions:
    storage = MemoryStorage(store)
    errands = Errands(storage, 2, retries=0)
    return Deletions(storage, errands, 2, lambda: bool(stop), lambda: None)


def filled(**options: int) -> MemoryStore:
    store = MemoryStore(**options)  # type: ignore[arg-type]
    store.add("c", *"abcdef")
    return store


def test_what_the_store_says_of_itself_is_kept_to() -> None:
    found = deletions(filled(listing_limit=7, bulk_delete_max=10**6))
    assert (found.page, found.bulk) == (PAGE, 1)
    found.ask_limits()
    assert (found.page, found.bulk) == (7, BULK_NAMES)


def test_a_store_that_says_nothing_is_taken_as_it_is() -> None:
    store = filled()
    store.fail("limits", status_error(404))
    found = deletions(store)
    found.ask_limits()
    assert (found.page, found.bulk) == (PAGE, 1)


def test_gone_absent_and_failed_are_counted_apart() -> None:
    store = filled()
    store.refuse("delete_object", "b", status_error(403))
    found = deletions(store)
    assert found.objects([("c", ["a"]), ("c", ["b"]), ("c", ["zzz"])]) == 1
    result = found.result
    assert (result.objects, result.absent, result.failed_objects) == (1, 1, 1)
    assert result.examples == ["c/b: the store answered 403"]
    assert not result.ok


def test_a_bulk_is_one_request_and_what_it_leaves_goes_singly() -> None:
    store = filled(bulk_delete_max=10)
    store.refuse("delete_object", "b", status_error(403))
    found = deletions(store)
    assert found.objects([("c", [*"abcdef"])]) == 1
    assert found.result.objects == 5
    assert (store.count("bulk_delete"), store.count("delete_object")) == (1, 1)


def test_examples_are_few() -> None:
    found = deletions(filled())
    for number in range(10):
        found.example(str(number), "no")
    assert len(found.result.examples) == EXAMPLES


def test_who_is_told_to_stop_asks_for_nothing_more() -> None:
    stop: list[bool] = []
    store = filled()
    found = deletions(store, stop)
    found.check_end()
    stop.append(True)
    with pytest.raises(Ended):
        found.check_end()
    assert found.objects([("c", ["a"])]) == 0
    assert store.count("delete_object") == 0
    assert found.result.interrupted


def test_a_listing_that_does_not_advance_is_no_endless_loop() -> None:
    assert advanced("a", "b") == "b"
    with pytest.raises(SsbenchError, match="nothing behind"):
        advanced("b", "b")
