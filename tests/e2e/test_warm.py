"""Commands of tests are forks of a process that has loaded them, and so are their workers."""

from __future__ import annotations

from pathlib import Path

import psutil

from tests.e2e.commands import Commands

#: A flag of a process that was forked, and never became another program (linux/sched.h).
FORKED_ONLY = 0x40


def is_program(process: psutil.Process) -> bool:
    """Whether it was started as a program, which costs 300 ms of CPU more."""
    after_name = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2]
    flags = int(after_name.split()[6])
    return not flags & FORKED_ONLY


def test_local_workers_are_forks(commands: Commands) -> None:
    started = commands.start_run(
        "-f", commands.scenario(), "--noop", "-r", 600, "--think-time", 0.1,
        "--web", 0,
    )  # fmt: skip
    started.wait_for("Starting scenario")
    workers = started.workers()
    assert [is_program(each) for each in workers] == [False, False]
    assert not is_program(psutil.Process(started.pid))
    started.interrupt()
    started.wait().fine(5)
