"""A run, step by step: what becomes of its stat file, and what a series leaves out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from ssbench.core.errors import ExitStatus, SsbenchError
from ssbench.core.messages import ControlState
from ssbench.core.model import Phase
from ssbench.core.records import Record, RunFooter
from ssbench.core.settings import StorageSettings
from ssbench.master.master import Master
from ssbench.runner.local_workers import LocalWorkers
from ssbench.runner.results import read_stats
from ssbench.statfile import StatFileWriter
from ssbench.storage.base import ContainerInfo, StoreLimits
from ssbench.storage.noop import NoopStorage
from ssbench.transport.master_transport import MasterTransport
from tests.cli.shell import Shell
from tests.fakes.full_disk import fill_disk

pytestmark = pytest.mark.usefixtures("forked_workers")


def _full_disk_at(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    """From the first record of this kind on, nothing can be written any more."""

    def write(self: StatFileWriter, record: Record) -> None:
        if isinstance(record, kind):
            fill_disk(monkeypatch)
        really(self, record)

    really = StatFileWriter.write
    monkeypatch.setattr(StatFileWriter, "write", write)


def test_a_full_disk_at_the_footer(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    _full_disk_at(monkeypatch, RunFooter)
    status, out, err = shell.run()
    assert status is ExitStatus.FAILED
    assert "No space left on device; the first " in err
    assert "are kept and can be read" in err
    assert "Count:" in out
    where = f"INFO:Some of the scenario run's results saved to {shell.results}\n"
    assert f"{where}INFO:You may generate a report with:\n" in err
    assert read_stats(str(shell.results)).run.footer is None


# A start that fails leaves no stat file, as long as nothing was changed ----------------------


def interrupt_at_once(master: Master, *args: object) -> None:
    os.kill(os.getpid(), 2)


def refused_container(self: Any, name: str, changing: Callable[[], None]) -> ContainerInfo:
    return ContainerInfo(None, marked=False, object_count=7)


#: Workers, what is replaced by what, the status, and whether there is an older stat file.
FAILED_STARTS: dict[str, tuple[int, type, str, object, ExitStatus, bool]] = {
    "no worker": (0, Master, "wait_for_workers", None, ExitStatus.WORKERS_LOST, False),
    "Ctrl-C while it waits": (
        0, Master, "wait_for_workers", interrupt_at_once, ExitStatus.INTERRUPTED, True,
    ),
    "somebody's container": (
        1, NoopStorage, "make_container", refused_container, ExitStatus.FAILED, False,
    ),
    "somebody's container, with an older file": (
        1, NoopStorage, "make_container", refused_container, ExitStatus.FAILED, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("start", FAILED_STARTS.values(), ids=FAILED_STARTS)
def test_a_start_that_changes_nothing_leaves_no_stat_file(
    start: tuple[int, type, str, object, ExitStatus, bool],
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers, owner, method, fake, status, older = start
    if older:
        shell.run("-q", "-R")
    before = shell.results.read_bytes() if older else b""
    if fake is not None:
        monkeypatch.setattr(owner, method, fake)
    wait = [] if workers else ["--worker-wait", "0.1"]
    said = shell.run("--force", *wait, workers=workers)
    assert said.status is status
    assert shell.results.exists() is older
    if older:
        assert shell.results.read_bytes() == before
    assert "results saved to" not in said.err


def test_the_stat_file_stays_once_a_container_is_created(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_at_the_second(self: Any, name: str, changing: Callable[[], None]) -> None:
        if name.endswith("1"):
            raise SsbenchError("no more")
        changing()

    monkeypatch.setattr(NoopStorage, "make_container", fail_at_the_second)
    assert shell.run(container_concurrency=1).status is ExitStatus.FAILED
    stats = read_stats(str(shell.results))
    assert stats.run.header.run_id
    assert stats.run.footer is None


# What options give to the master, the workers and the store ---------------------------------


def test_options_reach_the_master_and_the_workers(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
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
        "--operation-timeout 9 --retries 7 --drain-timeout 5 --batch-size 8"
        " --max-consecutive-errors 3 --worker-timeout 8 --think-time 0.001 --connect-timeout 4"
        " --compressible -p gold -R"
    )
    said = shell.run(*words.split())
    assert said.status is ExitStatus.OK
    limits = masters[0].workers.limits
    assert (limits.drain_timeout_s, limits.max_consecutive_errors, limits.batch_size) == (5, 3, 8)
    assert (limits.worker_timeout_s, masters[0].settings.connect_timeout_s) == (8, 4)
    assert "--concurrency 4 --retries 7 local-0-" in said.err
    state = next(state for state in states if state.phase == Phase.RUN)
    assert (state.operation_timeout_s, state.think_min_s, state.timeout_s) == (9, 0.001, 8)
    settings = StorageSettings.from_map(state.settings)
    header = read_stats(str(shell.results)).run.header
    assert header is not None
    assert (settings.driver, settings.run_id) == ("noop", header.run_id)
    assert (settings.placement, settings.compressible, settings.container_count) == (
        "gold", True, 2,
    )  # fmt: skip
    assert [size.name for size in settings.sizes] == ["tiny"]
    assert (header.overrides["policy"], header.scenario["policy"]) == ("gold", "gold")


def test_a_scenario_beyond_the_limits_of_the_store_is_rejected_before_any_change(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = StoreLimits(max_object_size=50, policies=("gold",))
    changed: list[str] = []
    monkeypatch.setattr(NoopStorage, "limits", lambda self: limits)
    monkeypatch.setattr(
        NoopStorage, "make_container", lambda self, name, changing: changed.append(name)
    )
    said = shell.run("-p", "silver")
    assert said.status is ExitStatus.USAGE
    assert '\n--policy: the store has no storage policy "silver"; those it has: gold' in said.err
    assert 'own.scenario: sizes[0] "tiny": size_max 99 is more than the 50 bytes' in said.err
    assert changed == []
    assert not shell.results.exists()


def test_a_warning_is_shown_and_recorded_even_if_quiet(shell: Shell) -> None:
    said = shell.run("-p", "gold", "-q", "-R")
    footer = read_stats(str(shell.results)).run.footer
    assert footer is not None
    (warning,) = footer.warnings
    assert 'whether it has "gold" is known once the first container is made' in warning
    assert said == (0, "", f"WARNING: {warning}\n")


def test_local_workers_connect_over_loopback_to_a_master_on_all_interfaces(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    send = LocalWorkers.send_address
    monkeypatch.setattr(
        LocalWorkers, "send_address", lambda self, line: (lines.append(line), send(self, line))
    )
    assert shell.run("--zmq-bind-ip", "0.0.0.0", "-q", "-R").status is ExitStatus.OK
    (line,) = lines
    address = json.loads(line)
    assert (address["host"], address["key"]) == ("127.0.0.1", "")
