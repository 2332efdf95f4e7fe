from __future__ import annotations

import random
from collections import Counter

import pytest

from benchmarks.soak.faults import EVERY_S, KINDS, Fault, draw

SLOTS = (frozenset({"stop"}), frozenset({"kill", "stop"}), frozenset({"kill", "stop", "cut"}))
SEEDS = range(20)


def drawn(seed: int, seconds: float = 1800.0, kinds: tuple[str, ...] = tuple(KINDS)) -> list[Fault]:
    return draw(random.Random(seed), seconds, kinds, SLOTS)


def test_the_same_seed_draws_the_same_faults_and_another_does_not() -> None:
    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize("seed", SEEDS)
def test_faults_are_in_order_and_end_in_time(seed: int) -> None:
    faults = drawn(seed)
    assert faults == sorted(faults, key=lambda fault: fault.at_s)
    assert max(fault.until_s for fault in faults) <= 1800
    assert len(faults) > 1800 / EVERY_S / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_occurs_before_any_occurs_twice(seed: int) -> None:
    assert {fault.kind for fault in drawn(seed)[: len(KINDS)]} == set(KINDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_short_run_has_every_kind_too_and_none_that_fills_it(seed: int) -> None:
    faults = drawn(seed, 60.0)
    assert len(faults) >= 2
    assert max(fault.seconds for fault in faults) <= 15


@pytest.mark.parametrize("seed", SEEDS)
def test_workers_have_only_faults_that_they_can_have(seed: int) -> None:
    for fault in drawn(seed):
        assert (fault.slot is not None) == KINDS[fault.kind].hits_worker
        assert fault.slot is None or fault.kind in SLOTS[fault.slot]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_victim_has_one_fault_at_a_time_and_one_worker_is_well(seed: int) -> None:
    faults = drawn(seed)
    for fault in faults:
        others = [f for f in faults if f is not fault and f.at_s <= fault.at_s < f.until_s]
        assert fault.slot not in [other.slot for other in others]
        ill = {f.slot for f in (fault, *others)} - {None}
        assert len(ill) < len(SLOTS)


def test_only_chosen_kinds_occur() -> None:
    assert {fault.kind for fault in drawn(1, kinds=("kill", "503"))} == {"kill", "503"}


def test_frequencies_follow_the_weights() -> None:
    times = Counter(fault.kind for seed in SEEDS for fault in drawn(seed))
    assert times["stop"] > times["503"]


def test_a_killed_worker_is_followed_by_one_of_its_id_or_of_another() -> None:
    assert {fault.same_id for fault in drawn(1) if fault.kind == "kill"} == {True, False}
