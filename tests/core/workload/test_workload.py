"""What a run asks of the store: right targets, right shares, the same again from the same seed."""

from __future__ import annotations

import pytest

from ssbench.core.content import initial_size
from ssbench.core.model import NONE_NS, Failure, Phase
from ssbench.core.operations import ENSURE
from ssbench.core.workload.bench import bench_jobs
from ssbench.core.workload.workload import CleanupWorkload, initial_jobs
from tests.core.workload.scenes import all_jobs, bench, scenario, size_class
from tests.core.workload.workload_model import key_of

# Populate ---------------------------------------------------------------------------------


def test_populate_ensures_every_initial_object_with_its_size() -> None:
    sizes = (size_class(initial=3), size_class(initial=0, name="none"), size_class(name="big"))
    workload = initial_jobs(scenario(*sizes))
    jobs = list(all_jobs(workload, batch=2))
    assert workload.phase is Phase.POPULATE
    assert workload.total == workload.taken == 13
    assert [job.number for job in jobs] == list(range(1, 14))
    assert [key_of(job) for job in jobs] == [(0, n) for n in range(3)] + [(2, n) for n in range(10)]
    for job in jobs:
        assert job.operation == ENSURE
        assert (job.version, job.due_ns) == (0, NONE_NS)
        assert job.size == initial_size(sizes[job.size_class], job.object)


def test_ten_million_initial_objects_are_made_only_as_they_are_taken() -> None:
    workload = initial_jobs(scenario(size_class(initial=10_000_000)))
    assert len(workload.take(1, 5, 0.0)) == 5
    assert (workload.taken, workload.total, workload.finished) == (5, 10_000_000, False)


@pytest.mark.parametrize("fate", ["failed", "lost", "withdrawn"])
def test_a_missing_initial_object_is_no_target(fate: str) -> None:
    given = scenario(size_class((0, 1, 0, 0), initial=3))
    workload = initial_jobs(given)
    first, second, third = workload.take(1, 10, 0.0)
    workload.succeeded([first, third], 0.0)
    if fate == "failed":
        workload.failed(second, Failure(507, True), 0.0)
    else:
        getattr(workload, fate)([second])
    if fate == "lost":
        assert (workload.missing, workload.finished) == (0, False)
        (again,) = workload.take(4, 10, 0.0)
        assert again == second._replace(number=4)
        workload.lost([again])
    assert (workload.missing, workload.finished) == (1, True)
    run = bench_jobs(given, 1, workload.population)
    assert {job.object for job in all_jobs(run)} == {0, 2}


# Clean-up ---------------------------------------------------------------------------------


def test_lost_cleanup_jobs_are_repeated_once() -> None:
    workload = bench(size_class((1, 0, 0, 0), initial=2), count=6)
    workload.succeeded(workload.take(1, 6, 0.0), 0.0)
    cleanup = CleanupWorkload(workload.population)
    jobs = cleanup.take(1, 4, 0.0)
    cleanup.lost(jobs[:3])
    cleanup.succeeded(jobs[3:], 0.0)
    again = cleanup.take(5, 100, 0.0)
    assert not cleanup.take(10, 100, 0.0)
    assert [key_of(job) for job in again[:3]] == [key_of(job) for job in jobs[:3]]
    assert [job.number for job in again] == [5, 6, 7, 8, 9]
    assert cleanup.finished
    cleanup.succeeded(again[1:], 0.0)
    cleanup.lost(again[:1])
    assert (cleanup.finished, workload.left_behind) == (True, 1)
