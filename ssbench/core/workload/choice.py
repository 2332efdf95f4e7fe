"""Which object of a class an operation picks: uniformly, in turn, by Zipf's law, the newest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ssbench.core.distributions import Pick, zipf

if TYPE_CHECKING:
    from ssbench.core.workload.population import ObjectPool

#: Draws an object of the pool, which must have members.
Choose = Callable[[], int]


def _uniform(pool: ObjectPool, pick: Pick, chance: Callable[[], float]) -> Choose:
    def choose() -> int:
        members = pool.members
        return members[int(chance() * len(members))]

    return choose


def _in_turn(pool: ObjectPool, pick: Pick, chance: Callable[[], float]) -> Choose:
    """One after the other. Where objects leave, the last one takes the place of one that left."""
    position = -1

    def choose() -> int:
        nonlocal position
        members = pool.members
        position += 1
        if position >= len(members):
            position = 0
        return members[position]

    return choose


def _zipf(pool: ObjectPool, pick: Pick, chance: Callable[[], float]) -> Choose:
    rank = zipf(pick.exponent, chance)

    def choose() -> int:
        members = pool.members
        return members[rank(len(members))]

    return choose


def _newest_first(pool: ObjectPool, pick: Pick, chance: Callable[[], float]) -> Choose:
    rank = zipf(pick.exponent, chance)

    def choose() -> int:
        ages = pool.ages
        assert ages is not None  # nosec B101 # for the type checker: started for this pick
        return ages.newest(rank(len(pool.members)))

    return choose


#: ``pick`` of a scenario.
PICKS: dict[str, Callable[[ObjectPool, Pick, Callable[[], float]], Choose]] = {
    "uniform": _uniform,
    "round_robin": _in_turn,
    "zipf": _zipf,
    "newest_first": _newest_first,
}
