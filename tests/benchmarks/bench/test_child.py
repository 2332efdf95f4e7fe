"""A command on a core, and what it took."""

from __future__ import annotations

import sys

import pytest

from benchmarks.bench import child
from benchmarks.bench.cores import CLIENT


def test_a_child_runs_on_its_core_and_its_cpu_time_is_known() -> None:
    program = "import os; sum(range(1_000_000)); print(os.sched_getaffinity(0))"
    ended = child.run([sys.executable, "-c", program], CLIENT)
    assert ended.out == f"{{{CLIENT}}}\n"
    assert ended.cpu_s > 0
    assert ended.memory_mb > 1


def test_the_error_of_a_failed_command_has_its_output() -> None:
    with pytest.raises(child.CommandError, match="status 3: no store"):
        child.run([sys.executable, "-c", "print('no store'); raise SystemExit(3)"], CLIENT)


def test_a_slow_command_is_ended() -> None:
    with pytest.raises(child.CommandError, match="status -9"):
        child.run([sys.executable, "-c", "import time; time.sleep(99)"], CLIENT, timeout_s=0.01)
