"""Signals while a command loads, or takes its leave: real processes, one line, one status."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

#: A command that does what the test says, in the place of the real one.
SCRIPT = """\
import os, signal, sys, types
from ssbench.cli import start

def send():
    os.kill(os.getpid(), {number})

def main():
    {body}
    return {status}

sys.modules["ssbench.cli.{command}"] = types.SimpleNamespace(main=main)
status = start.{command}()
{after}
sys.exit(status)
"""


def run(number: int, body: str = "pass", after: str = "pass", status: int = 0,
        command: str = "master") -> tuple[int, str]:  # fmt: skip
    """The exit status, and what it said on standard error."""
    code = SCRIPT.format(number=int(number), body=body, after=after, status=status, command=command)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60,
        cwd=ROOT,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_during_start_up_gives_one_line(number: signal.Signals) -> None:
    assert run(number, "send()") == (5, f"ssbench-master: interrupted by {number.name}\n")
    assert run(number, "send()", command="worker") == (
        0, f"ssbench-worker: interrupted by {number.name}\n"
    )  # fmt: skip


def test_a_signal_during_start_up_unwinds_no_frames() -> None:
    swallow = "\n    ".join(
        ["try:", "    send()", "except BaseException: pass", "finally:", "    print('never')"]
    )
    assert run(signal.SIGINT, swallow) == (5, "ssbench-master: interrupted by SIGINT\n")
    late = "class Late:\n        __del__ = lambda self: send()\n    Late()"
    assert run(signal.SIGTERM, late) == (5, "ssbench-master: interrupted by SIGTERM\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_does_not_wait_for_a_blocked_stderr(number: signal.Signals) -> None:
    full = "\n    ".join(
        [
            "import threading, time",
            "reading, writing = os.pipe()",
            "os.set_blocking(writing, False)",
            "try:",
            "    while os.write(writing, bytes(1 << 16)): pass",
            "except BlockingIOError: pass",
            "os.set_blocking(writing, True)",
            "os.dup2(writing, 2)",
            "def again():",
            "    while True:",
            "        time.sleep(0.001)",
            "        send()",
            "threading.Thread(target=again, daemon=True).start()",
            "time.sleep(60)",
        ]
    )
    assert run(number, full) == (5, "")


def test_handlers_are_installed_before_other_modules_are_imported() -> None:
    code = """\
import sys
from ssbench.cli import start
loaded = []
ours = lambda: [name for name in sys.modules if name.startswith("ssbench")]
start.handle_signals = lambda handler: loaded.append(ours())
sys.argv[1:] = ["list-scenarios"]
start.master()
print(sorted(loaded[0]), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.stderr == "['ssbench', 'ssbench.cli', 'ssbench.cli.start']\n"


@pytest.mark.parametrize(
    ("number", "status", "seen"),
    [(signal.SIGINT, 0, 5), (signal.SIGTERM, 6, 5), (signal.SIGHUP, 1, 1)],
)
def test_a_signal_after_the_end_keeps_the_status(number: int, status: int, seen: int) -> None:
    assert run(number, after="send()", status=status) == (seen, "")


def test_a_signal_after_the_end_of_a_worker_is_no_error() -> None:
    assert run(signal.SIGINT, after="send()", command="worker") == (0, "")


def test_an_ignored_sighup_stays_ignored() -> None:
    ignore = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    code = SCRIPT.format(number=1, body="send()", after="pass", status=3, command="master").replace(
        "from ssbench", f"{ignore}\nfrom ssbench"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=60, cwd=ROOT)
    assert done.returncode == 3


def test_exit_handlers_run() -> None:
    body = 'import atexit; atexit.register(print, "last words", file=sys.stderr)'
    assert run(0, body, status=6) == (6, "last words\n")
    flood = f"{body}; atexit.register(send)"
    assert run(signal.SIGINT, flood, status=6) == (5, "")


def test_an_error_keeps_its_status() -> None:
    status, said = run(0, 'raise RuntimeError("a defect")')
    assert status == 1
    assert "a defect" in said


@pytest.mark.parametrize("given", [None, "4"])
def test_numpy_starts_no_threads_unless_the_user_wants_some(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    told = "print(os.environ['OPENBLAS_NUM_THREADS'], file=sys.stderr)"
    status, said = run(0, told)
    assert (status, said.strip()) == (0, given or "1")


def test_children_have_a_status_also_where_our_parent_ignores_the_end_of_its_own() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # a new program ignores it, too
    try:
        body = "import subprocess; global ended; ended = subprocess.call(['false'])"
        found = run(signal.SIGINT, body, after="print(ended, file=sys.stderr)")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert found == (0, "1\n")
