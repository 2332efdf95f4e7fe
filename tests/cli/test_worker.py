"""ssbench-worker: its mistakes, its end with its master, and its profile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ssbench.cli.worker import main
from ssbench.core.messages import Bye, Hello, Results
from ssbench.transport.key import CurveKey
from ssbench.transport.parent_pipe import address_line
from ssbench.transport.sockets import Ports
from tests.fakes.scripted_master import ScriptedMaster, byes, jobs

ROOT = Path(__file__).resolve().parents[2]


def ports_of(ports: Ports) -> list[str]:
    return [
        "--zmq-work-port", str(ports.work), "--zmq-results-port", str(ports.results),
        "--zmq-control-port", str(ports.control),
    ]  # fmt: skip


class Process:
    """A worker process for this master; it is gone with the block.

    :param pipe: it hears over this where the master is, instead of by its command line.
    """

    def __init__(self, master: ScriptedMaster, *words: str, pipe: int | None = None) -> None:
        way = ports_of(master.transport.ports) if pipe is None else ["--parent-pipe", str(pipe)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ssbench.cli.worker", *way, *words],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            pass_fds=() if pipe is None else (pipe,), stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self) -> tuple[int, str]:
        """Status and what it said, once it has ended."""
        _, err = self.process.communicate(timeout=10)
        assert "Traceback" not in err
        return self.process.returncode, err


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (["--zmq-host", "no-such-host.invalid"], 1, "no address is known"),
        (["--zmq-key-file", "/no/such/key"], 2, "can't be read"),
        (["--zmq-work-port", "13580"], 2, "three different ports"),
        (["-c", "0"], 2, "out of range"),
        (["two", "names"], 2, "unexpected argument"),
        (["a b"], 2, "worker's ID"),
    ],
)
def test_usage_errors_are_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], status: int, why: str
) -> None:
    try:
        found = main(words)
    except SystemExit as stop:
        found = int(stop.code or 0)
    err = capsys.readouterr().err
    assert found == status
    assert why in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_cleanly(number: signal.Signals) -> None:
    with ScriptedMaster() as master, Process(master, "me") as worker:
        hello = master.expect(Hello)
        assert (hello.worker_id, hello.concurrency) == ("me", 64)
        assert hello.pid == worker.process.pid
        worker.process.send_signal(number)
        assert master.expect(Bye).reason == number.name
        status, said = worker.end()
        assert status == 0
        assert f"Exiting: {number.name}" in said


def test_a_worker_ends_with_its_master_if_asked_to() -> None:
    with ScriptedMaster() as master, Process(master, "--exit-with-master", "me") as worker:
        master.broadcast(timeout_s=0.5)
        master.begin()
        master.send(jobs(1))
        master.expect(Results)
        status, said = worker.end()
    assert status == 1
    assert "The master is gone (nothing received from it for 0.5 s): exiting" in said


def test_a_worker_without_a_name_generates_one() -> None:
    with ScriptedMaster() as master, Process(master), Process(master):
        names = {master.expect(Hello).worker_id}
        while len(names) < 2:
            names.add(master.expect(Hello).worker_id)


def test_a_worker_ends_with_its_parent() -> None:
    read_end, write_end = os.pipe()
    with ScriptedMaster() as master, Process(master, "child", pipe=read_end) as worker:
        os.close(read_end)
        os.write(write_end, address_line(master.transport, None).encode())
        master.expect(Hello)
        os.close(write_end)
        assert worker.end()[0] == 0
        assert byes(master) == ["the process that started it has ended"]


def test_a_worker_ends_with_a_silent_parent() -> None:
    read_end, write_end = os.pipe()
    with ScriptedMaster() as master, Process(master, "child", pipe=read_end) as worker:
        os.close(read_end)
        os.close(write_end)
        status, said = worker.end()
    assert (status, "The master exited before it had work" in said) == (0, True)


def test_a_malformed_key_from_the_parent_is_rejected_and_not_shown() -> None:
    read_end, write_end = os.pipe()
    with ScriptedMaster() as master, Process(master, "child", pipe=read_end) as worker:
        os.close(read_end)
        line = address_line(master.transport, CurveKey.generate()).replace(
            "ssbench-key-1", "ssbench-key-9"
        )
        os.write(write_end, line.encode())
        status, said = worker.end()
        assert status == 2
        assert "the parent's pipe: not a key" in said
        assert line.split()[-1] not in said
        os.close(write_end)


def test_the_first_jobs_are_profiled() -> None:
    with ScriptedMaster() as master, Process(master, "-p", "2", "me") as worker:
        incarnation = master.begin()
        master.send(jobs(1, 2, 3))
        master.expect(Results)
        master.broadcast(quit=True, workers={incarnation: (0, None)})
        while worker.process.poll() is None:
            master.listen(0.1)  # again: ZeroMQ drops a control state while 16 wait to be sent
        status, said = worker.end()
        assert status == 0
        assert "Profile of the worker: " in said
