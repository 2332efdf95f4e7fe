"""Series of runs, and the search for a limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.records import MarkRecord
from ssbench.core.stats.steps import Search, Step, seed_of_step
from ssbench.core.stats.thresholds import Threshold
from tests.report import runs

PERCENTILES = (50.0, 99.0, 100.0)


def step(*thresholds: str, records: list[runs.Record] | None = None) -> Step:
    stats = runs.stats_of(records or runs.lasting(4, 100))
    parsed = [Threshold.parse(text) for text in thresholds]
    return Step.of(stats, 20, "x.stat.gz", PERCENTILES, parsed)


def test_each_step_of_a_search_has_a_seed_that_follows_from_the_first() -> None:
    seeds = [seed_of_step(7, number) for number in range(50)]
    assert seeds[0] == 7
    assert len(set(seeds)) == 50
    assert seeds == [seed_of_step(7, number) for number in range(50)]
    assert set(seeds[1:]).isdisjoint(seed_of_step(8, number) for number in range(50))


def test_the_interval_holds_all_loads_with_both_outcomes() -> None:
    search = Search(10, 1000, whole=False, precision=0.5, confirm=1)
    assert search.interval == (None, None)
    near = []
    for load, kept in ((10, 1), (20, 1), (40, 0), (30, 1), (40, 0), (30, 0), (30, 1)):
        near.append(search.is_near)
        search.record(load, kept=bool(kept))
    assert search.next is None
    assert (search.kept, search.broken, search.interval) == (30, 40, (20, 40))
    assert near == [False] * 4 + [True] * 3


def test_a_run_with_missing_users_has_counts_only() -> None:
    records = runs.lasting(4, 100)
    at = next(at for at, record in enumerate(records) if isinstance(record, MarkRecord))
    short = replace(records[at], name="users", users=1)  # type: ignore[type-var]
    found = step("p50 < 1m", records=[*records[: at + 1], short, *records[at + 1 :]])
    assert (found.users_asked, found.users_ran, found.short_of_users) == (4, 1, True)
    assert (found.operations, found.rate_per_s, found.bytes_per_s) == (400, None, None)
    assert found.latencies == dict.fromkeys(PERCENTILES)
    assert found.verdicts == ()
    assert not found.kept
    assert not step().short_of_users


def tried(search: Search, keeps: Callable[[float], bool]) -> list[float]:
    """The loads of all steps."""
    steps: list[float] = []
    while (load := search.next) is not None:
        steps.append(load)
        assert len(steps) < 100
        search.record(load, kept=keeps(load))
    return steps


def test_the_search_doubles_then_bisects() -> None:
    search = Search(1, 1000, precision=0.01)
    assert tried(search, lambda load: load <= 37) == [1, 2, 4, 8, 16, 32, 64, 48, 40, 36, 38, 37]
    assert (search.kept, search.broken) == (37, 38)


def test_rates_need_not_be_whole() -> None:
    search = Search(10, 10_000, least=0.1, whole=False)
    steps = tried(search, lambda load: load <= 333.3)
    assert steps[:7] == [10, 20, 40, 80, 160, 320, 640]
    assert search.kept is not None
    assert search.broken is not None
    assert search.kept <= 333.3 < search.broken <= 1.05 * search.kept
    search = Search(10, 100, least=0.1, whole=False)
    tried(search, lambda load: load <= 0.3)
    assert search.kept == pytest.approx(0.3, rel=0.06)


@given(st.integers(0, 3000), st.integers(1, 3000), st.integers(1, 3000))
def test_any_limit_is_found(limit: int, first: int, most: int) -> None:
    search = Search(first, most)
    steps = tried(search, lambda load: load <= limit)
    assert len(set(steps)) == len(steps) <= 2 + 2 * math.log2(3000)
    assert all(1 <= load <= most for load in steps)
    if search.kept is None:
        assert limit < 1
    elif search.broken is None:
        assert search.kept == most <= limit
    else:
        assert search.kept <= limit < search.broken
        assert search.broken - search.kept <= max(1, 0.05 * search.kept)


def noisy(wrong: dict[float, list[bool]], limit: float) -> Callable[[float], bool]:
    """Keeps up to the limit, but for what the first tries of some loads say."""
    return lambda load: wrong[load].pop(0) if wrong.get(load) else load <= limit


def test_the_majority_of_tries_counts() -> None:
    search = Search(4, 4, confirm=2)
    assert tried(search, noisy({4: [True, False, True, False, True]}, 0)) == [4] * 5
    assert (search.kept, search.broken) == (4, None)


@given(st.randoms(use_true_random=False), st.integers(1, 500), st.integers(0, 3))
def test_repeated_tries_with_noise_end(rng: Random, most: int, confirm: int) -> None:
    outcomes: dict[float, list[bool]] = {}

    def coin(load: float) -> bool:
        outcomes.setdefault(load, []).append(rng.random() < 0.5)
        return outcomes[load][-1]

    search = Search(rng.randint(1, 600), most, confirm=confirm)
    steps = 0
    while (load := search.next) is not None:
        search.record(load, kept=coin(load))
        steps += 1
        assert steps < 1000
    for bound, kept in ((search.kept, True), (search.broken, False)):
        if bound is not None:
            assert outcomes[bound].count(kept) == confirm + 1 > outcomes[bound].count(not kept)
    assert (search.kept or 0) < (search.broken or math.inf)


def test_a_load_outside_the_search_is_rejected() -> None:
    search = Search(8, 100)
    search.record(8, kept=True)
    with pytest.raises(ValueError, match="load 8 was not asked for"):
        search.record(8, kept=False)
    for wrong in ({"least": 0}, {"least": 200}, {"precision": 0}):
        with pytest.raises(ValueError, match="a least load"):
            Search(1, 100, **wrong)


def test_a_first_load_above_the_possible_is_lowered() -> None:
    search = Search(64, 100)
    assert (search.next, search.most, search.bound_by) == (64, 100, "")
    search.limit(5)
    assert (search.next, search.most, search.bound_by) == (5, 5, "workers")
    search.limit(8)
    assert search.most == 5
