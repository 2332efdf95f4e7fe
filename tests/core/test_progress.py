from __future__ import annotations

from ssbench.core.progress import RunProgress


def test_little_needs_to_be_known() -> None:
    progress = RunProgress(1.5, 30)
    assert (progress.total, progress.errors, progress.p99_s, progress.remaining_s) == (
        None,
        0,
        None,
        None,
    )
