"""Ctrl-C, SIGTERM and SIGHUP, once or again and again, in every phase of a run."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil
import pytest

from ssbench.core.errors import StatFileError
from ssbench.core.model import Phase
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    LONGEST_S,
    PATIENCE_S,
    Account,
    Commands,
    Ended,
    Started,
    finished,
    is_gone,
    is_initial,
    login,
    requests,
    silenced,
    stats_of,
    until,
)
from tests.e2e.faults.matrix import Row
from tests.fakes.hostile_swift import HostileSwift
from tests.fakes.loopback_http import Behaviour
from tests.timing import AT_ONCE_S

#: Of a write into a full pipe.
PIPE_BYTES = 4096


class Lively:
    """A run that creates, reads and goes on until somebody stops it."""

    def __init__(self, commands: Commands, swift: EmbeddedSwift, base: str) -> None:
        self.commands, self.swift, self.base = commands, swift, base

    def start(self, *options: object, workers: int | None = 1, **keys: object) -> Started:
        # It goes on for as long as the test takes to look at it: not at full speed.
        own = {"container_base": self.base, "operation_count": 10**6, "think_time": 0.02}
        path = self.commands.scenario(**{**own, "crud_profile": [2, 1, 0, 0], **keys})
        return self.commands.start_run("-f", path, *options, *login(self.swift), workers=workers)

    def seen(self, method: str, *, initial: bool) -> int:
        found = requests(self.swift, self.base)
        return sum(r.method == method and r.object != "" and is_initial(r) == initial
                   for r in found)  # fmt: skip

    def wait_for(self, method: str, count: int = 5, *, initial: bool = False) -> None:
        until(f"{count} of {method}", lambda: self.seen(method, initial=initial) >= count)

    def left(self, run_id: str) -> list[str]:
        return Account(self.swift).created(self.base, run_id)


@pytest.fixture
def lively(commands: Commands, embedded_swift: EmbeddedSwift, base: str) -> Lively:
    return Lively(commands, embedded_swift, base)


def interrupted(ended: Ended, row: Row) -> Ended:
    """It ended as an interrupted run should, in time and with a whole stat file."""
    ended.fine(5)
    assert row.recovered() < AT_ONCE_S
    footer = ended.stats.run.footer
    assert footer is not None
    assert footer.ended == "interrupted"
    assert "SIG" in footer.reason
    assert "interrupted" in ended.out.casefold()
    row.saw("status 5, footer, report marked as interrupted")
    row.accounted(ended.stats)
    return ended


def stopped(started: Started, row: Row, number: signal.Signals = signal.SIGINT) -> Ended:
    row.strike()
    started.signal(number)
    return interrupted(started.wait(), row)


@pytest.mark.fault("Ctrl-C while it logs in")
def test_a_signal_during_login(commands: Commands, row: Row) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/auth/v1.0"
        words = ["-A", url, "-U", "u", "-K", "k", "--network-timeout", PATIENCE_S]
        started = commands.start_run("-f", commands.scenario(), *words)
        connection, _ = silent.accept()
        with connection:
            row.strike()
            started.interrupt()
            ended = started.wait().fine(5)
    assert row.recovered() < AT_ONCE_S
    assert ended.err.splitlines()[-1] == "ssbench-master: interrupted by SIGINT"
    assert not ended.results.exists()
    assert "results saved to" not in ended.err
    row.saw("status 5, one line, no empty stat file")


def listens(pid: int) -> bool:
    """Whether it has opened its ports."""
    return any(each.status == psutil.CONN_LISTEN for each in psutil.Process(pid).net_connections())


@pytest.mark.fault("Ctrl-C while it waits for workers")
def test_a_signal_while_waiting_for_workers(lively: Lively, row: Row) -> None:
    started = lively.start("--worker-wait", PATIENCE_S, workers=None)
    started.wait_for("Starting scenario run")
    until("it listens", lambda: listens(started.pid))
    row.strike()
    started.interrupt()
    ended = started.wait().fine(5)
    assert row.recovered() < AT_ONCE_S
    assert ended.err.splitlines()[-1] == "ssbench-master: interrupted by SIGINT"
    assert "no worker joined" not in ended.err
    # Whether it keeps versions is asked before.
    asked = {each.method for each in requests(lively.swift, lively.base)}
    assert asked <= {"HEAD"}, "containers come after workers"
    assert not ended.results.exists(), "nothing was changed"
    row.saw("status 5, one line, no stat file: nothing was sent that changes the store")


@pytest.mark.fault("Ctrl-C while containers are made")
def test_a_signal_during_container_creation(lively: Lively, row: Row) -> None:
    started = lively.start(container_count=2000, container_concurrency=1)
    until("containers", lambda: len(requests(lively.swift, lively.base)) > 5)
    ended = stopped(started, row)
    assert finished(ended.stats) == {"CREATE": 0, "READ": 0, "UPDATE": 0, "DELETE": 0}
    assert len(Account(lively.swift).containers(lively.base)) < 2000


@pytest.mark.fault("Ctrl-C while containers are made, and the store is silent")
def test_a_signal_during_container_creation_at_a_silent_store(lively: Lively, row: Row) -> None:
    started = lively.start("--network-timeout", 2, container_count=2000)
    until("containers", lambda: len(requests(lively.swift, lively.base)) > 5)
    with silenced(lively.swift):
        stopped(started, row)


@pytest.mark.fault("Ctrl-C during populate")
def test_a_signal_during_populate(lively: Lively, row: Row) -> None:
    started = lively.start(initial_files={"tiny": 20_000})
    lively.wait_for("PUT", initial=True)
    ended = stopped(started, row)
    stats = ended.stats
    assert sum(finished(stats).values()) == 0
    assert 5 <= stats.phase(Phase.POPULATE).count < 20_000
    assert lively.left(stats.run.run_id) == []


@pytest.mark.fault("{number.name} during the run")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_the_run(lively: Lively, number: signal.Signals, row: Row) -> None:
    started = lively.start(workers=2)
    lively.wait_for("PUT", 20)
    ended = stopped(started, row, number)
    stats = ended.stats
    counted = finished(stats)
    # The server's own word: not one request more, and not one that isn't counted.
    assert lively.seen("GET", initial=True) + lively.seen("GET", initial=False) == counted["READ"]
    assert lively.seen("PUT", initial=False) == counted["CREATE"]
    assert stats.run.lost == 0
    assert stats.total().errors == 0
    assert lively.left(stats.run.run_id) == []
    assert stats.phase(Phase.CLEANUP).count == counted["CREATE"]


@pytest.mark.fault("Ctrl-C during the run, with -k")
def test_a_signal_during_a_run_with_keep(lively: Lively, row: Row) -> None:
    started = lively.start("-k")
    lively.wait_for("PUT", 20)
    stats = stopped(started, row).stats
    assert len(lively.left(stats.run.run_id)) == finished(stats)["CREATE"]
    assert stats.run.left_behind == finished(stats)["CREATE"]
    assert lively.seen("DELETE", initial=False) == 0


class HeldSwift(HostileSwift):
    """A small Swift that holds DELETEs back until ``go_on`` is set.

    So a clean-up lasts until the test has looked at it, however long it is kept from that.
    """

    def __init__(self) -> None:
        super().__init__({})
        self.asked, self.go_on = threading.Event(), threading.Event()

    def broken(self, request: BaseHTTPRequestHandler) -> Behaviour | None:
        if request.command == "DELETE":
            self.asked.set()
            self.go_on.wait(PATIENCE_S)
        return None

    def created(self) -> list[str]:
        """The objects that a run made, ``tiny_RUN_000001``."""
        names = [name for there in self.containers.values() for name in there.objects]
        return [name for name in names if name.count("_") == 2]

    def options(self) -> list[object]:
        return ["-A", self.auth_url, "-U", "a:b", "-K", "k", "--network-timeout", PATIENCE_S]


@pytest.mark.fault("Ctrl-C during clean-up")
def test_a_signal_during_cleanup(commands: Commands, row: Row) -> None:
    path = commands.scenario(operation_count=30, crud_profile=[1, 0, 0, 0])
    with HeldSwift() as swift:
        started = commands.start_run("-f", path, *swift.options(), workers=1)
        assert swift.asked.wait(PATIENCE_S)
        row.strike()
        started.interrupt()
        swift.go_on.set()
        stats = interrupted(started.wait(), row).stats
        assert finished(stats)["CREATE"] == 30
        # Clean-up goes on: what a user asks for by Ctrl-C is an end without leftovers.
        assert swift.created() == []
    row.saw("clean-up went on to its end")


@pytest.mark.fault("a second Ctrl-C during clean-up")
def test_a_second_signal_exits_at_once(commands: Commands, row: Row) -> None:
    keys = {"crud_profile": [1, 0, 0, 0], "operation_count": 10**6, "think_time": 0.02}
    with HeldSwift() as swift:
        path = commands.scenario(**keys)
        started = commands.start_run("-f", path, *swift.options())
        until("objects", lambda: len(swift.created()) > 40)
        workers = [worker.pid for worker in started.workers()]
        started.interrupt()
        assert swift.asked.wait(PATIENCE_S)
        row.strike()
        started.interrupt()
        ended = started.wait().fine(5)
        assert row.recovered() < AT_ONCE_S
        swift.go_on.set()
        # All that was done until the first one is on disk.
        created = len(swift.created())
    assert all(is_gone(pid) for pid in workers)
    stats = stats_of(ended.results, damaged=True)
    assert finished(stats)["CREATE"] >= created > 40
    report = commands.call("report-scenario", "-s", ended.results).fine()
    assert report.counted()[0] == finished(stats)["CREATE"]
    row.saw("status 5 at once, the stat file can be reported on")


@pytest.mark.fault("Ctrl-C during the run, and again while operations in flight hang")
def test_a_second_signal_does_not_wait_for_hanging_operations(lively: Lively, row: Row) -> None:
    started = lively.start("--network-timeout", PATIENCE_S, "--drain-timeout", PATIENCE_S)
    lively.wait_for("PUT", 40)  # more than what is in flight, by 20 and more
    with silenced(lively.swift):
        until("what was answered in the stat file", lambda: started.on_disk("CREATE") >= 20)
        started.interrupt()
        started.wait_for("interrupted by SIGINT")
        assert started.process.poll() is None
        row.strike()
        started.signal(signal.SIGTERM)
        ended = started.wait().fine(5)
    assert row.recovered() < AT_ONCE_S
    stats = stats_of(ended.results, damaged=True)
    assert finished(stats)["CREATE"] >= 20
    row.saw("status 5 at once")


@pytest.mark.fault("operations in flight hang, --drain-timeout is over")
def test_the_wait_for_hanging_operations_is_bounded(lively: Lively, row: Row) -> None:
    run = lively.start("--network-timeout", 1, "--drain-timeout", 1, workers=1)
    lively.wait_for("PUT", 20)
    with silenced(lively.swift):
        ended = stopped(run, row)
    footer = ended.stats.run.footer
    assert footer is not None
    assert footer.left_behind > 0
    assert "the store has deleted nothing for 3 s" in ended.err
    row.saw("given up, what is left behind is counted")


class FullPipe:
    """A standard output that takes nothing for the time being."""

    def __init__(self, place: Path) -> None:
        self.path = place / "fifo"
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(self._end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.write(self._end, b"-" * PIPE_BYTES)

    @property
    def shell(self) -> list[str]:
        """What to put before a command so that it writes here."""
        return ["bash", "-c", 'exec "$@" >"$0"', str(self.path)]


@pytest.mark.fault("{first.name} while the report is written")
@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_report(commands: Commands, first: signal.Signals, row: Row) -> None:
    prefix = FullPipe(commands.place).shell
    started = commands.start_run("-f", commands.scenario(), "--noop", workers=1, prefix=prefix)
    assert started.stat_file is not None
    path = started.stat_file
    until("a whole stat file", lambda: path.exists() and _is_whole(path))
    until("the report at the pipe", lambda: _stands_at_stdout(started.pid))
    row.strike()
    started.signal(first)
    ended = started.wait().fine(5)
    assert row.recovered() < AT_ONCE_S
    assert ended.err.splitlines()[-1] == f"ssbench-master: interrupted by {first.name}"
    row.accounted(ended.stats)
    row.saw("status 5 at once, the results were whole before")


def _stands_at_stdout(pid: int) -> bool:
    """Whether it waits in a write (descriptor, address, size) to its standard output."""
    _, *words = Path(f"/proc/{pid}/syscall").read_text().split()
    # A sleep by the clock number 1 has a flag where the address would be.
    return len(words) > 1 and words[0] == hex(1) and int(words[1], 16) > PIPE_BYTES


def _is_whole(path: Path) -> bool:
    try:
        return stats_of(path, damaged=True).run.footer is not None
    except StatFileError:
        return False


@pytest.mark.fault("Ctrl-C held down, from {moment}")
@pytest.mark.parametrize("moment", ["the start", "the run", "the end"])
def test_repeated_signals(commands: Commands, moment: str, row: Row) -> None:
    length = ["-o", 50] if moment == "the end" else ["-r", 3600]
    path, options = commands.scenario(think_time=0.02), ["--noop", *length]
    started = commands.start_run("-f", path, *options, workers=1, program=True)
    told = {"the start": "seed", "the run": "logging to", "the end": "results saved to"}
    started.wait_for(told[moment])
    if moment == "the run":
        until("jobs", lambda: "run of run" in _log(started))
    row.strike()
    while started.process.poll() is None:
        assert time.monotonic() - started.started_s < LONGEST_S
        started.interrupt()
        time.sleep(0.002)
    status = started.process.returncode
    row.recovered()
    # The last line is written when all is done: the process may end before the signal comes.
    assert status in ((0, 5) if moment == "the end" else (5,)), started.talk()
    assert "Traceback" not in started.talk()
    row.saw("status 5, no traceback")


def _log(started: Started) -> str:
    return Path(re.findall(r"logging to ([^\s)]+)", started.talk())[0]).read_text()
