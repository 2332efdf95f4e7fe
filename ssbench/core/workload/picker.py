"""Draws the run's operations.

The draws come from three streams for each group of users, all made from one seed: operations with
their size classes, sizes, and targets. So the same seed gives the same operations, classes, sizes
and names of created objects, whatever the timing; and the same targets if nothing is created or
removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from itertools import accumulate
from random import Random
from typing import NamedTuple

from msgspec import Struct

from ssbench.core.content import version_of_copy
from ssbench.core.model import NONE_NS, Group, Job, SizeClass, Stage
from ssbench.core.naming import ObjectNaming
from ssbench.core.operations import Effect, Operation, Target, row_of
from ssbench.core.picks import PICKS, Shuffle
from ssbench.core.workload.pacing import AnyDueTimes
from ssbench.core.workload.population import ObjectPool, Population

#: Random targets that are tried for an operation that excludes others on the same object.
TRIES = 8

_REPLACING = -1  # in ObjectPool.busy of an exclusive pool: nothing else may be in flight
_new = tuple.__new__  # Job(...) takes twice as long


class NoJob(Enum):
    """Why a draw gave no job."""

    NO_OBJECT = "the class has no object"
    BUSY = "an operation in flight on the object rules this one out"
    HELD = "a removal, which waits for the operations in flight on its object"


Drawn = Job | NoJob
Given = int | None  #: an object, or a size in bytes; None: drawn
#: ``draw(job number, now in seconds, given object, given size)``
Draw = Callable[..., Drawn]


class BenchPlan(Struct, frozen=True, kw_only=True):
    """What a run draws."""

    seed: int = 0
    total: int | None = None  #: operations; None: the run ends by time
    verify: bool = False  #: see Population.start
    above: int | None = None  #: the same
    #: Of an open loop, by the stage with which they begin.
    dues: Mapping[int, AnyDueTimes] = {}
    stages: Sequence[Stage] = ()  #: with their groups filled in; (): there is one
    #: Of users, with profiles of their own, of all stages; (): one group.
    groups: Sequence[Group] = ()
    containers: int = 1  #: how many there are
    naming: ObjectNaming | None = None  #: of the run's objects; needed where COPY is verified
    parameters: Mapping[str, int | str] = {}  #: of the operations

    def stream(self, name: str, group: int) -> Random:
        """A source of random numbers for one purpose of one group."""
        suffix = f"/{group}" if group else ""
        return Random(f"{self.seed}/{name}{suffix}")  # nosec B311 # choices that can be repeated


class Streams(NamedTuple):
    """The sources of random numbers of one group of users."""

    sizes: Callable[[], float]  #: a number in [0, 1) for each content drawn
    targets: Callable[[], float]  #: one for each choice of an object
    arguments: Random  #: for rows with arguments


def pickers_of(population: Population, plan: BenchPlan, group: int) -> list[TargetPicker]:
    """The pickers of one group of users, for each size class in use."""
    sizes, targets, arguments = (
        plan.stream(name, group) for name in ("sizes", "targets", "arguments")
    )
    streams = Streams(sizes.random, targets.random, arguments)
    weights: dict[int, float] = dict(plan.groups[group].sizes) if plan.groups else {}
    if not weights:
        weights = {at: pool.size_class.initial_files for at, pool in enumerate(population.pools)}
        if not any(weights.values()):
            weights = dict.fromkeys(weights, 1.0)
    return [
        TargetPicker(index, pool, streams, plan, group, weights[index])
        for index, pool in enumerate(population.pools)
        if weights.get(index)
    ]


def rivals_of(row: Operation, parameters: Mapping[str, int | str]) -> int:
    """How many operations of a row create the same object; 1 if a driver's row doesn't say."""
    return int(row.parameter_values(parameters).get("rivals", 1))


class TargetPicker:
    """Draws the jobs of one group of users on one size class.

    :param index: of the size class.
    :param pool: its objects; started.
    :param streams: shared by the group's pickers.
    :param weight: of the class among them.
    """

    def __init__(
        self,
        index: int,
        pool: ObjectPool,
        streams: Streams,
        plan: BenchPlan,
        group: int = 0,
        weight: float = 1.0,
    ) -> None:
        size_class = pool.size_class
        own = plan.groups[group] if plan.groups else None
        self.index = index
        self.pool = pool
        self.group = group
        self.weight = weight
        self.profile = (own and own.profile) or size_class.profile
        rows = [row_of(operation) for operation, _share in self.profile]
        self._targets, self._arguments = streams.targets, streams.arguments
        self._containers = plan.containers
        self._naming = plan.naming if plan.verify else None
        self._parameters = plan.parameters
        self._exclusive = pool.exclusive
        pick = (own and own.pick) or size_class.pick
        self._choose = PICKS[pick.kind](pool, pick, streams.targets)
        self._is_plain = pick.kind == "uniform" and not pool.exclusive
        self._size_min = size_class.size_min
        self._draw_size = _size_draw(size_class, streams.sizes)
        self._use = self._make_use()
        self._rivals = 0  #: that still get the contested object
        self._contested = Job(0, 0, index, 0, 0, 0)
        self.by_operation: dict[int, Draw] = {int(row): self._draw_of(row) for row in rows}
        #: Whether an operation of the profile can be drawn without any object.
        self._always = any(
            row.target is Target.CONTAINER
            or (row.effect in (Effect.CREATES, Effect.CONTESTS) and row.target is not Target.PAIR)
            for row in rows
        )
        #: Whether successes change nothing that is known of the objects.
        self.nothing_changes = pool.busy is None and {row.effect for row in rows} <= {Effect.NONE}

    def _draw_of(self, row: Operation) -> Draw:
        by_effect: dict[Effect, Draw] = {
            Effect.NONE: self._use,
            Effect.CREATES: self._create,
            Effect.CONTESTS: self._contest,
            Effect.REPLACES: self._replace,
            Effect.TOUCHES: self._touch,
            Effect.REMOVES: self._remove,
            Effect.PRUNES: self._version,
        }
        number = int(row)
        values = row.parameter_values(self._parameters)
        draw: Draw = partial(by_effect[row.effect], number)
        if row.target is Target.OBJECTS:
            draw = partial(self._several, row, int(values.get(row.set_key, row.set_size)), draw)
        elif row.target is Target.PAIR:
            draw = partial(self._copy, number)
        elif row.target is Target.CONTAINER:
            draw = partial(self._container, number)
        elif row.target is Target.VERSION:
            draw = partial(self._version, number, row.effect is Effect.PRUNES)
        if row.draw is None:
            return draw
        return partial(self._with_arguments, partial(row.draw, **values), draw)

    @property
    def possible(self) -> bool:
        """Whether any operation of the profile can be drawn now."""
        return self._always or len(self.pool.members) > 0

    def _create(
        self, operation: int, number: int, now_s: float, _: Given = None, size: Given = None
    ) -> Job:
        """A new object."""
        if size is None:
            size = self._draw_size()
        target = self.pool.reserve(size)
        self.pool.writing(target, now_s)
        return _new(
            Job, (number, operation, self.index, target, 0, size, NONE_NS, (), (), self.group)
        )

    def _contest(self, operation: int, number: int, now_s: float) -> Drawn:
        """A new object, or that of the rival before, until each rival has its job."""
        if not self._rivals:
            self._contested = self._create(operation, number, now_s)
            self._rivals = rivals_of(row_of(operation), self._parameters)
            self.pool.contest(self._contested.object, self._rivals)
        else:
            self.pool.writing(self._contested.object, now_s)
        self._rivals -= 1
        return self._contested._replace(number=number)

    def _make_use(self) -> Draw:
        """``_use(operation, number, now_s, target, size)``: an open object, with the version and
        size that it is known to have. Most runs draw little else: a closure is a fifth faster than
        a method.
        """
        pool, index, group, random = self.pool, self.index, self.group, self._targets
        busy, sizes, versions = pool.busy, pool.sizes, pool.versions
        is_plain, size_min = self._is_plain, self._size_min

        def use(
            operation: int, number: int, now_s: float, target: Given = None, size: Given = None
        ) -> Drawn:
            if target is None:
                members = pool.members
                if not members:
                    return NoJob.NO_OBJECT
                if is_plain:
                    target = members[int(random() * len(members))]
                else:
                    target = self._free_target(shared=True)
                    if target is None:
                        return NoJob.BUSY
            if busy is not None:
                busy[target] = busy.get(target, 0) + 1
            size = size_min if sizes is None else size_min + sizes[target]
            version = 0 if versions is None else versions[target]
            return _new(
                Job, (number, operation, index, target, version, size, NONE_NS, (), (), group)
            )

        return use

    def _touch(
        self, operation: int, number: int, now_s: float, target: Given = None, size: Given = None
    ) -> Drawn:
        """As ``_use``; the object's time starts over."""
        job = self._use(operation, number, now_s, target)
        if type(job) is Job:
            self.pool.writing(job.object, now_s)
        return job

    def _replace(
        self, operation: int, number: int, now_s: float, target: Given = None, size: Given = None
    ) -> Drawn:
        """An open object, with its next version. Several may be in flight, unless exclusive."""
        pool = self.pool
        if size is None:
            size = self._draw_size()
        if target is None:
            if not pool.members:
                return NoJob.NO_OBJECT
            target = self._free_target(shared=False) if self._exclusive else self._choose()
            if target is None:
                return NoJob.BUSY
        if pool.busy is not None:
            pool.busy[target] = _REPLACING if self._exclusive else pool.busy.get(target, 0) + 1
        pool.writing(target, now_s)
        version = pool.versions[target] + 1 if pool.versions is not None else 1
        fields = number, operation, self.index, target, version, size, NONE_NS, (), (), self.group
        return _new(Job, fields)

    def _remove(
        self, operation: int, number: int, now_s: float, target: Given = None, size: Given = None
    ) -> Drawn:
        """An open object, which is closed by this."""
        if target is None:
            if not self.pool.members:
                return NoJob.NO_OBJECT
            target = self._choose()
            if not self.pool.close(target):
                self.pool.hold(target, operation, self.group)
                return NoJob.HELD
        else:
            self.pool.close(target)
        return self.removal(operation, number, target)

    def removal(self, operation: int, number: int, target: int) -> Job:
        """The job that removes an object which was closed before."""
        sizes, versions = self.pool.sizes, self.pool.versions
        size = self._size_min if sizes is None else self._size_min + sizes[target]
        version = 0 if versions is None else versions[target]
        fields = number, operation, self.index, target, version, size, NONE_NS, (), (), self.group
        return _new(Job, fields)

    def _several(
        self, row: Operation, set_size: int, draw: Draw, number: int, now_s: float
    ) -> Drawn:
        """Up to ``set_size`` objects. All that are written get the same size and version.

        Those that a removal takes have nothing in flight: it never waits.
        """
        writes = row.effect in (Effect.CREATES, Effect.REPLACES)
        size = self._draw_size() if writes else None
        if row.effect is Effect.CREATES:
            targets: Sequence[int | None] = [None] * set_size
        else:
            targets = self._distinct_targets(row, set_size)
        jobs = [draw(number, now_s, target, size) for target in targets]
        if not jobs:
            return NoJob.BUSY if self.pool.members else NoJob.NO_OBJECT
        first, *others = [job for job in jobs if type(job) is Job]
        version = max([first.version, *(job.version for job in others if writes)])
        return first._replace(version=version, others=tuple(job.object for job in others))

    def _distinct_targets(self, row: Operation, set_size: int) -> list[int]:
        """Open objects of which none excludes the operation."""
        busy = self.pool.busy
        found: dict[int, None] = {}
        for _ in range(TRIES * min(set_size, len(self.pool.members))):
            target = self._choose()
            in_flight = busy.get(target, 0) if busy else 0
            if self._exclusive or row.effect is Effect.REMOVES:
                shared = row.effect in (Effect.NONE, Effect.TOUCHES)
                if in_flight != 0 and not (shared and in_flight > 0):
                    continue
            found[target] = None
            if len(found) == set_size:
                break
        return list(found)

    def _copy(self, operation: int, number: int, now_s: float) -> Drawn:
        """An open object, which stays as it is, and a new one with the same content.

        Contents follow from name and version. The copy's version is chosen so that it stands for
        the source's content under the copy's name: reading the copy is verified as any reading.
        """
        job = self._use(operation, number, now_s)
        if type(job) is not Job:
            return job
        pool, naming = self.pool, self._naming
        copy = pool.reserve(job.size)
        pool.writing(copy, now_s)
        if naming is not None and pool.versions is not None:
            source, name = (naming.object(self.index, each).encode() for each in (job.object, copy))
            pool.versions[copy] = version_of_copy(source, job.version, name)
        return job._replace(others=(copy,))

    def _version(self, operation: int, goes: bool, number: int, now_s: float) -> Drawn:
        """An older version; one that goes away must have nothing in flight on its object."""
        history, busy = self.pool.history, self.pool.busy
        if history is None or busy is None or not history.older:
            return NoJob.NO_OBJECT
        for _ in range(TRIES):
            at = int(self._targets() * len(history.older))
            of = history.older[at]
            in_flight = busy.get(of.object, 0)
            if in_flight == 0 or (in_flight > 0 and not goes):
                break
        else:
            return NoJob.BUSY
        busy[of.object] = _REPLACING if goes else in_flight + 1
        if goes:
            history.take(at)
        fields = (
            number,
            operation,
            self.index,
            of.object,
            of.version,
            of.size,
            NONE_NS,
            (),
            (of.id,),
        )
        return _new(Job, (*fields, self.group))

    def _container(self, operation: int, number: int, now_s: float) -> Drawn:
        """A container, by its index."""
        index = int(self._targets() * self._containers)
        return _new(Job, (number, operation, self.index, index, 0, 0, NONE_NS, (), (), self.group))

    def _with_arguments(
        self, values: Callable[[Random, int], tuple[int | bytes, ...]], draw: Draw,
        number: int, now_s: float, *given: Given,
    ) -> Drawn:  # fmt: skip
        job = draw(number, now_s, *given)
        if type(job) is not Job:
            return job
        return job._replace(arguments=values(self._arguments, job.size))

    def _free_target(self, shared: bool) -> int | None:
        """An object on which nothing is in flight or, if shared, nothing that replaces it; any
        object where no operation excludes others."""
        if not self._exclusive:
            return self._choose()
        busy = self.pool.busy
        assert busy is not None  # nosec B101 # for the type checker
        for _ in range(TRIES):
            target = self._choose()
            in_flight = busy.get(target, 0)
            if in_flight == 0 or (shared and in_flight > 0):
                return target
            if isinstance(self._choose, Shuffle):
                self._choose.put_back()
        return None


def _size_draw(size_class: SizeClass, chance: Callable[[], float]) -> Callable[[], int]:
    """Draws sizes by the class's distribution."""
    low, distribution = size_class.size_min, size_class.distribution
    if distribution is None:
        spread = size_class.size_max - low + 1
        return lambda: low + int(chance() * spread)
    return lambda: distribution.at(chance())


def draw_table(pickers: Sequence[TargetPicker]) -> tuple[list[tuple[int, Draw]], list[float]]:
    """Rows of (operation, its draw) and their cumulative probabilities, the last one 1.

    The class is drawn by its weight, the operation by its profile.
    """
    rows = [row for each in pickers for row in each.by_operation.items()]
    weights = [share * each.weight for each in pickers for _operation, share in each.profile]
    cumulative = list(accumulate(weights))
    return rows, [value / cumulative[-1] for value in cumulative]
