"""Which of a class's objects an operation picks.

Each pick is a row of ``PICKS``: a function of a pool and random numbers that gives the choice.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec import Struct


class Pick(Struct, frozen=True):
    """Which of a class's objects an operation picks."""

    kind: str = "uniform"
    exponent: float = 0.0  #: of those that go by Zipf's law


UNIFORM = Pick()
SHUFFLE = Pick("shuffle")


class Pool(Protocol):
    """The objects of a class, by their numbers."""

    @property
    def members(self) -> Sequence[int]: ...  #: those that may be picked

    @property
    def ages(self) -> AgeIndex | None: ...  #: for ``newest_first``

    def has(self, number: int) -> bool: ...


#: Picks an object of a pool that has members.
Choose = Callable[[], int]


def _uniform(pool: Pool, pick: Pick, chance: Callable[[], float]) -> Choose:
    def choose() -> int:
        members = pool.members
        return members[int(chance() * len(members))]

    return choose


def _in_turn(pool: Pool, pick: Pick, chance: Callable[[], float]) -> Choose:
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


class Shuffle:
    """Each object once per epoch, in an order that is drawn anew for each (Fisher and Yates).

    Objects that join have their turn from the next epoch on; those that left have none. The order
    takes 4 bytes an object.
    """

    def __init__(self, pool: Pool, pick: Pick, chance: Callable[[], float]) -> None:
        self._pool, self._chance = pool, chance
        self._order = array("I")
        self._next = 0

    def __call__(self) -> int:
        order = self._order
        while True:
            if self._next >= len(order):
                order = self._order = array("I", self._pool.members)
                self._next = 0
            at = self._next
            other = at + int(self._chance() * (len(order) - at))
            number = order[other]
            order[other], order[at] = order[at], number
            self._next = at + 1
            if self._pool.has(number):
                return number

    def put_back(self) -> None:
        """The newest object is busy: its turn comes later in this epoch."""
        self._next -= 1


def _zipf(pool: Pool, pick: Pick, chance: Callable[[], float]) -> Choose:
    rank = zipf(pick.exponent, chance)

    def choose() -> int:
        members = pool.members
        return members[rank(len(members))]

    return choose


def _newest_first(pool: Pool, pick: Pick, chance: Callable[[], float]) -> Choose:
    rank = zipf(pick.exponent, chance)

    def choose() -> int:
        ages = pool.ages
        assert ages is not None  # nosec B101 # for the type checker
        return ages.newest(rank(len(pool.members)))

    return choose


def zipf(exponent: float, chance: Callable[[], float]) -> Callable[[int], int]:
    """Draws by Zipf's law: rank k of n, from 0, with a probability proportional to
    (k + 1) ** -exponent, in constant time for any n.

    Rejection-inversion: W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from
    monotone discrete distributions", ACM TOMACS 6 (1996).

    :param exponent: above 0.
    :param chance: gives numbers in [0, 1).
    """
    power = 1.0 - exponent

    def integral(x: float) -> float:  # of x ** -exponent, from 1
        log = math.log(x)
        return math.expm1(power * log) / power if power else log

    def inverse(y: float) -> float:
        return math.exp(math.log1p(max(y * power, -1.0 + 2.0**-53)) / power if power else y)

    begin = integral(1.5) - 1.0
    # A rank this near to its point of the curve is accepted without looking further.
    near = 2.0 - inverse(integral(2.5) - 2.0**-exponent)
    ends: tuple[int, float] = (0, 0.0)  # n, and the integral up to it

    def draw(n: int) -> int:
        nonlocal ends
        if ends[0] != n:
            ends = n, integral(n + 0.5)
        end = ends[1]
        while True:
            y = end + chance() * (begin - end)
            x = inverse(y)
            rank = min(max(int(x + 0.5), 1), n)
            if rank - x <= near or y >= integral(rank + 0.5) - rank**-exponent:
                return rank - 1

    return draw


class AgeIndex:
    """The numbers that are present, by age: the highest is the newest.

    A Fenwick tree (P. M. Fenwick, "A new data structure for cumulative frequency tables", Software:
    Practice and Experience 24, 1994) in 4 bytes a number: each entry counts the present numbers of
    a range that ends with it. Every call takes O(log n); the start takes 0.2 s for 10 million.

    :param count: numbers from 0 that were given so far.
    :param absent: those of them that are not present.
    """

    def __init__(self, count: int, absent: Iterable[int] = ()) -> None:
        self._size = count
        self._present = count
        self._tree = array("I", bytes(4 * (count + 1)))  # from index 1
        step = 1
        while step <= count:
            entries = len(range(step, count + 1, 2 * step))
            self._tree[step :: 2 * step] = array("I", [step]) * entries
            step *= 2
        for number in absent:
            self.change(number, -1)

    def append(self) -> None:
        """The next number was given; it is not present yet."""
        self._size += 1
        index, count = self._size, 0
        end, child = index - (index & -index), index - 1
        while child > end:
            count += self._tree[child]
            child -= child & -child
        self._tree.append(count)

    def change(self, number: int, by: int) -> None:
        """A number is present from now on (1), or not any more (-1)."""
        self._present += by
        index = number + 1
        while index <= self._size:
            self._tree[index] += by
            index += index & -index

    def newest(self, rank: int) -> int:
        """The newest number but ``rank``, which is below the number of those present."""
        left = self._present - rank  # number up to the one sought
        index = 0
        step = 1 << self._size.bit_length()
        while step:
            after = index + step
            if after <= self._size and self._tree[after] < left:
                index = after
                left -= self._tree[after]
            step >>= 1
        return index


#: ``pick`` of a scenario.
PICKS: dict[str, Callable[[Pool, Pick, Callable[[], float]], Choose]] = {
    "uniform": _uniform,
    "round_robin": _in_turn,
    "shuffle": Shuffle,
    "zipf": _zipf,
    "newest_first": _newest_first,
}
