"""The run's operations: which wait, and what became of each."""

from __future__ import annotations

import math
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from random import Random
from typing import cast

from msgspec.structs import replace

from ssbench.core.arrivals import MODELS
from ssbench.core.model import Failure, Job, Phase, Stage
from ssbench.core.naming import ObjectNaming
from ssbench.core.operations import OPERATIONS, Effect, Target, row_of
from ssbench.core.retry import leaves_unknown
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import plural, printable
from ssbench.core.workload.division import Division, groups_of
from ssbench.core.workload.pacing import (
    AnyDueTimes,
    DueTimes,
    GroupDueTimes,
    StageSchedule,
    due_times,
)
from ssbench.core.workload.picker import (
    BenchPlan,
    NoJob,
    TargetPicker,
    draw_table,
    pickers_of,
    rivals_of,
)
from ssbench.core.workload.population import Contest, Population, Version, lifetime_s
from ssbench.core.workload.workload import NOT_FOUND, CleanupWorkload, Workload, note_version

#: After this many skips ``take`` returns what it has, so that the master's loop is not held up.
SKIPS_AT_ONCE = 10_000
#: The same for skips because of operations in flight: drawing again at once would hardly help.
BUSY_SKIPS_AT_ONCE = 4
#: Jobs for each user that may be drawn and not done: in flight, queued, or removals that wait until
#: nothing else is in flight on their object. Measured: with fewer objects, draws find none.
_DRAWN_PER_USER = 3
#: Operations a second of a user; a closed loop by time may do so many.
_MOST_PER_USER_S = 50


def why_not_held(scenario: Scenario) -> str:
    """Why draws will find no object, so that the mix of operations differs from the scenario's, and
    what would hold it; "" if it can be held.

    Removals in flight need objects as long as they last, and a mix that removes more objects than
    it creates uses them up: two standard deviations more than on average, by chance. (Where both
    are as frequent, the number of objects wanders, and few draws find none.)
    """
    if any(stage.is_apart for stage in scenario.stages):
        return ""  # each has a mix of its own
    initial = sum(size.initial_files for size in scenario.sizes)
    users, total = scenario.most_users, _operations_of(scenario)
    worst, found = 1.0, ""
    for size in (each for each in scenario.sizes if each.initial_files):
        share = size.initial_files / initial
        creates, removes = (
            [(share * part, _objects_of(row, scenario)) for row, part in size.profile
             if row_of(row).effect in effects]
            for effects in ({Effect.CREATES, Effect.CONTESTS}, {Effect.REMOVES})
        )  # fmt: skip
        removed = sum(part * number for part, number in removes)
        fewer = removed - sum(part * number for part, number in creates)
        squares = sum(part * number**2 for part, number in creates + removes)
        spread = math.sqrt(max(squares - fewer**2, 0.0))
        name, objects = f'objects "{printable(size.name)}"', size.initial_files
        held = _DRAWN_PER_USER * users * removed
        if total is None:
            if fewer > 0:
                most = max(objects - held, 0) / fewer
                seconds = scenario.run_seconds or 1.0
                if most / seconds < _MOST_PER_USER_S * users:
                    found = found or (
                        f"after about {most:,.0f} operations ({most / seconds:,.0f}/s for"
                        f" {seconds:g} s) none of the {objects:,} {name} is left: use more initial"
                        " objects, or create as many as are removed"
                    )
            gone = 0.0
        else:
            gone = total * fewer + 2 * math.sqrt(total) * spread if fewer > 0 else 0.0
        needed = held + gone
        if needed / objects <= worst:
            continue
        worst = needed / objects
        if gone > held:
            more = f"{(total or 0) * fewer:,.0f} {name} more"
            why = f"{total:,} operations remove {more} than they create"
            root = math.sqrt(spread**2 + fewer * max(objects - held, 0)) - spread
            instead = f"at most {int((root / fewer) ** 2 + 1e-6):,} operations, or more creations"
        else:
            why = f"{plural(users, 'user')} may be removing {held:,.0f} {name} at a time"
            instead = f"at most {plural(int(users * objects / needed), 'user')}"
        found = (
            f"{why}, and {objects:,} exist: use {max(worst, 1.1):.2g} times the initial objects"
            f" ({math.ceil(needed):,} of these), or {instead}"
        )
    return found


def _operations_of(scenario: Scenario) -> float | None:
    """How many operations the run does; None: as many as there is time for."""
    if scenario.operation_count is not None:
        return scenario.operation_count
    if all(stage.rate for stage in scenario.load):
        return round(sum(s.seconds * (s.rate_at(s.seconds / 2) or 0.0) for s in scenario.load))
    return None


def _objects_of(operation: int, scenario: Scenario) -> float:
    """How many objects it creates or removes."""
    row = row_of(operation)
    if row.effect is Effect.CONTESTS:
        return 1 / rivals_of(row, scenario.parameters)
    if row.target is not Target.OBJECTS:
        return 1
    return int(row.parameter_values(scenario.parameters).get(row.set_key, row.set_size))


def bench_jobs(
    scenario: Scenario,
    seed: int,
    population: Population,
    verify: bool = False,
    run_id: str = "",
    division: Division | None = None,
) -> BenchWorkload:
    """The run phase: operation_count operations, or as many as the run time allows; at the
    scenario's arrival rate if it has one.

    :param verify: contents are verified: an operation that replaces an object excludes others.
    :param division: as of ``initial_jobs``.
    """
    stages, groups, containers = scenario.load, scenario.crowds, scenario.container_count
    naming = ObjectNaming(scenario.sizes, run_id, containers, scenario.key_names)
    if division is not None:
        stages = division.load(stages, scenario.sizes)
        groups = groups_of(stages)
        containers, naming = containers // division.count, division.naming(naming)
    plan = BenchPlan(
        seed=seed,
        total=scenario.operation_count,
        verify=verify,
        dues=_dues_of(scenario, stages, seed),
        stages=stages,
        groups=groups,
        containers=containers,
        naming=naming,
        parameters=scenario.parameters,
        above=scenario.large_object.above if scenario.large_object else None,
    )
    return BenchWorkload(population, plan)


def _dues_of(scenario: Scenario, stages: Sequence[Stage], seed: int) -> dict[int, AnyDueTimes]:
    """The due times from each stage on that begins the load, or stands behind a barrier, up to the
    next one."""
    schedule = StageSchedule(stages)
    found: dict[int, AnyDueTimes] = {}
    while True:
        first, together = schedule.index, schedule.together
        if together[0].rate:
            groups = dict(enumerate(together[0].groups, together[0].first_group))
            by_group = {
                index: _dues_of_group(
                    [
                        replace(stage, rate=of.rate, rate_to=of.rate_to)
                        for stage in together
                        for of in (stage.groups[at : at + 1] or (stage,))
                    ],
                    f"{seed}/arrivals" + (f"/{index}" if index else ""),
                    scenario,
                )
                for at, index in enumerate(groups or (0,))
            }
            found[first] = by_group[0] if not groups else GroupDueTimes(by_group)
        behind = schedule.behind_barrier
        if behind is None:
            return found
        schedule.begin(0, behind)


def _dues_of_group(stages: Sequence[Stage], stream: str, scenario: Scenario) -> DueTimes:
    offsets, again = (
        due_times(stages, MODELS[scenario.arrivals], Random(stream))  # nosec B311 # repeatable
        for _ in range(2)
    )
    count = scenario.operation_count
    highest = max(max(stage.rate or 0.0, stage.rate_to or 0.0) for stage in stages)
    expected = StageSchedule([replace(stage, groups=()) for stage in stages]).due_between
    return DueTimes(islice(offsets, count), highest, expected, islice(again, count))


class BenchWorkload(Workload):
    """The operations of the run, drawn by the classes' shares and their profiles.

    An operation that finds no object is skipped and counted, and another is drawn. ``take`` may
    give [] for such reasons with nothing in flight: ask again.
    """

    phase = Phase.RUN

    def __init__(self, population: Population, plan: BenchPlan) -> None:
        self.population = population
        self.total = plan.total
        self.groups = tuple(group.users for group in plan.groups)
        self._plan = plan
        self.skipped: Counter[int] = Counter()  #: draws that found no object, by operation
        self._now_s = 0.0
        population.start(
            plan.verify, above=plan.above, picks=[group.pick for group in plan.groups],
            operations={each for group in plan.groups for each, _share in group.profile},
        )  # fmt: skip
        self._pools = population.pools
        self.knows_versions = population.knows_versions
        self._pickers = [pickers_of(population, plan, at) for at in range(len(plan.groups) or 1)]
        self._tables = [
            (*draw_table(pickers), plan.stream("operations", group).random)
            for group, pickers in enumerate(self._pickers)
        ]
        self._every_picker = [picker for pickers in self._pickers for picker in pickers]
        self._nothing_changes = all(picker.nothing_changes for picker in self._every_picker)
        self._on_success: dict[Effect, Callable[[Job], None]] = {
            Effect.NONE: self._release,
            Effect.CREATES: self._created,
            Effect.CONTESTS: self._won,
            Effect.REPLACES: self._replaced,
            Effect.TOUCHES: self._touched,
            Effect.REMOVES: self._removed,
            Effect.PRUNES: self._release,
        }
        self._on_known_failure: dict[Effect, Callable[[Job], None]] = {
            Effect.NONE: self._release,
            Effect.CREATES: self._never_created,
            Effect.CONTESTS: self._not_won,
            Effect.REPLACES: self._not_written,
            Effect.TOUCHES: self._not_written,
            Effect.REMOVES: self._not_removed,
            Effect.PRUNES: self._not_pruned,
        }
        #: By operation; those with one object skip the detour through parts.
        self._succeeded: dict[int, Callable[[Job], None]] = {
            number: self._on_success[row.effect]
            if row.target in (Target.OBJECT, Target.VERSION)
            else self._parts_succeeded
            for number, row in OPERATIONS.items()
        }

        self.begin_stage(0)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, {self.skipped.total()} skipped>"

    def begin_stage(self, index: int) -> None:
        """The stage at this index begins, the first or one behind a barrier."""
        plan = self._plan
        self.dues = plan.dues.get(index)
        stage = plan.stages[index] if plan.stages else None
        groups = range(len(self._pickers))
        if stage and stage.groups:
            groups = range(stage.first_group, stage.first_group + len(stage.groups))
            own = dict(enumerate(stage.groups, stage.first_group))
            self.groups = tuple(
                own[at].users if at in own else 0 for at in range(len(self._pickers))
            )
        self._active = [picker for group in groups for picker in self._pickers[group]]
        self._last = self.total  # what ``taken`` is when all jobs are drawn
        if stage and (stage.operation_count or stage.epochs):
            pools = {id(picker.pool): picker.pool for picker in self._active}.values()
            present = sum(len(pool.members) for pool in pools)
            self._last = self.taken + (stage.operation_count or present * (stage.epochs or 0))

    @property
    def left_behind(self) -> int:
        return self.population.left_behind

    @property
    def left_unknown(self) -> int:
        return self.population.left_unknown

    def cleanup(self) -> Workload | None:
        return CleanupWorkload(self.population) if self.left_behind else None

    @property
    def finished(self) -> bool:
        if self.dues and self.dues.finished:
            return True
        return self.taken == self._last or self.exhausted is not None

    @property
    def exhausted(self) -> str | None:
        if self.taken == self._last:
            return None
        if any(picker.possible or picker.pool.closing for picker in self._active):
            return None
        sentence = "no object is left, and no operation of a profile in use creates any"
        delete_after_s = self.population.delete_after_s
        if delete_after_s:
            stay_s = max(0.0, lifetime_s(delete_after_s))
            sentence += f" (with delete_after {delete_after_s}, objects are used for {stay_s:g} s)"
        return sentence

    def take(self, first_number: int, limit: int, now_s: float, group: int = 0) -> list[Job]:
        self._now_s = now_s
        dues = self.dues.of(group) if self.dues else None
        if dues:
            limit = dues.ready(limit, now_s)
        if not limit:
            return []
        self.population.expire(now_s)
        jobs: list[Job] = []
        for picker in self._pickers[group]:
            if picker.pool.closing:
                self._take_ready(picker, jobs, first_number, limit)
        wanted = limit - len(jobs)
        if self._last is not None:
            waiting = sum(pool.held for pool in self._pools if pool.closing)  # of all groups
            wanted = min(wanted, self._last - self.taken - len(jobs) - waiting)
        if wanted > 0:
            self._draw(jobs, first_number + len(jobs), wanted, group)
        self.taken += len(jobs)
        return dues.stamp(jobs) if dues else jobs

    def _take_ready(
        self, picker: TargetPicker, jobs: list[Job], first_number: int, limit: int
    ) -> None:
        """Removals that waited for other operations on their object."""
        pool, ready = picker.pool, picker.pool.ready[picker.group]
        while ready and len(jobs) < limit:
            target, operation = ready.popleft()
            if pool.expired(target, self._now_s):
                pool.removed(target)
                self.skipped[operation] += 1
            else:
                jobs.append(picker.removal(operation, first_number + len(jobs), target))

    def _draw(self, jobs: list[Job], number: int, wanted: int, group: int) -> None:
        """Append up to ``wanted`` jobs, fewer if no more can be drawn now."""
        rows, cumulative, choose = self._tables[group]
        pickers = self._pickers[group]
        if len(self._pickers) > 1 and not any(picker.possible for picker in pickers):
            return  # until another group has made an object
        skips, busy_skips = SKIPS_AT_ONCE, BUSY_SKIPS_AT_ONCE
        now_s, end = self._now_s, number + wanted
        while number < end:
            operation, draw = rows[bisect(cumulative, choose())]
            job = draw(number, now_s)
            if type(job) is Job:
                jobs.append(job)
                number += 1
            elif job is NoJob.HELD:
                end -= 1
            else:
                self.skipped[operation] += 1
                skips -= 1
                busy_skips -= job is NoJob.BUSY
                if not (skips and busy_skips and any(picker.possible for picker in pickers)):
                    return

    def made(self, job: Job, version_id: bytes) -> None:
        note_version(self.population, job, version_id)

    def succeeded(self, jobs: Iterable[Job], now_s: float) -> None:
        if self._nothing_changes:
            return
        self._now_s = now_s
        succeeded = self._succeeded
        for job in jobs:
            succeeded[job[1]](job)

    def failed(self, job: Job, failure: Failure, now_s: float) -> None:
        self._now_s = now_s
        parts = _parts(job)
        status, unknown, statuses = failure
        each = statuses if len(statuses) == len(parts) else None
        for at, (effect, part) in enumerate(parts):
            if each:
                status = each[at]
                unknown = status // 100 != 2 and leaves_unknown(status)
            # The 404 of a removal is no unknown outcome, but no reason to offer the object again.
            if unknown or (status == NOT_FOUND and effect in (Effect.REMOVES, Effect.PRUNES)):
                self._give_up(effect, part)
            elif each and 200 <= status < 300:
                self._on_success[effect](part)
            else:
                self._on_known_failure[effect](part)

    def lost(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            for effect, part in _parts(job):
                self._give_up(effect, part)

    def withdrawn(self, jobs: Iterable[Job]) -> None:
        jobs = list(jobs)
        if self.dues:
            self.dues.returned(jobs)
        for job in jobs:
            for effect, part in _parts(job):
                self._on_known_failure[effect](part)

    def _parts_succeeded(self, job: Job) -> None:
        for effect, part in _parts(job):
            self._on_success[effect](part)

    def _give_up(self, effect: Effect, job: Job) -> None:
        """The outcome is unknown: an object whose content may have changed is quarantined."""
        pool = self._pools[job.size_class]
        if effect is Effect.CREATES:
            pool.written(job.object, False)
            pool.set_unknown(job.object)
            return
        if effect is Effect.CONTESTS:
            self._rival_done(job, Contest.UNKNOWN)
            return
        if effect is Effect.PRUNES:
            self._release(job)
            return
        if effect in (Effect.REPLACES, Effect.REMOVES):
            cancelled = pool.quarantine(job.object)
            if cancelled is not None:
                self.skipped[cancelled] += 1
        if effect is Effect.REMOVES:
            pool.closing -= 1
            pool.set_unknown(job.object)
        else:
            self._on_known_failure[effect](job)

    def _release(self, job: Job) -> None:
        self._pools[job.size_class].release(job.object)

    def _created(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, True)
        pool.join(job.object)

    def _won(self, job: Job) -> None:
        self._rival_done(job, Contest.WON)

    def _not_won(self, job: Job) -> None:
        self._rival_done(job, Contest.OPEN)

    def _rival_done(self, job: Job, outcome: Contest) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, outcome is Contest.WON)
        pool.rival_done(job.object, outcome)

    def _never_created(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, False)
        pool.set_absent(job.object)

    def _replaced(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, True)
        pool.updated(job.object, job.version, job.size)
        pool.release(job.object)

    def _touched(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, True)
        pool.release(job.object)

    def _not_written(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        pool.written(job.object, False)
        pool.release(job.object)

    def _removed(self, job: Job) -> None:
        self._pools[job.size_class].removed(job.object)

    def _not_pruned(self, job: Job) -> None:
        pool = self._pools[job.size_class]
        if pool.history is not None:
            pool.history.add(version_of(job))
        pool.release(job.object)

    def _not_removed(self, job: Job) -> None:
        self._pools[job.size_class].reopen(job.object, self._now_s)


def version_of(job: Job) -> Version:
    """The version that a job on an older version is for."""
    return Version(job.object, cast("bytes", job.arguments[0]), job.version, job.size)


def _parts(job: Job) -> list[tuple[Effect, Job]]:
    """Each object of a job as a job of its own, with what happens to it."""
    row = row_of(job.operation)
    if row.target in (Target.OBJECT, Target.VERSION):
        return [(row.effect, job)]
    if row.target is Target.CONTAINER:
        return []
    if row.target is Target.PAIR:
        copies = [(row.effect, job._replace(object=other)) for other in job.others]
        return [(Effect.NONE, job), *copies]
    return [(row.effect, job._replace(object=each)) for each in (job.object, *job.others)]
