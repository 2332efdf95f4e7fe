"""Start a peer on the client's core and read what it says; install what can be installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench.child import ROOT, CommandError, Completed, run
from benchmarks.bench.cores import CLIENT

_HERE = Path(__file__).resolve().parent
#: A throw-away environment: `make clean` removes it.
_LOCUST_PLACE = ROOT / ".bench" / "locust"
_LOCUST = "locust==2.47.0"
_INSTALL_S = 300


class Peer(NamedTuple):
    """What it did."""

    requests: int
    seconds: float
    cpu_s: float

    @property
    def per_s(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def swiftclient(url: str, *, users: int, seconds: float, put_size: int = 0) -> Peer:
    """python-swiftclient on gevent: GET the object, or PUT one of so many bytes there."""
    command = [sys.executable, _HERE / "naive.py", url, users, seconds, put_size]
    return parse(run(command, CLIENT, seconds + 60))


def install_locust() -> str:
    """Install it, unless it is there; gives why that can't be done, or ""."""
    if (_LOCUST_PLACE / "done").exists():
        return ""
    venv.create(_LOCUST_PLACE, clear=True, with_pip=True)
    pip: list[str | Path] = [_LOCUST_PLACE / "bin" / "pip", "install", "--quiet", _LOCUST]
    try:
        subprocess.run(pip, check=True, capture_output=True, text=True, timeout=_INSTALL_S)
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["it says nothing"])[-1]
        return f"not run: pip can't install {_LOCUST}: {said}"
    except subprocess.TimeoutExpired:
        return f"not run: pip didn't install {_LOCUST} within {_INSTALL_S} s"
    (_LOCUST_PLACE / "done").touch()
    return ""


def locust(url: str, *, users: int, seconds: int, put_size: int = 0) -> Peer:
    """Locust's FastHttpUser, the same."""
    command = [
        _LOCUST_PLACE / "bin" / "locust", "-f", _HERE / "locustfile.py", "--headless",
        "--loglevel", "ERROR", "-u", users, "-r", users, "-t", f"{seconds}s",
    ]  # fmt: skip
    environment = {**os.environ, "BENCH_URL": url, "BENCH_SIZE": str(put_size)}
    return parse(run(command, CLIENT, seconds + 60, environment))


def parse(ended: Completed) -> Peer:
    """From what a peer prints.

    :raises CommandError: it isn't there, or nothing was done.
    """
    found = re.search(r"^SAYS ([1-9]\d*) (\d+\.\d+)$", ended.out, re.MULTILINE)
    if not found:
        raise CommandError(f"a peer doesn't say what it did: {ended.out}")
    return Peer(int(found[1]), float(found[2]), ended.cpu_s)
