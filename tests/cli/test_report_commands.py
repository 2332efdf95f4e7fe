"""report-scenario and compare: which files and standard streams get what, and exit statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssbench.cli.master import main
from ssbench.core.records import MASTER, ProfileRecord
from ssbench.statfile import StatFileWriter
from tests.report import runs

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def stats(tmp_path: Path) -> Path:
    """A run of 200 operations and 3 lost ones, with metrics of a host and a profile."""
    path = tmp_path / "a.stat.gz"
    profile = ProfileRecord(MASTER, {"run (a.py:1)": 90_000_000}, 9)
    *records, footer = runs.normal()
    with StatFileWriter.create(path) as writer:
        for record in (*records, profile, footer):
            writer.write(record)
    return path


def report(stats: Path, *words: object) -> int:
    return main(["report-scenario", "-s", str(stats), *map(str, words)])


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
    option: str, stats: Path, tmp_path: Path, capsys: Capture
) -> None:
    path, text = tmp_path / "x", tmp_path / "text"
    assert report(stats, option, path) == 0
    first, count = FILES[option]
    lines = path.read_text().splitlines()
    assert lines[0].startswith(first)
    assert len(lines) == count
    assert "\nTOTAL\n" in capsys.readouterr().out
    assert report(stats, "-f", text, option, "-") == 0
    assert capsys.readouterr().out == path.read_text()
    assert "\nTOTAL\n" in text.read_text()


@pytest.mark.parametrize(
    ("option", "first"),
    [*((option, first) for option, (first, _) in FILES.items() if option != "-r"),
     ("--html", "<!DOCTYPE html>"), ("--junit", "<?xml ")],
)  # fmt: skip
def test_what_other_programs_read_replaces_the_report_on_standard_output(
    option: str, first: str, stats: Path, capsys: Capture
) -> None:
    assert report(stats, option, "-") == 0
    out = capsys.readouterr().out
    assert out.startswith(first)
    assert "\nTOTAL\n" not in out


def test_the_histogram_of_rates_follows_the_report_on_standard_output(
    stats: Path, capsys: Capture
) -> None:
    assert report(stats, "-r", "-") == 0
    text, _, lines = capsys.readouterr().out.partition(FILES["-r"][0])
    assert "\nTOTAL\n" in text
    assert len(lines.splitlines()) == 3


def test_of_several_runs_the_metrics_follow_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = []
    for seed in (1, 2):
        path = tmp_path / f"{seed}.stat.gz"
        records = runs.lasting(12, 50, seed=seed, run_seconds=12, operation_count=None)
        with StatFileWriter.create(path) as writer:
            for record in [*records[:-1], runs.host(0, 0), runs.host(0, 1), records[-1]]:
                writer.write(record)
        paths.append(str(path))
    sheet = tmp_path / "x"
    for option in ("--dstat", "--host-stats"):
        assert main(["report-scenario", *paths, option, str(sheet)]) == 0
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
    threshold: str, status: int, says: str, stats: Path, capsys: Capture
) -> None:
    assert report(stats, "--threshold", threshold) == status
    out, err = capsys.readouterr()
    assert says in err
    assert bool(out) == (status != 2)


def test_a_malformed_threshold_is_reported_before_the_file_is_read(
    tmp_path: Path, capsys: Capture
) -> None:
    rubbish = tmp_path / "rubbish"
    rubbish.write_text("x")
    assert report(rubbish, "--threshold", "p99 < fast") == 2
    assert "rubbish" not in capsys.readouterr().err


def test_compare_needs_two_files_and_reads_one_from_standard_input(
    stats: Path, capsys: Capture
) -> None:
    assert main(["compare", str(stats)]) == 2
    assert f"{stats}: only one stat file; name two or more" in capsys.readouterr().err
    assert main(["compare", str(stats), "-", "-"]) == 2
    assert "-: standard input can be only one stat file" in capsys.readouterr().err
