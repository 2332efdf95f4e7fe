"""The master's row: what is put beside what."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from benchmarks.bench import master, ours
from benchmarks.bench.figure import Verdict


@contextlib.contextmanager
def nowhere() -> Iterator[SimpleNamespace]:
    yield SimpleNamespace(url="http://127.0.0.1:9/v1/AUTH_test")


def test_the_master_is_compared_with_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[ours.Load] = []

    def pretend(load: ours.Load) -> ours.Ours:
        loads.append(load)
        return ours.Ours(1_000_000, 1.0, 12.0, 3.0 * load.workers, 40.0)

    monkeypatch.setattr(master.target, "lacking", lambda: "")
    monkeypatch.setattr(master.target, "serving", nowhere)
    monkeypatch.setattr(master.ours, "run", pretend)
    one, three = master.run(2)
    assert [(load.workers, load.users) for load in loads[:2]] == [(1, 64), (3, 192)]
    assert (one.ratio, one.verdict) == (0.25, Verdict.KEPT)
    assert (three.ratio, three.verdict) == (0.75, Verdict.MISSED)


def test_without_a_store_there_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master.target, "lacking", lambda: "not run: apt-get install wrk")
    assert {figure.verdict for figure in master.run(2)} == {Verdict.NOT_RUN}
