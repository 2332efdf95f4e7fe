"""ssbench-worker: its mistakes, its end with its master, and its profile."""

from __future__ import annotations

import argparse
import logging
import os
import shlex
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from ssbench.cli import worker
from ssbench.cli.worker import main
from ssbench.core.errors import ExitStatus
from ssbench.core.messages import Bye, Hello, Results
from ssbench.host.process import WORKER_DESCRIPTORS, HostLimits
from ssbench.transport.key import CurveKey
from ssbench.transport.parent_pipe import MasterAddress, address_line
from ssbench.transport.sockets import Ports
from tests.cli.shell import Shell
from tests.cli.worker_processes import end, group, joined
from tests.fakes.scripted_master import byes, host_master, jobs


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        ("--zmq-host no-such-host.invalid", 1, "no address is known"),
        ("--zmq-key-file /no/such/key", 2, "can't be read"),
        ("--zmq-work-port 13580", 2, "three different ports"),
        ("-c 0", 2, "0 is below 1"),
        ("two names", 2, "unexpected argument"),
        ("a\\ b", 2, "worker's ID"),
        ("--processes 0", 2, "'0': give a whole number of 1 or more, or auto"),
        ("--processes all", 2, "'all': give a whole number of 1 or more, or auto"),
        ("--processes 2 --metrics-only", 2, "leave out the other option"),
        ("--processes 2 --network-server", 2, "leave out the other option"),
        (f"--processes 2 {'x' * 63}", 2, "a worker's ID has 1 to 64"),
        (
            "--processes 3 --metrics-port 65534", 2,
            "--metrics-port 65534: the workers need the ports up to 65536",
        ),
    ],
)  # fmt: skip
def test_mistakes_of_a_user_are_told(shell: Shell, words: str, status: int, why: str) -> None:
    said = shell.worker(*shlex.split(words))
    assert said.status == status
    assert why in said.err


class Group:
    """What a worker's command line gives to a group of processes, on a host of these limits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limits: HostLimits, *words: str) -> None:
        self.asked: list[tuple[argparse.Namespace, str, int, MasterAddress | None]] = []
        monkeypatch.setattr(worker, "allow_many_connections", lambda: None)
        monkeypatch.setattr(worker, "host_limits", lambda: limits)
        monkeypatch.setattr(worker, "run_group", self.run)
        self.status = main(["--processes", "2", *words])

    def run(
        self, ns: argparse.Namespace, name: str, users: int, address: MasterAddress | None
    ) -> ExitStatus:
        self.asked.append((ns, name, users, address))
        return ExitStatus.WORKERS_LOST


FILES = f"a process may open {WORKER_DESCRIPTORS + 10:,} files"


@pytest.mark.parametrize(
    ("limits", "words", "users", "why"),
    [
        (HostLimits(), "", 64, ""),
        (HostLimits(), "-c 7", 7, ""),
        (HostLimits(WORKER_DESCRIPTORS + 64), "", 64, ""),
        (
            HostLimits(WORKER_DESCRIPTORS + 10), "", 10,
            f"This worker can run 10 users, not 64: {FILES}",
        ),
        (HostLimits(WORKER_DESCRIPTORS), "", None, "no user can run on this host: a process may"),
        (HostLimits(ports=100), "", 50, "can run 50 users, not 64: there are 100 local ports"),
        (HostLimits(ports=100), "--source-address 127.0.0.1 --source-address 127.0.0.2", 64, ""),
        (HostLimits(memory_bytes=60_000_000), "-c 9", 9, "18 users in 2 workers take about"),
        (HostLimits(memory_bytes=1000), "-c 9", None, "2 workers take at least 30 MB of memory"),
    ],
)  # fmt: skip
def test_a_host_bounds_the_users_of_its_workers(
    limits: HostLimits,
    words: str,
    users: int | None,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    group = Group(monkeypatch, limits, *words.split())
    assert group.status == (2 if users is None else ExitStatus.WORKERS_LOST)
    assert [asked[2] for asked in group.asked] == ([] if users is None else [users])
    said = [
        text for record in caplog.records if "Without a key" not in (text := record.getMessage())
    ]
    if users is None:
        said = [capsys.readouterr().err]
    assert len(said) == bool(why)
    assert why in "".join(said)


class Listener:
    """In place of a NetworkListener; a signal comes while it serves."""

    made: list[tuple[str | None, int, CurveKey | None, str]] = []
    handlers: dict[int, Any] = {}

    def __init__(self, *given: Any) -> None:
        self.made.append(given)  # type: ignore[arg-type]
        self.ip, self.port, self.is_open = "192.0.2.1", 7, given[2] is None
        self.is_closed = False

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def serve(self) -> None:
        self.handlers[signal.SIGTERM](signal.SIGTERM, None)
        assert self.is_closed

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(
    ("words", "place", "has_key"),
    [
        ([], (None, 13583), False),
        (["127.0.0.1:5"], ("127.0.0.1", 5), True),
        (["9"], (None, 9), False),
    ],
)
def test_a_server_for_check_network_listens_until_a_signal(
    words: list[str],
    place: tuple[str | None, int],
    has_key: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "key"
    CurveKey.generate().save(str(path))
    Listener.made.clear()
    monkeypatch.setattr("ssbench.transport.network.NetworkListener", Listener)
    monkeypatch.setattr(signal, "signal", Listener.handlers.__setitem__)
    caplog.set_level(logging.INFO)
    more = ["--zmq-key-file", str(path)] if has_key else []
    assert main(["--network-server", *words, *more]) == 0
    key = CurveKey.load(str(path)) if has_key else None
    assert Listener.made == [(*place, key, "--network-server")]
    first, *others = [record.getMessage() for record in caplog.records]
    assert first == (
        f"Listening at 192.0.2.1, port 7{'' if has_key else ', without a key'}, for"
        " ssbench-master check-network"
    )
    assert [other.partition(";")[0] for other in others] == (
        [] if has_key else ["Anyone who can reach this port can use it"]
    )


def test_the_master_of_a_group_is_on_the_command_line_or_at_the_end_of_a_pipe(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    CurveKey.generate().save(str(path))
    words = ["--master", "h", "--zmq-work-port", "1", "--zmq-key-file", str(path), "w"]
    ((_ns, name, _users, address),) = Group(monkeypatch, HostLimits(), *words).asked
    assert name == "w"
    assert address is not None
    assert (address.host, address.ports, address.key) == (
        "h", Ports(1, 13580, 13581), CurveKey.load(str(path)),
    )  # fmt: skip
    ((_ns, name, _users, address),) = Group(monkeypatch, HostLimits(), "--parent-pipe", "0").asked
    assert name.startswith(f"{socket.gethostname()}-")
    assert address is None


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_cleanly(number: signal.Signals) -> None:
    with joined("me") as (master, process):
        hello = master.expect(Hello)
        assert (hello.worker_id, hello.concurrency) == ("me", 64)
        assert hello.pid == process.pid
        process.send_signal(number)
        assert master.expect(Bye).reason == number.name
        status, said = end(process)
        assert status == 0
        assert f"Exiting: {number.name}" in said


def test_a_worker_of_nohup_stays_when_its_terminal_is_gone() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does; processes inherit it
    try:
        with joined("me") as (master, process):
            master.expect(Hello)
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            assert master.expect(Bye).reason == "SIGTERM"
            assert end(process)[0] == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_worker_ends_with_its_parent() -> None:
    read_end, write_end = os.pipe()
    words = ["--parent-pipe", str(read_end), "child"]
    with host_master() as master, group(*words, pass_fds=(read_end,)) as process:
        os.close(read_end)
        os.write(write_end, address_line(master.transport).encode())
        master.expect(Hello)
        os.close(write_end)
        assert end(process)[0] == 0
        assert byes(master) == ["the process that started it has ended"]


@pytest.mark.parametrize("jobs_to_profile", ["2", "1000"], ids=["some", "more than there are"])
def test_the_first_jobs_are_profiled(jobs_to_profile: str) -> None:
    with joined("-p", jobs_to_profile, "me") as (master, process):
        incarnation = master.begin()
        master.send(jobs(1, 2, 3))
        master.expect(Results)
        master.broadcast(quit=True, workers={incarnation: (0, None)})
        while process.poll() is None:
            master.listen(0.1)  # again: ZeroMQ drops a control state while 16 wait to be sent
        status, said = end(process)
        assert status == 0
        assert said.count("Profile of the worker: ") == 1
