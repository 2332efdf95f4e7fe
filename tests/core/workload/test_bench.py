"""The operations of the run: what is drawn, and what becomes of it."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from ssbench.core.model import Failure, Job, SizeClass
from ssbench.core.operations import (
    CREATE,
    CREATE_IF_ABSENT,
    DELETE,
    DELETE_VERSION,
    ENSURE,
    READ,
    READ_VERSION,
    UPDATE,
    Operation,
)
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.workload.bench import BenchWorkload, bench_jobs, why_not_held
from ssbench.core.workload.picker import BenchPlan
from ssbench.core.workload.population import History, Population, Version
from ssbench.core.workload.workload import CleanupWorkload, initial_jobs, note_version
from tests.core.workload.scenes import all_jobs, bench, scenario, size_class
from tests.core.workload.workload_model import RunModel, key_of

# Draws ------------------------------------------------------------------------------------


def load(*sizes: SizeClass, users: int = 4, count: int | None = 500, **more: object) -> Scenario:
    return Scenario(
        "test", sizes, users, operation_count=count, **more  # type: ignore[arg-type]
    )  # fmt: skip


OLD_TINY = size_class((0.2, 0.6, 0.1, 0.1), 100)
OLD_SMALL = size_class((0.2, 0.6, 0.1, 0.1), 10, name="small")


@pytest.mark.parametrize(
    ("scenario", "says"),
    [
        (load(OLD_TINY, OLD_SMALL), ""),
        (load(OLD_TINY, OLD_SMALL, users=200, count=40_000), ""),
        (
            load(OLD_TINY, OLD_SMALL, users=2000, count=40_000),
            '2,000 users may be removing 545 objects "tiny" at a time, and 100 exist: use 5.5 times'
            " the initial objects (546 of these), or at most 366 users",
        ),
        (load(size_class((0.1, 0.75, 0.15, 0), 110), users=2000, count=40_000), ""),
        (load(size_class((0, 0, 0, 1), 5000), count=4000), ""),
        (
            load(size_class((0, 0, 0, 1), 100), users=1),
            '500 operations remove 500 objects "tiny" more than they create, and 100 exist: use'
            " 5 times the initial objects (503 of these), or at most 97 operations, or more"
            " creations",
        ),
        (load(size_class((0.25, 0.25, 0.25, 0.25), 10), count=40_000), ""),
        (
            load(size_class((0, 0.5, 0, 0.5), 100), count=None, run_seconds=60.0, rate=10.0),
            '600 operations remove 300 objects "tiny" more than they create, and 100 exist',
        ),
        (
            load(size_class((0, 0.5, 0, 0.5), 100), count=None, run_seconds=60.0),
            'after about 188 operations (3/s for 60 s) none of the 100 objects "tiny" is left',
        ),
        (load(size_class((0, 0.99, 0, 0.01), 10_000), count=None, run_seconds=60.0), ""),
    ],
)
def test_a_mix_that_cannot_be_held_is_known_before_the_run(scenario: Scenario, says: str) -> None:
    found = why_not_held(scenario)
    assert found.startswith(says)
    assert bool(found) is bool(says)


@pytest.mark.parametrize(("initial", "count", "seeds"), [(10, 1000, 10), (300, 20_000, 2)])
def test_what_would_hold_a_mix_holds_it(initial: int, count: int, seeds: int) -> None:
    """In 2 % of the operations at most; the fewer a run has, the more runs are needed to tell."""

    def mix(initial: int, count: int) -> Scenario:
        return load(size_class((0.2, 0.2, 0.2, 0.4), initial), users=4, count=count)

    found = why_not_held(mix(initial, count))
    said = re.search(r"\(([\d,]+) of these\), or at most ([\d,]+) operations", found)
    assert said, found
    more, fewer = (int(number.replace(",", "")) for number in said.groups())
    for held in (mix(more, count), mix(initial, fewer)):
        assert not why_not_held(held)
        skipped = 0
        for seed in range(seeds):
            workload = bench_jobs(held, seed, initial_jobs(held).population)
            jobs = shuffled_run(workload, seed)
            skipped += workload.skipped.total()
        assert skipped < 0.02 * seeds * len(jobs)


@pytest.mark.parametrize("users", [4, 20, 200])
def test_a_mix_that_can_be_held_finds_an_object_for_nearly_all_operations(users: int) -> None:
    scenario = load(OLD_TINY, OLD_SMALL, users=users, count=10 * users)
    assert not why_not_held(scenario)
    workload = bench_jobs(scenario, 1, initial_jobs(scenario).population)
    assert len(shuffled_run(workload, 1)) == 10 * users
    assert workload.skipped.total() < 0.02 * 10 * users


def test_numbers_of_created_objects_follow_the_initial_ones() -> None:
    jobs = list(all_jobs(bench(size_class((1, 0, 0, 0), initial=10), count=5)))
    assert [job.object for job in jobs] == [10, 11, 12, 13, 14]
    assert {job.version for job in jobs} == {0}


def shuffled_run(workload: BenchWorkload, seed: int) -> list[Job]:
    """A run in which jobs are taken and end in an order of chance."""
    chance = random.Random(seed)
    jobs: list[Job] = []
    in_flight: list[Job] = []
    while not workload.finished or in_flight:
        taken = workload.take(len(jobs) + 1, chance.randint(1, 20), 0.0)
        jobs += taken
        in_flight += taken
        chance.shuffle(in_flight)
        at = chance.randint(0, len(in_flight))
        over, in_flight = in_flight[:at], in_flight[at:]
        workload.succeeded(over, 0.0)
    return jobs


# Rules about targets ----------------------------------------------------------------------


def test_a_draw_from_an_empty_class_is_skipped() -> None:
    sizes = (size_class((0, 0, 0, 1), initial=2), size_class((0, 1, 0, 0), 2, name="big"))
    workload = bench(*sizes, count=100)
    jobs = list(all_jobs(workload))
    assert len(jobs) == 100
    assert workload.skipped[DELETE] > 20
    assert workload.exhausted is None


def test_many_skips_end_a_take_but_not_the_run() -> None:
    workload = bench(size_class((1e-6, 1 - 1e-6, 0, 0), initial=1), count=10)
    workload.lost([])
    workload.population.pools[0].leave(0)
    assert workload.take(1, 10, 0.0) == []
    assert not workload.finished
    assert workload.skipped[READ] > 100


def test_an_unanswered_update_quarantines_its_object_and_cancels_a_held_delete() -> None:
    kind = size_class((0, 0, 0.5, 0.5), initial=1)
    for seed in range(20):
        workload = bench(kind, seed=seed)
        updates = workload.take(1, 1, 0.0)
        if not updates or updates[0].operation != UPDATE:
            continue
        while not workload.population.pools[0].closing:
            updates += workload.take(1 + len(updates), 1, 0.0)
        skipped = workload.skipped[DELETE]
        workload.failed(updates[0], Failure(0, True), 0.0)
        assert workload.skipped[DELETE] == skipped + 1
        workload.succeeded(updates[1:], 0.0)
        assert workload.take(99, 5, 0.0) == []
        assert workload.exhausted
        return
    pytest.fail("no seed drew an UPDATE first")


def test_known_and_possible_leftovers_are_counted_apart() -> None:
    workload = bench(size_class((1, 0, 0, 0)))
    done, refused, unanswered, lost, back = workload.take(1, 5, 0.0)
    workload.succeeded([done], 0.0)
    workload.failed(refused, Failure(413), 0.0)
    workload.failed(unanswered, Failure(0, True), 0.0)
    workload.lost([lost])
    workload.withdrawn([back])
    population = workload.population
    assert (population.left_behind, population.left_unknown) == (3, 2)
    assert list(population.pools[0].created()) == [done.object, unanswered.object, lost.object]


WON, LATE, REFUSED = None, Failure(412), Failure(403)
UNANSWERED = Failure(0, True)


@pytest.mark.parametrize(
    ("outcomes", "is_used", "left", "unknown"),
    [
        ([WON, LATE, LATE], True, 1, 0),
        ([LATE, LATE, WON], True, 1, 0),
        ([UNANSWERED, WON, LATE], True, 1, 0),
        ([REFUSED, REFUSED, LATE], False, 0, 0),  # it is another client's
        ([UNANSWERED, LATE, LATE], False, 1, 1),
        ([LATE, UNANSWERED, REFUSED], False, 1, 1),
    ],
)
def test_an_object_for_which_operations_compete_is_created_once(
    outcomes: list[Failure | None], is_used: bool, left: int, unknown: int
) -> None:
    kind = replace(size_class((1, 0, 0, 0), initial=1), profile=((int(CREATE_IF_ABSENT), 1.0),))
    population = Population([kind])
    plan = BenchPlan(total=3, parameters={"rivals": 3})
    workload = BenchWorkload(population, plan)
    jobs = workload.take(1, 10, 0.0)
    assert [(job.number, job.object) for job in jobs] == [(1, 1), (2, 1), (3, 1)]
    assert len({job.size for job in jobs}) == 1
    for job, outcome in zip(jobs, outcomes, strict=True):
        if outcome is None:
            workload.succeeded([job], 0.0)
        else:
            workload.failed(job, outcome, 0.0)
    assert list(population.pools[0].members) == [0, 1][: 1 + is_used]
    assert (population.left_behind, population.left_unknown) == (left, unknown)


def versioned_run(*operations: Operation, initial: int = 2) -> BenchWorkload:
    """One whose objects have versions with the ids b"v0", b"v1" ..., each updated once."""
    profile = tuple((int(each), 1.0) for each in operations)
    kind = replace(size_class((0, 0, 1, 0), initial=initial), profile=profile)
    population = Population([kind], versions=True)
    for number in range(initial):
        note_version(population, Job(1, ENSURE, 0, number, 0, 9), b"v%d" % number)
        note_version(population, Job(1, UPDATE, 0, number, 1, 8), b"w%d" % number)
    return BenchWorkload(population, BenchPlan())


def test_older_versions_are_read_and_the_newest_are_not() -> None:
    workload = versioned_run(READ_VERSION)
    jobs = workload.take(1, 40, 0.0)
    expected = {(number, 0, 9, (b"v%d" % number,)) for number in range(2)}
    assert {(job.object, job.version, job.size, job.arguments) for job in jobs} == expected


def test_what_became_of_the_versions_of_a_removed_object() -> None:
    workload = versioned_run(READ_VERSION, initial=1)
    history = workload.population.pools[0].history
    assert history is not None
    history.removed(0)
    found = {job.arguments[0] for job in workload.take(1, 40, 0.0)}
    assert found == {b"v0", b"w0"}


@pytest.mark.parametrize(
    ("failure", "left"),
    [(None, 0), (Failure(403), 1), (Failure(404), 0), (Failure(0, True), 0)],
)
def test_a_version_is_deleted_once_and_alone(failure: Failure | None, left: int) -> None:
    workload = versioned_run(DELETE_VERSION, initial=1)
    (job,) = workload.take(1, 10, 0.0)
    assert job.arguments == (b"v0",)
    assert workload.take(2, 10, 0.0) == []
    if failure:
        workload.failed(job, failure, 0.0)
    else:
        workload.succeeded([job], 0.0)
    assert len(workload.take(2, 10, 0.0)) == left


def test_a_version_that_is_read_is_not_deleted_meanwhile() -> None:
    workload = versioned_run(READ_VERSION, DELETE_VERSION, initial=1)
    jobs = workload.take(1, 10, 0.0)
    while jobs[0].operation != READ_VERSION:
        workload.failed(jobs[0], Failure(403), 0.0)
        jobs = workload.take(1, 10, 0.0)
    assert {job.operation for job in jobs} == {int(READ_VERSION)}


def test_the_number_of_versions_that_are_known_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(History, "MOST", 3)
    history = History()
    for number in range(9):
        for at in range(4):
            history.made(Version(number, b"%d" % at, at, 1))
    assert len(history.older) == 3
    for number in range(9):
        history.removed(number)
    assert [each.object for each in history.older] != [0, 0, 0]


def test_a_delete_without_an_answer_leaves_an_object_that_may_be_there() -> None:
    workload = bench(size_class((0.5, 0, 0, 0.5), initial=1), seed=1)
    jobs: list[Job] = []
    while not (found := [job for job in jobs if job.operation == DELETE and job.object]):
        jobs = workload.take(1, 1, 0.0)
        workload.succeeded([job for job in jobs if job.operation != DELETE or not job.object], 0.0)
    before = workload.population.left_behind
    workload.failed(found[0], Failure(0, True), 0.0)
    population = workload.population
    assert (population.left_behind, population.left_unknown) == (before, 1)


# Time -------------------------------------------------------------------------------------


def test_with_delete_after_created_objects_leave_before_their_time() -> None:
    workload = bench(size_class((0.5, 0.5, 0, 0), initial=1), count=None, delete_after=20)
    jobs = workload.take(1, 200, 100.0)
    workload.succeeded(jobs, 101.0)
    assert workload.population.left_behind == len(workload_created(workload)) > 50
    created = {job.object for job in jobs if job.operation == CREATE}

    def read(now_s: float) -> set[int]:
        return {job.object for job in workload.take(1, 500, now_s) if job.operation == READ}

    assert read(113.9) & created
    assert not read(114.0) & created, "20 s less 6 s from when they were drawn"
    assert created.isdisjoint(workload_created(workload)), "the store removes them"


def workload_created(workload: BenchWorkload) -> list[int]:
    return [number for pool in workload.population.pools for number in pool.created()]


@pytest.mark.parametrize("how", ["lost", "withdrawn"])
def test_an_initial_object_that_nobody_uploaded_has_no_lifetime_yet(how: str) -> None:
    initial = initial_jobs(scenario(size_class((0, 1, 0, 0), initial=1), delete_after=20))
    getattr(initial, how)(initial.take(1, 1, 0.0))
    assert not initial.population.pools[0].expired(0, 1000.0)


def test_with_delete_after_initial_objects_expire_from_their_upload() -> None:
    given = scenario(size_class((0, 1, 0, 0), initial=3), count=None, delete_after=20)
    initial = initial_jobs(given)
    for now_s in (100.0, 105.0, 110.0):
        initial.succeeded(initial.take(1, 1, now_s), now_s + 3.0)
    workload = bench_jobs(given, 1, initial.population)
    left = [{job.object for job in workload.take(1, 100, now_s)} for now_s in (113.0, 114.0, 119.0)]
    assert left == [{0, 1, 2}, {1, 2}, {2}]
    assert workload.take(1, 100, 124.0) == []
    assert (workload.exhausted or "").endswith("(with delete_after 20, objects are used for 14 s)")


def test_an_update_renews_an_object() -> None:
    workload = bench(size_class((0, 0, 1, 0), initial=1), count=None, delete_after=20)
    for now_s in (0.0, 10.0, 20.0):
        workload.succeeded(workload.take(1, 1, now_s), now_s + 0.1)
    assert len(workload.population) == 1
    assert workload.take(1, 1, 33.0)
    assert not workload.take(1, 1, 34.0)
    assert workload.exhausted


# Any course of a run, against a model --------------------------------------------------------

WEIGHTS = st.tuples(*[st.sampled_from([0, 0, 1, 3])] * 4).filter(any)


@st.composite
def size_classes(draw: st.DrawFn) -> list[SizeClass]:
    classes = []
    for name in ["tiny", "small", "big"][: draw(st.integers(1, 3))]:
        weights = draw(WEIGHTS)
        profile = tuple(weight / sum(weights) for weight in weights)
        classes.append(size_class(profile, draw(st.integers(1, 5)), (10, 20), name))  # type: ignore[arg-type]
    return classes


class RunMachine(RuleBasedStateMachine):
    """Whatever becomes of the jobs: right targets, one DELETE an object, counts that add up."""

    @initialize(
        sizes=size_classes(),
        seed=st.integers(0, 99),
        total=st.none() | st.integers(1, 60),
        verify=st.booleans(),
        delete_after=st.sampled_from([None, None, 3, 30]),
    )
    def begin(
        self,
        sizes: list[SizeClass],
        seed: int,
        total: int | None,
        verify: bool,
        delete_after: int | None,
    ) -> None:
        self.workload = bench(
            *sizes, count=total, seed=seed, verify=verify, delete_after=delete_after
        )
        self.model = RunModel(sizes, verify, delete_after)
        self.now_s = 50.0
        self.over = False

    @rule(limit=st.integers(0, 12), passed_s=st.sampled_from([0.0, 0.1, 2.0, 9.0]))
    def take(self, limit: int, passed_s: float) -> None:
        self.now_s += passed_s
        jobs = self.workload.take(self.model.counts["taken"] + 1, limit, self.now_s)
        assert len(jobs) <= limit
        assert all(after.number == before.number + 1 for before, after in pairwise(jobs))
        assert not (jobs and self.over)
        for job in jobs:
            self.model.taken(job, self.now_s)
        if self.workload.total is not None:
            assert self.workload.taken <= self.workload.total

    def _one(self, data: st.DataObject) -> int:
        assume(self.model.in_flight)
        return data.draw(st.integers(0, len(self.model.in_flight) - 1))

    @precondition(lambda self: self.model.in_flight)
    @rule(data=st.data(), count=st.integers(1, 5))
    def some_succeed(self, data: st.DataObject, count: int) -> None:
        count = min(count, len(self.model.in_flight))
        jobs = [self.model.succeeded(self._one(data)) for _ in range(count)]
        self.workload.succeeded(
            [job._replace(number=job.number + 1000) for job in jobs], self.now_s
        )

    @precondition(lambda self: self.model.in_flight)
    @rule(data=st.data(), status=st.sampled_from([0, 404, 503]))
    def one_fails(self, data: st.DataObject, status: int) -> None:
        at = self._one(data)
        operation = self.model.in_flight[at][0].operation
        settle = self.model.did_not_happen
        if operation == DELETE and status == 404:
            settle = self.model.nobody_knows
        self.workload.failed(settle(at, "failed"), Failure(status), self.now_s)

    @precondition(lambda self: self.model.in_flight)
    @rule(data=st.data())
    def one_stays_unanswered(self, data: st.DataObject) -> None:
        job = self.model.nobody_knows(self._one(data), "failed")
        self.workload.failed(job, Failure(0, True), self.now_s)

    @precondition(lambda self: self.model.in_flight)
    @rule(data=st.data())
    def one_is_lost(self, data: st.DataObject) -> None:
        at = self._one(data)
        settle = self.model.nobody_knows
        if self.model.in_flight[at][0].operation == READ:
            settle = self.model.did_not_happen
        self.workload.lost([settle(at, "lost")])

    @precondition(lambda self: self.model.in_flight)
    @rule(data=st.data())
    def one_is_withdrawn(self, data: st.DataObject) -> None:
        self.workload.withdrawn([self.model.did_not_happen(self._one(data), "withdrawn")])

    @invariant()
    def counts_add_up(self) -> None:
        if hasattr(self, "model"):
            assert self.model.counts_add_up()
            assert self.workload.taken == self.model.counts["taken"]
            self.over = self.over or self.workload.finished

    @invariant()
    def the_population_is_the_model_s(self) -> None:
        if not hasattr(self, "model"):
            return
        pools = self.workload.population.pools
        members = [(index, number) for index, pool in enumerate(pools) for number in pool.members]
        assert len(members) == len(set(members))
        assert set(members) <= self.model.open
        held = sum(pool.held for pool in pools)
        if not self.model.delete_after:
            assert len(members) + held == len(self.model.open)

    @invariant()
    def exhausted_is_true(self) -> None:
        if hasattr(self, "model") and self.workload.exhausted:
            deletes = [job for job, _ in self.model.in_flight if job.operation == DELETE]
            assert not deletes
            assert not any(dict(size.profile).get(CREATE) for size in self.model.sizes)
            if not self.model.delete_after:
                assert not self.model.open

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        removed = {key_of(job) for job in all_jobs(CleanupWorkload(self.workload.population))}
        assert removed <= self.model.perhaps
        if not self.model.delete_after:
            assert removed == self.model.perhaps


TestRun = RunMachine.TestCase
TestRun.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_the_repr_shows_the_state() -> None:
    assert repr(bench(size_class())) == "<BenchWorkload 0 of 100 taken, 0 skipped>"
    assert repr(bench(size_class(), count=None)) == "<BenchWorkload 0 taken, 0 skipped>"
