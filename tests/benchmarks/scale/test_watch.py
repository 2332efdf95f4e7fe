"""What is made of looks at a process."""

from __future__ import annotations

import os

import pytest

from benchmarks.scale.watch import Sample, Watcher


def watched() -> Watcher:
    watcher = Watcher(os.getpid())
    watcher.samples = [Sample(at, 50.0, cpu, 9) for at, cpu in ((10, 1.0), (11, 1.5), (13, 3.5))]
    return watcher


def test_cpu_time_is_interpolated_between_samples() -> None:
    assert watched().cpu_between(10, 11) == 0.5
    assert watched().cpu_between(10.5, 12) == 1.25


def test_cpu_time_near_the_ends_is_that_of_the_nearest_sample() -> None:
    assert watched().cpu_between(9.6, 11) == 0.5
    assert watched().cpu_between(11, 13.4) == 2.0


@pytest.mark.parametrize(("start", "end"), [(9.4, 12), (10, 13.6)])
def test_times_far_from_any_sample_are_an_error(start: float, end: float) -> None:
    with pytest.raises(ValueError, match="no sample"):
        watched().cpu_between(start, end)
