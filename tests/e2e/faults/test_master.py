"""A master that is killed: what becomes of its workers, its stat file, and the next master."""

from __future__ import annotations

import os
import signal

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    Account,
    Commands,
    Started,
    check_all_done,
    finished,
    free_ports,
    is_gone,
    login,
    requests,
    stats_of,
    until,
    workers_of,
)
from tests.e2e.faults.matrix import Row
from tests.timing import AT_ONCE_S, PATIENCE_S

GONE = "The master is gone"


def written(swift: EmbeddedSwift, base: str, run_id: str = "") -> int:
    """PUTs of objects that runs created, by the server's log."""
    return sum(r.method == "PUT" and f"_{run_id}" in r.object and r.object.count("_") == 2
               for r in requests(swift, base))  # fmt: skip


@pytest.mark.fault("master killed (SIGKILL), the next one on the same ports")
def test_the_next_master_works_at_once_with_the_same_workers(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str, row: Row
) -> None:
    ports = free_ports()
    workers = [commands.worker(*ports, "-c", 8, name) for name in ("one", "two")]
    path = commands.scenario(
        container_base=base, crud_profile=[2, 1, 0, 0], user_count=8, think_time=0.1
    )
    options = ["-f", path, "--expect-workers", 2, *login(embedded_swift)]
    first = commands.start_run(*options, "-o", 10**6, workers=None, ports=ports)
    until("objects", lambda: written(embedded_swift, base) > 30)
    until("results in the stat file", lambda: first.on_disk("CREATE") > 30)
    done = first.on_disk("CREATE")
    first.kill()
    before = len(requests(embedded_swift, base))
    row.strike()
    second = commands.start_run(*options, "-v", "-o", 100, workers=None, ports=ports)
    for name in ("one", "two"):
        second.wait_for(f"Worker {name} ")
    assert row.recovered() < AT_ONCE_S
    ended = second.wait().fine()
    assert {record.pid for record in workers_of(ended.results)} == {w.pid for w in workers}
    check_all_done(ended, 100, embedded_swift, base, before)
    row.accounted(ended.stats)
    made = finished(ended.stats)["CREATE"]
    assert written(embedded_swift, base, ended.stats.run.run_id) == made
    assert Account(embedded_swift).created(base, ended.stats.run.run_id) == []
    row.saw("the next run had the same workers and correct sums")
    for worker in workers:
        worker.wait_for(GONE)
        assert worker.process.poll() is None
    _can_be_reported_on(commands, first, at_least=done)
    row.saw("the first stat file can be reported on")


def _can_be_reported_on(commands: Commands, killed: Started, at_least: int) -> None:
    assert killed.stat_file is not None
    count = finished(stats_of(killed.stat_file, damaged=True))["CREATE"]
    assert count >= max(at_least, 1)
    report = commands.call("report-scenario", "-s", killed.stat_file).fine(1)
    assert "cut off" in report.out
    assert f"Count: {count:5d}" in report.out


@pytest.mark.fault("master killed (SIGKILL), and no other comes")
def test_workers_notice_and_wait_or_exit_as_their_options_say(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str, row: Row
) -> None:
    ports = free_ports()
    waiting = commands.worker(*ports, "waiting")
    ending = commands.worker(*ports, "--exit-with-master", "ending")
    swift = embedded_swift
    path = commands.scenario(container_base=base, crud_profile=[1, 0, 0, 0], user_count=8)
    options = ["-r", 60, "--expect-workers", 2, "--worker-timeout", 2, *login(swift)]
    master = commands.start_run("-f", path, *options, workers=None, ports=ports)
    until("objects", lambda: written(swift, base) > 10)
    (store,) = set(swift.pids.values())
    os.kill(store, signal.SIGSTOP)  # so that workers hold jobs
    try:
        master.kill()
        row.strike()
        waiting.wait_for(f"{GONE} (nothing received from it for 2 s): dropped ")
    finally:
        os.kill(store, signal.SIGCONT)
    row.recovered()
    assert "waiting for the next one" in waiting.talk()
    ended = ending.wait().fine(1)
    assert f"{GONE} (nothing received from it for 2 s): dropped " in ended.err
    row.saw("workers dropped their jobs and said so")
    assert waiting.process.poll() is None
    waiting.interrupt()
    waiting.wait().fine()
    row.saw("one waited, one ended with status 1 (--exit-with-master)")


@pytest.mark.fault("master ended, its workers have --exit-with-master")
def test_workers_with_the_option_end_with_their_master(commands: Commands, row: Row) -> None:
    ports = free_ports()
    workers = [commands.worker(*ports, "--exit-with-master", f"w{i}") for i in range(2)]
    options = ["--noop", "--expect-workers", 2]
    ended = commands.run("-f", commands.scenario(), *options, workers=None, ports=ports).fine()
    row.strike()
    row.accounted(ended.stats)
    assert [worker.wait(30).status for worker in workers] == [0, 0]
    row.recovered()
    row.saw("the run ended in good order; then they did, with status 0")


@pytest.mark.fault("master killed (SIGKILL), with local workers")
def test_local_workers_die_with_their_master(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str, row: Row
) -> None:
    ports = free_ports()
    path = commands.scenario(container_base=base, crud_profile=[1, 1, 0, 0], think_time=0.02)
    options = ["-f", path, "--worker-timeout", PATIENCE_S, *login(embedded_swift)]
    started = commands.start_run(*options, "-o", 10**6, ports=ports)
    until("objects", lambda: written(embedded_swift, base) > 10)
    workers = [worker.pid for worker in started.workers()]
    assert len(workers) == 2
    started.kill()
    row.strike()
    until("no worker", lambda: all(is_gone(pid) for pid in workers), AT_ONCE_S)
    row.recovered()
    row.saw("they ended with it")
    again = commands.run(*options, "-o", 30, ports=ports).fine()
    assert again.counted()[:2] == (30, 0)
    row.accounted(again.stats)
