"""A call in a process of its own: what comes of it, its limits, and its end."""

from __future__ import annotations

import fcntl
import os
import resource
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest

from ssbench.host.confined import call_confined

MEMORY = 128 << 20
LONG_S = 100.0  #: a busy host takes seconds to start a child
CALLS = "tests.fakes.confined_calls"


def call(name: str, argument: str = "", within_s: float = LONG_S) -> bytes:
    return call_confined(
        f"{CALLS}:{name}", argument, {**os.environ, "NAME": "value"}, within_s, MEMORY
    )


def test_the_result_comes_without_other_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor are modules of the current directory imported."""
    for name in ("ssbench", "json", "resource"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert call("echo", "{}") == f"{{}} value {tmp_path}\n".encode()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("name", "argument"), [
    ("fail", "s3cret"), ("interrupt", ""), ("leave", ""), ("crash", ""), ("absent", ""),
    ("long", str(1 << 20)), ("long", "65536"), ("too_much", str(MEMORY)),
])  # fmt: skip
def test_a_call_without_a_result_is_an_error_that_shows_nothing(
    name: str, argument: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ChildProcessError, match=f":{name} ended without a result"):
        call(name, argument)
    assert capfd.readouterr() == ("", "")


def test_a_result_of_just_the_limit_is_one() -> None:
    assert len(call("long", "65535")) == 65536


def test_memory_is_limited_but_not_that_of_its_programs() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert tuple(map(int, call("refused", str(MEMORY)).split())) == before
    assert call("limits").split()[0] == b"%d" % MEMORY


def fifo(path: Path) -> tuple[str, int]:
    """A FIFO, and its end for reading."""
    os.mkfifo(path)
    return str(path), os.open(path, os.O_RDONLY | os.O_NONBLOCK)


def writer_is_gone(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(LONG_S * 1000))


@pytest.mark.parametrize("name", ["wait", "wait_stubbornly"])
def test_what_is_late_is_ended_with_the_programs_that_it_started(name: str, tmp_path: Path) -> None:
    path, fd = fifo(tmp_path / "fifo")
    with os.fdopen(fd, "rb", 0) as reader:
        for within_s in (1, 4, 16, 64):  # until it has come so far before
            with pytest.raises(TimeoutError):
                call(name, path, within_s)
            if reader.read(1):
                break
        assert writer_is_gone(reader.fileno())


def calling(name: str, argument: str, **popen: Any) -> subprocess.Popen[bytes]:
    """A program that prints the result of the call."""
    root = str(Path(__file__).parents[2])
    code = (
        f"import os, sys; sys.path.insert(0, {root!r});"
        " from ssbench.host.confined import call_confined; print(call_confined("
        f"'{CALLS}:{name}', {argument!r}, os.environ, {LONG_S}, {MEMORY}))"
    )
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, **popen)


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    path, fd = fifo(tmp_path / "fifo")
    with os.fdopen(fd, "rb", 0) as reader, calling("sleep", path) as parent:
        assert select.select([reader], [], [], LONG_S)[0]
        parent.kill()
        parent.wait()
        assert writer_is_gone(reader.fileno())


@pytest.mark.parametrize(("typed", "said"), [(b"123456\n", b"b'123456\\n'\n"), (b"\x03", b"")])
def test_it_can_ask_the_user(typed: bytes, said: bytes) -> None:
    """At the terminal, which is as before after Ctrl-C, too."""
    ours, theirs = os.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    with (
        os.fdopen(ours, "r+b", 0) as terminal,
        os.fdopen(theirs, "rb", 0) as other,
        calling("ask", "code: ", stdin=other, stderr=other, start_new_session=True,
                preexec_fn=take_terminal, pass_fds=[theirs]) as program,
    ):  # fmt: skip
        shown = b""
        while not shown.endswith(b"code: "):
            shown += terminal.read(1000)
        terminal.write(typed)
        assert program.stdout is not None
        assert program.stdout.read() == said
        program.wait()
        assert termios.tcgetattr(other)[3] & termios.ECHO
