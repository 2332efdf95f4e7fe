"""Where the output goes: to readers that leave, full disks, and nowhere."""

from __future__ import annotations

import subprocess
import sys

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
