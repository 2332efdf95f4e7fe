from __future__ import annotations

import random
from collections import Counter

from benchmarks.soak.faults import EVERY_S, KINDS, Fault, draw

SLOTS = (frozenset({"stop"}), frozenset({"kill", "stop"}), frozenset({"kill", "stop", "cut"}))


def drawn(seed: int, seconds: float = 1800.0, kinds: tuple[str, ...] = tuple(KINDS)) -> list[Fault]:
    return draw(random.Random(seed), seconds, kinds, SLOTS)


def test_faults_of_any_seed_are_those_that_a_run_can_have() -> None:
    """In order and over in time, each kind before any occurs twice, each worker with its own kinds
    and one at a time, and never all workers at once."""
    for seed in range(20):
        faults = drawn(seed)
        assert faults == sorted(faults, key=lambda fault: fault.at_s)
        assert max(fault.until_s for fault in faults) <= 1800
        assert len(faults) > 1800 / EVERY_S / 2
        assert {fault.kind for fault in faults[: len(KINDS)]} == set(KINDS)
        for fault in faults:
            assert (fault.slot is not None) == KINDS[fault.kind].hits_worker
            assert fault.slot is None or fault.kind in SLOTS[fault.slot]
            others = [f for f in faults if f is not fault and f.at_s <= fault.at_s < f.until_s]
            assert fault.slot not in [other.slot for other in others]
            assert len({f.slot for f in (fault, *others)} - {None}) < len(SLOTS)
        short = drawn(seed, 60.0)
        assert len(short) >= 2
        assert max(fault.seconds for fault in short) <= 15


def test_the_same_seed_draws_the_same_faults_and_another_does_not() -> None:
    assert drawn(1) == drawn(1) != drawn(2)
    assert {fault.same_id for fault in drawn(1) if fault.kind == "kill"} == {True, False}


def test_only_chosen_kinds_occur_and_more_often_by_their_weights() -> None:
    assert {fault.kind for fault in drawn(1, kinds=("kill", "503"))} == {"kill", "503"}
    times = Counter(fault.kind for seed in range(20) for fault in drawn(seed))
    assert times["stop"] > times["503"]
