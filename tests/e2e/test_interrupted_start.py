"""Ctrl-C, once or again and again, at any moment of a start: status 5, and nothing is left."""

from __future__ import annotations

import socket
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.e2e.commands import ROOT, Commands, Ended, free_ports

#: Runs a command that gets a signal at a named moment: at the nth event of that name that Python
#: tells its auditors of, whose first argument has that in it. From then on, where ``held`` is 1, at
#: every event, as from a key that is held down.
SIGNALLED = f"""\
import os, signal, sys

command, event, word, nth, held, number, *sys.argv[1:] = sys.argv[1:]
left, sys.argv[0] = int(nth), command

def auditor(name, arguments):
    global left
    if name == "os.kill":
        return
    if name == event and arguments and word in str(arguments[0]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), int(number))
    elif left <= 0 and held == "1":
        os.kill(os.getpid(), int(number))

sys.path.insert(0, {str(ROOT)!r})
sys.addaudithook(auditor)
from ssbench.cli import start

sys.exit(start.worker() if "worker" in command else start.master())
"""

#: Event, what is in its first argument, which one of them.
MOMENTS = {
    "the first line": ("import", "ssbench.cli.options", 1),
    "while the command is loaded": ("import", "ssbench.cli.commands", 1),
    "the first log": ("open", "ssbench-worker-local-0", 1),
    "the second log": ("open", "ssbench-worker-local-1", 1),
    "the first worker": ("subprocess.Popen", "", 1),
    "the second worker": ("subprocess.Popen", "", 2),
    "while more is loaded": ("import", "ssbench.runner.session", 1),
    "the stat file": ("open", "x.stat.gz", 1),
    "while the wire is loaded": ("import", "ssbench.master.master", 1),
}
SWIFT = {
    "Swift's folder": ("tempfile.mkdtemp", "", 1),
    "Swift's process": ("subprocess.Popen", "", 3),
    "Swift is asked": ("socket.connect", "", 1),
}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "signalled.py"
    path.write_text(SIGNALLED)
    return path


def interrupted(
    commands: Commands, script: Path, moment: tuple[str, str, int], held: bool, *words: object
) -> Ended:
    """The start is over, and nothing of it is left."""
    line = ["ssbench-master", *moment, int(held), 2, "run-scenario", "-f", "very_small", "-r", 3600]
    line += ["--workers", 2, *free_ports(), "-s", commands.place / "x.stat.gz", *words]
    ended = commands.start([script, *line]).wait().fine(5)
    assert started_within(commands.place) == []
    results = commands.place / "ssbench-results"
    left = [path.name for path in [*results.glob("*"), *commands.place.glob("ssbench-swift*")]]
    assert left == []
    assert not (commands.place / "x.stat.gz").exists()
    assert "Exception ignored" not in ended.err
    assert ended.err.splitlines()[-1] == "ssbench-master: interrupted by SIGINT"
    return ended


def started_within(place: Path) -> list[list[str]]:
    """Command lines of those who have it as their TMPDIR."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TMPDIR") == str(place):
                found.append(process.cmdline())
    return found


@pytest.mark.parametrize("held", [False, True], ids=["once", "held"])
@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
def test_interrupting_a_start(
    commands: Commands, script: Path, moment: tuple[str, str, int], held: bool
) -> None:
    interrupted(commands, script, moment, held, "--noop")


@pytest.mark.parametrize("held", [False, True], ids=["once", "held"])
@pytest.mark.parametrize("moment", SWIFT.values(), ids=SWIFT)
def test_interrupting_a_start_of_the_embedded_swift(
    commands: Commands, script: Path, moment: tuple[str, str, int], held: bool
) -> None:
    interrupted(commands, script, moment, held, "--embedded-swift")


@pytest.mark.parametrize("held", [False, True], ids=["once", "held"])
def test_interrupting_a_slow_login(commands: Commands, script: Path, held: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/auth/v1.0"
        words = ("-A", url, "-U", "u", "-K", "k")
        interrupted(commands, script, ("socket.connect", "", 1), held, *words)


@pytest.mark.parametrize("held", [False, True], ids=["once", "held"])
@pytest.mark.parametrize(
    "word", ["ssbench.worker.machine", "ssbench.cli.worker_options", "zmq", "msgspec"]
)
def test_interrupting_a_worker(commands: Commands, script: Path, word: str, held: bool) -> None:
    moment = ("import", word, 1, int(held), 2)
    ended = commands.start([script, "ssbench-worker", *moment, *free_ports(), "w"]).wait().fine(0)
    assert ended.err == "ssbench-worker: interrupted by SIGINT\n"
