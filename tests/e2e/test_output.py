"""Where the output goes: to readers that leave, full disks, and nowhere."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.commands import LONGEST_S, MASTER, Commands, clean_environment, free_ports, stats_of


def shell(commands: Commands, script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The script, with ``"$@"`` for ssbench-master with these arguments."""
    command = ["bash", "-c", script, "bash", sys.executable, MASTER, *arguments]
    return subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False,
        timeout=LONGEST_S, env={**clean_environment(), "TMPDIR": str(commands.place)},
    )  # fmt: skip


def noop_run(commands: Commands) -> list[object]:
    return [
        "run-scenario", "-f", commands.scenario(), "--noop", "--workers", 1, *free_ports(),
        "-s", commands.place / "x.stat.gz",
    ]  # fmt: skip


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", ">&- 2>&- <&-"])
def test_a_closed_standard_stream(commands: Commands, closed: str) -> None:
    done = shell(commands, f'( "$@" {closed} ); echo $? >&2', *noop_run(commands))
    assert done.stderr.splitlines()[-1] == "0"
    assert "Traceback" not in done.stderr
    if closed in ("2>&-", "<&-"):
        assert "Count:    60 (    0 error" in done.stdout
    total = stats_of(commands.place / "x.stat.gz").total()
    assert (total.count, total.errors) == (60, 0)


def test_the_default_directory_of_results(commands: Commands) -> None:
    words = noop_run(commands)
    started = commands.master(*words[: words.index("-s")])
    ended = started.wait().fine()
    path = Path(next(w for w in ended.err.split() if w.endswith(".stat.gz")))
    try:
        assert path.parent == Path("/tmp/ssbench-results")
        assert path.name.startswith("e2e.u4.o60.r-.")
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
    finally:
        path.unlink()


def test_csv_and_a_histogram_of_requests_per_second(commands: Commands) -> None:
    ended = commands.run("-f", commands.scenario(), "--noop", "--csv", workers=1).fine()
    (row,) = csv.DictReader(ended.out.splitlines())
    assert row["scenario_name"] == "e2e"
    assert row["total_count"] == "60"
    histogram = commands.place / "rps.csv"
    report = commands.place / "report.json"
    options = ["-s", ended.results, "-r", histogram, "-f", report, "--json"]
    quiet = commands.master("report-scenario", *options).wait().fine()
    assert quiet.out == ""
    assert json.loads(report.read_text())
    seconds = [line.split(",") for line in histogram.read_text().splitlines()[1:]]
    assert sum(int(count) for _, count in seconds) == 60
