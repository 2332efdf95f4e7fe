"""A run, step by step: what becomes of its stat file, and what a series leaves out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import pytest

from ssbench.core.errors import ExitStatus, SsbenchError
from ssbench.core.messages import ControlState
from ssbench.core.model import Phase
from ssbench.core.records import Record, RunFooter, RunHeader
from ssbench.core.settings import StorageSettings
from ssbench.master.master import Master
from ssbench.runner.local_workers import LocalWorkers
from ssbench.runner.results import read_stats
from ssbench.statfile import StatFileWriter
from ssbench.storage.base import ContainerInfo, StoreLimits
from ssbench.storage.noop import NoopStorage
from ssbench.transport.master_transport import MasterTransport
from tests.cli.test_run_scenario import _own_folder, run, scenario
from tests.fakes.full_disk import fill_disk

pytestmark = pytest.mark.usefixtures("forked_workers")

__all__ = ["_own_folder"]


def _full_disk_at(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    """From the first record of this kind on, nothing can be written any more."""

    def write(self: StatFileWriter, record: Record) -> None:
        if isinstance(record, kind):
            fill_disk(monkeypatch)
        really(self, record)

    really = StatFileWriter.write
    monkeypatch.setattr(StatFileWriter, "write", write)


def test_a_full_disk_at_the_footer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _full_disk_at(monkeypatch, RunFooter)
    status, results = run(scenario(tmp_path), tmp_path, "--workers", "1")
    out, err = capsys.readouterr()
    assert status is ExitStatus.FAILED
    assert "No space left on device; the first " in err
    assert "are kept and can be read" in err
    assert "Count:" in out
    where = f"INFO:Some of the scenario run's results saved to {results}\n"
    assert f"{where}INFO:You may generate a report with:\n" in err
    assert read_stats(str(results)).run.footer is None


def test_a_full_disk_at_the_header(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _full_disk_at(monkeypatch, RunHeader)
    assert run(scenario(tmp_path), tmp_path, "--workers", "1")[0] is ExitStatus.FAILED
    assert "No space left on device; nothing was kept" in capsys.readouterr().err
    assert not (tmp_path / "x.stat.gz").exists()


# A start that fails leaves no stat file, as long as nothing was changed ----------------------


def interrupt_at_once(master: Master, *args: object) -> None:
    os.kill(os.getpid(), 2)


def refused_container(self: Any, name: str, changing: Callable[[], None]) -> ContainerInfo:
    return ContainerInfo(None, marked=False, object_count=7)


FAILED_STARTS: dict[str, tuple[tuple[str, ...], type, str, object, ExitStatus]] = {
    "no worker": (("--worker-wait", "0.1"), Master, "", None, ExitStatus.FAILED),
    "Ctrl-C while it waits": (
        (), Master, "wait_for_workers", interrupt_at_once, ExitStatus.INTERRUPTED,
    ),
    "somebody's container": (
        ("--workers", "1"), NoopStorage, "make_container", refused_container, ExitStatus.FAILED,
    ),
}  # fmt: skip


@pytest.mark.parametrize("older", [False, True], ids=["new", "older file"])
@pytest.mark.parametrize("start", FAILED_STARTS.values(), ids=FAILED_STARTS)
def test_a_start_that_changes_nothing_leaves_no_stat_file(
    start: tuple[tuple[str, ...], type, str, object, ExitStatus],
    older: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words, owner, method, fake, status = start
    results = tmp_path / "x.stat.gz"
    if older:
        run(scenario(tmp_path), tmp_path, "--workers", "1", "-q", "-R")
    before = results.read_bytes() if older else b""
    if fake is not None:
        monkeypatch.setattr(owner, method, fake)
    assert run(scenario(tmp_path), tmp_path, *words)[0] is status
    assert results.exists() is older
    if older:
        assert results.read_bytes() == before
    assert "Results are in" not in capsys.readouterr().err.rpartition("Starting scenario")[2]


def test_the_stat_file_stays_once_a_container_is_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_at_the_second(self: Any, name: str, changing: Callable[[], None]) -> None:
        if name.endswith("1"):
            raise SsbenchError("no more")
        changing()

    monkeypatch.setattr(NoopStorage, "make_container", fail_at_the_second)
    path = scenario(tmp_path, container_concurrency=1)
    assert run(path, tmp_path, "--workers", "1")[0] is ExitStatus.FAILED
    stats = read_stats(str(tmp_path / "x.stat.gz"))
    assert stats.run.header.run_id
    assert stats.run.footer is None


def test_containers_are_created_after_workers_have_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    gather, make = Master.wait_for_workers, NoopStorage.make_container

    def gathered(self: Master, *args: Any) -> None:
        gather(self, *args)
        done.append(f"{len(self.registry.workers)} workers")

    def made(self: Any, name: str, changing: Any = None) -> None:
        done.append("container")
        make(self, name, changing)

    monkeypatch.setattr(Master, "wait_for_workers", gathered)
    monkeypatch.setattr(NoopStorage, "make_container", made)
    run(scenario(tmp_path), tmp_path, "--workers", "2", "-q", "-R")
    assert done == ["2 workers", "container", "container"]


def test_no_worker_is_lost_during_the_creation_of_a_thousand_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def slowly(self: Any, name: str, changing: Callable[[], None]) -> None:
        gevent.sleep(0.05)
        changing()

    monkeypatch.setattr(NoopStorage, "make_container", slowly)
    path = scenario(tmp_path, container_count=1000, container_concurrency=10)
    began_s = time.monotonic()
    status, results = run(path, tmp_path, "--workers", "2", "--worker-timeout", "1")
    assert time.monotonic() - began_s > 5
    assert status is ExitStatus.OK
    assert "Lost worker" not in capsys.readouterr().err
    assert len(read_stats(str(results)).run.workers) == 2, "nobody had to come again"


# What options give to the master, the workers and the store ---------------------------------


def test_options_reach_the_master_and_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    masters: list[Master] = []
    states: list[ControlState] = []
    gather, send = Master.wait_for_workers, MasterTransport.send_control_state

    def gather_and_record(self: Master, *args: Any) -> None:
        masters.append(self)
        gather(self, *args)

    def send_and_record(self: MasterTransport, state: ControlState) -> None:
        states.append(state)
        send(self, state)

    monkeypatch.setattr(Master, "wait_for_workers", gather_and_record)
    monkeypatch.setattr(MasterTransport, "send_control_state", send_and_record)
    words = (
        "--workers 1 --operation-timeout 9 --retries 7 --drain-timeout 5 --batch-size 8"
        " --max-consecutive-errors 3 --worker-timeout 8 --think-time 0.001 --connect-timeout 4"
        " --compressible -p gold -R"
    )
    status, results = run(scenario(tmp_path), tmp_path, *words.split())
    assert status is ExitStatus.OK
    limits = masters[0].limits
    assert (limits.drain_timeout_s, limits.max_consecutive_errors, limits.max_batch) == (5, 3, 8)
    assert (limits.worker_timeout_s, limits.connect_timeout_s) == (8, 4)
    assert "--concurrency 4 --retries 7 local-0-" in capsys.readouterr().err
    state = next(state for state in states if state.phase == Phase.RUN)
    assert (state.operation_timeout_s, state.think_min_s, state.timeout_s) == (9, 0.001, 8)
    settings = StorageSettings.from_map(state.settings)
    header = read_stats(str(results)).run.header
    assert header is not None
    assert (settings.driver, settings.run_id) == ("noop", header.run_id)
    assert (settings.placement, settings.compressible, settings.container_count) == (
        "gold", True, 2,
    )  # fmt: skip
    assert [size.name for size in settings.sizes] == ["tiny"]
    assert (header.overrides["policy"], header.scenario["policy"]) == ("gold", "gold")


def test_a_scenario_beyond_the_limits_of_the_store_is_rejected_before_any_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = StoreLimits(max_object_size=50, policies=("gold",))
    changed: list[str] = []
    monkeypatch.setattr(NoopStorage, "limits", lambda self: limits)
    monkeypatch.setattr(
        NoopStorage, "make_container", lambda self, name, changing: changed.append(name)
    )
    path = scenario(tmp_path)
    status, results = run(path, tmp_path, "--workers", "1", "-p", "silver")
    assert status is ExitStatus.USAGE
    err = capsys.readouterr().err
    assert '\n--policy: the store has no storage policy "silver"; those it has: gold' in err
    assert f'{path}: sizes[0] "tiny": size_max 99 is more than the 50 bytes' in err
    assert changed == []
    assert not results.exists()


def test_a_warning_is_shown_and_recorded_even_if_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, results = run(scenario(tmp_path), tmp_path, "--workers", "1", "-p", "gold", "-q", "-R")
    footer = read_stats(str(results)).run.footer
    assert footer is not None
    (warning,) = footer.warnings
    assert 'whether it has "gold" is known once the first container is made' in warning
    assert capsys.readouterr() == ("", f"WARNING: {warning}\n")


def test_local_workers_get_a_fresh_key_and_end_before_the_transport_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    send, end, close = LocalWorkers.send_address, LocalWorkers.end, MasterTransport.__exit__

    def send_and_record(self: LocalWorkers, line: str) -> None:
        events.append(line)
        send(self, line)

    def end_and_record(self: LocalWorkers) -> None:
        events.append("workers end")
        end(self)

    def close_and_record(self: MasterTransport, *exc: object) -> None:
        events.append("transport closes")
        close(self, *exc)

    monkeypatch.setattr(LocalWorkers, "send_address", send_and_record)
    monkeypatch.setattr(LocalWorkers, "end", end_and_record)
    monkeypatch.setattr(MasterTransport, "__exit__", close_and_record)
    keys = []
    for _ in range(2):
        events.clear()
        assert run(scenario(tmp_path), tmp_path, "--workers", "1", "-q", "-R")[0] is ExitStatus.OK
        assert events[1:3] == ["workers end", "transport closes"]
        host, _, _, _, form, *key = events[0].split()
        assert (host, form) == ("127.0.0.1", "ssbench-key-1")
        keys.append(key)
    assert keys[0] != keys[1]


def test_local_workers_connect_over_loopback_to_a_master_on_all_interfaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    send = LocalWorkers.send_address
    monkeypatch.setattr(
        LocalWorkers, "send_address", lambda self, line: (lines.append(line), send(self, line))
    )
    words = ("--workers", "1", "--zmq-bind-ip", "0.0.0.0", "-q", "-R")
    assert run(scenario(tmp_path), tmp_path, *words)[0] is ExitStatus.OK
    (line,) = lines
    assert len(line.split()) == 4
    assert line.startswith("127.0.0.1 ")
