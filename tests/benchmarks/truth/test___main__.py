"""A short row of the truth: the server, the real commands, and the table. Bounds are wide here:
the machine that runs the tests has other things to do, and only counts must be exact."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.e2e.commands import ROOT, clean_environment

pytestmark = pytest.mark.e2e


def truth(*options: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.truth", "--no-wrk", "--tries", "1", *options],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_counts_bytes_errors_and_times_are_the_servers_own() -> None:
    status, said = truth("--seconds", "2", "--loose", "500", "--only", "503; closed")
    assert status == 0, said
    for name in ("operations done", "operations failed", "bytes uploaded", "service time p99.9"):
        assert name in said
    assert "MISSED" not in said


def test_a_missed_bound_fails() -> None:
    status, said = truth("--seconds", "1", "--loose", "0.000000001", "--only", "after 20 ms; open")
    assert status == 1, said
    assert "MISSED: each answer after 20 ms; open loop, 1,000/s: service time mean" in said


def test_searches_at_a_store_of_known_limit_are_near_it() -> None:
    status, said = truth("--pairs", "20", "--only", "find-limit: M/M/1 of 200/s, p95 < 60 ms")
    assert status == 0, said
    assert said.count("limit 150.1/s; found") == 2


def test_listings_that_are_wrong_are_found_out_and_no_others() -> None:
    status, said = truth("--only", "LIST of an S3: a name twice")
    assert status == 0, said
    assert "of 400 listings" in said
