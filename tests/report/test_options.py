"""What a user may ask of a report."""

from __future__ import annotations

import pytest

from ssbench.report.options import ReportOptions, percent_text


def test_the_usual_percentiles_are_always_there() -> None:
    assert ReportOptions((75.0, 50.0)).all_percentiles == (50.0, 75.0, 95.0, 99.0, 99.9, 100.0)


@pytest.mark.parametrize("percentiles", [(0.0,), (95.0, 101.0), (float("nan"),), ()])
def test_a_percentile_that_is_none_is_refused(percentiles: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="above 0 and at most 100"):
        ReportOptions(percentiles)


def test_percentiles_read_as_they_were_written() -> None:
    assert [percent_text(p) for p in (95.0, 99.9, 100.0, 99.99)] == ["95", "99.9", "100", "99.99"]
