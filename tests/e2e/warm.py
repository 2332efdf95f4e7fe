"""Commands in processes that are forked from one which has loaded them: a start costs 20 ms of CPU.

A command that is started as a program costs 150 to 400 ms, most of it to import modules. What such
a start itself does (signals in its first moment, masks in the process list) is not seen here.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.e2e.commands import LONGEST_S, until

PROGRAMS = {"ssbench-master": "ssbench.cli.master", "ssbench-worker": "ssbench.cli.worker"}
_FORKS = multiprocessing.get_context("forkserver")
_COMMANDS = ("bench", "cleanup", "files", "network", "report", "run", "scenario", "transfer")
_FORKS.set_forkserver_preload(
    [
        __name__, "pytest",  # the main module of this process, which each fork imports
        *PROGRAMS.values(), *(f"ssbench.cli.{name}_commands" for name in _COMMANDS),
        "ssbench.cli.dashboard", "ssbench.cli.progress", "ssbench.cli.site",
        "ssbench.report.as_html", "ssbench.runner.session", "ssbench.storage.auth",
        "ssbench.storage.s3admin", "ssbench.storage.swift", "ssbench.storage.swiftadmin",
        "swiftclient.authv1",
    ]
)  # fmt: skip


@dataclass
class Forked:
    """A command that was started; its output goes to a file."""

    process: BaseProcess
    output: Path

    def wait(self) -> int:
        """Wait until it ends; returns its exit status."""
        self.process.join(LONGEST_S)
        status = self.process.exitcode
        if status is None:
            self.process.kill()
            raise AssertionError(f"it never ended; it said:\n{self.said()}")
        return status

    def wait_for(self, text: str) -> None:
        """Wait until its output has this text."""
        until(f"{text!r} in its output", lambda: text in self.said() or self._ended(text))

    def interrupt(self) -> int:
        """Send SIGINT, as Ctrl-C does; returns the exit status."""
        assert self.process.pid is not None
        if self.process.exitcode is None:
            os.kill(self.process.pid, signal.SIGINT)
        return self.wait()

    def said(self) -> str:
        """What it wrote to standard output and standard error so far."""
        return self.output.read_text()

    def _ended(self, text: str) -> bool:
        ended = self.process.exitcode is not None
        assert not ended or text in self.said(), f"it ended without {text!r}:\n{self.said()}"
        return ended


def start(words: Sequence[str], place: Path, environment: dict[str, str], output: Path) -> Forked:
    """Start a command line, with ``place`` as its working directory."""
    output.touch()
    process = _FORKS.Process(target=_command, args=([*words], place, environment, output))
    process.start()
    return Forked(process, output)


def _command(words: list[str], place: Path, environment: dict[str, str], output: Path) -> None:
    """In the new process."""
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    with output.open("ab") as file, open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.path += environment.get("PYTHONPATH", "").split(":")
    sys.argv = words
    sys.exit(import_module(PROGRAMS[words[0]]).main(words[1:]))
