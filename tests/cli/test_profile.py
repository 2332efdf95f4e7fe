"""Profiles are files whose paths are said, with what was hot."""

from __future__ import annotations

import pstats
import re
from pathlib import Path

import pytest

from ssbench.cli.profile import HOTTEST, profiled


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def burn() -> int:
    return sum(sorted(range(1000)))


def test_the_profile_is_written_to_the_reported_path() -> None:
    said: list[str] = []
    with profiled(True, "report", said.append):
        burn()
    (text,) = said
    found = re.match(r"Profile of the report: (\S+) ", text)
    assert found
    pstats.Stats(found[1])
    assert "burn" in text
    assert len(text.splitlines()) <= HOTTEST + 8


def test_the_profile_is_written_after_an_exception() -> None:
    said: list[str] = []
    with pytest.raises(ValueError, match="oops"), profiled(True, "master", said.append):
        raise ValueError("oops")
    assert len(said) == 1


def test_no_profile_without_the_option(tmp_path: Path) -> None:
    said: list[str] = []
    with profiled(False, "report", said.append):
        burn()
    assert not said
    assert list(tmp_path.iterdir()) == []
