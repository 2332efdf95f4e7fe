"""Stat file in, report out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ssbench.cli.reporting import read_stats, write_report, write_rps
from ssbench.core.errors import SsbenchError, StatFileError, UsageError
from ssbench.core.model import RESULT_NUMBERS, Phase, Result
from ssbench.core.records import MarkRecord, PhaseRecord
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.series import SECOND_NS
from ssbench.report import FORMATS
from ssbench.statfile import StatFileWriter
from tests.statfile.samples import FOOTER, HEADER, WORKER, packed, result

OLD = sorted((Path(__file__).parents[1] / "golden" / "ssbench-0.3.9").glob("*.stat*"))


def test_a_report_goes_to_standard_output_or_to_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "report"
    for form in ("text", "csv", "json"):
        write_report(RunStats(), form, [50, 99.9], str(path))
        assert capsys.readouterr().out == ""
        write_report(RunStats(), form, [50, 99.9])
        assert capsys.readouterr().out == path.read_text(encoding="utf-8") != ""
    write_report(RunStats(), "text", None, "-")
    assert capsys.readouterr().out != ""


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "x"):
        with pytest.raises(SsbenchError, match="can't be written") as caught:
            write_rps(RunStats(), str(path))
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("path", OLD[:1], ids=lambda path: path.name)
def test_results_of_a_run_are_never_overwritten_with_a_report(path: Path, tmp_path: Path) -> None:
    victim, report = tmp_path / "run.stat.gz", tmp_path / "report"
    victim.write_bytes(path.read_bytes())
    for write in (lambda at: write_report(RunStats(), "csv", None, at),
                  lambda at: write_rps(RunStats(), at)):  # fmt: skip
        with pytest.raises(UsageError, match="stat file and is not overwritten"):
            write(str(victim))
        report.write_text("an older one")
        write(str(report))
        assert report.read_text() != "an older one"
    assert victim.read_bytes() == path.read_bytes()


def test_what_is_no_stat_file(tmp_path: Path) -> None:
    with pytest.raises(StatFileError):
        read_stats(str(tmp_path / "none"))


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.name)
def test_old_files_are_read(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert read_stats(str(path)).total().operations
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith(str(path))


EXTREMES = [-(2**63), -(2**61), -2, 2**31, 2**63 - 1]


@pytest.mark.parametrize("field", Result._fields[:RESULT_NUMBERS])
@pytest.mark.parametrize("value", EXTREMES)
def test_a_crafted_file_of_what_no_operation_can_have_is_reported(
    field: str, value: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, rows = tmp_path / "a.stat.gz", [result(n) for n in range(1, 4)]
    with StatFileWriter.create(path) as writer:
        writer.write(HEADER)
        writer.write(WORKER)
        writer.write(PhaseRecord(Phase.RUN, 1_700_000_000.0, 1))
        writer.append_results(Phase.RUN, 0, packed(rows))
        writer.append_results(Phase.RUN, 0, packed([rows[0]._replace(**{field: value})]))
        writer.write(FOOTER)
    stats = read_stats(str(path))
    for form in FORMATS:
        write_report(stats, form, [50, 99.9])
    write_rps(stats, str(tmp_path / "rps"))
    assert capsys.readouterr().out
    assert stats.total().operations == len(rows) + 1
    if field in ("start_ns", "last_byte_ns") and abs(value) >= 2**61:
        assert stats.out_of_range


def a_run_with_a_cooldown(path: Path) -> Path:
    """Ten seconds with an operation each, the last three of them cool-down."""
    scenario = {**HEADER.scenario, "cooldown": 3}
    with StatFileWriter.create(path) as writer:
        writer.write(replace(HEADER, scenario=scenario))
        writer.write(WORKER)
        writer.write(PhaseRecord(Phase.RUN, 1_700_000_000.0, 1))
        writer.write(MarkRecord(0, "stage", users=1))
        for second in range(10):
            row = result(second + 1, start_ns=second * SECOND_NS)
            writer.append_results(Phase.RUN, 0, packed([row]))
        writer.write(MarkRecord(10 * SECOND_NS, "end", users=1))
        writer.write(FOOTER)
    return path


def test_a_cooldown_is_left_out_of_a_file(tmp_path: Path) -> None:
    stats = read_stats(str(a_run_with_a_cooldown(tmp_path / "run.stat.gz")))
    assert (stats.total().count, stats.left_out) == (7, 3)
    assert stats.run.complete


def test_a_cooldown_cannot_be_left_out_of_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_run_with_a_cooldown(tmp_path / "run.stat.gz").open("rb") as file:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=file))
        with pytest.raises(UsageError, match="read twice: name the file"):
            read_stats("-")
