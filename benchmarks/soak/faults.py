"""Schedules faults: drawn from a table, equal for equal seeds. Pure."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: Between two faults on average; short runs have at least so many.
EVERY_S = 12.0
AT_LEAST = 10
#: After a fault its victim is left in peace for so long, to come back and to work.
REST_S = 5.0


class Kind(NamedTuple):
    """A row of KINDS."""

    weight: float
    shortest_s: float
    longest_s: float
    hits_worker: bool  #: or else the store


KINDS: Mapping[str, Kind] = {
    "kill": Kind(3, 1, 20, True),  # SIGKILL; another worker comes after so long
    "stop": Kind(3, 1, 25, True),  # SIGSTOP, SIGCONT: half of them are below the worker time-out
    "cut": Kind(3, 1, 25, True),  # its network's link down, and up
    "401": Kind(2, 0, 0, False),  # all tokens are refused: the proxy comes back with another key
    "503": Kind(2, 0.5, 8, False),  # the object server is killed, and started again
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a worker or of the store, and its end."""

    at_s: float  #: offset from the beginning of the faults
    kind: str
    seconds: float  #: how long it lasts
    slot: int | None = None  #: the worker's; None for the store
    same_id: bool = False  #: of a killed worker: whether the next has its id

    @property
    def until_s(self) -> float:
        return self.at_s + self.seconds


def draw(
    rng: random.Random, seconds: float, kinds: Sequence[str], slots: Sequence[frozenset[str]]
) -> list[Fault]:
    """The faults of a run of so many seconds, in order; each kind occurs once before any is random.

    A victim has one fault at a time, and one worker at least is always well. All are over when
    the time is.

    :param slots: what may happen to each worker.
    """
    gap_s = min(EVERY_S, seconds / AT_LEAST)
    free_s: dict[int | None, float] = dict.fromkeys([None, *range(len(slots))], 0.0)
    faults: list[Fault] = []
    at_s = 0.0
    coming = _kinds(rng, kinds)
    kind = next(coming)
    while (at_s := at_s + rng.expovariate(1 / gap_s)) < seconds:
        row = KINDS[kind]
        slot = _victim(rng, kind, at_s, free_s, slots) if row.hits_worker else None
        lasting_s = rng.uniform(
            row.shortest_s, max(row.shortest_s, min(row.longest_s, seconds / 4))
        )
        fault = Fault(at_s, kind, lasting_s, slot, rng.random() < 0.5)
        no_worker = row.hits_worker and slot is None
        if no_worker or free_s[slot] > at_s or fault.until_s > seconds:
            continue  # the kind waits for its next chance
        free_s[slot] = fault.until_s + min(REST_S, seconds / 20)
        faults.append(fault)
        kind = next(coming)
    return faults


def _kinds(rng: random.Random, kinds: Sequence[str]) -> Iterator[str]:
    yield from rng.sample(kinds, len(kinds))
    while True:
        yield from rng.choices(kinds, [KINDS[kind].weight for kind in kinds])


def _victim(
    rng: random.Random,
    kind: str,
    at_s: float,
    free_s: Mapping[int | None, float],
    slots: Sequence[frozenset[str]],
) -> int | None:
    """A worker that can have this fault now; None if there is none."""
    well = [slot for slot in range(len(slots)) if free_s[slot] <= at_s]
    fit = [slot for slot in well if kind in slots[slot]]
    return rng.choice(fit) if fit and len(well) > 1 else None
