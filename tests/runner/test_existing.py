"""Runs on objects that are there already."""

from __future__ import annotations

import json

import pytest

from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.naming import pack_names
from ssbench.core.operations import HEAD, LIST, RANGE_READ, READ
from ssbench.core.scenario.scenario import Scenario
from ssbench.runner import existing
from ssbench.runner.existing import check_existing, list_existing
from ssbench.storage.retrying_client import RetryingClient
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error


def scenario(**operations: int) -> Scenario:
    values = {
        "name": "x", "initial_files": {"a": 3, "b": 1}, "operations": operations,
        "user_count": 1, "operation_count": 50, "policy": "gold", "delete_after": 60,
        "sizes": [{"name": "a", "size": 1, "pick": "round_robin"}, {"name": "b", "size": 9}],
    }  # fmt: skip
    return Scenario.from_json(json.dumps(values), "x")


def listed(place: str, names: dict[str, int], **operations: int) -> existing.ExistingObjects:
    store = MemoryStore()
    for name, size in names.items():
        store.add("c", name, size=size)
    client = RetryingClient(MemoryStorage(store), retries=0)
    return list_existing(client, place, scenario(**operations or {"read": 1}), lambda text: None)


def test_objects_of_a_prefix_take_the_place_of_the_scenario_s() -> None:
    found = listed("c/in/", {"in/b": 7, "in/a": 5, "out": 3, "in/": 1})
    assert (found.names, [*found.sizes], found.listed) == (["in/a", "in/b"], [5, 7], 2)
    run, plan = found.prepare(scenario(read=2, range_read=1, list=1), 1)
    assert plan.workload is not None
    jobs = plan.workload.take(1, 40, 0.0)
    assert {job.operation for job in jobs} == {READ, RANGE_READ, LIST}
    assert {(job.object, job.size) for job in jobs if job.operation != LIST} == {(0, 5), (1, 7)}
    assert {job.object for job in jobs if job.operation == LIST} == {0}
    assert (plan.uploads, plan.workload.cleanup()) == (False, None)
    assert (run.policy, run.delete_after, run.container_count) == (None, None, 1)
    (only,) = run.sizes
    assert (only.size_min, only.size_max, only.pick.kind) == (5, 7, "round_robin")


def test_of_too_many_objects_some_are_used_spread_over_the_listing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(existing, "MOST_OBJECTS", 10)
    assert len(listed("c", {f"{number:04d}": number for number in range(10)}).names) == 10
    found = listed("c", {f"{number:04d}": number for number in range(1000)})
    assert found.listed == 1000
    assert 5 < len(found.names) <= 10
    steps = {b - a for a, b in zip(found.sizes, found.sizes[1:], strict=False)}
    assert steps == {128}


def test_objects_that_no_operation_can_use_are_left_out() -> None:
    names = {"a": 5, "b": 0, "../c": 9, "d/./e": 9}
    found = listed("c", names)
    assert (found.names, found.dotted, found.too_small) == (["a", "b"], 2, 0)
    assert len(found.left_out) == 1
    assert found.left_out[0].startswith(
        'Left out: 2 objects with a segment "." or ".." in the name'
    )
    found = listed("c", names, range_read=1, read=1)
    assert (found.names, found.dotted, found.too_small) == (["a"], 2, 1)
    assert "1 object of fewer bytes" in found.left_out[1]


@pytest.mark.parametrize(
    ("place", "wrong"),
    [("c/nothing", "there is no object in c/nothing"), ("d", 'container "d": no such container')],
)
def test_a_place_without_objects_is_an_error(place: str, wrong: str) -> None:
    with pytest.raises(SsbenchError, match=f"^{wrong}"):
        listed(place, {"a": 1})


def test_what_keeps_a_place_from_being_listed_is_said() -> None:
    store = MemoryStore()
    store.add("c", "a", size=0)
    store.refuse("list_objects", "c", status_error(403, "you may not"))
    client = RetryingClient(MemoryStorage(store), retries=0)
    with pytest.raises(SsbenchError, match=r'^container "c": you may not$'):
        list_existing(client, "c", scenario(read=1), lambda text: None)
    with pytest.raises(SsbenchError, match=r"^there is no object of 1 byte or more in c$"):
        listed("c", {"a": 0}, range_read=1)


def test_names_that_are_too_long_for_a_message_are_thinned_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {f"{number:04d}{number**9}": number for number in range(64)}
    packed = len(pack_names([*names]))
    monkeypatch.setattr(existing, "MOST_PACKED", packed)
    assert listed("c", names).names == [*names]
    monkeypatch.setattr(existing, "MOST_PACKED", packed - 1)
    found = listed("c", names)
    assert (found.names, [*found.sizes]) == ([*names][::2], [*range(0, 64, 2)])
    assert found.listed == 64


def test_each_page_of_a_listing_is_shown() -> None:
    store = MemoryStore(listing_limit=2)
    store.add("c", "in/a", "in/b", "in/c", "out")
    shown: list[str] = []
    client = RetryingClient(MemoryStorage(store))
    list_existing(client, "c/in/", scenario(read=1), shown.append)
    assert shown == ["Listing c/in/: 2 objects", "Listing c/in/: 3 objects"]


def test_operations_have_the_weights_of_all_sizes_with_initial_objects() -> None:
    values = {
        "name": "x", "initial_files": {"a": 3, "b": 1}, "user_count": 1, "operation_count": 50,
        "sizes": [
            {"name": "a", "size": 1, "operations": {"read": 1}},
            {"name": "b", "size": 9, "operations": {"read": 1, "head": 1}},
            {"name": "c", "size": 9, "operations": {"list": 1}},
        ],
    }  # fmt: skip
    run, _ = listed("c", {"a": 1}).prepare(Scenario.from_json(json.dumps(values), "x"), 1)
    assert dict(run.sizes[0].profile) == pytest.approx({READ: 7 / 8, HEAD: 1 / 8})


@pytest.mark.parametrize("name", ["create", "copy", "update", "post", "delete", "bulk_delete"])
def test_a_scenario_that_changes_objects_is_rejected(name: str) -> None:
    with pytest.raises(UsageError, match=f"never changes objects, and x has {name}: leave"):
        check_existing(scenario(**{name: 1, "read": 1}))
    check_existing(scenario(read=1, head=1, list=1, range_read=1))
