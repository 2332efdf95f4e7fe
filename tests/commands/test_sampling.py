"""Scenarios of what a store holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssbench.commands.replay.scenarios import SizeHistogram, sample_containers, scenario_of
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.values import MAX_BINS
from tests.fakes.memory_storage import MemoryStorage, MemoryStore
from tests.runner.clients import client


def histogram(*sizes: int) -> SizeHistogram:
    found = SizeHistogram()
    for size in sizes:
        found.add(size)
    return found


@given(st.lists(st.integers(0, 2**52), min_size=1))
def test_each_size_is_in_one_bin_that_is_not_wide(sizes: list[int]) -> None:
    bins = histogram(*sizes).to_json()["histogram"]
    assert sum(count for _, _, count in bins) == len(sizes)
    for size in sizes:
        ((low, high),) = [(low, high) for low, high, _ in bins if low <= size < high]
        assert high - low <= max(size / 4, 1)
    assert Scenario.from_json(scenario_of("x", histogram(*sizes)))


def test_no_sizes_need_more_bins_than_a_scenario_may_have() -> None:
    every = histogram(*(part << shift for shift in range(50) for part in range(8)))
    assert len(every.to_json()["histogram"]) <= MAX_BINS


def test_all_pages_of_all_containers_are_listed() -> None:
    store, shown = MemoryStore(), list[str]()
    for name in ("a", "b"):
        store.add(name, *map(str, range(30)), size=100)
    assert sample_containers(client(MemoryStorage(store), 1), ["a", "b"], shown.append).count == 60
    assert shown[-1] == "Listing b: 60 objects so far"
