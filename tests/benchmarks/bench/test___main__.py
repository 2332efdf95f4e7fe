"""The command: what it takes, and that each row it knows is there."""

from __future__ import annotations

import importlib
import sys

import pytest

from benchmarks.bench import __main__ as bench
from benchmarks.bench import table
from benchmarks.bench.child import CommandError
from benchmarks.bench.figure import Figure, at_most


@pytest.mark.parametrize("row", bench.ROWS)
def test_each_row_can_be_run(row: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.bench.{row}").run)


def test_an_unknown_row_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "huge"])
    with pytest.raises(SystemExit) as ended:
        bench.main()
    assert ended.value.code == 2


@pytest.mark.parametrize(("ours", "status"), [(2.0, 0), (2.1, 1)])
def test_a_missed_bound_has_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ours: float, status: int
) -> None:
    figure = Figure("GET", "µs", [ours], "wrk", [1.0], at_most(2.0))
    row = importlib.import_module("benchmarks.bench.small")
    monkeypatch.setattr(row, "run", lambda rounds: [figure] * (rounds == 3))
    monkeypatch.setattr(bench.os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["bench", "small", "--rounds", "3"])
    assert bench.main() == status
    assert "| small: GET |" in capsys.readouterr().out


def test_a_row_that_fails_does_not_stop_the_others_and_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(rounds: int) -> list[Figure]:
        raise CommandError("wrk: status 1: no route")

    figure = Figure("1 to 64", "times", [1.0], "no growth", [1.0], at_most(1.15))
    for name, run in (("small", fail), ("growth", lambda rounds: [figure])):
        monkeypatch.setattr(importlib.import_module(f"benchmarks.bench.{name}"), "run", run)
    monkeypatch.setattr(bench.os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["bench", "small", "growth"])
    assert bench.main() == table.INCOMPLETE
    said = capsys.readouterr()
    assert "small failed: wrk: status 1: no route" in said.err
    assert "| growth: 1 to 64 |" in said.out
