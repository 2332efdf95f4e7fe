"""Scenarios of what a store holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.commands.replay.scenarios import SizeHistogram, sample_containers, scenario_of
from ssbench.core.errors import SsbenchError
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.values import MAX_BINS
from ssbench.storage.retrying_client import RetryingClient
from tests.fakes.memory_storage import MemoryStorage, MemoryStore


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


def test_all_containers_are_listed_to_their_end() -> None:
    store = MemoryStore()
    for name in ("a", "b"):
        for number in range(30):
            store.add(name, f"{number}", size=100)
    client = RetryingClient(MemoryStorage(store), retries=0)
    shown: list[str] = []
    assert sample_containers(client, ["a", "b"], shown.append).count == 60
    assert shown[-1] == "Listing b: 60 objects so far"
    with pytest.raises(SsbenchError, match='container "c": no such container'):
        sample_containers(client, ["c"], shown.append)
    store.add("empty")
    with pytest.raises(SsbenchError, match="no objects in empty"):
        sample_containers(client, ["empty"], shown.append)


def test_the_scenario_is_readable_json() -> None:
    values = json.loads(scenario_of('Objects like those of "ä"', histogram(5, 5, 900)))
    assert values["sizes"][0]["size"] == {"histogram": [[5, 6, 2], [896, 1024, 1]]}
    assert values["initial_files"] == {"object": 3}
