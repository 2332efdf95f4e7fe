from __future__ import annotations

import json
from threading import get_ident
from typing import Any

import gevent
import pytest

from ssbench.core.errors import SsbenchError
from ssbench.core.naming import naming_of
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.values import container_name
from ssbench.core.settings import StorageSettings
from ssbench.runner import prepare
from ssbench.runner.prepare import (
    Check,
    check_marks,
    check_space,
    make_containers,
    mean_size,
)
from ssbench.storage.base import ContainerInfo, StoreLimits, StoreState
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error
from tests.runner.clients import client

NAMES = [container_name("ssbench", index) for index in range(12)]


def scenario(**changes: Any) -> Scenario:
    keys: dict[str, Any] = {
        "name": "A scenario",
        "sizes": [{"name": "tiny", "size_min": 1, "size_max": 1000}],
        "initial_files": {"tiny": 10},
        "operation_count": 10,
        "crud_profile": [1, 1, 1, 1],
        "user_count": 1,
    }
    return Scenario.from_json(json.dumps({**keys, **changes}))


def check(limits: StoreLimits, wanted: Scenario, run_id: str = "") -> Check:
    settings = StorageSettings(
        run_id=run_id,
        sizes=wanted.sizes,
        container_base=wanted.container_base,
        container_count=wanted.container_count,
        placement=wanted.policy,
    )
    return prepare.check(limits, wanted, naming_of(settings))


def storage_of(store: MemoryStore, policy: str | None = None) -> MemoryStorage:
    return MemoryStorage(store, StorageSettings(placement=policy))


IN_PARTS = {"above": 100, "segment": 90}


@pytest.mark.parametrize(
    ("limits", "changes", "faults"),
    [
        (StoreLimits(max_object_size=1000), {}, []),
        (StoreLimits(max_object_size=90), {"large_object": {**IN_PARTS, "above": 90}}, []),
        (StoreLimits(max_object_size=89), {"large_object": IN_PARTS},
         ["large_object.segment: 90 is more than the 89 bytes of one object"]),
        (StoreLimits(max_object_size=999), {"large_object": {**IN_PARTS, "above": 1000}},
         ['sizes[0] "tiny": size_max 1000 is more than the 999 bytes that this store takes in one'
          " object"]),
        (StoreLimits(large_objects={"slo": 12, "dlo": 9}), {"large_object": IN_PARTS}, []),
        (StoreLimits(large_objects={"slo": 11, "dlo": 12}), {"large_object": IN_PARTS},
         ['sizes[0] "tiny": objects of 1000 bytes would have 12 segments; this store allows 11']),
        (StoreLimits(large_objects={"slo": 11, "dlo": 12}),
         {"large_object": {**IN_PARTS, "kind": "dlo"}}, []),
        (StoreLimits(large_objects={"multipart": 99}),
         {"large_object": {**IN_PARTS, "kind": "slo"}},
         ['large_object.kind: the store has no "slo"; those it has: multipart']),
        (StoreLimits(large_objects={}), {"large_object": {**IN_PARTS, "kind": "slo"}},
         ['large_object.kind: the store has no "slo"; those it has: none']),
        (StoreLimits(), {"large_object": {**IN_PARTS, "kind": "slo"}}, []),
        (StoreLimits(large_objects={"multipart": 99}, min_part_size=90),
         {"large_object": IN_PARTS}, []),
        (StoreLimits(large_objects={"multipart": 99}, min_part_size=91),
         {"large_object": IN_PARTS},
         ["large_object.segment: 90 is less than the 91 bytes that this store demands of each part"
          " of an object but the last"]),
        (StoreLimits(large_objects={"multipart": 99}, min_part_size=2000),
         {"large_object": {"above": 100, "segment": 1000}}, []),
        (StoreLimits(listing_limit=7), {"operations": {"list": 1}, "list_limit": 7}, []),
        (StoreLimits(listing_limit=7), {"operations": {"list": 1}, "list_limit": 8},
         ["list_limit: 8 is more than the 7 that this store allows"]),
        (StoreLimits(bulk_delete_max=0), {"operations": {"bulk_delete": 1}, "bulk_count": 1},
         ["bulk_count: 1 is more than the 0 that this store allows"]),
        (StoreLimits(bulk_delete_max=0), {"operations": {"read": 1}}, []),
    ],
)  # fmt: skip
def test_what_a_scenario_asks_for_is_compared_with_the_limits(
    limits: StoreLimits, changes: dict[str, Any], faults: list[str]
) -> None:
    if "operations" in changes:
        changes = {"crud_profile": None, **changes}
    assert check(limits, scenario(**changes)) == Check(tuple(faults))


@pytest.mark.parametrize(("free", "lacks"), [(5004, True), (5005, False), (None, False)])
def test_initial_objects_must_fit_into_what_is_left(free: int | None, lacks: bool) -> None:
    found = check_space(StoreState(free), scenario())  # 10 of 1 to 1000 bytes
    assert bool(found) == lacks
    assert not lacks or "take 5.0 kB, and the store has 5.0 kB left" in found


@pytest.mark.parametrize(
    ("size", "mean"),
    [
        ({"size_min": 1, "size_max": 1000}, 500.5),
        ({"size": 7}, 7),
        ({"size": {"list": [[100, 1], [300, 3]]}}, 250),
        (
            {
                "size": {"log_normal": {"median": 1000, "sigma": 0.01}},
                "size_min": 1,
                "size_max": 5000,
            },
            1000,
        ),
    ],
)
def test_the_mean_size_is_that_of_the_distribution(size: dict[str, Any], mean: float) -> None:
    (only,) = scenario(sizes=[{"name": "tiny", **size}]).sizes
    assert mean_size(only) == pytest.approx(mean, rel=0.01)


def test_containers_are_created_with_mark_and_policy() -> None:
    store = MemoryStore(pause=lambda: gevent.sleep(0))
    store.add(NAMES[3], policy="silver")  # empty: it becomes ours
    seen: list[tuple[int, int]] = []
    make_containers(
        client(storage_of(store, "silver"), 4),
        NAMES,
        lambda done, total: seen.append((done, total)),
    )
    assert seen == [(done, 12) for done in range(1, 13)]
    assert store.most_in_flight == 4
    assert all(store.containers[name].marker for name in NAMES)
    assert {store.containers[name].policy for name in NAMES} == {"silver"}


def test_a_container_with_another_policy_is_rejected_by_name() -> None:
    store = MemoryStore()
    store.add(NAMES[1], "precious", policy="gold")
    with pytest.raises(SsbenchError) as caught:
        make_containers(client(storage_of(store, "silver"), 1), NAMES, policy="silver")
    assert str(caught.value) == (
        'container "ssbench_000001" already exists under storage policy "gold", not "silver":'
        " choose another name (container_base), or delete it with cleanup-containers"
    )
    assert list(store.containers) == [NAMES[1], NAMES[0]]
    assert not store.containers[NAMES[1]].marker


def test_containers_that_are_being_made_are_completed_when_one_fails() -> None:
    """One that was cut off would stay without a mark, which no clean-up deletes."""
    store = MemoryStore(pause=lambda: gevent.sleep(0))
    store.add(NAMES[0], "precious")
    begun: list[str] = []

    class Slow(MemoryStorage):
        def make_container(self, container: str, *given: Any) -> ContainerInfo | None:
            begun.append(container)
            for _ in range(20 if container != NAMES[0] else 0):
                gevent.sleep(0)
            return super().make_container(container, *given)

    with pytest.raises(SsbenchError, match=r'"ssbench_000000" holds 1 object'):
        make_containers(client(Slow(store, StorageSettings()), 4), NAMES)
    assert set(begun) == set(store.containers) < set(NAMES)
    assert all(store.containers[name].marker for name in begun[1:])


def test_marks_are_checked_and_missing_containers_are_no_error() -> None:
    store = MemoryStore()
    store.add(NAMES[0], "own", marker=True)
    seen: list[tuple[int, int]] = []
    check_marks(client(storage_of(store), 2), NAMES[:3], lambda *counts: seen.append(counts))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    assert [*store.containers] == [NAMES[0]]
    store.add(NAMES[1], "precious")
    with pytest.raises(SsbenchError, match=r'container "ssbench_000001" .* no mark of ours'):
        check_marks(client(storage_of(store), 2), NAMES)
    store.fail("container_facts", status_error(403))
    with pytest.raises(SsbenchError, match=r"can't see whether ssbench made it: .*--use-existing"):
        check_marks(client(storage_of(store), 1), NAMES)


def test_an_unmarked_container_with_objects_is_rejected_without_the_option() -> None:
    store = MemoryStore()
    store.add(NAMES[1], "precious")
    with pytest.raises(SsbenchError) as caught:
        make_containers(client(storage_of(store), 1), NAMES)
    assert str(caught.value) == (
        'container "ssbench_000001" holds 1 object, and nothing says that ssbench made it (it has'
        " no mark of ours): choose another name (container_base), or use it with --use-existing"
    )
    assert list(store.containers) == [NAMES[1], NAMES[0]]
    make_containers(client(storage_of(store), 1), NAMES, use_existing=True)
    assert sorted(store.containers) == NAMES
    assert not store.containers[NAMES[1]].marker, "using it makes it no more ours than it was"


def test_changes_are_announced_in_this_thread_also_where_a_driver_blocks() -> None:
    store = MemoryStore()
    store.add(NAMES[1], marker=True)
    storage = storage_of(store)
    storage.concurrency = "threads"  # its methods are called in other threads
    announced: list[int] = []
    make_containers(client(storage, 4), NAMES, changing=lambda: announced.append(get_ident()))
    assert announced == [get_ident()] * (len(NAMES) - 1)
    assert all(store.containers[name].marker for name in NAMES)
