"""Workers that run out of memory, or out of file descriptors."""

from __future__ import annotations

import re
import resource
import signal
from collections.abc import Sequence

import psutil
import pytest

from ssbench.core.errors import most_failed
from ssbench.core.model import ErrorKind
from ssbench.embedded import EmbeddedSwift
from ssbench.host.process import WORKER_DESCRIPTORS
from tests.e2e.commands import (
    Commands,
    Started,
    free_ports,
    login,
    requests,
    rows_of,
    until,
    workers_of,
)
from tests.e2e.faults.agreement import agrees_with_log
from tests.e2e.faults.hostile import judged
from tests.e2e.faults.matrix import Row
from tests.fakes.paced_swift import PacedSwift, reads_of

MB = 1_000_000
LARGE = {"name": "large", "size_min": MB, "size_max": 2 * MB}
#: What a worker needs for its sockets, its log and its modules, and a few for connections.
TIGHT = 30


@pytest.mark.fault("worker out of memory ({limit})")
@pytest.mark.parametrize(
    "limit", ["RLIMIT_AS", pytest.param("RLIMIT_DATA", marks=pytest.mark.slow)]
)
def test_a_worker_out_of_memory(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row, limit: str
) -> None:
    """A worker whose users are all at work needs no more memory, and lives on without. So it is
    struck while few of them are; the second stage's users need more."""
    base = limit.lower().replace("_", "")
    keys = {"sizes": [LARGE], "initial_files": {"large": 8}, "operation_count": None}
    keys["think_time"] = 1
    stages = [{"seconds": 6, "users": 4}, {"seconds": 4, "users": 64}]
    path = commands.scenario(container_base=base, crud_profile=[1, 2, 0, 0], stages=stages, **keys)
    options = ["--worker-timeout", 6, *login(embedded_swift)]
    started = commands.start_run("-f", path, *options, program=True)
    until("reads", lambda: any(r.method == "GET" for r in requests(embedded_swift, base)))
    starved = started.workers()[0]
    row.strike()
    _starve(starved, getattr(resource, limit))
    until("its end", lambda: re.search(r"WARNING: (Lost w|W)orker", started.talk()))
    row.recovered()
    ended = started.wait(300)
    name = next(w.worker_id for w in workers_of(ended.results) if w.pid == starved.pid)
    account = row.accounted(ended.stats)
    assert account.failed <= 32
    # Its operations fail, or are lost with it, or it had none in flight; its users are missing.
    # A slow store had done less by then than was lost.
    lost = account.failed + account.lost
    assert ended.status == (1 if most_failed(account.done, lost) else 6)
    assert [each.split()[0] for each in ended.stats.run.workers_lost] == [name]
    # CPython and greenlet abort where an error finds no memory for itself.
    ends = "out of memory|no heartbeat|SIGABRT; .*Fatal Python error.*MemoryError"
    assert re.search(rf"orker {name} .*({ends})", ended.err), ended.err
    agreement = agrees_with_log(embedded_swift, base, ended.results)
    assert agreement.others == agreement.of_worker(name)
    # Python's own word where it gets to say one; a C library that has no memory aborts with its.
    (log,) = (log.read_text() for log in ended.logs if "ssbench-worker-local-" in log.name
              and name.rpartition("-")[0] in log.name)  # fmt: skip
    assert "memory" in log.lower()
    row.saw("it leaves and says so, or its C library aborts; the other goes on")


def _starve(worker: psutil.Process, limit: int) -> None:
    """Not a byte more than it has."""
    size = worker.memory_info().vms if limit == resource.RLIMIT_AS else MB
    worker.rlimit(limit, (size, size))


def start_beside(
    commands: Commands, path: object, options: Sequence[object], prefix: Sequence[str]
) -> tuple[Started, Started]:
    """A run with a worker that was started by a prefix, and one without; and the first one."""
    ports = free_ports()
    poor = commands.worker("--retries", 1, *ports, "poor", prefix=prefix)
    commands.worker("--retries", 1, *ports, "rich")
    started = commands.start_run(
        "-f", path, *options, "--expect-workers", 2, workers=None, ports=ports
    )
    return started, poor


@pytest.mark.fault("worker started with too few file descriptors for its users")
def test_a_worker_with_fewer_descriptors_than_users(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    path = commands.scenario(container_base="tight", crud_profile=[1, 1, 0, 0], user_count=80)
    options = ["-r", 4, "--think-time", 3, *login(embedded_swift)]
    prefix = ["prlimit", f"--nofile={TIGHT}:{TIGHT}"]
    started, poor = start_beside(commands, path, options, prefix)
    ended = started.wait().fine(6)
    account = row.accounted(ended.stats)
    assert (account.failed, account.lost) == (0, 0)
    possible = TIGHT - WORKER_DESCRIPTORS
    said = f"This worker can run {possible} users, not 64: a process may open {TIGHT} files"
    assert said in poor.talk()
    assert f"can run only {64 + possible} of 80 users (poor (" in ended.err
    assert f"FEWER USERS THAN REQUESTED: {64 + possible} of 80 users ran" in ended.out
    assert min(ended.stats.requests_per_worker().values()) > 0
    assert poor.process.poll() is None
    agrees_with_log(embedded_swift, "tight", ended.results)
    row.saw("it offers the users that it can run; the report says that the others are missing")


@pytest.mark.fault("worker started with {descriptors} file descriptors: too few for any work")
@pytest.mark.parametrize(
    "descriptors", [*(pytest.param(n, marks=pytest.mark.slow) for n in (11, 12)), 18]
)
def test_a_worker_that_cannot_start(commands: Commands, row: Row, descriptors: int) -> None:
    path = commands.scenario(**reads_of(100))
    with PacedSwift(100, 0.01) as store:
        options = [
            "-S",
            store.url,
            "-T",
            "token",
            "-o",
            200,
            "--worker-wait",
            5,
            "--fewer-workers-ok",
        ]
        prefix = ["prlimit", f"--nofile={descriptors}:{descriptors}"]
        started, poor = start_beside(commands, path, options, prefix)
        ended = started.wait().fine()
    account = row.accounted(ended.stats)
    assert (account.done, account.lost) == (200, 0)
    # Where the event loop's library is the first to find none left, it aborts, in the same words.
    assert poor.wait().status in ([2] if descriptors == 18 else [1, 2, -signal.SIGABRT])
    assert (
        "Too many open files" in poor.talk() or "no user can run on this host: a pro" in poor.talk()
    )
    assert poor.talk().count("Traceback") <= 1
    assert ended.stats.requests_per_worker() == {"rich": 200}
    row.saw("it says so and ends; the other does its work")


@pytest.mark.fault("worker out of file descriptors in the run")
def test_a_worker_that_runs_out_of_descriptors(commands: Commands, row: Row) -> None:
    """Connections that are kept do no harm: here the store closes each after its answer."""
    path = commands.scenario(**reads_of(100), user_count=16, think_time=0.05)
    with PacedSwift(100, 0.02, closes=True) as store:
        options = ["-S", store.url, "-T", "token", "-r", 5, "--progress", "chars"]
        started, poor = start_beside(commands, path, options, [])
        started.wait_for("Benchmark Run")
        worker = psutil.Process(poor.pid)
        until("connections", lambda: worker.num_fds() > 20)
        worker.rlimit(resource.RLIMIT_NOFILE, (8, 8))
        ended = started.wait()
        assert poor.process.poll() is None
    account = row.accounted(ended.stats)
    judged(ended, account)
    assert account.failed > 0
    assert account.lost == 0
    failed = [r for r in rows_of(ended.results) if r["error"]]
    assert {(ErrorKind(r["error"]), "too many open files" in r["detail"]) for r in failed} == {
        (ErrorKind.LOAD_GENERATOR, True)
    }
    by_worker = ended.stats.requests_per_worker()
    assert by_worker["rich"] > 100
    row.saw("load generator errors that the report names; it stays, nothing is lost")
