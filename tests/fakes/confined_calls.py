"""Calls for a confined process: what a library may do there."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from getpass import getpass

_LIMIT = "import resource; print(*resource.getrlimit(resource.RLIMIT_DATA))"


def echo(argument: str) -> bytes:
    """Argument, a variable and folder, beside other output."""
    for stream in (sys.stdout, sys.stderr):
        print("a line of the library", file=stream, flush=True)
    return f"{argument} {os.environ['NAME']} {os.getcwd()}".encode()


def long(argument: str) -> bytes:
    return b"x" * int(argument)


def fail(argument: str) -> bytes:
    raise ValueError(argument)


def interrupt(argument: str) -> bytes:
    signal.raise_signal(signal.SIGINT)
    return b""


def leave(argument: str) -> bytes:
    os._exit(0)


def crash(argument: str) -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b""


def too_much(argument: str) -> bytes:
    return b"%d" % len(bytearray(int(argument)))


def refused(argument: str) -> bytes:
    """Whether so many bytes are refused, and the limits of a program that it starts."""
    try:
        too_much(argument)
    except MemoryError:
        return subprocess.run(
            [sys.executable, "-c", _LIMIT], check=True, capture_output=True
        ).stdout
    return b""


def limits(argument: str) -> bytes:
    return b"%d %d" % resource.getrlimit(resource.RLIMIT_DATA)


def ask(argument: str) -> bytes:
    """What the user types."""
    return getpass(argument).encode()


def wait(argument: str) -> bytes:
    """Start a program that opens a FIFO for writing, and wait for it."""
    code = "import sys, time; f = open(sys.argv[1], 'wb', 0); f.write(b'x'); time.sleep(600)"
    subprocess.run([sys.executable, "-c", code, argument], check=True)
    return b""


def wait_stubbornly(argument: str) -> bytes:
    """The same, and ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return wait(argument)


def sleep(argument: str) -> bytes:
    """Open a FIFO for writing, and sleep."""
    with open(argument, "wb", 0) as fifo:
        fifo.write(b"x")
        time.sleep(600)
    return b""
