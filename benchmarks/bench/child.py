"""Runs a command to its end, and measures its CPU time."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench.cores import pinned

ROOT = Path(__file__).resolve().parents[2]


class CommandError(Exception):
    """A command failed; the message has its output."""


class Completed(NamedTuple):
    """Output and resources of a command."""

    out: str
    cpu_s: float  #: user and system, including children that it waited for
    memory_mb: float  #: peak resident memory


def run(
    command: Sequence[object],
    core: int,
    timeout_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> Completed:
    """Run a command on a core, to its end.

    :raises CommandError: its exit status isn't 0, or it exceeds the timeout.
    """
    words = [str(word) for word in command]
    with pinned(core):
        process = subprocess.Popen(
            words, cwd=ROOT, env=environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    late = threading.Timer(timeout_s, process.kill)
    late.start()
    try:
        assert process.stdout
        with process.stdout as pipe:
            out = pipe.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    finally:
        late.cancel()
        if process.returncode is None:
            process.kill()
            process.wait()
    if process.returncode:
        raise CommandError(f"{' '.join(words)}: status {process.returncode}: {out}")
    return Completed(out, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)
