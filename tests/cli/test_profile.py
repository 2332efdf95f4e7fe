"""Profiles are files whose paths are printed, with the functions that took the most CPU time."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from ssbench.cli.console import HOTTEST, profiled


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def burn() -> None:
    """Use 0.2 s of CPU time: about 20 samples."""
    end = time.process_time() + 0.2
    while time.process_time() < end:
        sum(range(1000))


def test_the_profile_is_written_to_the_reported_path(capsys: pytest.CaptureFixture[str]) -> None:
    with profiled(True, "report"):
        burn()
    text = capsys.readouterr().err
    found = re.match(r"Profile of the report: (\S+) \(for speedscope or flamegraph.pl\)\n", text)
    assert found
    stacks = Path(found[1]).read_text().splitlines()
    assert all(re.fullmatch(r"report;.+ \d+", each) for each in stacks)
    assert re.search(r"\d %  burn \(tests/cli/test_profile.py:\d+\)", text)
    assert len(text.splitlines()) <= HOTTEST + 2


def test_the_profile_is_written_after_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="oops"), profiled(True, "master"):
        raise ValueError("oops")
    assert "Profile of the master: " in capsys.readouterr().err


def test_no_profile_without_the_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with profiled(False, "report"):
        burn()
    assert capsys.readouterr().err == ""
    assert list(tmp_path.iterdir()) == []
