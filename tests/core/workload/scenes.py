"""Small scenarios and workloads for tests."""

from __future__ import annotations

from collections.abc import Iterator

from ssbench.core.model import Job, SizeClass
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.values import crud_profile
from ssbench.core.workload.bench import BenchWorkload, bench_jobs
from ssbench.core.workload.workload import Workload, initial_jobs


def size_class(
    profile: tuple[float, float, float, float] = (0.25, 0.25, 0.25, 0.25),
    initial: int = 10,
    sizes: tuple[int, int] = (1, 999),
    name: str = "tiny",
) -> SizeClass:
    return SizeClass(name, *sizes, crud_profile([*profile]), initial)


def scenario(
    *sizes: SizeClass, count: int | None = 100, delete_after: int | None = None
) -> Scenario:
    return Scenario(
        "test", sizes, 4, operation_count=count, delete_after=delete_after,
        run_seconds=None if count else 10.0,
    )  # fmt: skip


def bench(
    *sizes: SizeClass,
    count: int | None = 100,
    seed: int = 1,
    delete_after: int | None = None,
    verify: bool = False,
) -> BenchWorkload:
    given = scenario(*sizes, count=count, delete_after=delete_after)
    return bench_jobs(given, seed, initial_jobs(given).population, verify)


def all_jobs(workload: Workload, batch: int = 7) -> Iterator[Job]:
    """Every job, each done before the next batch is asked for."""
    number = 1
    while not workload.finished:
        jobs = workload.take(number, batch, 0.0)
        assert len(jobs) <= batch
        yield from jobs
        workload.succeeded(jobs, 0.0)
        number += len(jobs)
