"""Which objects exist, per size class, and what is known of them.

An object is (size class, number). A pool stores only what the scenario needs, in arrays of 4 bytes
per number:

- members: the numbers that may be drawn; a ``range`` until one leaves or joins;
- positions: the index of a number in members, once one has left, so that leaving needs no search;
- sizes, if they vary; versions, if objects are updated; expiry, with delete_after;
- ages, if the newest objects are picked;
- one byte per *created* object: whether it is, or may be, in the store (and cleanup removes it).

The life of an object::

    reserve ──created──▶ member ──close──▶ closing ──removed──▶ gone
       └──never_was─▶ gone  │ ▲               │
                            │ └────reopen─────┘
                            └──quarantine, expiry──▶ left, perhaps still in the store

An initial object of unknown outcome stays in the store: the next run's populate phase checks and
repairs it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, MutableSequence, Sequence
from enum import Enum
from heapq import heappop, heappush, merge
from itertools import repeat
from typing import NamedTuple

from ssbench.core.content import initial_size
from ssbench.core.model import SizeClass
from ssbench.core.operations import Effect, Target, row_of
from ssbench.core.picks import AgeIndex, Pick

NOWHERE = 0xFFFFFFFF  #: the position of a number that is no member
#: A created object is not in the store; is; is or is not.
_ABSENT, _PRESENT, _UNKNOWN = 0, 1, 2


def lifetime_s(delete_after_s: int) -> float:
    """How long an object with delete_after stays in the population, from when its job was drawn.

    That is one second less, since Swift counts whole seconds, and less the time that an operation
    on it may need to reach the store: half of its lifetime, at most five seconds.
    """
    return delete_after_s - 1 - min(5.0, delete_after_s / 2)


class Contest(Enum):
    """What is known of an object for which several operations compete."""

    OPEN = "open"  #: nobody has created it
    WON = "won"
    UNKNOWN = "unknown"  #: somebody may have


class Version(NamedTuple):
    """A version of an object in the store."""

    object: int
    id: bytes  #: as the store names it
    version: int  #: of the content
    size: int


class History:
    """The versions of a class's objects, as far as their uploads had an id: the newest of each
    object, and older ones, those of removed objects among them.

    Of either kind so many are known at most; an older version takes the place of another then.
    """

    MOST = 200_000  #: about 40 MB of each kind

    def __init__(self) -> None:
        self.older: list[Version] = []  #: in any order
        self._newest: dict[int, Version] = {}  #: by object
        self._next = 0  #: whose place the next older one takes

    def made(self, newest: Version) -> None:
        """An upload has made a version. b"" as its id: it is not known."""
        self.removed(newest.object)
        if newest.id and len(self._newest) < self.MOST:
            self._newest[newest.object] = newest

    def removed(self, number: int) -> None:
        """An object is gone, or has new content: its versions stay."""
        last = self._newest.pop(number, None)
        if last is not None:
            self.add(last)

    def add(self, older: Version) -> None:
        """This older version is in the store."""
        if len(self.older) < self.MOST:
            self.older.append(older)
        else:
            self.older[self._next] = older
            self._next = (self._next + 1) % self.MOST

    def forget(self, number: int) -> None:
        """It is not known which version of an object is its newest."""
        self._newest.pop(number, None)

    def take(self, at: int) -> Version:
        """Remove one of the older versions, which is to be deleted."""
        taken, last = self.older[at], self.older.pop()
        if at < len(self.older):
            self.older[at] = last
        return taken


class Population:
    """A pool per size class, in the scenario's order.

    :param delete_after_s: lifetime of all objects, initial ones too; None: they do not expire.
    :param versions: whether to know the versions of objects.
    :param named: by class: number of an object -> the one in its name, if that is another.
    """

    def __init__(
        self,
        sizes: Sequence[SizeClass],
        delete_after_s: int | None = None,
        versions: bool = False,
        named: Sequence[Callable[[int], int]] = (),
    ) -> None:
        self.delete_after_s = delete_after_s
        lifetime = lifetime_s(delete_after_s) if delete_after_s else None
        self.pools = [
            ObjectPool(size, lifetime, named[at] if named else int) for at, size in enumerate(sizes)
        ]
        self.knows_versions = versions
        for pool in self.pools if versions else ():
            pool.history = History()

    def start(
        self,
        verify: bool = False,
        *,
        above: int | None = None,
        operations: Collection[int] = (),
        picks: Sequence[Pick | None] = (),
    ) -> None:
        """Prepare draws: 0.4 s for 10 million objects, 10 s if they were not populated.

        :param verify: contents are verified, so what replaces one excludes all else on the object.
        :param above: bytes; the same for classes with objects above this size, whose parts an
            update replaces one by one.
        :param operations: that groups of users have, beside those of the classes.
        :param picks: of these groups.
        """
        for pool in self.pools:
            in_parts = above is not None and pool.size_class.size_max > above
            kinds = {pick.kind for pick in (pool.size_class.pick, *picks) if pick}
            pool.start(verify or in_parts, operations, by_age="newest_first" in kinds)

    def expire(self, now_s: float) -> None:
        """Remove objects from the population that will expire soon."""
        for pool in self.pools if self.delete_after_s else ():
            pool.expire(now_s)

    @property
    def left_behind(self) -> int:
        """Number of created objects that may be in the store, including ``left_unknown``."""
        return sum(pool.left_behind for pool in self.pools)

    @property
    def left_unknown(self) -> int:
        """Number of those whose creation or removal had an unknown outcome."""
        return sum(pool.left_unknown for pool in self.pools)

    def __len__(self) -> int:
        return sum(len(pool.members) for pool in self.pools)

    def __repr__(self) -> str:
        return f"<Population {len(self)} objects, {self.left_behind} created>"


class ObjectPool:
    """The objects of one size class. Draws read the attributes; only the methods change them."""

    def __init__(
        self,
        size_class: SizeClass,
        lifetime_s: float | None = None,
        named: Callable[[int], int] = int,
    ) -> None:
        self.size_class = size_class
        self._named = named
        self.members: range | MutableSequence[int] = range(size_class.initial_files)
        self.sizes: array[int] | None = None  #: minus size_min; None if all are equal
        self.versions: array[int] | None = None  #: None if all are 0
        #: Object -> operations in flight on it; None if that does not matter.
        self.busy: dict[int, int] | None = None
        #: Whether an operation that replaces an object's content excludes all others on it.
        self.exclusive = False
        #: By group: (object, operation) of removals that waited for the object and can go out now.
        self.ready: defaultdict[int, deque[tuple[int, int]]] = defaultdict(deque)
        self.ages: AgeIndex | None = None  #: if the class's pick needs it
        #: Contested object -> how many of its rivals have no outcome yet, and what is known.
        self._contests: dict[int, tuple[int, Contest]] = {}
        self.history: History | None = None  #: None: versions do not matter
        self.closing = 0  #: objects with a removal that is held back, ready or in flight
        #: Object -> the operation that is to remove it, and its group.
        self._held: dict[int, tuple[int, int]] = {}
        self._positions: array[int] | None = None
        self._in_store = bytearray()
        self._next = size_class.initial_files
        spread = size_class.size_max - size_class.size_min
        if spread:
            self.sizes = array("I" if spread < 1 << 32 else "Q")
        self._expiry = _Expiry(lifetime_s, self._next) if lifetime_s is not None else None

    def size(self, number: int) -> int:
        """Bytes of an object. Sizes of initial objects are computed on the first call for a number,
        with all before it: 10 s for 10 million, spread over the populate phase.
        """
        size_min = self.size_class.size_min
        if self.sizes is None:
            return size_min
        while len(self.sizes) <= number:
            named = self._named(len(self.sizes))
            self.sizes.append(initial_size(self.size_class, named) - size_min)
        return size_min + self.sizes[number]

    def start(
        self, verify: bool, operations: Collection[int] = (), *, by_age: bool = False
    ) -> None:
        """Prepare the arrays that the class's operations, and these, need.

        An operation that depends on an object's version or size may not be in flight while another
        one replaces the content.
        """
        own = (operation for operation, _share in self.size_class.profile)
        rows = [row_of(operation) for operation in {*own, *operations}]
        effects = {row.effect for row in rows}
        copies = any(row.target is Target.PAIR for row in rows)
        removes = Effect.REMOVES in effects
        self.exclusive = (
            verify
            or self.history is not None
            or (Effect.REPLACES in effects and any(row.depends_on_content for row in rows))
        )
        if self._next:
            self.size(self._next - 1)
        if Effect.REPLACES in effects or (verify and copies):
            self.versions = array("I", bytes(4 * self._next))
        if removes or effects & {Effect.CREATES, Effect.CONTESTS}:
            self._as_arrays(positions=removes)
        if removes or self.exclusive:
            self.busy = {}
        if by_age:
            positions = self._positions if len(self.members) < self._next else ()
            absent = (number for number, at in enumerate(positions or ()) if at == NOWHERE)
            self.ages = AgeIndex(self._next, absent)

    @property
    def held(self) -> int:
        """Number of removals that were drawn and not yet sent."""
        return len(self._held) + sum(map(len, self.ready.values()))

    @property
    def left_behind(self) -> int:
        """Number of created objects that may be in the store, including ``left_unknown``."""
        return len(self._in_store) - self._in_store.count(_ABSENT)

    @property
    def left_unknown(self) -> int:
        """Number of those whose creation or removal had an unknown outcome."""
        return self._in_store.count(_UNKNOWN)

    def created(self) -> Iterator[int]:
        """The created objects that may be in the store, in order; may change meanwhile."""
        return merge(self._created(_PRESENT), self._created(_UNKNOWN))

    def _created(self, state: int) -> Iterator[int]:
        initial = self.size_class.initial_files
        at = self._in_store.find(state)
        while at >= 0:
            yield initial + at
            at = self._in_store.find(state, at + 1)

    def reserve(self, size: int) -> int:
        """The number of an object that is about to be created. It counts as present until
        ``set_absent`` or ``set_unknown``.
        """
        number = self._next
        self._next += 1
        self._in_store.append(_PRESENT)
        if self.sizes is not None:
            self.sizes.append(size - self.size_class.size_min)
        if self.versions is not None:
            self.versions.append(0)
        if self._positions is not None:
            self._positions.append(NOWHERE)
        if self._expiry is not None:
            self._expiry.seconds.append(0)
        if self.ages is not None:
            self.ages.append()
        return number

    def contest(self, number: int, rivals: int) -> None:
        """So many operations are about to create this object, if it is not there."""
        self._contests[number] = rivals, Contest.OPEN

    def rival_done(self, number: int, outcome: Contest) -> None:
        """One of them has an outcome. OPEN: it did not create the object.

        The first that succeeds makes it a member. If another one succeeds, it was removed in
        between, or the store ignores the condition: it is left to the cleanup.
        """
        rivals, known = self._contests.pop(number)
        if outcome is Contest.WON and known is not Contest.WON:
            self._set_state(number, _PRESENT)
            self.join(number)
        elif outcome is Contest.WON:
            self.set_unknown(number)
        known = max(known, outcome, key=_BY_KNOWLEDGE.index)
        if rivals > 1:
            self._contests[number] = rivals - 1, known
        elif known is Contest.OPEN:
            self.set_absent(number)
        elif known is Contest.UNKNOWN:
            self.set_unknown(number)

    def join(self, number: int) -> None:
        """An object exists and may be drawn."""
        members, positions = self._as_arrays(positions=False)
        if positions is not None:
            positions[number] = len(members)
        members.append(number)
        if self.ages is not None:
            self.ages.change(number, 1)

    def has(self, number: int) -> bool:
        """Whether an object may be drawn."""
        return self._positions is None or self._positions[number] != NOWHERE

    def set_absent(self, number: int) -> None:
        """An object is not in the store: cleanup need not remove it. Ignored for initial ones."""
        self._set_state(number, _ABSENT)

    def set_unknown(self, number: int) -> None:
        """The creation or removal of an object has an unknown outcome."""
        self._set_state(number, _UNKNOWN)

    def _set_state(self, number: int, state: int) -> None:
        index = number - self.size_class.initial_files
        if index >= 0:
            self._in_store[index] = state

    def updated(self, number: int, version: int, size: int) -> None:
        """An object has new content."""
        if self.versions is not None and version > self.versions[number]:
            self.versions[number] = version
        if self.sizes is not None:
            self.sizes[number] = size - self.size_class.size_min

    def close(self, number: int) -> bool:
        """No new operation on this object. True if nothing is in flight on it, so that the
        operation that removes it can be sent at once.
        """
        self.leave(number)
        self.closing += 1
        return not self.busy or number not in self.busy

    def hold(self, number: int, operation: int, group: int = 0) -> None:
        """The removal of a closed object will be ``ready`` when those in flight are done."""
        self._held[number] = operation, group

    def removed(self, number: int) -> None:
        """A closed object is gone, unless an operation that competes for it makes it again."""
        self.closing -= 1
        self._set_state(number, _UNKNOWN if number in self._contests else _ABSENT)
        if self.history is not None:
            self.history.removed(number)

    def reopen(self, number: int, now_s: float) -> None:
        """The removal of a closed object did not happen."""
        self.closing -= 1
        if self.expired(number, now_s):
            self.set_absent(number)
        else:
            self.join(number)

    def leave(self, number: int) -> bool:
        """Remove a number from the members; False if it was none.

        The first call in a class without removals takes about 0.1 µs per member.
        """
        members, positions = self._as_arrays(positions=True)
        assert positions is not None  # nosec B101 # for the type checker
        position = positions[number]
        if position == NOWHERE:
            return False
        last = members.pop()
        if last != number:
            members[position] = last
            positions[last] = position
        positions[number] = NOWHERE
        if self.ages is not None:
            self.ages.change(number, -1)
        return True

    def quarantine(self, number: int) -> int | None:
        """The object's state is unknown: it leaves the population.

        :return: the held removal that this cancels; None if there is none.
        """
        self.leave(number)
        if self.history is not None:
            self.history.forget(number)
        held = self._held.pop(number, None)
        if held is None:
            return None
        self.closing -= 1
        return held[0]

    def _as_arrays(self, positions: bool) -> tuple[MutableSequence[int], array[int] | None]:
        """The members as an array, no longer a range, and their positions.

        :param positions: whether to make the positions if there are none yet.
        """
        whole = isinstance(self.members, range)
        if isinstance(self.members, range):
            self.members = array("I", self.members)
        if positions and self._positions is None:
            self._positions = array("I", self.members if whole else ())
            self._positions.extend(repeat(NOWHERE, self._next - len(self._positions)))
            if not whole:
                for position, number in enumerate(self.members):
                    self._positions[number] = position
        return self.members, self._positions

    def release(self, number: int) -> None:
        """An operation that was counted in ``busy`` has ended."""
        if self.busy is None:
            return
        count = self.busy[number]
        if count > 1:
            self.busy[number] = count - 1
            return
        del self.busy[number]
        held = self._held.pop(number, None)
        if held is not None:
            operation, group = held
            self.ready[group].append((number, operation))

    def writing(self, number: int, now_s: float) -> None:
        """A job that writes this object was drawn."""
        if self._expiry is not None:
            self._expiry.writing(number, now_s)

    def written(self, number: int, happened: bool) -> None:
        """Such a job has ended; if it happened, the object's lifetime starts over."""
        if self._expiry is not None:
            self._expiry.written(number, happened)

    def expired(self, number: int, now_s: float) -> bool:
        """Whether an object will expire soon."""
        return self._expiry is not None and 0 < self._expiry.seconds[number] <= now_s

    def expire(self, now_s: float) -> None:
        """Objects that will expire soon leave; the store removes them."""
        if self._expiry is not None:
            for number in self._expiry.due(now_s):
                if self.leave(number):
                    self.set_absent(number)


_BY_KNOWLEDGE = (Contest.OPEN, Contest.UNKNOWN, Contest.WON)


class _Expiry:
    """When objects leave: a bucket of numbers per whole second."""

    def __init__(self, lifetime_s: float, initial: int) -> None:
        self.seconds = array("I", bytes(4 * initial))  #: 0: never
        self._lifetime_s = lifetime_s
        self._buckets: dict[int, array[int]] = {}
        self._order: list[int] = []
        self._drawn: dict[int, list[float]] = {}

    def writing(self, number: int, now_s: float) -> None:
        self._drawn.setdefault(number, []).append(now_s)

    def written(self, number: int, happened: bool) -> None:
        """A lifetime starts when the request reaches the store, not before the draw. Which of
        several writes in flight this was is unknown: the choice errs towards an early end.
        """
        drawn = self._drawn[number]
        start_s = drawn.pop(0 if happened else -1)
        if not drawn:
            del self._drawn[number]
        second = max(1, int(start_s + self._lifetime_s))
        if not happened or second <= self.seconds[number]:
            return
        self.seconds[number] = second
        if second not in self._buckets:
            self._buckets[second] = array("I")
            heappush(self._order, second)
        self._buckets[second].append(number)

    def due(self, now_s: float) -> Iterator[int]:
        """The numbers whose second has come, unless they were written again."""
        while self._order and self._order[0] <= now_s:
            second = heappop(self._order)
            for number in self._buckets.pop(second):
                if self.seconds[number] == second:
                    yield number
