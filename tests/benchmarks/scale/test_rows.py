"""What counts as a fault of a row, and what is made of looks at its processes."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from benchmarks.scale.rows import Outcome, Row
from benchmarks.scale.watch import Sample, Watcher

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


def test_cpu_time_is_interpolated_between_samples_and_unknown_far_from_them() -> None:
    watcher = Watcher(os.getpid())
    watcher.samples = [Sample(at, 50.0, cpu, 9) for at, cpu in ((10, 1.0), (11, 1.5), (13, 3.5))]
    assert watcher.cpu_between(10, 11) == watcher.cpu_between(9.6, 11) == 0.5
    assert watcher.cpu_between(10.5, 12) == 1.25
    assert watcher.cpu_between(11, 13.4) == 2.0
    for start, end in ((9.4, 12), (10, 13.6)):
        with pytest.raises(ValueError, match="no sample"):
            watcher.cpu_between(start, end)
