"""Commands in this process, as a user calls them: what they print, and their exit statuses."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ssbench.cli import master, worker
from ssbench.cli.commands import master_parser
from ssbench.core.errors import ExitStatus
from ssbench.core.records import Record
from ssbench.statfile import StatFileWriter
from tests.ports import held_port


class Said(NamedTuple):
    """What a command came to."""

    status: ExitStatus
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line of its messages."""
        return self.err.splitlines()[-1]


def free_ports() -> list[str]:
    """Options with three ports that nobody listens on."""
    return [f"--zmq-{name}-port={held_port()}" for name in ("work", "results", "control")]


def parsed(line: str) -> argparse.Namespace:
    """The options of a command line of ssbench-master."""
    words = shlex.split(line)
    return master_parser(words).parse_args(words)


def scenario(folder: Path, **keys: Any) -> Path:
    """A file with a short scenario, but for these keys."""
    path = folder / "own.scenario"
    given = {
        "name": "own", "sizes": [{"name": "tiny", "size_min": 1, "size_max": 99}],
        "initial_files": {"tiny": 5}, "operation_count": 50, "user_count": 4,
        "crud_profile": [4, 3, 2, 1], "container_count": 2, **keys,
    }  # fmt: skip
    path.write_text(json.dumps(given))
    return path


def stat_file(path: Path, records: Iterable[Record]) -> Path:
    """A stat file with these records."""
    with StatFileWriter.create(str(path)) as writer:
        for record in records:
            writer.write(record)
    return path


class Shell:
    """``shell("list-scenarios")`` is what that command comes to.

    Runs by ``run`` send nothing to a store, and have their results in ``results``.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._capsys = capsys
        self.folder = folder
        self.results = folder / "x.stat.gz"

    def __call__(self, *words: object) -> Said:
        return self._call(master.main, words)

    def worker(self, *words: object) -> Said:
        """What ssbench-worker comes to."""
        return self._call(worker.main, words)

    def run(self, *words: object, workers: int = 1, **keys: Any) -> Said:
        """What run-scenario comes to.

        :param workers: 0: the option is left out.
        :param keys: of the scenario.
        """
        return self(*self.noop("run-scenario", scenario(self.folder, **keys), workers), *words)

    def noop(self, command: str, path: object, workers: int = 1) -> list[object]:
        """The begin of a command line that runs a scenario."""
        started = ["--workers", workers] if workers else []
        return [command, "-f", path, "--noop", "-s", self.results, *started, *free_ports()]

    def _call(self, main: Callable[[Sequence[str]], int], words: Sequence[object]) -> Said:
        self._capsys.readouterr()
        try:
            status = main([str(word) for word in words])
        except SystemExit as ended:  # by argparse
            status = int(ended.code or 0)
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        assert "s3cret" not in out + err
        return Said(ExitStatus(status), out, err)
