"""Ratios, bounds, and what keeps them."""

from __future__ import annotations

import pytest

from benchmarks.bench.figure import Figure, Verdict, at_least, at_most, below, not_run


def test_the_ratio_is_of_the_medians() -> None:
    figure = Figure("cpu", "µs", [3.0, 90.0, 4.0], "wrk", [2.0, 1.0, 9.0], at_most(2.0))
    assert figure.ratio == 2.0
    assert figure.verdict is Verdict.KEPT


@pytest.mark.parametrize(
    ("bound", "ratio", "verdict"),
    [
        (at_most(2.0), 2.001, Verdict.MISSED),
        (at_most(2.0), 0.1, Verdict.KEPT),
        (at_least(2.0), 2.0, Verdict.KEPT),
        (at_least(2.0), 1.999, Verdict.MISSED),
    ],
)
def test_a_bound_has_a_direction(bound: object, ratio: float, verdict: Verdict) -> None:
    figure = Figure("cpu", "µs", [ratio], "wrk", [1.0], bound)  # type: ignore[arg-type]
    assert figure.verdict is verdict


def test_worse_is_up_for_times_and_down_for_rates() -> None:
    assert at_most(2.0).worse_by(1.5, before=1.0) == 0.5
    assert at_most(2.0).worse_by(0.5, before=1.0) < 0
    assert at_least(2.0).worse_by(1.0, before=1.5) == 0.5
    assert at_least(2.0).worse_by(3.0, before=1.5) < 0


def test_a_number_may_be_the_reference() -> None:
    assert below("memory", "MB", [99.0, 98.0, 100.0], 100).verdict is Verdict.KEPT
    assert below("memory", "MB", [101.0], 100).verdict is Verdict.MISSED


def test_a_row_that_did_not_run_meets_no_bound() -> None:
    assert not_run("cpu", "wrk", at_most(2.0), "not run").verdict is Verdict.NOT_RUN
