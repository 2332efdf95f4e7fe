"""The table of formats."""

from __future__ import annotations

import pytest

from ssbench.report import FORMATS, render
from tests.report import runs


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("run", sorted(runs.RUNS))
def test_every_format_copes_with_every_run(name: str, run: str) -> None:
    assert render(name, runs.stats_of(runs.RUNS[run]())).endswith("\n")


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_rendering_changes_nothing(name: str) -> None:
    stats = runs.stats_of(runs.normal())
    assert render(name, stats) == render(name, stats)
