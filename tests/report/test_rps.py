"""The requests-per-second histogram."""

from __future__ import annotations

import pytest

from ssbench.core.operations import READ
from ssbench.report.rps import render_rps
from tests.golden import legacy
from tests.report import runs


@pytest.mark.parametrize("name", ["noop", "real"])
def test_files_of_0_3_9_give_its_own_histogram(name: str) -> None:
    stats = legacy.stats_of(name)
    assert render_rps(stats) == (legacy.FOLDER / f"{name}.rps_histogram.csv").read_text()


def test_seconds_count_from_the_start_and_leave_no_gap() -> None:
    second = 1_000_000_000
    rows = [
        runs.result(1, READ, start_ns=1 * second),
        runs.result(2, READ, start_ns=3 * second - 1),
        runs.failure(3, READ, start_ns=4 * second),
    ]
    assert render_rps(runs.stats_of([runs.header(), runs.batch(rows)])).splitlines()[1:] == [
        "1,0", "2,1", "3,0", "4,1",
    ]  # fmt: skip


def test_no_result_is_the_header_alone() -> None:
    assert render_rps(runs.stats_of(runs.no_results())).count("\n") == 1
