"""The row without a store: that it can be measured, and what it is held against."""

from __future__ import annotations

import pytest

from benchmarks.bench import noop
from benchmarks.bench.child import CommandError


@pytest.mark.e2e
def test_a_rate_is_parsed() -> None:
    assert noop.measure("-u 2 -o 100 --workers 1") > 10


@pytest.mark.e2e
def test_a_run_that_fails_gives_no_figure() -> None:
    with pytest.raises(CommandError, match="status 2"):
        noop.measure("-u 0")


def test_each_setting_is_compared_with_the_best_of_0_3_9(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noop, "measure", lambda options: 61_000.0)
    first, *_ = noop.run(2)
    assert first.ours == [61_000.0] * 2
    assert first.ratio == 5.0
    assert "8,900 to 12,200" in first.reference
