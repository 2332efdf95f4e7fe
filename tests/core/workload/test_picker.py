"""How an operation finds its target."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from random import Random

import pytest

from ssbench.core.model import Job, SizeClass
from ssbench.core.operations import POST, READ, UPDATE
from ssbench.core.scenario.values import operations
from ssbench.core.workload.picker import BenchPlan, NoJob, Streams, TargetPicker
from ssbench.core.workload.population import Population
from tests.core.workload.scenes import size_class


def stream(*values: float) -> Callable[[], float]:
    return cycle(values).__next__


def picker_of(population: Population, *targets: float) -> TargetPicker:
    streams = Streams(stream(0.5), stream(*targets), Random(1))
    return TargetPicker(0, population.pools[0], streams, BenchPlan())


def test_a_post_excludes_updates_but_not_reads() -> None:
    """A POST sends the object's version along, so none is on its way while it changes."""
    profile = operations({"read": 1, "update": 1, "post": 1})
    population = Population([SizeClass("tiny", 10, 19, profile, 1)])
    population.start()
    each = picker_of(population, 0.0)
    assert isinstance(each.by_operation[READ](1, 0.0), Job)
    assert isinstance(each.by_operation[POST](2, 0.0), Job)
    assert each.by_operation[UPDATE](3, 0.0) is NoJob.BUSY
    each.pool.release(0)
    each.pool.release(0)
    assert isinstance(each.by_operation[UPDATE](4, 0.0), Job)
    assert each.by_operation[POST](5, 0.0) is NoJob.BUSY


@pytest.mark.parametrize(
    ("profile", "constant"),
    [((0, 1, 0, 0), True), ((0.5, 0.5, 0, 0), False), ((0, 0.5, 0.5, 0), False),
     ((0, 0.5, 0, 0.5), False)],
)  # fmt: skip
def test_a_constant_population_needs_no_successes(
    profile: tuple[float, float, float, float], constant: bool
) -> None:
    population = Population([size_class(profile)])
    population.start(False)
    assert picker_of(population, 0.0).nothing_changes is constant
