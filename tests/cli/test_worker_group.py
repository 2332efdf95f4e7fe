"""ssbench-worker --processes: several workers, their signals, their exits, and what they report."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from urllib.request import urlopen

import psutil
import pytest

from ssbench import __version__
from ssbench.cli import worker
from ssbench.cli.worker import main
from ssbench.core.errors import SsbenchError
from ssbench.core.messages import Hello
from ssbench.core.model import WorkerExit
from ssbench.host.process import HostLimits, usable_cores
from ssbench.transport.key import CurveKey
from ssbench.transport.parent_pipe import GroupStarted, address_line, from_line
from tests.cli.worker_processes import END_S, end, group, joined
from tests.fakes.scripted_master import ScriptedMaster, byes


def hellos(master: ScriptedMaster, count: int) -> dict[str, Hello]:
    found: dict[str, Hello] = {}
    while len(found) < count:
        hello = master.expect(Hello)
        found[hello.worker_id] = hello
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_each_has_a_name_of_its_own_and_a_signal_ends_all(number: signal.Signals) -> None:
    with joined("--processes", "2", "-c", "7", "me") as (master, process):
        found = hellos(master, 2)
        assert sorted(found) == ["me-0", "me-1"]
        assert {hello.concurrency for hello in found.values()} == {7}
        assert len({hello.pid for hello in found.values()} - {process.pid}) == 2
        process.send_signal(number)
        status, said = end(process)
        assert sorted(byes(master)) == ["SIGTERM"] * 2
    assert status == 0
    assert f"{number.name}: ending the workers" in said
    assert " me-1 INFO:Exiting: SIGTERM" in said


def test_a_killed_worker_is_reported_at_once_and_not_started_again() -> None:
    with joined("--processes", "2", "me") as (master, process):
        found = hellos(master, 2)
        os.kill(found["me-1"].pid, signal.SIGKILL)
        assert process.stderr is not None
        told = next(line for line in process.stderr if "has ended" in line)
        assert told.endswith(
            f"WARNING:Worker me-1 (pid {found['me-1'].pid}) has ended: it was killed by SIGKILL; 1"
            " of 2 are left\n"
        )
        assert len(psutil.Process(process.pid).children()) == 1
        process.terminate()
        status, said = end(process)
    assert status == 6
    assert "ssbench-worker: 1 of 2 workers failed; me-1 " in said.splitlines()[-1]


def test_workers_end_when_the_group_is_killed() -> None:
    with joined("--processes", "2", "me") as (master, process):
        pids = [hello.pid for hello in hellos(master, 2).values()]
        workers = []
        for pid in pids:
            with suppress(psutil.NoSuchProcess):
                workers.append(psutil.Process(pid))
        process.kill()
        _, alive = psutil.wait_procs(workers, timeout=END_S)
    assert not alive


def test_a_group_over_a_pipe_reports_and_keeps_the_key_out_of_sight() -> None:
    key = CurveKey.generate()
    with (
        ScriptedMaster(key=key) as master,
        group("--processes", "2", "--parent-pipe", "0", "host") as process,
    ):
        assert process.stdout is not None
        assert process.stdin is not None
        started = from_line(process.stdout.readline().rstrip())
        assert isinstance(started, GroupStarted)
        assert (started.release, started.master) == (__version__, "192.0.2.7")
        assert sorted(started.workers) == ["host-0", "host-1"]
        process.stdin.write(address_line(master.transport))
        process.stdin.flush()
        found = hellos(master, 2)
        assert {name: hello.pid for name, hello in found.items()} == started.workers
        for pid in (process.pid, *started.workers.values()):
            shown = [*psutil.Process(pid).cmdline(), *psutil.Process(pid).environ().values()]
            assert not any(key.client_secret in word for word in shown)
        os.kill(started.workers["host-0"], signal.SIGKILL)
        gone = from_line(process.stdout.readline().rstrip())
        assert gone == WorkerExit(
            "host-0", started.workers["host-0"], "it was killed by SIGKILL", -signal.SIGKILL
        )
        process.stdin.close()
        process.stdin = None
        status, said = end(process)
    assert status == 6
    assert key.client_secret not in said
    assert "The process that started the workers has ended" in said


def test_a_group_whose_parent_ends_before_it_had_an_address_ends() -> None:
    with group("--processes", "1", "--parent-pipe", "0", "host") as process:
        status, said = end(process)
    assert (status, "The master exited before it had work" in said) == (0, True)


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], [[], []]),
        (["-c", "7", "--retries", "3"], [["--concurrency", "7", "--retries", "3"]] * 2),
        (
            ["--source-address", "127.0.0.1", "--source-address", "127.0.0.2"],
            [["--source-address", "127.0.0.1", "--source-address", "127.0.0.2"]] * 2,
        ),
        (
            ["--allow-driver", "a.b", "--allow-driver", "c"],
            [["--allow-driver", "a.b", "--allow-driver", "c"]] * 2,
        ),
        (["-p", "5"], [["--profile-count", "5"]] * 2),
        (["--exit-with-master", "-v"], [["--exit-with-master", "--verbose"]] * 2),
        (
            ["--metrics-port", "127.0.0.1:65534"],
            [["--metrics-port", f"[127.0.0.1]:{port}"] for port in (65534, 65535)],
        ),
    ],
)
def test_each_worker_of_a_group_gets_the_options_of_the_group(
    words: list[str], options: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, list[str]] = {}

    def start(given: dict[str, list[str]], *_command: object, log_files: bool) -> None:
        found.update(given)
        raise SsbenchError("enough")

    monkeypatch.setattr(worker, "host_limits", HostLimits)
    monkeypatch.setattr("ssbench.runner.local_workers.LocalWorkers", start)
    assert main(["--processes", "2", *words, "w"]) == 1
    assert [*found] == ["w-0", "w-1"]
    users = ["--concurrency", "64", "--retries", "10"]
    for given, more in zip(found.values(), options, strict=True):
        assert given == (more if "--retries" in more else [*users, *more])


def test_auto_is_one_for_each_core() -> None:
    with group("--processes", "auto", "--parent-pipe", "0", "host") as process:
        assert process.stdout is not None
        started = from_line(process.stdout.readline().rstrip())
        assert isinstance(started, GroupStarted)
        assert len(started.workers) == usable_cores()


def test_each_worker_of_a_group_serves_metrics_on_a_port_of_its_own() -> None:
    first = next(port for port in range(21_000, 60_000, 2) if both_are_free(port))
    words = ["--processes", "2", "--metrics-port", str(first), "far"]
    with joined(*words) as (master, process):
        hellos(master, 2)
        for index in (0, 1):
            with urlopen(f"http://127.0.0.1:{first + index}/metrics", timeout=30) as found:
                assert f'worker="far-{index}"' in found.read().decode()
        process.send_signal(signal.SIGTERM)
        end(process)


def both_are_free(port: int) -> bool:
    for number in (port, port + 1):
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", number)) == 0:
                return False
    return True
