"""Ctrl-C, twice or once, in every phase; and a master that is killed."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ssbench.core.model import Phase
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    Account,
    Commands,
    Ended,
    Started,
    finished,
    free_ports,
    is_gone,
    is_initial,
    login,
    requests,
    stats_of,
    until,
)

#: How long a run may need to end after a Ctrl-C, and how long after a second one.
IN_GOOD_ORDER_S = 15.0
AT_ONCE_S = 3.0
ORPHANS_S = 2.0


@pytest.fixture
def base() -> str:
    """Containers of this test alone."""
    return f"int{secrets.token_hex(4)}"


class Lively:
    """A run that creates, reads and goes on until somebody stops it."""

    def __init__(self, commands: Commands, swift: EmbeddedSwift, base: str) -> None:
        self.commands, self.swift, self.base = commands, swift, base

    def start(self, *options: object, **keys: object) -> Started:
        path = self.commands.scenario(
            **{"container_base": self.base, "crud_profile": [2, 1, 0, 0], "operation_count": 10**6}
            | keys
        )
        return self.commands.start_run("-f", path, *options, *login(self.swift))

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


def interrupted(ended: Ended, took_s: float) -> Ended:
    """It ended as an interrupted run should, in time and with a whole stat file."""
    ended.fine(5)
    assert took_s < IN_GOOD_ORDER_S
    footer = ended.stats.run.footer
    assert footer is not None
    assert footer.ended == "interrupted"
    assert "SIG" in footer.reason
    assert "interrupted" in ended.out.casefold()
    return ended


def stopped(started: Started, number: signal.Signals = signal.SIGINT) -> Ended:
    at_s = time.monotonic()
    started.signal(number)
    return interrupted(started.wait(), time.monotonic() - at_s)


def test_while_containers_are_made(lively: Lively) -> None:
    started = lively.start(container_count=2000, container_concurrency=1)
    until("containers", lambda: len(requests(lively.swift, lively.base)) > 5)
    ended = stopped(started)
    assert finished(ended.stats) == {"CREATE": 0, "READ": 0, "UPDATE": 0, "DELETE": 0}
    assert len(Account(lively.swift).containers(lively.base)) < 2000


def test_during_populate(lively: Lively) -> None:
    started = lively.start(initial_files={"tiny": 20_000})
    lively.wait_for("PUT", initial=True)
    ended = stopped(started)
    stats = ended.stats
    assert sum(finished(stats).values()) == 0
    assert 5 <= stats.phase(Phase.POPULATE).count < 20_000
    assert lively.left(stats.run.run_id) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_during_the_run(lively: Lively, number: signal.Signals) -> None:
    started = lively.start()
    lively.wait_for("PUT", 20)
    ended = stopped(started, number)
    stats = ended.stats
    counted = finished(stats)
    # The server's own word: not one request more, and not one that isn't counted.
    assert lively.seen("GET", initial=True) + lively.seen("GET", initial=False) == counted["READ"]
    assert lively.seen("PUT", initial=False) == counted["CREATE"]
    assert stats.run.lost == 0
    assert stats.total().errors == 0
    assert lively.left(stats.run.run_id) == []
    assert stats.phase(Phase.CLEANUP).count == counted["CREATE"]


def test_during_the_run_with_keep(lively: Lively) -> None:
    started = lively.start("-k")
    lively.wait_for("PUT", 20)
    stats = stopped(started).stats
    assert len(lively.left(stats.run.run_id)) == finished(stats)["CREATE"]
    assert stats.run.left_behind == finished(stats)["CREATE"]
    assert lively.seen("DELETE", initial=False) == 0


def test_during_clean_up(lively: Lively) -> None:
    started = lively.start(operation_count=150, crud_profile=[1, 0, 0, 0])
    lively.wait_for("DELETE", 2)
    at_s = time.monotonic()
    started.interrupt()
    ended = started.wait().fine(5)
    assert time.monotonic() - at_s < IN_GOOD_ORDER_S
    stats = ended.stats
    assert finished(stats)["CREATE"] == 150
    # Clean-up goes on: what a user asks for by Ctrl-C is an end without leftovers.
    assert lively.left(stats.run.run_id) == []
    assert stats.run.footer is not None
    assert "interrupted" in ended.out.casefold()


def test_a_second_one_leaves_at_once(lively: Lively) -> None:
    started = lively.start(crud_profile=[1, 0, 0, 0], user_count=8)
    lively.wait_for("PUT", 300)
    workers = [worker.pid for worker in started.workers()]
    started.interrupt()
    lively.wait_for("DELETE", 1)
    at_s = time.monotonic()
    started.interrupt()
    ended = started.wait().fine(5)
    assert time.monotonic() - at_s < AT_ONCE_S + 5  # LocalWorkers' patience
    assert all(is_gone(pid) for pid in workers)
    stats = stats_of(ended.results, damaged=True)
    # All that was done until the first one is on disk.
    assert finished(stats)["CREATE"] >= 300
    report = lively.commands.master("report-scenario", "-s", ended.results).wait().fine()
    assert report.counted()[0] == finished(stats)["CREATE"]


def test_a_killed_master_takes_its_workers_along_and_can_be_started_again(
    commands: Commands, lively: Lively
) -> None:
    ports = free_ports()
    path = commands.scenario(container_base=lively.base, crud_profile=[1, 1, 0, 0])
    options = ["-f", path, *login(lively.swift)]
    started = commands.start_run(*options, "-o", 10**6, ports=ports)
    lively.wait_for("PUT", 30)
    time.sleep(1.5)  # the stat file holds all but the last second
    workers = [worker.pid for worker in started.workers()]
    assert len(workers) == 2
    done = lively.seen("PUT", initial=False)
    started.signal(signal.SIGKILL)
    started.process.wait()
    until("no worker", lambda: all(is_gone(pid) for pid in workers), ORPHANS_S)
    stats = stats_of(_of(started), damaged=True)
    assert 1 <= finished(stats)["CREATE"] <= lively.seen("PUT", initial=False)
    assert finished(stats)["CREATE"] >= done / 4
    report = commands.master("report-scenario", "-s", _of(started)).wait().fine()
    assert "cut off" in report.out or "incomplete" in f"{report.out}{report.err}".casefold()
    again = commands.run(*options, "-o", 30, ports=ports).fine()
    assert again.counted()[:2] == (30, 0)


def _of(started: Started) -> Path:
    assert started.stat_file is not None
    return started.stat_file


def test_cleaning_up_at_a_dead_store_comes_to_an_end(
    commands: Commands, fresh_swift: Callable[..., EmbeddedSwift], base: str
) -> None:
    swift = fresh_swift()
    lively = Lively(commands, swift, base)
    run = lively.start("--network-timeout", 1, "--drain-timeout", 1, "--workers", 1)
    lively.wait_for("PUT", 20)
    (pid,) = set(swift.pids.values())
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        run.interrupt()
        ended = run.wait()
        took_s = time.monotonic() - began
    finally:
        os.kill(pid, signal.SIGCONT)
    interrupted(ended, took_s)
    footer = ended.stats.run.footer
    assert footer is not None
    assert footer.left_behind > 0
    assert "the store has deleted nothing for 3 s" in ended.err
