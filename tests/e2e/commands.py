"""The real commands, run as a user runs them, and the eyes to see what they did."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import psutil

from ssbench import statfile
from ssbench.cli.master import main
from ssbench.core.errors import StatFileError
from ssbench.core.model import Phase
from ssbench.core.operations import row_of
from ssbench.core.records import ResultBatch, WorkerRecord
from ssbench.core.stats.run_stats import RunStats
from ssbench.embedded import EmbeddedSwift
from tests.e2e.warm import ROOT, Forked
from tests.environment import own_environment
from tests.ports import held_port
from tests.timing import PATIENCE_S

MASTER = ROOT / "bin" / "ssbench-master"
WORKER = ROOT / "bin" / "ssbench-worker"

#: Characters of a command's output that are shown when a test fails.
SHOWN = 4000
#: No command of these tests may take longer.
LONGEST_S = 400.0
#: Of runs that name no other: what a test needs to be drawn is drawn each time, or never.
SEED = 1
POLL_S = 0.02


def until(what: str, true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait for it, not for a time."""
    deadline = time.monotonic() + patience_s
    while True:
        asked_s = time.thread_time()
        if true():
            return
        assert time.monotonic() < deadline, f"did not happen within {patience_s:g} s: {what}"
        # The cores are for what is waited for: at most a tenth of one goes into asking.
        time.sleep(max(POLL_S, 9 * (time.thread_time() - asked_s)))


def is_gone(pid: int) -> bool:
    """No such process, or one that only waits for its parent to notice."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def free_ports(host: str = "127.0.0.1") -> list[str]:
    """Three ports that nobody listens on, as options of master and worker."""
    return port_options(*(str(held_port(host)) for _ in range(3)))


def port_options(work: str, results: str, control: str) -> list[str]:
    return [
        "--zmq-work-port", work, "--zmq-results-port", results, "--zmq-control-port", control,
    ]  # fmt: skip


# The processes ------------------------------------------------------------------------------


@dataclass
class Started:
    """A command that was started, with its output going to files."""

    process: subprocess.Popen[bytes] | Forked
    out: Path
    err: Path
    stat_file: Path | None = None
    started_s: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        """Command line, status and the end of what it wrote, for whoever reads of a failed test."""
        words = shlex.join(self.process.args)  # type: ignore[arg-type]
        ends = [path.read_text(errors="replace")[-SHOWN:] for path in (self.err, self.out)]
        return "\n".join([f"$ {words}", f"exit status: {self.process.poll()}", *ends])

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self, *words: str) -> list[psutil.Process]:
        """Its child processes whose command line holds one of the words."""
        found = []
        for child in psutil.Process(self.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(word in part for part in child.cmdline() for word in words):
                    found.append(child)
        return found

    def workers(self) -> list[psutil.Process]:
        return self.children("ssbench.cli.worker", "ssbench-worker")  # while it loads, and then

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def interrupt(self) -> None:
        """Ctrl-C, for this process alone."""
        self.signal(signal.SIGINT)

    def kill(self) -> None:
        """Kill this process alone, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def talk(self) -> str:
        """What it wrote to standard error so far."""
        return self.err.read_text()

    def wait_for(self, text: str) -> None:
        """Until it says so on standard error."""
        until(f"{text!r} on standard error", lambda: text in self.talk() or self._ended(text))

    def on_disk(self, operation: str) -> int:
        """How many of its run are in its stat file by now, which need not have begun."""
        assert self.stat_file is not None
        with contextlib.suppress(StatFileError):
            return finished(stats_of(self.stat_file, damaged=True)).get(operation, 0)
        return 0

    def _ended(self, text: str) -> bool:
        if self.process.poll() is None:
            return False
        assert text in self.talk(), f"it ended without {text!r}:\n{self.talk()}"
        return True

    def wait(self, timeout_s: float = LONGEST_S) -> Ended:
        """Until it ends by itself."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired as late:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it never ended; it said:\n{self.talk()}") from late
        took_s = time.monotonic() - self.started_s
        return Ended(status, self.out.read_text(), self.talk(), took_s, self.stat_file)


@dataclass
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str
    took_s: float
    stat_file: Path | None = None

    @property
    def logs(self) -> list[Path]:
        """Of the local workers."""
        return [Path(path) for path in re.findall(r"logging to ([^\s)]+)", self.err)]

    @property
    def stats(self) -> RunStats:
        return stats_of(self.results)

    @property
    def results(self) -> Path:
        """Its stat file."""
        assert self.stat_file is not None
        return self.stat_file

    def fine(self, status: int = 0) -> Ended:
        """It has this exit status, and nothing blew up on the way. Gives itself."""
        said = f"{self.err}\n{self.out}"
        assert self.status == status, f"exit status {self.status}, not {status}:\n{said}"
        for text in (said, *(log.read_text() for log in self.logs)):
            assert "Traceback" not in text, text
        return self

    def one_line(self, status: int = 1) -> str:
        """It failed with exactly one line of its own, which this gives."""
        self.fine(status)
        lines = [line for line in self.err.splitlines() if line.startswith("ssbench-master: ")]
        assert len(lines) == 1, self.err
        assert self.err.splitlines()[-1] == lines[0], self.err
        return lines[0]

    def counted(self, block: str = "TOTAL") -> tuple[int, int, int]:
        """Count, errors and retries in a block of the text report."""
        form = rf"^{block}\n +Count: +(\d+) \( *(\d+) error; +(\d+) retries"
        found = re.search(form, self.out, re.MULTILINE)
        assert found, self.out
        count, errors, retries = map(int, found.groups())
        return count, errors, retries

    def rows(self, check: str) -> list[str]:
        """Of doctor's table, those of a check: verdict and result, with what is wrapped."""
        found = re.findall(r"^(\S+) +(\S+) +(.*(?:\n {22}.*)*)", self.out, re.MULTILINE)
        return [
            f"{verdict}: {' '.join(text.split())}" for verdict, name, text in found if name == check
        ]


class Commands:
    """Starts commands with a place of their own for files; ``close`` ends those still running."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.started: list[Started] = []

    def close(self) -> None:
        """End what was started and still runs: the masters first, which end their workers."""
        for started in self.started:
            if started.process.poll() is None:
                started.kill()

    def start(
        self,
        command: Sequence[object],
        *,
        environment: dict[str, str] | None = None,
        stdin: str | None = None,
        prefix: Sequence[str] = (),
        stat_file: Path | None = None,
        program: bool = False,
        preexec_fn: Callable[[], object] | None = None,
        **popen: Any,
    ) -> Started:
        """Any command, in a clean environment.

        :param program: start ours as programs, too; otherwise they are forked (``tests.e2e.warm``)
            unless another parameter needs a program.
        :param preexec_fn: called in the new process before the command, as ``Forked`` has it.
        """
        number = len(self.started)
        out, err = self.place / f"{number}.out", self.place / f"{number}.err"
        words = [*prefix, sys.executable, *map(str, command)]
        variables = {**clean_environment(), "TMPDIR": str(self.place), **(environment or {})}
        ours = command[0] in (MASTER, WORKER)
        start = Forked if ours and not (program or prefix or popen) else subprocess.Popen
        given = Path(os.devnull)
        if stdin is not None:
            given = self.place / f"{number}.in"
            given.write_text(stdin)
        with given.open("rb") as in_file, out.open("wb") as out_file, err.open("wb") as err_file:
            process = start(
                words,
                stdin=in_file,
                stdout=out_file,
                stderr=err_file,
                cwd=ROOT,
                env=variables,
                preexec_fn=preexec_fn,
                **popen,
            )
        started = Started(process, out, err, stat_file)
        self.started.append(started)
        return started

    def master(self, *arguments: object, **options: Any) -> Started:
        """``ssbench-master`` with these arguments."""
        return self.start([MASTER, *arguments], **options)

    def worker(self, *arguments: object, **options: Any) -> Started:
        """``ssbench-worker`` with these arguments."""
        return self.start([WORKER, *arguments], **options)

    def start_run(
        self,
        *arguments: object,
        workers: int | None = 2,
        ports: Sequence[str] | None = None,
        stat_file: Path | None = None,
        **options: Any,
    ) -> Started:
        """``run-scenario`` with local workers, ports and a stat file of its own."""
        path = stat_file or self.place / f"{secrets.token_hex(4)}.stat.gz"
        words: list[object] = ["run-scenario", "--seed", SEED, *arguments, "-s", path]
        words += ["--workers", workers] if workers else []
        words += free_ports() if ports is None else ports
        return self.master(*words, stat_file=path, **options)

    def call(
        self, *arguments: object, environment: dict[str, str] | None = None, **options: Any
    ) -> Ended:
        """``ssbench-master`` in this process: for a status and a message that need none of its own.

        :param options: of the ``Ended``.
        """
        variables = {**clean_environment(), "TMPDIR": str(self.place), **(environment or {})}
        out, err = io.StringIO(), io.StringIO()
        began_s = time.monotonic()
        with (
            patch.dict(os.environ, variables, clear=True),
            patch("tempfile.tempdir", str(self.place)),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            try:
                status = main([str(word) for word in arguments])
            except SystemExit as ended:  # argparse found wrong usage
                status = int(ended.code or 0)
        took_s = time.monotonic() - began_s
        number = secrets.token_hex(4)
        for name, said in (("out", out), ("err", err)):  # as those of other commands
            (self.place / f"{number}.{name}").write_text(said.getvalue())
        return Ended(status, out.getvalue(), err.getvalue(), took_s, **options)

    def call_run(self, *arguments: object, **options: Any) -> Ended:
        """``run-scenario`` in this process, without a worker."""
        path = self.place / f"{secrets.token_hex(4)}.stat.gz"
        words = ["run-scenario", "--seed", SEED, *arguments, "-s", path, *free_ports()]
        return self.call(*words, stat_file=path, **options)

    def run(self, *arguments: object, **options: Any) -> Ended:
        """The same, until it has ended."""
        return self.start_run(*arguments, **options).wait()

    def scenario(self, **keys: object) -> Path:
        """A scenario file: small objects in few containers, unless the keys say otherwise."""
        path = self.place / f"{secrets.token_hex(4)}.scenario"
        path.write_text(json.dumps(scenario(**keys)))
        return path


def clean_environment() -> dict[str, str]:
    """That of the tests, with the ssbench of this checkout."""
    return {**own_environment(os.environ), "PYTHONPATH": str(ROOT)}


def scenario(**keys: object) -> dict[str, object]:
    """A small scenario as a dict; ``operations`` stand in for its profile."""
    profile = {} if "operations" in keys else {"crud_profile": [1, 1, 1, 1]}
    return {
        "name": "e2e",
        "sizes": [{"name": "tiny", "size_min": 100, "size_max": 2000}],
        "initial_files": {"tiny": 10},
        **profile,
        "operation_count": 60,
        "user_count": 4,
        "container_count": 3,
        **keys,
    }


def login(swift: EmbeddedSwift) -> list[str]:
    """Options that say who we are."""
    return ["-A", swift.auth_url, "-U", swift.user, "-K", swift.key]


# What is seen afterwards --------------------------------------------------------------------


def stats_of(path: Path, *, damaged: bool = False) -> RunStats:
    """What a stat file holds; unless ``damaged``, it must be whole."""
    with statfile.read(str(path)) as reader:
        stats = RunStats.of(reader)
        assert damaged or not reader.damage, reader.damage
    return stats


def rows_of(path: Path, phase: Phase = Phase.RUN) -> Iterator[dict[str, Any]]:
    """The results of a phase, one dict each."""
    with statfile.read(str(path)) as reader:
        for record in reader:
            if isinstance(record, ResultBatch) and record.phase is phase:
                names = (
                    "operation", "object", "url", "renewals", "status", "error", "detail", "group",
                    "size_class", "start_ns", "last_byte_ns",
                )  # fmt: skip
                columns = [record.column(name) for name in names]
                for values in zip(*columns, strict=True):
                    yield dict(zip(names, values, strict=True))


def workers_of(path: Path) -> list[WorkerRecord]:
    with statfile.read(str(path)) as reader:
        return [record for record in reader if isinstance(record, WorkerRecord)]


def finished(stats: RunStats) -> dict[str, int]:
    """Operations of the run with an outcome, failed or not, by name."""
    return {row_of(op).name: stats.total(op).operations for op in stats.operations}


def results_of(worker: str, path: Path | None) -> int:
    """How many results of a worker's run are in a stat file that may still grow."""
    assert path is not None
    return stats_of(path, damaged=True).requests_per_worker().get(worker, 0)


class Request(NamedTuple):
    """A line of the server's log."""

    method: str
    container: str
    object: str
    query: str
    status: int
    transaction: str
    size: str


@dataclass
class _Read:
    """What was read so far of a server's log, for one base."""

    offset: int = 0
    found: list[Request] = field(default_factory=list)


_read: dict[tuple[Path, str], _Read] = defaultdict(_Read)


def requests(swift: EmbeddedSwift, base: str) -> list[Request]:
    """What the server was asked for in containers of a base, in order.

    Each call reads only what the log has got since the last one: tests ask again and again.
    """
    path = swift.access_log()
    so_far = _read[path, base]
    with path.open("rb") as file:
        file.seek(so_far.offset)
        data = file.read()
    data = data[: data.rfind(b"\n") + 1]  # the last line may be half written
    so_far.offset += len(data)
    for line in data.decode(errors="replace").splitlines():
        if f"/{base}_" not in line:
            continue
        method, target, status, transaction, size = line.split(" ")
        path_part, _, query = target.partition("?")
        parts = [urllib.parse.unquote(part) for part in path_part.split("/", 4)[3:]]
        container, name = [*parts, "", ""][:2]
        if container.startswith(f"{base}_"):
            request = Request(method, container, name, query, int(status), transaction, size)
            so_far.found.append(request)
    return list(so_far.found)


def unavailable(swift: EmbeddedSwift, base: str, since: int = 0) -> int:
    """How many requests for objects the server could not serve for a moment, or not in time.

    A run retries each, and nothing else: on a busy host there may be some.

    :param since: so many requests came before.
    """
    return sum(r.status >= 499 for r in requests(swift, base)[since:] if r.object)


def check_all_done(
    ended: Ended, count: int, swift: EmbeddedSwift, base: str, since: int = 0
) -> None:
    """So many operations were done, all of them, with the retries that the server's log explains.

    :param since: so many requests of the log came before.
    """
    stats = ended.fine().stats
    assert ended.counted()[:2] == (count, 0)
    phases = [stats.total(), stats.phase(Phase.POPULATE), stats.phase(Phase.CLEANUP)]
    assert sum(each.retries for each in phases) == unavailable(swift, base, since)


def logins(swift: EmbeddedSwift) -> int:
    """How often somebody authenticated (v1)."""
    return swift.access_log().read_text().count("GET /auth/v1.0")


@contextlib.contextmanager
def silenced(swift: EmbeddedSwift) -> Iterator[None]:
    """A store that takes requests and answers none."""
    (pid,) = set(swift.pids.values())
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def is_initial(request: Request) -> bool:
    """Whether it is about an initial object: ``tiny_000001``, without a run's id."""
    return re.fullmatch(r".+_\d{6}", request.object) is not None and request.object.count("_") == 1


class Account:
    """The test's own way into the store: the standard library, nothing of ours."""

    def __init__(self, swift: EmbeddedSwift, key: str = "") -> None:
        self.swift = swift
        self.url = swift.storage_url
        ask = urllib.request.Request(swift.auth_url)
        ask.add_header("X-Auth-User", swift.user)
        ask.add_header("X-Auth-Key", key or swift.key)
        with urllib.request.urlopen(ask, timeout=30) as answer:
            self.token = answer.headers["X-Auth-Token"]

    def __call__(
        self, method: str, path: str, body: bytes | None = None, safe: str = "/?=&", **headers: str
    ) -> tuple[int, Any, bytes]:
        """Status, headers and body; header names with ``_`` for ``-``."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        ask = urllib.request.Request(
            f"{self.url}/{urllib.parse.quote(path, safe=safe)}" if path else self.url,
            method=method, data=body, headers={"X-Auth-Token": self.token, **given},
        )  # fmt: skip
        try:
            with urllib.request.urlopen(ask, timeout=30) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def put(self, container: str, name: str, body: bytes = b"x") -> int:
        """The status of an upload; the name may hold anything."""
        return self("PUT", f"{container}/{name}", body, safe="/")[0]

    def contents(self, base: str = "") -> dict[str, list[str]]:
        """Container -> names of its objects, of containers that begin with the base."""
        listings = {c: self("GET", f"{c}?format=json")[2] for c in self.containers(base)}
        return {c: [e["name"] for e in json.loads(body)] for c, body in listings.items()}

    def containers(self, base: str = "") -> list[str]:
        """Names of containers that begin with the base."""
        body = self("GET", f"?format=json&prefix={base}")[2]
        return [entry["name"] for entry in json.loads(body or b"[]")]

    def objects(self, base: str) -> list[str]:
        """``container/object`` in the containers of a base."""
        return [
            f"{container}/{entry['name']}"
            for container in self.containers(f"{base}_")
            for entry in json.loads(self("GET", f"{container}?format=json")[2] or b"[]")
        ]

    def created(self, base: str, run_id: str) -> list[str]:
        """Those objects that the run made."""
        return [name for name in self.objects(base) if f"_{run_id}_" in name]
