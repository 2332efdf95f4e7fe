"""Stat file in, report out."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from ssbench.core.columns import RESULT_SCHEMAS
from ssbench.core.model import RESULT_NUMBERS, SECOND_NS, Phase, Result
from ssbench.core.records import MarkRecord, PhaseRecord
from ssbench.report import FORMATS, render, render_html
from ssbench.report.as_csv import rps_csv
from ssbench.report.run import of_run
from ssbench.runner.results import (
    read_stats,
)
from ssbench.statfile import StatFileWriter
from ssbench.statfile.format import BlockBuilder
from tests.statfile.samples import FOOTER, HEADER, WORKER, packed, result, write_run


def test_a_report_says_how_many_records_of_a_newer_release_were_skipped(tmp_path: Path) -> None:
    path = tmp_path / "run.stat.gz"
    write_run(path, [HEADER])
    builder = BlockBuilder()
    for _ in range(2):
        builder.add(b"\x92\x63\x80")  # [99, {}]
    path.write_bytes(path.read_bytes() + builder.finish(2))
    made = of_run(read_stats(str(path)))
    said = "records of a newer release of ssbench were skipped: 2"
    for form in ("text", "json", "html"):
        assert said in render(made, form)


def test_a_report_says_which_values_of_the_header_are_impossible(tmp_path: Path) -> None:
    path = tmp_path / "run.stat.gz"
    scenario = {**HEADER.scenario, "block_size": 0, "warmup": -3, "of_a_later_release": 1}
    write_run(path, [replace(HEADER, scenario=scenario)])
    made = of_run(read_stats(str(path)))
    for form in ("text", "json", "html"):
        text = render(made, form)
        assert "impossible values in the header: scenario: warmup: -3 is below 0; a number" in text
        assert "scenario: block_size: 0 is below 1; bytes" in text
        assert "of_a_later_release: " not in text.partition("impossible")[2].partition("\n")[0]


EXTREMES = [-(2**63), -(2**61), -2, 2**31, 2**63 - 1]


@pytest.mark.parametrize("field", Result._fields[:RESULT_NUMBERS])
def test_a_crafted_file_with_impossible_values_is_reported(field: str, tmp_path: Path) -> None:
    path, rows = tmp_path / "a.stat.gz", [result(n) for n in range(1, 4)]
    with StatFileWriter.create(path) as writer:
        writer.write(HEADER)
        writer.write(WORKER)
        writer.write(PhaseRecord(Phase.RUN, 1_700_000_000.0, 1))
        writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], packed(rows))
        for value in EXTREMES:
            changed = [rows[0]._replace(**{field: value})]
            writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], packed(changed))
        writer.write(FOOTER)
    stats = read_stats(str(path))
    made = of_run(stats, [50, 99.9])
    for form in FORMATS.keys() - {"html"}:
        assert render(made, form)
    assert render_html(made, "plotly.js")  # 4 MB of script in each page take 20 ms
    assert rps_csv(made)
    assert stats.total().operations == len(rows) + len(EXTREMES)
    out_of_range = {"start_ns": 3, "last_byte_ns": 4}.get(field)
    assert out_of_range in (None, stats.out_of_range)


def a_run_with_a_cooldown(path: Path, *, is_cut_off: bool = False) -> Path:
    """Ten seconds with an operation each, the last three of them cool-down."""
    scenario = {**HEADER.scenario, "cooldown": 3}
    with StatFileWriter.create(path) as writer:
        writer.write(replace(HEADER, scenario=scenario))
        writer.write(WORKER)
        writer.write(PhaseRecord(Phase.RUN, 1_700_000_000.0, 1))
        writer.write(MarkRecord(0, "stage", users=1))
        for second in range(10):
            row = result(second + 1, start_ns=second * SECOND_NS)
            writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], packed([row]))
        if not is_cut_off:
            writer.write(MarkRecord(10 * SECOND_NS, "end", users=1))
            writer.write(FOOTER)
    return path


@pytest.mark.parametrize("tail_bytes", [1, 4 << 20])
def test_a_cooldown_is_excluded_however_far_its_end_is_from_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tail_bytes: int
) -> None:
    monkeypatch.setattr("ssbench.runner.results._TAIL_BYTES", tail_bytes)
    stats = read_stats(str(a_run_with_a_cooldown(tmp_path / "run.stat.gz")))
    assert (stats.total().count, stats.left_out) == (7, 3)
    assert stats.run.complete


def test_a_run_that_was_cut_off_has_no_cooldown(tmp_path: Path) -> None:
    path = a_run_with_a_cooldown(tmp_path / "run.stat.gz", is_cut_off=True)
    said: list[str] = []
    stats = read_stats(str(path), said.append)
    assert (stats.total().count, stats.left_out) == (10, 0)
    assert not stats.run.complete
    assert said == [f"{path}: {line}" for line in stats.run.damage]
