"""Files beside the printed report, of every command that has them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.shell import Shell, stat_file
from tests.golden import compare
from tests.report import runs

pytestmark = pytest.mark.usefixtures("forked_workers")

STATS = compare.FOLDER / "format-1" / "stages.stat.gz"


@pytest.fixture
def stats(tmp_path: Path) -> Path:
    return Path(shutil.copy(STATS, tmp_path / "a.stat.gz"))


def test_the_script_of_the_charts_can_lie_beside_the_pages(stats: Path, shell: Shell) -> None:
    (shell.folder / "pages").mkdir()
    page, assets = shell.folder / "pages" / "a.html", shell.folder / "a & b"
    words = ["--html", page, "--html-assets", assets, "-f", shell.folder / "a.txt"]
    assert shell("report-scenario", "-s", stats, *words).status == 0
    assert '<script src="../a%20%26%20b/plotly.min.js"></script>' in page.read_text()
    assert len(page.read_text()) < 200_000 < (assets / "plotly.min.js").stat().st_size


@pytest.mark.parametrize(("series", "suites"), [([], 1), (["--sweep", "users=1,2"], 2)])
def test_a_run_and_a_sweep_write_files_also_without_a_report(
    series: list[str], suites: int, shell: Shell
) -> None:
    junit, page = shell.folder / "a.xml", shell.folder / "a.html"
    said = shell.run("-q", "-R", "--junit", junit, "--html", page, *series)
    assert said == (0, "", "")
    assert [suite.get("errors") for suite in ET.parse(junit).getroot()] == ["0"] * suites
    assert "<h1>own</h1>" in page.read_text()


def test_operations_are_written_as_json_lines_and_parquet(stats: Path, shell: Shell) -> None:
    table = shell.folder / "a.parquet"
    said = shell("report-scenario", "-s", stats, "--jsonl", "-", "--parquet", table)
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert said.status == 0
    assert len(lines) > 100
    from pyarrow import parquet  # has a thread of its own

    assert parquet.read_table(table).to_pylist() == lines


@pytest.fixture
def two_masters(tmp_path: Path) -> list[Path]:
    """The stat files of two runs at the same time."""
    keys = {"run_seconds": 12, "operation_count": None}
    return [
        stat_file(tmp_path / f"{seed}.stat.gz", runs.lasting(12, 50, seed=seed, **keys))
        for seed in (1, 2)
    ]


def test_several_stat_files_are_merged(two_masters: list[Path], shell: Shell) -> None:
    lines = shell.folder / "a.jsonl"
    said = shell("report-scenario", *two_masters, "--jsonl", lines)
    assert said.status == 0
    assert "MERGED: the runs of 2 masters as one" in said.out
    assert "\nMERGED RUNS OF 2 MASTERS\n" in said.out
    assert "Throughput  100.0 operations/s" in said.out
    assert said.out.endswith(f"{two_masters[0]}, {two_masters[1]}\n")
    assert len(lines.read_text().splitlines()) == 1200
    assert "MERGED" not in shell("report-scenario", two_masters[0]).out


def test_stat_files_that_do_not_go_together_are_a_usage_error(
    two_masters: list[Path], stats: Path, shell: Shell
) -> None:
    first, second = two_masters
    for words, says in (
        ([first, second, first], f"{first}: is the same run as"),
        ([first, stats], "runs that are merged have the same scenario"),
        ([first, "-"], "-: standard input cannot be merged"),
        ([first, second, "-f", second], f"-f {second}: this is the file of STATS_FILE itself"),
    ):
        said = shell("report-scenario", *words)
        assert said.status == 2
        assert says in said.err


def test_parquet_without_its_extra_is_a_usage_error_that_names_it(
    stats: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    table = shell.folder / "a.parquet"
    said = shell("report-scenario", "-s", stats, "--parquet", table)
    assert "pyarrow is not installed" in said.err
    assert "pip install '.[parquet]'" in said.err
    assert (said.status, said.out, table.exists()) == (2, "", False)


def test_parquet_is_not_for_standard_output(stats: Path, shell: Shell) -> None:
    said = shell("report-scenario", "-s", stats, "--parquet", "-")
    assert (said.status, said.out) == (2, "")


def test_assets_without_a_page_are_a_usage_error(stats: Path, shell: Shell) -> None:
    said = shell("report-scenario", stats, "--html-assets", shell.folder)
    assert said.status == 2
    assert "--html-assets does nothing without --html" in said.err


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["run-scenario", "-f", "very_small"], "--html"),
        (["run-scenario", "-f", "very_small"], "--junit"),
        (["replay", "log"], "--html"),
        (["bench", "put", "c"], "--html"),
        (["bench", "put", "c"], "--csv"),
        (["bench", "put", "c"], "--csv-over-time"),
    ],
)
def test_a_file_of_results_that_are_not_kept_is_a_usage_error(
    words: list[str], option: str, shell: Shell
) -> None:
    path = shell.folder / "x"
    said = shell(*words, "--noop", "-s", "/dev/null", option, path)
    told = f"ssbench-master: {option} needs stored results: /dev/null keeps none\n"
    assert said == (2, "", told)
    assert not path.exists()


def test_a_report_as_text_loads_no_other_format(stats: Path) -> None:
    """Neither a master's start nor a report as text takes the time for it."""
    code = (
        "import sys; from ssbench.cli.master import main; main(sys.argv[1:]);"
        "unwanted = {'jinja2', 'plotly', 'pyarrow', 'xml.etree.ElementTree'};"
        "others = ('html', 'json', 'junit', 'markdown');"
        "unwanted |= {f'ssbench.report.as_{name}' for name in others};"
        "print(sorted(unwanted & set(sys.modules)))"
    )
    for words in (["list-scenarios"], ["report-scenario", "-s", str(stats)]):
        command = [sys.executable, "-c", code, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.endswith("\n[]\n")
