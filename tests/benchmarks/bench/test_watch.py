"""The row of watched runs: what is put beside what."""

from __future__ import annotations

import pytest

from benchmarks.bench import ours, watch
from benchmarks.bench.figure import Verdict


def test_watched_runs_alternate_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[ours.Load] = []

    def pretend(load: ours.Load) -> ours.Ours:
        loads.append(load)
        drift = 1 + (len(loads) + 1) // 2  # both runs of a pair are slowed down alike
        cpu_s = drift * (1.03 if load.watched else 1.0)
        return ours.Ours(100_000, drift * 1.01 if load.watched else drift, cpu_s, cpu_s, 40.0)

    monkeypatch.setattr(watch.target, "lacking", lambda: "not run: apt-get install nginx")
    monkeypatch.setattr(watch.ours, "run", pretend)
    cpu, rate, *others = watch.run(2)
    assert [load.watched for load in loads[:4]] == [True, False, False, True]
    assert len(loads) == 8
    assert cpu.verdict is Verdict.MISSED
    assert rate.verdict is Verdict.KEPT
    assert {figure.verdict for figure in others} == {Verdict.NOT_RUN}
