"""Workers that die, leave, come late, or never."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator

import pytest

from ssbench.core.operations import READ
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    Account,
    Commands,
    Started,
    finished,
    free_ports,
    login,
    requests,
    results_of,
    until,
    workers_of,
)
from tests.e2e.faults.agreement import agrees_with_log
from tests.e2e.faults.matrix import Row
from tests.fakes.relay import Relay


@pytest.fixture
def far_login(embedded_swift: EmbeddedSwift) -> Iterator[list[str]]:
    """Options for the shared Swift, 100 ms away: a hundred requests of four users take 2.5 s, so
    that a test can act in the middle of them on any host."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Relay(embedded_swift.port, listener=listener, delay_s=0.05) as relay,
    ):
        url = f"http://127.0.0.1:{relay.port}/auth/v1.0"
        yield ["-A", url, "-U", embedded_swift.user, "-K", embedded_swift.key]


def puts(swift: EmbeddedSwift, base: str) -> int:
    """Uploads so far, initial objects included."""
    return sum(r.method == "PUT" and r.object != "" for r in requests(swift, base))


def kill_one(started: Started, row: Row) -> int:
    """Kill a local worker, and wait until the master has noticed; gives its process id."""
    victim = started.workers()[0]
    victim.send_signal(signal.SIGKILL)
    row.strike()
    started.wait_for("Lost worker")
    row.recovered()
    # Its exit was noticed, not its silence.
    warning = r"Lost worker local-.*: it was killed by SIGKILL; its log .* ends: .*INFO:\w+ "
    assert re.search(warning, started.talk())
    return victim.pid


@pytest.mark.fault("worker killed (SIGKILL) in the run")
def test_one_of_two_workers_is_killed(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    path = commands.scenario(
        container_base="killed", crud_profile=[2, 1, 1, 0], user_count=8, think_time=0.4
    )
    options = login(embedded_swift)
    started = commands.start_run("-f", path, "-o", "160", *options)
    until("writes", lambda: puts(embedded_swift, "killed") > 20)
    pid = kill_one(started, row)
    ended = started.wait().fine(6)
    stats = ended.stats
    lost, counted = row.accounted(stats).lost, finished(stats)
    assert lost > 0
    assert sum(counted.values()) + lost == 160
    assert stats.total().errors == 0
    dead = next(w.worker_id for w in workers_of(ended.results) if w.pid == pid)
    (lost_one,) = stats.run.workers_lost
    assert lost_one.startswith(dead)
    assert f"pid {pid}" in lost_one
    assert f"Lost worker {dead}" in ended.err
    assert re.search(rf"\b{lost}\b.*lost|lost.*\b{lost}\b", ended.out, re.IGNORECASE), ended.out
    agreement = agrees_with_log(embedded_swift, "killed", ended.results)
    # What nobody heard the end of was sent by the one that died, and by nobody else.
    assert agreement.others == agreement.of_worker(dead)
    assert Account(embedded_swift).created("killed", stats.run.run_id) == []
    row.saw("its operations are lost, the other goes on; status 6")


@pytest.mark.fault("worker killed (SIGKILL) in the clean-up")
def test_one_of_two_workers_is_killed_during_cleanup(
    commands: Commands, embedded_swift: EmbeddedSwift, far_login: list[str], row: Row
) -> None:
    path = commands.scenario(container_base="tidied", crud_profile=[1, 0, 0, 0])
    started = commands.start_run("-f", path, "-o", "120", *far_login)
    until("deletes", lambda: any(r.method == "DELETE" for r in requests(embedded_swift, "tidied")))
    kill_one(started, row)
    ended = started.wait().fine(6)
    stats = ended.stats
    row.accounted(stats)
    assert ended.counted() == (120, 0, 0)
    # Nothing is lost that the report is about, and nothing is left.
    assert (stats.run.lost, stats.run.left_behind) == (0, 0)
    assert Account(embedded_swift).created("tidied", stats.run.run_id) == []
    agrees_with_log(embedded_swift, "tidied", ended.results)
    row.saw("nothing of the run is lost, nothing is left behind; status 6")


@pytest.mark.fault("worker killed (SIGKILL) while it uploads")
def test_one_of_two_workers_is_killed_during_populate(
    commands: Commands, embedded_swift: EmbeddedSwift, far_login: list[str], row: Row
) -> None:
    keys = {"crud_profile": [0, 1, 0, 0], "initial_files": {"tiny": 80}}
    path = commands.scenario(container_base="early", **keys)
    started = commands.start_run("-f", path, "-o", "20", *far_login)
    until("uploads", lambda: puts(embedded_swift, "early") > 10)
    kill_one(started, row)
    ended = started.wait().fine(6)
    row.accounted(ended.stats)
    assert ended.counted() == (20, 0, 0)
    assert "could not be uploaded" not in ended.err
    assert len(Account(embedded_swift).objects("early")) == 80
    agrees_with_log(embedded_swift, "early", ended.results)
    row.saw("the other uploads the rest; status 6")


@pytest.mark.fault("all workers killed")
def test_all_workers_are_killed(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    path = commands.scenario(container_base="allkilled", crud_profile=[0, 1, 0, 0], think_time=0.05)
    words = ["-f", path, "-o", 10**6, "--worker-wait", 3600, *login(embedded_swift)]
    started = commands.start_run(*words)
    until("reads", lambda: len(requests(embedded_swift, "allkilled")) > 60)
    row.strike()
    for worker in started.workers():
        worker.send_signal(signal.SIGKILL)
    ended = started.wait().fine(1)  # nobody else can come, so nobody is waited for
    row.recovered()
    assert "all workers are gone" in ended.out
    assert ended.counted()[0] > 0
    assert row.accounted(ended.stats).lost > 0
    agrees_with_log(embedded_swift, "allkilled", ended.results)
    row.saw('the run ends at once: "all workers are gone", status 1')


@pytest.mark.fault("all workers gone, then one comes")
def test_all_workers_are_killed_and_another_joins(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    ports = free_ports()
    first = commands.worker(*ports, "first")
    path = commands.scenario(container_base="heir", crud_profile=[1, 1, 0, 0], think_time=0.2)
    options = ["--worker-timeout", 3, "--expect-workers", 1, *login(embedded_swift)]
    started = commands.start_run("-f", path, "-o", 120, *options, workers=None, ports=ports)
    until("writes", lambda: puts(embedded_swift, "heir") > 20)
    first.process.kill()
    started.wait_for("Lost worker first")
    row.strike()
    commands.worker(*ports, "heir")
    until("its work", lambda: any("heir" in r.transaction.rpartition("-")[2]
                                  for r in requests(embedded_swift, "heir")))  # fmt: skip
    row.recovered()
    ended = started.wait().fine(6)
    account = row.accounted(ended.stats)
    assert account.sent == 120
    assert account.failed == 0
    assert ended.stats.requests_per_worker()["heir"] > 0
    agreement = agrees_with_log(embedded_swift, "heir", ended.results)
    assert agreement.others == agreement.of_worker("-first")
    row.saw("the run waits for it and goes on; status 6")


@pytest.mark.fault("a worker joins late")
def test_a_late_worker_gets_its_share(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    ports = free_ports()
    commands.worker(*ports, "early")
    path = commands.scenario(container_base="joined", crud_profile=[1, 1, 0, 0], user_count=8)
    options = ["-r", 60, "--think-time", 0.5, "--expect-workers", 1, *login(embedded_swift)]
    started = commands.start_run("-f", path, *options, workers=None, ports=ports)
    until("writes", lambda: puts(embedded_swift, "joined") > 20)
    row.strike()
    commands.worker(*ports, "late")
    until("its work", lambda: any(r.transaction.endswith("-late")
                                  for r in requests(embedded_swift, "joined")))  # fmt: skip
    row.recovered()
    started.interrupt()
    ended = started.wait().fine(5)
    account = row.accounted(ended.stats)
    assert (account.failed, account.lost) == (0, 0)
    assert agrees_with_log(embedded_swift, "joined", ended.results).others == []
    row.saw("it gets half of the users, nothing is lost")


@pytest.mark.fault("a worker is told to end (SIGTERM)")
def test_a_worker_that_exits_on_sigterm_loses_no_operation(commands: Commands, row: Row) -> None:
    ports = free_ports()
    leaving = commands.worker(*ports, "leaving")
    commands.worker(*ports, "staying")
    path = commands.scenario(crud_profile=[0, 1, 0, 0])
    options = ["--noop", "-o", 400, "--think-time", 0.05, "--expect-workers", 2]
    started = commands.start_run(
        "-f", path, *options, "--progress", "chars", workers=None, ports=ports
    )
    started.wait_for("Benchmark Run")
    until("its results", lambda: results_of("leaving", started.stat_file))
    leaving.process.terminate()
    assert leaving.wait().fine().status == 0
    ended = started.wait().fine(6)
    stats = ended.stats
    assert (stats.run.lost, stats.total().errors) == (0, 0)
    assert stats.requests_per_worker()["leaving"] > 0
    assert "may have run in addition" not in ended.err
    row.accounted(stats)
    row.saw("it ends what is in flight and gives back the rest: no operation is lost, status 6")


def test_no_worker_joins(commands: Commands) -> None:
    path = commands.scenario()
    ports = free_ports()
    words = ["run-scenario", "-f", path, "-s", commands.place / "x", *ports]
    line = commands.call(*words, "--noop", "--worker-wait", "1").one_line(6)
    assert "no worker joined within 1 s" in line
    assert "--workers" in line
    assert all(port in line for port in ports[1::2])


def test_two_workers_of_one_name_are_rejected(commands: Commands) -> None:
    ports = free_ports()
    path = commands.scenario(crud_profile=[0, 1, 0, 0])
    commands.worker(*ports, "twin")
    options = ["--noop", "-r", 60, "--think-time", 0.05, "--expect-workers", 1]
    started = commands.start_run(
        "-f", path, *options, "--progress", "chars", workers=None, ports=ports
    )
    started.wait_for("Benchmark Run")
    second = commands.worker(*ports, "twin")
    second.wait_for("refuses this worker")
    assert 'the worker id "twin" is taken by twin' in second.talk()
    started.interrupt()
    ended = started.wait().fine(5)
    assert ended.stats.requests_per_worker().keys() == {"twin"}
    assert ended.stats.total(READ).errors == 0


def test_fewer_workers_than_expected_are_reported(commands: Commands) -> None:
    ports = free_ports()
    path = commands.scenario(operation_count=100)
    commands.worker(*ports).wait_for("Worker ")
    options = ["--expect-workers", "3", "--worker-wait", "4"]
    line = commands.run("-f", path, "--noop", *options, workers=None, ports=ports).one_line(6)
    assert "only 1 of 3 workers joined within 4 s" in line
    options.append("--fewer-workers-ok")
    ended = commands.run("-f", path, "--noop", *options, workers=None, ports=ports).fine()
    assert "Only 1 of 3 workers joined" in ended.err
    assert ended.counted() == (100, 0, 0)


def test_kill_workers_without_any(commands: Commands) -> None:
    ended = commands.call("kill-workers", "--worker-wait", "1", *free_ports()).fine(1)
    assert "No workers" in ended.err
