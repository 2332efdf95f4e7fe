"""Files beside the printed report, of every command that has them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ssbench.cli.master import main
from ssbench.statfile import StatFileWriter
from tests.cli.test_master import free_ports
from tests.cli.test_run_scenario import scenario
from tests.golden import compare
from tests.report import runs

pytestmark = pytest.mark.usefixtures("forked_workers")

STATS = compare.FOLDER / "format-1" / "stages.stat.gz"
OTHER = compare.FOLDER / "format-1" / "healthy.stat.gz"


@pytest.fixture
def stats(tmp_path: Path) -> Path:
    return Path(shutil.copy(STATS, tmp_path / "a.stat.gz"))


def test_report_scenario_writes_a_page_beside_the_report(
    stats: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a.html"
    assert main(["report-scenario", "-s", str(stats), "--html", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "<dt>Throughput</dt><dd>92.9 operations/s</dd>" in text
    out, err = capsys.readouterr()
    assert "\nTOTAL\n" in out
    assert f"INFO:Report as a page: {page}" in err


def test_the_script_of_the_charts_can_lie_beside_the_pages(stats: Path, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    page, assets = tmp_path / "pages" / "a.html", tmp_path / "a & b"
    words = ["--html", str(page), "--html-assets", str(assets), "-f", str(tmp_path / "a.txt")]
    assert main(["report-scenario", "-s", str(stats), *words]) == 0
    assert '<script src="../a%20%26%20b/plotly.min.js"></script>' in page.read_text()
    assert len(page.read_text()) < 200_000 < (assets / "plotly.min.js").stat().st_size


def test_compare_writes_a_page(stats: Path, tmp_path: Path) -> None:
    page = tmp_path / "a.html"
    assert main(["compare", str(stats), str(OTHER), "--html", str(page)]) == 0
    assert "<h1>Comparison of 2 runs</h1>" in page.read_text()


def test_report_scenario_writes_thresholds_as_test_cases(
    stats: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = tmp_path / "a.xml"
    words = ["--threshold", "errors < 50%", "--threshold", "p50 < 1us", "--junit", str(junit)]
    assert main(["report-scenario", "-s", str(stats), *words]) == 3
    suite = ET.parse(junit).getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    assert "\nTOTAL\n" in capsys.readouterr().out


@pytest.mark.parametrize(("series", "suites"), [([], 1), (["--sweep", "users=1,2"], 2)])
def test_a_run_and_a_sweep_write_test_cases_also_without_a_report(
    series: list[str], suites: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    junit = tmp_path / "a.xml"
    words = ["--noop", "--workers", "1", "-q", "-R", "-s", str(tmp_path / "x"), *free_ports()]
    words += ["--junit", str(junit), *series]
    assert main(["run-scenario", "-f", str(scenario(tmp_path)), *words]) == 0
    found = ET.parse(junit).getroot()
    assert [suite.get("errors") for suite in found] == ["0"] * suites
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("command", ["report-scenario", "compare"])
def test_markdown_is_a_format_of_reports(
    command: str, stats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(stats), str(OTHER)] if command == "compare" else ["-s", str(stats)]
    assert main([command, *files, "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("# ")


@pytest.mark.parametrize("series", [[], ["--sweep", "users=1,2"]])
def test_a_run_and_a_sweep_write_a_page_also_without_a_report(
    series: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a.html"
    words = ["--noop", "--workers", "1", "-q", "-R", "-s", str(tmp_path / "x"), *free_ports()]
    words += ["--html", str(page), *series]
    assert main(["run-scenario", "-f", str(scenario(tmp_path)), *words]) == 0
    assert "<h1>own</h1>" in page.read_text()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("option", ["--html", "--junit"])
def test_a_file_that_cannot_be_written_is_reported_before_the_run(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--noop", "--workers", "1", "-s", str(tmp_path / "x"), option, "/nowhere/a.html"]
    assert main(["run-scenario", "-f", str(scenario(tmp_path)), *words]) == 2
    assert f"{option} /nowhere/a.html: can't be written" in capsys.readouterr().err
    assert not (tmp_path / "x.gz").exists()


def test_operations_are_written_as_json_lines_and_parquet(
    stats: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "a.parquet"
    words = ["--jsonl", "-", "--parquet", str(table)]
    assert main(["report-scenario", "-s", str(stats), *words]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(lines) > 100
    from pyarrow import parquet  # has a thread of its own

    assert parquet.read_table(table).to_pylist() == lines


@pytest.fixture
def two_masters(tmp_path: Path) -> list[str]:
    """The stat files of two runs at the same time."""
    found = []
    for seed in (1, 2):
        path = tmp_path / f"{seed}.stat.gz"
        with StatFileWriter.create(path) as writer:
            for record in runs.lasting(12, 50, seed=seed, run_seconds=12, operation_count=None):
                writer.write(record)
        found.append(str(path))
    return found


def test_several_stat_files_are_merged(
    two_masters: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "a.jsonl"
    assert main(["report-scenario", *two_masters, "--jsonl", str(lines)]) == 0
    out = capsys.readouterr().out
    assert "MERGED: the runs of 2 masters as one" in out
    assert "\nMERGED RUNS OF 2 MASTERS\n" in out
    assert "Throughput  100.0 operations/s" in out
    assert out.endswith(f"{two_masters[0]}, {two_masters[1]}\n")
    assert len(lines.read_text().splitlines()) == 1200
    assert main(["report-scenario", two_masters[0]]) == 0
    assert "MERGED" not in capsys.readouterr().out


def test_stat_files_that_do_not_go_together_are_a_usage_error(
    two_masters: list[str], stats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report-scenario", *two_masters, two_masters[0]]) == 2
    assert f"{two_masters[0]}: is the same run as" in capsys.readouterr().err
    assert main(["report-scenario", two_masters[0], str(stats)]) == 2
    assert "runs that are merged have the same scenario" in capsys.readouterr().err
    assert main(["report-scenario", two_masters[0], "-"]) == 2
    assert "-: standard input cannot be merged" in capsys.readouterr().err


def test_no_stat_file_of_several_is_overwritten(
    two_masters: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report-scenario", *two_masters, "-f", two_masters[1]]) == 2
    assert f"-f {two_masters[1]}: this is the file of STATS_FILE itself" in capsys.readouterr().err


def test_parquet_without_its_extra_is_a_usage_error_that_names_it(
    stats: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = tmp_path / "a.parquet"
    assert main(["report-scenario", "-s", str(stats), "--parquet", str(table)]) == 2
    out, err = capsys.readouterr()
    assert "pyarrow is not installed" in err
    assert "pip install '.[parquet]'" in err
    assert (out, table.exists()) == ("", False)


def test_parquet_is_not_for_standard_output(
    stats: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report-scenario", "-s", str(stats), "--parquet", "-"]) == 2
    assert capsys.readouterr().out == ""


def test_assets_without_a_page_are_a_usage_error(
    stats: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["report-scenario", "-s", str(stats), "--html-assets", str(tmp_path)]
    assert main(words) == 2
    assert "--html-assets: is for the pages of --html FILE" in capsys.readouterr().err


def test_a_report_as_text_loads_no_other_format(stats: Path) -> None:
    """Neither a master's start nor a report as text takes the time for it."""
    code = (
        "import sys; from ssbench.cli.master import main; main(sys.argv[1:]);"
        "unwanted = {'jinja2', 'plotly', 'pyarrow', 'xml.etree.ElementTree'};"
        "others = ('classic', 'html', 'json', 'junit', 'markdown');"
        "unwanted |= {f'ssbench.report.as_{name}' for name in others};"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    for words in (["list-scenarios"], ["report-scenario", "-s", str(stats)]):
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.endswith("\n[]\n")
