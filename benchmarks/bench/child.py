"""A command run to its end, and what it took of the processor."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench.cores import standing

ROOT = Path(__file__).resolve().parents[2]


class CommandError(Exception):
    """A command failed; the message has its words."""


class Ended(NamedTuple):
    """What a command left."""

    out: str
    cpu_s: float  #: user and system, its own children included once it has waited for them
    memory_mb: float  #: the most that was resident


def run(
    command: Sequence[object],
    core: int,
    timeout_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run it on a core, to its end.

    :raises CommandError: its exit status isn't 0, or it took too long.
    """
    words = [str(word) for word in command]
    with standing(core):
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
    return Ended(out, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)
