"""A small row of ssbench at size: the real master, real workers, and both sides' books."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.commands import ROOT, clean_environment

pytestmark = pytest.mark.e2e


def scale(place: Path, *options: object) -> tuple[int, list[str], str]:
    """Exit status, the cells of the row, and all that was printed."""
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", *map(str, options)],
        cwd=ROOT,
        env={**clean_environment(), "TMPDIR": os.fspath(place)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = ended.stdout + ended.stderr
    assert len(ended.stdout.splitlines()) > 1, said
    return ended.returncode, ended.stdout.splitlines()[1].split(), said


def test_thousands_of_users_on_dozens_of_workers_lose_nothing(tmp_path: Path) -> None:
    status, cells, said = scale(
        tmp_path, "--workers", 32, "--users", 2000, "--operations", 20_000, "--processes", 2
    )
    assert status == 0, said
    workers, users, objects, _batch, sent, done, failed, lost, begun = cells[:9]
    assert (workers, users, objects) == ("32", "2000", "100")
    assert (sent, done, failed, lost, begun) == ("20000", "20000", "0", "0", "20000"), said
    assert not list(tmp_path.iterdir()), "it cleans up where there was no fault"


def test_a_missed_bound_is_a_fault_and_its_files_stay(tmp_path: Path) -> None:
    status, _cells, said = scale(
        tmp_path, "--workers", 2, "--users", 10, "--operations", 200, "--memory", 1
    )
    assert status == 1
    assert "FAULT: the master took" in said
    (place,) = tmp_path.iterdir()
    assert {"scale.stat.gz", "report.txt", "master.log"} <= {f.name for f in place.iterdir()}
