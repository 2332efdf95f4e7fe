"""Runs ssbench and wrk against a server of known delays."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import sub
from pathlib import Path
from typing import Any

from benchmarks.truth.log import Entry, read_log
from benchmarks.truth.place import CLIENT, MASTER_PLACE, SERVER, placed
from ssbench import statfile
from ssbench.core.model import UNCERTAIN_NS, Phase
from ssbench.core.records import MarkRecord, ResultBatch

ROOT = Path(__file__).resolve().parents[2]
MASTER = ROOT / "bin" / "ssbench-master"
WORKER = ROOT / "bin" / "ssbench-worker"
PERCENTS = (50.0, 95.0, 99.0, 99.9)
_WRK_TARGET = "wrk/object"
_WRK_SAYS = """
done = function(summary, latency, requests)
  io.write(string.format("SAYS %d %f %f %f %f %f\\n", summary.requests, latency.mean,
    latency:percentile(50), latency:percentile(95), latency:percentile(99),
    latency:percentile(99.9)))
end
"""
_SCENARIO = {
    "name": "Truth",
    "sizes": [{"name": "small", "size_min": 1000, "size_max": 8000}],
    "initial_files": {"small": 200},
    "crud_profile": [1, 6, 2, 1],
    "container_count": 4,
    "user_count": 64,
}


class ClientError(Exception):
    """A command failed; the message has its output."""


@dataclass
class Server:
    """A server process."""

    url: str
    process: subprocess.Popen[str]
    log_file: Path

    def log(self) -> list[Entry]:
        """End it, and read its log."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait(30)
        return list(read_log(self.log_file))


@contextmanager
def serving(case: str, place: Path) -> Iterator[Server]:
    """A server of this case, on its own core if there are two."""
    log = place / "server.log"
    command = [sys.executable, "-m", "benchmarks.truth.server", case, "--log", str(log)]
    with placed(SERVER):
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    try:
        assert process.stdout
        yield Server(process.stdout.readline().strip(), process, log)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


@dataclass
class Reported:
    """Report and results of a run of ssbench."""

    report: dict[str, Any]  #: its JSON report
    status: int
    results: dict[str, tuple[int, int, int]]
    """Transaction id -> due, start and last byte from the stat file, of the run phase."""
    late_ns: list[int]  #: from due to start, of each operation of the run phase
    others: set[str]  #: transaction ids of the other phases
    marks_ns: list[int] = field(default_factory=list)  #: when each stage began, and the load ended
    uncertain: set[str] = field(default_factory=set)  #: READs whose first byte is in no figure
    failed: set[str] = field(default_factory=set)  #: operations of the run phase


def ssbench(
    options: Sequence[str],
    place: Path,
    timeout_s: float,
    keys: Mapping[str, Any] = {},
    environment: Mapping[str, str] = {},
) -> Reported:
    """Run ssbench with these options, and more keys of the scenario; returns its results and its
    report.

    :param keys: None: the key is not in the scenario.
    :param environment: what its environment has besides ours.
    """
    scenario, stats = place / "truth.scenario", place / "truth.stat.gz"
    values = {key: value for key, value in {**_SCENARIO, **keys}.items() if value is not None}
    scenario.write_text(json.dumps(values))
    ports = _free_ports()
    run = [
        "run-scenario", "-f", scenario, "--expect-workers", "1", "-R", "--progress", "none",
        "-s", stats, "--force", *ports, *options,
    ]  # fmt: skip
    with _worker(ports):
        ended = _master(run, timeout_s, environment)
        if ended.returncode not in (0, 4):
            raise ClientError(f"{run}: status {ended.returncode}\n{ended.stdout}{ended.stderr}")
    report = ["report-scenario", "-s", stats, "--json"]
    report += [word for percent in PERCENTS for word in ("--pctile", f"{percent:g}")]
    told = _master(report, timeout_s)
    return Reported(json.loads(told.stdout), ended.returncode, *_results(stats))


def _master(
    words: Sequence[object], timeout_s: float, environment: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(MASTER), "-q", *map(str, words)]
    with placed(MASTER_PLACE):
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    with process:
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@contextmanager
def _worker(ports: Sequence[str]) -> Iterator[None]:
    """A worker that ends with its master."""
    command = [sys.executable, str(WORKER), "-c", "2000", "--retries", "0", "--exit-with-master"]
    command += ports
    with placed(CLIENT):
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield
        process.wait(30)
    finally:
        process.kill()
        process.wait()


def _free_ports() -> list[str]:
    """Options for three free ports."""
    with ExitStack() as opened:
        ports = []
        for _ in range(3):
            sock = opened.enter_context(socket.socket())
            sock.bind(("127.0.0.1", 0))
            ports.append(str(sock.getsockname()[1]))
    options = ("--zmq-work-port", "--zmq-results-port", "--zmq-control-port")
    return [word for pair in zip(options, ports, strict=True) for word in pair]


def _results(
    stats: Path,
) -> tuple[dict[str, tuple[int, int, int]], list[int], set[str], list[int], set[str], set[str]]:
    results: dict[str, tuple[int, int, int]] = {}
    late_ns: list[int] = []
    others: set[str] = set()
    uncertain: set[str] = set()
    failed: set[str] = set()
    marks: list[MarkRecord] = []
    with statfile.read(stats) as records:
        for batch in records:
            if isinstance(batch, MarkRecord) and batch.name != "users":
                marks.append(batch)
            if not isinstance(batch, ResultBatch):
                continue
            ids = [identifier.decode("ascii") for identifier in batch.column("transaction_id")]
            if batch.phase is not Phase.RUN:
                others.update(ids)
                continue
            due, start, last = map(batch.column, ("due_ns", "start_ns", "last_byte_ns"))
            results.update(zip(ids, zip(due, start, last, strict=True), strict=True))
            late_ns += map(sub, start, due)
            firsts = zip(ids, batch.column("first_byte_ns"), strict=True)
            uncertain.update(each for each, first in firsts if first == UNCERTAIN_NS)
            failed.update(
                each for each, error in zip(ids, batch.column("error"), strict=True) if error
            )
    ends = min(mark.at_ns for mark in marks if mark.name == "end")
    begins = [mark.at_ns for mark in marks if mark.name == "stage"]
    return results, late_ns, others, [*begins, ends], uncertain, failed


@dataclass
class WrkReport:
    """Latencies that wrk reports, in ns."""

    requests: int
    mean: float
    percentiles: dict[float, float]


def wrk(url: str, place: Path, seconds: float) -> WrkReport | None:
    """Read one object over 64 connections; None if wrk isn't installed."""
    program = shutil.which("wrk")
    if program is None:
        return None
    target, script = f"{url}/{_WRK_TARGET}", place / "says.lua"
    put = urllib.request.Request(target, data=b"w" * 4000, method="PUT")
    with urllib.request.urlopen(put, timeout=30):
        pass
    script.write_text(_WRK_SAYS)
    command = [program, "-t1", "-c64", f"-d{seconds:.0f}s", "--timeout", "10s", "-s", str(script)]
    with placed(CLIENT):
        ended = subprocess.run(
            [*command, target], capture_output=True, text=True, timeout=seconds + 30, check=False
        )
    for line in ended.stdout.splitlines():
        if line.startswith("SAYS "):
            requests, *microseconds = map(float, line.split()[1:])
            mean, *percentiles = (value * 1000 for value in microseconds)
            return WrkReport(int(requests), mean, dict(zip(PERCENTS, percentiles, strict=True)))
    raise ClientError(f"{' '.join(command)}: {ended.stdout}{ended.stderr}")


def of_wrk(log: Sequence[Entry]) -> list[Entry]:
    """wrk's requests in a log."""
    return [row for row in log if row.method == "GET" and row.target.endswith(f"/{_WRK_TARGET}")]


def of_ssbench(log: Sequence[Entry]) -> list[Entry]:
    """ssbench's requests for objects in a log."""
    return [
        row for row in log
        if row.target.count("/") >= 4 and not row.target.endswith(f"/{_WRK_TARGET}")
    ]  # fmt: skip
