"""Cells of the text report."""

from __future__ import annotations

import pytest

from ssbench.core.stats.scenario_view import SizeView
from ssbench.report import cells


def size(low: int | None, high: int | None) -> SizeView:
    return SizeView("x", low, high, 0, 0.0, None)


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (0, 0, "  0  B"),
        (4096, 8192, "  4 kB -   8 kB"),
        (999_999, 999_999, "  1 MB"),
        (1, 5 * 10**9, "  1  B -   5 GB"),
        (None, 5, "   N/A -   5  B"),
    ],
)
def test_size_ranges(low: int | None, high: int | None, text: str) -> None:
    assert cells.size_range(size(low, high)) == f"{text:15}"


def test_seconds_have_three_decimals_and_a_width() -> None:
    assert cells.seconds_cell(48_695_087, 7) == "  0.049"
    assert cells.seconds_cell(None, 7) == "  N/A  "
    assert cells.seconds_cell(None, 6) == " N/A  "


def test_a_time_of_day_is_cut_not_rounded() -> None:
    assert cells.time_text(1795168183.999) == "2026-11-20 09:49:43 UTC"
    assert cells.time_text(float("inf")) == "N/A"


def test_an_unknown_kind_of_error_has_a_number() -> None:
    assert cells.error_label(4) == "network timeout"
    assert cells.error_label(99) == "error 99"
