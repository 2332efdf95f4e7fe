from __future__ import annotations

import json
import os
from pathlib import Path
from threading import get_ident
from types import SimpleNamespace
from typing import Any

import gevent
import pytest

from ssbench.core.errors import SsbenchError, StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.naming import container_name, naming_of
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import StorageSettings
from ssbench.runner import prepare
from ssbench.runner.prepare import (
    RESULT_BYTES,
    Check,
    check_marks,
    check_results_space,
    check_space,
    check_store,
    make_containers,
    mean_size,
)
from ssbench.runner.single_run import settings_of
from ssbench.storage.base import StoreLimits, StoreState
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


def test_sizes_and_names_beyond_the_limits_are_reported_together() -> None:
    limits = StoreLimits(
        max_object_size=999, max_object_name_length=20, max_container_name_length=13
    )
    found = check(limits, scenario(), run_id="0123456789")
    assert [fault.split(":")[0] for fault in found.faults] == [
        'containers would have names like "ssbench_000099" (14 bytes); this store allows 13',
        'objects would have names like "tiny_0123456789_000020" (22 bytes); this store allows 20',
        'sizes[0] "tiny"',
    ]
    assert "size_max 1000 is more than the 999 bytes" in found.faults[2]


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


def test_results_must_fit_onto_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 50_000_000 + 10 * RESULT_BYTES
    for free, lacks in ((needed, False), (needed - 1, True)):
        statvfs = SimpleNamespace(f_bavail=free, f_frsize=1)
        monkeypatch.setattr(os, "statvfs", lambda path, found=statvfs: found)
        assert bool(check_results_space(str(tmp_path), scenario())) == lacks
    assert check_results_space(str(tmp_path), None) == ""
    monkeypatch.undo()
    assert check_results_space("/no/such/folder", scenario(operation_count=10**15)) == ""


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (status_error(401), "the token was refused"),
        (status_error(507), "the store has no space left"),
        (StorageError(ErrorKind.NAME_LOOKUP, "no h"), "is the storage URL right, and does this"),
        (StorageError(ErrorKind.RESET, "reset"), ""),
        (status_error(418), ""),
    ],
)
def test_a_store_that_states_no_limits_says_why(error: StorageError, hint: str) -> None:
    store = MemoryStore()
    store.fail("limits", error)
    storage = storage_of(store)
    with pytest.raises(SsbenchError) as caught:
        check_store(storage, StorageSettings("swift"), scenario())
    text = str(caught.value)
    assert text.startswith(error.detail)
    assert (f"({hint}" in text) if hint else text == error.detail


@pytest.mark.parametrize(("driver", "warnings"), [("swift", 1), ("s3", 0)])
def test_only_stores_that_report_free_space_are_asked_for_it(driver: str, warnings: int) -> None:
    asked = []

    class WithState(MemoryStorage):
        def state(self) -> StoreState:
            asked.append(driver)
            return StoreState(free_bytes=0)

    settings = settings_of(StorageSettings(driver), scenario())
    found = check_store(WithState(MemoryStore(), settings), settings, scenario())
    assert len(found.warnings) == len(asked) == warnings


@pytest.mark.parametrize(
    ("overrides", "place"), [({}, "a.scenario"), ({"policy": "tin"}, "--policy")]
)
def test_the_option_is_the_place_of_a_fault_in_its_value(
    overrides: dict[str, str], place: str
) -> None:
    text = json.dumps(scenario(policy="tin").to_dict())
    places = {"policy": "--policy"}
    wanted = Scenario.resolve(text, "a.scenario", places=places, **overrides)
    settings = settings_of(StorageSettings("swift"), wanted)
    found = check_store(MemoryStorage(MemoryStore(), settings), settings, wanted)
    assert found.faults == (
        f'{place}: the store has no storage policy "tin"; those it has: gold, silver',
    )


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


def test_transient_failures_are_retried() -> None:
    store = MemoryStore()
    store.fail(
        "make_container",
        status_error(503),
        status_error(429),
        status_error(498),
        StorageError(ErrorKind.CONNECT, "refused"),
        StorageError(ErrorKind.NETWORK_TIMEOUT, "silent for 20 s"),
    )
    make_containers(client(storage_of(store), 10), NAMES[:2])
    assert sorted(store.containers) == NAMES[:2]


def test_a_container_with_another_policy_is_rejected_by_name() -> None:
    store = MemoryStore()
    store.add(NAMES[1], "precious", policy="gold")
    with pytest.raises(SsbenchError) as caught:
        make_containers(client(storage_of(store, "silver"), 1), NAMES, policy="silver")
    assert str(caught.value) == (
        'container "ssbench_000001" already exists under storage policy "gold", not "silver":'
        " choose another container_base, or delete it with cleanup-containers"
    )
    assert list(store.containers) == [NAMES[1], NAMES[0]]
    assert not store.containers[NAMES[1]].marker


def test_the_conflict_is_reported_without_the_policy() -> None:
    store = MemoryStore()
    store.fail("make_container", status_error(409))
    store.fail("container_facts", status_error(503))
    with pytest.raises(SsbenchError, match="under another storage policy, not the default one"):
        make_containers(client(storage_of(store), 10), NAMES)


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
        " no mark of ours): choose another container_base, or use it with --use-existing"
    )
    assert list(store.containers) == [NAMES[1], NAMES[0]]
    make_containers(client(storage_of(store), 1), NAMES, use_existing=True)
    assert sorted(store.containers) == NAMES
    assert not store.containers[NAMES[1]].marker, "using it makes it no more ours than it was"


@pytest.mark.parametrize(
    ("status", "word"), [(403, "may not make containers"), (400, "400"), (503, "503")]
)
def test_a_container_that_cannot_be_created_is_an_error(
    status: int, word: str, capfd: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore()
    store.refuse("make_container", NAMES[2], status_error(status))
    with pytest.raises(SsbenchError, match=word) as caught:
        make_containers(client(storage_of(store), 1), NAMES)
    assert NAMES[2] in str(caught.value)
    assert capfd.readouterr().err == "", "no greenlet's traceback is printed"


def test_changes_are_announced_in_this_thread_also_where_a_driver_blocks() -> None:
    store = MemoryStore()
    store.add(NAMES[1], marker=True)
    storage = storage_of(store)
    storage.concurrency = "threads"  # its methods are called in other threads
    announced: list[int] = []
    make_containers(client(storage, 4), NAMES, changing=lambda: announced.append(get_ident()))
    assert announced == [get_ident()] * (len(NAMES) - 1)
    assert all(store.containers[name].marker for name in NAMES)
