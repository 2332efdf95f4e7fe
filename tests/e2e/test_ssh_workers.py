"""--ssh-workers with a real sshd on this host: runs, doctor, hosts that fail, and masters that
die."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    ROOT,
    WORKER,
    Commands,
    Started,
    check_all_done,
    free_ports,
    login,
    until,
    workers_of,
)
from tests.servers.sshd import Sshd

pytestmark = pytest.mark.program("sshd")


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def over_ssh(sshd: Sshd) -> list[object]:
    """Options of a run whose workers are those of this checkout."""
    worker = f"PYTHONPATH={ROOT} {sys.executable} {WORKER}"
    return ["--ssh-command", sshd.ssh, "--ssh-worker-command", worker]


def no_worker_is_left(sshd: Sshd) -> None:
    until("all workers are gone", lambda: not {"a-0", "a-1", "b-0", "b-1"} & sshd.sessions().keys())


def test_a_run_with_workers_of_two_hosts_and_of_this_one(
    commands: Commands, sshd: Sshd, over_ssh: list[object], embedded_swift: EmbeddedSwift
) -> None:
    # Each worker's share of the users is 1, if all hosts are there.
    path = commands.scenario(container_base="sshrun", user_count=6)
    ended = commands.run(
        "-v", "-f", path, *login(embedded_swift), *over_ssh, "--ssh-workers", "{a,b}:2,closed",
        "--fewer-workers-ok", workers=1,
    ).fine()  # fmt: skip
    check_all_done(ended, 60, embedded_swift, "sshrun")
    names = {worker.worker_id for worker in workers_of(ended.results)}
    assert {"a-0", "a-1", "b-0", "b-1"} < names
    assert len(names) == 5
    assert "Started 4 workers over ssh: a (2), b (2)" in ended.err
    assert "Warning: Only 2 of 3 hosts started workers; continuing with 4 workers" in ended.out
    assert "Warning: closed: ssh failed: " in ended.out
    assert re.search(r"^Run +6 users on 5 workers", ended.out, re.MULTILINE)
    assert "INFO:b: " in ended.err
    assert "b-1 INFO:Exiting: the run is over" in ended.err
    no_worker_is_left(sshd)


def test_doctor_names_hosts_that_cannot_be_used_and_nothing_stays(
    commands: Commands, sshd: Sshd, over_ssh: list[object]
) -> None:
    hosts = commands.place / "hosts.txt"
    hosts.write_text("a:2  # works\nclosed\nstranger\nrefused\nno-such-host.invalid\n")
    words = ["doctor", "--noop", *over_ssh, "--ssh-workers", f"@{hosts}", *free_ports()]
    ended = commands.master(*words).wait().fine(1)
    closed, stranger, refused, unknown, works = ended.rows("hosts")
    assert "Connection refused -> is the host up, and does sshd listen there?" in closed
    assert "Host key verification failed. -> connect once by hand (ssh stranger)" in stranger
    assert "Permission denied (publickey). -> it accepts no key of yours" in refused
    assert "Could not resolve hostname no-such-host.invalid" in unknown
    assert "-> check the name" in unknown
    assert works == "ok: Started 2 workers over ssh: a (2)"
    joined = ended.rows("workers")
    assert sorted(row.split()[1] for row in joined) == ["a-0", "a-1"]
    assert all(row.startswith("ok: ") for row in joined)
    no_worker_is_left(sshd)


def start_long_run(commands: Commands, over_ssh: list[object]) -> Started:
    path = commands.scenario(operation_count=None, run_seconds=100, think_time=0.05)
    started = commands.start_run(
        "-f", path, "--noop", *over_ssh, "--ssh-workers", "{a,b}:1",
        "--progress", "chars", workers=None,
    )  # fmt: skip
    started.wait_for("Benchmark Run")
    return started


def test_workers_end_when_the_master_is_killed(
    commands: Commands, sshd: Sshd, over_ssh: list[object]
) -> None:
    started = start_long_run(commands, over_ssh)
    assert {"a-0", "b-0"} < sshd.sessions().keys()
    started.kill()
    no_worker_is_left(sshd)


def test_a_series_uses_the_workers_of_all_hosts(
    commands: Commands, sshd: Sshd, over_ssh: list[object]
) -> None:
    path = commands.scenario(operation_count=50)
    commands.run(
        "-f", path, "--noop", *over_ssh, "--ssh-workers", "{a,b}:1", "--sweep", "users=2,4",
        workers=None, stat_file=commands.place / "x.stat.gz",
    ).fine()  # fmt: skip
    for load in (2, 4):
        found = workers_of(Path(commands.place / f"x.users{load}.stat.gz"))
        assert {worker.worker_id for worker in found} == {"a-0", "b-0"}
