"""Workers of the master's own: they log to files, know no credentials, and end with it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

import psutil
import pytest

from ssbench.core.errors import UsageError
from ssbench.core.settings import Limits, StorageSettings
from ssbench.host.process import HostLimits
from ssbench.master.master import Master
from ssbench.runner.config import WORKER_COMMAND, RunConfig, find_scenario
from ssbench.runner.local_workers import LocalWorkers, start_local_workers
from ssbench.storage.options import StoreOptions
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.parent_pipe import MasterAddress, address_line
from ssbench.transport.sockets import Ports
from tests.descriptors import open_descriptors
from tests.master.test_master import Observer
from tests.timing import PATIENCE_S


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("ST_KEY", "s3cret")
    monkeypatch.setenv("OS_PASSWORD", "s3cret")


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def local(count: int = 2) -> LocalWorkers:
    names = [f"local-{index}-{os.getpid()}" for index in range(count)]
    options = ["--concurrency", "3", "--retries", "5"]
    return LocalWorkers(dict.fromkeys(names, options), WORKER_COMMAND)


def config(workers: int | None = None, store: str = "noop") -> RunConfig:
    scenario = find_scenario("very_small")
    return RunConfig(scenario=scenario, store=StoreOptions(store, {}, {}), workers=workers)


def concurrency_of(workers: LocalWorkers) -> int:
    words = workers.commands[0].split()
    return int(words[words.index("--concurrency") + 1])


def ended() -> bool:
    """Whether no worker process is left."""
    return children() == []


def children() -> list[psutil.Process]:
    """Worker processes of this one, without those that have just ended."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            line = line_of(child) if child.status() != psutil.STATUS_ZOMBIE else ""
            # Python's fork server, which other tests start, names what it has loaded.
            is_worker = "ssbench.cli.worker" in line or "ssbench-worker" in line
            if is_worker and "multiprocessing" not in line:
                found.append(child)
    return found


def line_of(child: psutil.Process) -> str:
    """Its command line, for which the kernel has nothing to show while a program is loaded."""
    until(child.cmdline)
    return " ".join(child.cmdline()).strip()


def test_local_workers_end_with_the_block() -> None:
    key = CurveKey.generate()
    with MasterTransport("127.0.0.1", Ports(0, 0, 0), key) as wire:
        master = Master(
            wire,
            [Observer()],
            StorageSettings(driver="noop"),
            Limits(worker_wait_s=10),
        )
        with local() as workers:
            workers.send_address(address_line(wire))
            workers.begin()
            master.wait_for_workers(6, 2)
            assert master.workers.concurrency == 6
            assert len(set(workers.logs)) == 2
            processes = children()
            assert len(processes) == 2
            for process in processes:
                shown = [*process.cmdline(), *process.environ().values()]
                assert not any("s3cret" in word for word in shown)
                assert not any(key.client_secret in word for word in shown)
                assert process.pid == os.getsid(process.pid)  # Ctrl-C is not for them
        assert not any(process.is_running() for process in processes)
        for path in workers.logs:
            assert "Worker local-" in Path(path).read_text()


@pytest.mark.parametrize("store", ["noop", "webdav"])
def test_local_workers_have_no_variable_of_any_store(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBDAV_PASSWORD", "s3cret")
    with ExitStack() as stack:
        start_local_workers(config(1, store), stack, 1)
        (child,) = children()
        assert "s3cret" not in child.environ().values()


def test_local_workers_do_not_import_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ssbench").mkdir()
    (tmp_path / "ssbench" / "__init__.py").write_text("raise SystemExit('another ssbench')")
    monkeypatch.chdir(tmp_path)
    with local(1):
        (child,) = children()
        until(lambda: line_of(child).startswith("ssbench-worker --parent-pipe "))


def test_log_files_are_reused_by_number_unless_in_use(tmp_path: Path) -> None:
    def names(workers: LocalWorkers) -> list[str]:
        return [Path(path).relative_to(tmp_path / "ssbench-results").name for path in workers.logs]

    for _ in range(2):
        with local() as workers:
            assert names(workers) == ["ssbench-worker-local-0.log", "ssbench-worker-local-1.log"]
            with local(1) as others:
                assert names(others) == ["ssbench-worker-local-2.log"]
            workers.begin()


def test_the_log_of_a_dead_worker_is_kept() -> None:
    with local(1) as workers:
        (child,) = children()
        child.kill()
        until(ended)
        with local(1) as others:
            assert set(others.logs).isdisjoint(workers.logs)


def test_of_a_crash_the_cause_is_said_and_not_the_stacks() -> None:
    fatal = "Fatal Python error: no memory\nPython runtime state: initialized\nMemoryError\n\n"
    with local(1) as workers:
        (child,) = children()
        Path(workers.logs[0]).write_text(f"a\n{fatal}Thread 0x1:\n" + 150 * '  File "x.py"\n')
        child.kill()
        until(ended)
        (gone,) = workers.exits()
    shown = fatal.strip().replace("\n", " | ")
    assert gone.reason == f"it was killed by SIGKILL; its log {workers.logs[0]} ends: {shown}"


def test_an_exit_is_reported_once_with_signal_and_log() -> None:
    with local() as workers:
        workers.exclusive = True
        assert workers.exits() == []
        first, second = sorted(children(), key=lambda child: line_of(child).rpartition(" ")[2])
        Path(workers.logs[0]).write_text("a\nb\n\nc\x1b[2J\nd\n")
        first.kill()
        until(lambda: len(children()) == 1)
        (gone,) = workers.exits()
        assert (gone.worker_id, gone.pid) == (f"local-0-{os.getpid()}", first.pid)
        log = workers.logs[0]
        assert gone.reason == f"it was killed by SIGKILL; its log {log} ends: b | c\\x1b[2J | d"
        assert workers.exits() == []
        assert not workers.all_gone()
        Path(workers.logs[1]).unlink()
        second.terminate()
        until(ended)
        (gone,) = workers.exits()
        assert "can't be read: No such file" in gone.reason
        assert workers.all_gone()


@pytest.mark.parametrize("told", [False, True])
def test_a_worker_without_a_run_leaves_nothing(told: bool) -> None:
    with local() as workers:
        if told:
            workers.send_address(MasterAddress("127.0.0.1", Ports(1, 2, 3), None).to_line())
        assert all(Path(log).exists() for log in workers.logs)
        Path(workers.logs[0]).unlink()  # somebody cleared away there
    assert children() == []
    # At once: a user who mistyped an option does not wait for workers to load.
    assert all("SIGKILL" in gone.reason for gone in workers.exits())
    assert not any(Path(log).exists() for log in workers.logs)


def test_workers_that_do_not_end_are_killed_after_a_time_for_all_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ssbench.runner.local_workers._GRACE_S", 1.0)
    stubborn = ("sh", "-c", "exec sleep 300")
    with LocalWorkers({str(n): () for n in range(30)}, stubborn) as workers:
        workers.begin()
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 30, "one after the other"
    assert {gone.status for gone in workers.exits()} == {-signal.SIGKILL}


def test_more_users_or_workers_than_this_host_can_run_are_rejected_with_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tight = HostLimits(descriptors=128, ports=1000, memory_bytes=60_000_000)
    monkeypatch.setattr("ssbench.runner.local_workers.host_limits", lambda: tight)
    told = config(2, "swift")
    with ExitStack() as stack, pytest.raises(UsageError) as caught:
        start_local_workers(told, stack, 201)
    assert str(caught.value).startswith(
        "201 users in 2 workers (101 each) are too many for this host: a process may open 128 files"
    )
    assert children() == []
    with ExitStack() as stack:
        found = start_local_workers(told, stack, 2000, 10)
        assert found is not None
        assert concurrency_of(found) == 100, "a search goes as far as it can"
        memory, bound = found.warnings
        assert "about 100 MB of memory, and 60 MB can be had" in memory
        assert bound.startswith("A worker on this host can run at most 100 users: a process may")
    with ExitStack() as stack:
        found = start_local_workers(config(1), stack, 5000)
        assert found is not None
        assert concurrency_of(found) == 5000, "users of --noop have no connections"
        (memory,) = found.warnings
        assert "5,000 users in 1 worker take about 250 MB of memory" in memory
    with ExitStack() as stack, pytest.raises(UsageError) as caught:
        start_local_workers(config(5), stack, 5)
    assert str(caught.value) == (
        "5 workers take at least 75 MB of memory, and 60 MB can be had on this host: use fewer"
    )
    assert children() == []


def test_if_one_worker_cannot_start_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[Popen[bytes]] = []
    descriptors = open_descriptors()

    def fail_at_the_second(*arguments: Any, **more: Any) -> Popen[bytes]:
        if started:
            raise OSError("no more processes")
        started.append(Popen(*arguments, **more))
        return started[0]

    monkeypatch.setattr("ssbench.runner.local_workers.subprocess.Popen", fail_at_the_second)
    with pytest.raises(OSError, match="no more"), local():
        pass
    assert len(started) == 1
    assert children() == []
    assert [entry for entry in tmp_path.rglob("*") if entry.is_file()] == []
    assert open_descriptors() <= descriptors
