"""Workers of the master's own: they log to files, know no credentials, and end with it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ssbench.cli.local_workers import LocalWorkers
from ssbench.core.settings import StorageSettings
from ssbench.master import Master
from ssbench.phases import Limits
from ssbench.wire import MasterWire, Ports
from ssbench.wirekey import Key
from tests.test_master import Observer


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("ST_KEY", "s3cret")
    monkeypatch.setenv("OS_PASSWORD", "s3cret")


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def local(wire: MasterWire, key: Key | None = None, count: int = 2) -> LocalWorkers:
    return LocalWorkers(count, concurrency=3, wire=wire, key=key, retries=5)


def children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "ssbench.cli.worker" in child.cmdline()
    ]


@pytest.mark.parametrize("with_key", [False, True], ids=["plain", "encrypted"])
def test_they_come_and_they_end_with_the_block(with_key: bool) -> None:
    key = Key.generate() if with_key else None
    with MasterWire("127.0.0.1", Ports(0, 0, 0), key) as wire:
        master = Master(
            wire, Observer(), StorageSettings(driver="noop"), limits=Limits(worker_wait_s=10)
        )
        with local(wire, key) as workers:
            master.gather(6, 2)
            assert master.roster.concurrency == 6
            assert len(set(workers.logs)) == 2
            processes = children()
            assert len(processes) == 2
            for process in processes:
                shown = [*process.cmdline(), *process.environ().values()]
                assert not any("s3cret" in word for word in shown)
                if key:
                    assert not any(key.client_secret in word for word in shown)
                assert process.pid == os.getsid(process.pid)  # Ctrl-C is not for them
            assert workers.ended() == []
        assert not any(process.is_running() for process in processes)
        for path in workers.logs:
            assert "Worker local-" in Path(path).read_text()


def test_one_that_ended_is_told_with_its_log() -> None:
    with MasterWire("127.0.0.1", Ports(0, 0, 0), None) as wire, local(wire, count=1) as workers:
        (child,) = children()
        child.kill()
        until(workers.ended)
        assert workers.ended() == [(workers.logs[0], -9)]


def test_where_one_cannot_be_started_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with MasterWire("127.0.0.1", Ports(0, 0, 0), None) as wire:
        workers = local(wire)
        start = workers._start

        def fail_at_the_second(index: int) -> None:
            if index:
                raise OSError("no more processes")
            start(index)

        monkeypatch.setattr(workers, "_start", fail_at_the_second)
        with pytest.raises(OSError, match="no more"), workers:
            pass
        assert children() == []
