"""report-scenario and compare: which files and standard streams get what, and exit statuses."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from ssbench.core.records import MASTER, ProfileRecord
from tests.cli.shell import Said, Shell, stat_file
from tests.report import runs


@pytest.fixture(scope="module")
def stats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 200 operations and 3 lost ones, with metrics of a host and a profile."""
    profile = ProfileRecord(MASTER, {"run (a.py:1)": 90_000_000}, 9)
    *records, footer = runs.normal()
    return stat_file(tmp_path_factory.mktemp("run") / "a.stat.gz", (*records, profile, footer))


@pytest.fixture
def report(shell: Shell, stats: Path) -> Callable[..., Said]:
    """What report-scenario comes to on this run."""
    return partial(shell, "report-scenario", "-s", stats)


#: Option -> the first line of what it gives, and the number of lines.
FILES = {
    "-r": ('"Seconds Since Start","Requests Completed"', 3),
    "--time-series": ("second,operations,errors,moved_bytes,service_p50_s,", 4),
    "--host-stats": ("phase,at_s,wall_clock_s,worker_index,worker_id,host,boot_id,", 7),
    "--dstat": ("host,time,epoch,phase,", 3),
    "--operations": ("completion_time_unix_nano,method,object_name,", 201),
    "--jsonl": ('{"completion_time_unix_nano": ', 200),
    "--profile-file": ("master;run (a.py:1) ", 1),
}


@pytest.mark.parametrize("option", FILES)
def test_a_file_gets_no_more_than_what_its_option_says(
    option: str, report: Callable[..., Said], tmp_path: Path
) -> None:
    path, text = tmp_path / "x", tmp_path / "text"
    said = report(option, path)
    assert said.status == 0
    assert "\nTOTAL\n" in said.out
    first, count = FILES[option]
    lines = path.read_text().splitlines()
    assert lines[0].startswith(first)
    assert len(lines) == count
    for others in ([], ["-f", text]) if option != "-r" else (["-f", text],):
        assert report(*others, option, "-") == (0, path.read_text(), "")
    assert "\nTOTAL\n" in text.read_text()


@pytest.mark.parametrize(("option", "first"), [("--html", "<!DOCTYPE html>"), ("--junit", "<?xml")])
def test_a_page_or_junit_replaces_the_report_on_standard_output(
    option: str, first: str, report: Callable[..., Said]
) -> None:
    said = report(option, "-")
    assert (said.status, "\nTOTAL\n" in said.out) == (0, False)
    assert said.out.startswith(first)


def test_of_several_runs_the_metrics_follow_each_other(shell: Shell) -> None:
    paths = []
    for seed in (1, 2):
        records = runs.lasting(12, 50, seed=seed, run_seconds=12, operation_count=None)
        records[-1:-1] = [runs.host(0, 0), runs.host(0, 1)]
        paths.append(stat_file(shell.folder / f"{seed}.stat.gz", records))
    sheet = shell.folder / "x"
    for option in ("--dstat", "--host-stats"):
        assert shell("report-scenario", *paths, option, sheet).status == 0
        assert len(sheet.read_text().splitlines()) == 1 + 2 * 2


@pytest.mark.parametrize(
    ("threshold", "status", "says"),
    [
        ("errors < 50%", 0, ""),
        ("errors < 5%", 3, "ssbench-master: missed errors < 5% (exit status 3)\n"),
        ("p99(huge) < 1s", 2, "huge"),
        ("p99 < fast", 2, "fast"),
    ],
)
def test_thresholds_set_the_status(
    threshold: str, status: int, says: str, report: Callable[..., Said]
) -> None:
    said = report("--threshold", threshold)
    assert said.status == status
    assert says in said.err
    assert bool(said.out) == (status != 2)


def test_compare_needs_two_files_and_reads_one_from_standard_input(
    stats: Path, shell: Shell
) -> None:
    for words, says in (
        ([], f"{stats}: only one stat file; name two or more"),
        (["-", "-"], "-: standard input can be only one stat file"),
    ):
        said = shell("compare", stats, *words)
        assert said.status == 2
        assert says in said.err
