"""ssbench-worker as a process, with one worker or a group of them, and its master."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ssbench.transport.sockets import Ports
from tests.fakes.scripted_master import ScriptedMaster, host_master

ROOT = Path(__file__).resolve().parents[2]
END_S = 60


def ports_of(ports: Ports) -> list[str]:
    return [
        "--zmq-work-port", str(ports.work), "--zmq-results-port", str(ports.results),
        "--zmq-control-port", str(ports.control),
    ]  # fmt: skip


@contextmanager
def joined(*words: str) -> Iterator[tuple[ScriptedMaster, subprocess.Popen[str]]]:
    """A master, and a process that connects to it."""
    with (
        host_master() as master,
        group(*ports_of(master.transport.ports), *words) as process,
    ):
        yield master, process


@contextmanager
def group(*words: str, **more: object) -> Iterator[subprocess.Popen[str]]:
    """A process with these options; it and its workers are gone with the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "ssbench.cli.worker", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "SSH_CONNECTION": "192.0.2.7 1 192.0.2.8 22"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Status and standard error."""
    _, err = process.communicate(timeout=END_S)
    assert "Traceback" not in err
    return process.returncode, err
