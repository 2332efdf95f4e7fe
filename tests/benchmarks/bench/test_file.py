"""The row of the ``file`` store."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.bench import file
from benchmarks.bench.figure import Verdict


def test_without_fio_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    figures = list(file.run(1))
    assert [figure.verdict for figure in figures] == [Verdict.NOT_RUN] * 2
    assert all("fio" in figure.why_not for figure in figures)
