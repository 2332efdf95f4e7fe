"""A run, step by step: what becomes of its stat file, and what a series leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssbench.cli.reporting import read_stats
from ssbench.core.errors import ExitStatus, StatFileError
from ssbench.core.records import Record, RunFooter, RunHeader
from ssbench.statfile import StatFileWriter
from tests.cli.test_run_scenario import _own_folder, run, scenario

__all__ = ["_own_folder"]


def _full_disk_at(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    """From the first record of this kind on, nothing can be written any more."""

    def full(file: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    def write(self: StatFileWriter, record: Record) -> None:
        if isinstance(record, kind):
            monkeypatch.setattr("ssbench.statfile.writer._write_all", full)
        really(self, record)

    really = StatFileWriter.write
    monkeypatch.setattr(StatFileWriter, "write", write)


def test_a_disk_that_is_full_at_the_footer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _full_disk_at(monkeypatch, RunFooter)
    status, results = run(scenario(tmp_path), tmp_path, "--workers", "1")
    out, err = capsys.readouterr()
    assert status is ExitStatus.FAILED
    assert "No space left on device; the first " in err
    assert "are kept and can be read" in err
    assert "Count:" in out
    assert (
        f"INFO:Scenario run results saved to {results}\nINFO:You may generate a report with:\n"
        in err
    )
    assert read_stats(str(results)).run.footer is None


def test_a_disk_that_is_full_at_the_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _full_disk_at(monkeypatch, RunHeader)
    with pytest.raises(StatFileError, match="No space left on device; nothing was kept"):
        run(scenario(tmp_path), tmp_path, "--workers", "1")
    assert not (tmp_path / "x.stat.gz").exists()
