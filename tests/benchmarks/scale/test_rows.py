"""What counts as a fault of a row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.scale.rows import Outcome, Row

ROW = Row(workers=4, users=8, operations=1000, objects=10, memory_mb=100)
FINE = Outcome(ROW, sent=1000, done=1000, begun=1000, ensured=10, peak_mb=99.0)
KILLED = replace(FINE, row=replace(ROW, killed=1), status=6, done=990, lost=10, begun=995)


def test_a_correct_row_has_no_fault() -> None:
    assert FINE.faults == []
    assert KILLED.faults == []


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"status": 1}, "exit status 1, not 0"),
        ({"done": 999, "lost": 1, "begun": 999}, "1 operations lost"),
        ({"done": 999, "failed": 1}, "1 operations failed"),
        ({"sent": 999, "done": 999, "begun": 999}, "999 operations sent, not 1000"),
        ({"done": 999, "begun": 999}, "1000 sent, but 999 done"),
        ({"begun": 1001}, "1001 operations begun"),
        ({"begun": 999}, "999 operations begun"),
        ({"ensured": 9}, "9 initial objects"),
        ({"peak_mb": 100.0}, "100 MB of memory"),
    ],
)
def test_each_deviation_is_named(changed: dict[str, float], word: str) -> None:
    (fault,) = replace(FINE, **changed).faults
    assert word in fault


def test_killed_workers_excuse_losses_but_no_gaps() -> None:
    assert replace(KILLED, status=0).faults
    assert replace(KILLED, lost=9).faults
    assert replace(KILLED, begun=989).faults
