"""The load of several identities (tenants), divided among them.

Container i belongs to identity i mod n, so an object belongs to one identity, as does a group of
users. The users of an identity create, use and remove its objects only. So a run works where
identities see the same containers, and where each has an account or buckets of its own; and one
that is slow or throttled keeps its own users waiting and no others.

Inside, a size class of n identities is n classes, with objects numbered from 0, and a group of
users is n groups. ``workload.DividedWorkload`` translates between these and what everybody else
sees: class and number of the scenario's objects. Groups go outside as they are:
``model.identity_of_group``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.core.model import Group, Job, SizeClass, Stage
from ssbench.core.naming import CLASS_STEP, ObjectNaming
from ssbench.core.operations import Target, row_of
from ssbench.core.text import plural, printable

if TYPE_CHECKING:
    from ssbench.core.scenario.scenario import Scenario


def identity_of(job: Job, count: int) -> int:
    """Which of ``count`` identities a job belongs to, by its container."""
    if row_of(job.operation).target is Target.CONTAINER:
        return job.object % count
    return (job.object + CLASS_STEP * job.size_class) % count


class Division(Struct, frozen=True):
    """Divides a load among this many identities."""

    count: int

    def adapted(self, scenario: Scenario) -> Scenario:
        """The scenario with the least number of containers, from its own on, that gives each
        identity as many.

        :raises UsageError: an identity would have no user or no object, or a stage can't be
            divided.
        """
        for at, stage in enumerate(scenario.load):
            name = f"{scenario.source}: {scenario.stage_name(at)}" if scenario.stages else ""
            place = name or scenario.places.get("user_count", scenario.source)
            for group in stage.groups or (stage,):
                users = min(group.users or 0, group.users_to or group.users or 0)
                if users < self.count:
                    raise UsageError(
                        f"{place}: {plural(users, 'user')} can't be divided among"
                        f" {self.count} identities: give one or more for each"
                    )
            if stage.epochs:
                raise UsageError(
                    f"{place}: epochs end when each object had its turn, and identities don't keep"
                    " step: leave out --identities, or give the stage a number of operations"
                )
        for size in scenario.sizes:
            if 0 < size.initial_files < self.count:
                raise UsageError(
                    f'{scenario.source}: initial_files of "{printable(size.name)}" is'
                    f" {size.initial_files}: give one or more for each of {self.count} identities"
                )
        wanted = -(-scenario.container_count // self.count) * self.count
        return replace(scenario, container_count=wanted)

    def sizes(self, sizes: Sequence[SizeClass]) -> list[SizeClass]:
        """The classes inside."""
        return [
            replace(size, initial_files=len(self.numbers(index, of, size.initial_files)))
            for index, size in enumerate(sizes)
            for of in range(self.count)
        ]

    def numbers(self, size_class: int, identity: int, end: int) -> range:
        """The numbers below ``end`` of a class's objects that belong to an identity."""
        return range((identity - CLASS_STEP * size_class) % self.count, end, self.count)

    def load(self, stages: Sequence[Stage], sizes: Sequence[SizeClass]) -> tuple[Stage, ...]:
        """The stages of a load with users, groups and rates divided.

        :param stages: as of ``Scenario.load``.
        """
        return tuple(
            replace(
                stage,
                first_group=stage.first_group * self.count,
                groups=tuple(
                    self._share(group, identity, sizes)
                    for group in stage.groups or (_group_of(stage),)
                    for identity in range(self.count)
                ),
            )
            for stage in stages
        )

    def _share(self, group: Group, identity: int, sizes: Sequence[SizeClass]) -> Group:
        weights = group.sizes or tuple(
            (at, float(size.initial_files)) for at, size in enumerate(sizes) if size.initial_files
        )
        weights = weights or tuple((at, 1.0) for at in range(len(sizes)))
        return replace(
            group,
            users=self._users(group.users, identity),
            users_to=None if group.users_to is None else self._users(group.users_to, identity),
            rate=group.rate and group.rate / self.count,
            rate_to=group.rate_to and group.rate_to / self.count,
            sizes=tuple((at * self.count + identity, weight) for at, weight in weights),
        )

    def _users(self, users: int, identity: int) -> int:
        return users // self.count + (identity < users % self.count)

    def naming(self, naming: ObjectNaming) -> ObjectNaming:
        """The naming of objects as they are numbered inside."""
        return _InnerNaming(naming, self)

    def number(self, size_class: int, number: int) -> int:
        """The number outside of an object of a class inside."""
        index, identity = divmod(size_class, self.count)
        return number * self.count + (identity - CLASS_STEP * index) % self.count

    def outer_job(self, job: Job) -> Job:
        index, identity = divmod(job.size_class, self.count)
        if row_of(job.operation).target is Target.CONTAINER:
            return job._replace(size_class=index, object=job.object * self.count + identity)
        return job._replace(
            size_class=index,
            object=self.number(job.size_class, job.object),
            others=tuple(self.number(job.size_class, other) for other in job.others),
        )

    def inner_job(self, job: Job) -> Job:
        """The inverse of ``outer_job``."""
        index = job.size_class * self.count + identity_of(job, self.count)
        return job._replace(
            size_class=index,
            object=job.object // self.count,
            others=tuple(other // self.count for other in job.others),
        )


def _group_of(stage: Stage) -> Group:
    return Group("", stage.users or 0, (), stage.rate, stage.users_to, stage.rate_to)


def load_of(scenario: Scenario, division: Division | None) -> tuple[Stage, ...]:
    """The stages of a scenario, as the workers run them."""
    return division.load(scenario.load, scenario.sizes) if division else scenario.load


def groups_of(stages: Sequence[Stage]) -> tuple[Group, ...]:
    """The groups of all stages, by index."""
    found: dict[int, Group] = {}
    for stage in stages:
        for index, group in enumerate(stage.groups, stage.first_group):
            found.setdefault(index, group)
    return tuple(found[at] for at in sorted(found))


class _InnerNaming(ObjectNaming):
    def __init__(self, naming: ObjectNaming, division: Division) -> None:
        self._naming = naming
        self._division = division

    def object(self, size_class: int, number: int) -> str:
        outer = size_class // self._division.count, self._division.number(size_class, number)
        return self._naming.object(*outer)
