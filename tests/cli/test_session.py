"""What the runs of a command share."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

import pytest

from ssbench.cli.interrupts import Interrupts
from ssbench.cli.local_workers import LocalWorkers
from ssbench.cli.options import master_parser
from ssbench.cli.run_config import RunOptions, run_options
from ssbench.cli.session import Session
from ssbench.master.phases import Limits
from ssbench.transport.master_transport import MasterTransport
from tests.cli.test_master import free_ports


def options(*words: str) -> RunOptions:
    command = ["run-scenario", "-f", "very_small", "--noop", *free_ports(), *words]
    return run_options(master_parser().parse_args(command), {})


def session(stack: ExitStack, *words: str, **more: Any) -> Session:
    return Session(options(*words), stack, Interrupts(), most_users=4, seed=None, **more)


class Nowhere:
    """A recorder without a file."""

    def __init__(self) -> None:
        self.records: list[Any] = []

    def write(self, record: Any) -> None:
        self.records.append(record)

    def append_results(self, phase: Any, worker: int, packed: bytes) -> None:
        pass

    def tick(self, now_s: float) -> None:
        pass


class Local(LocalWorkers):
    """Two local workers, without processes."""

    def __init__(self) -> None:
        super().__init__(2, concurrency=4, retries=0)
        self.logs = ["a.log", "b.log"]
        self._names = ["local-0-1", "local-1-1"]
        self.heard: list[str] = []

    def tell(self, word: str) -> None:
        self.heard.append(word)

    def begin(self) -> None:
        self.heard.append("there is a run")

    def end(self) -> None:
        self.heard.append("their end")


def test_a_seed_is_drawn_once_for_all_runs() -> None:
    with ExitStack() as stack:
        assert 0 <= session(stack).seed < 1 << 32
        assert Session(options(), stack, Interrupts(), most_users=4, seed=0).seed == 0


def test_store_and_master_are_the_same_for_every_run() -> None:
    with ExitStack() as stack:
        here = session(stack)
        store = here.store()
        assert here.store() is store
        master = here.master(store.settings, Limits(), Nowhere())
        again = here.master(store.settings, Limits(), Nowhere())
        assert again is master
        assert here.master(store.settings, Limits(), Nowhere()).settings.driver == "noop"


def test_a_warning_is_shown_and_kept_also_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with ExitStack() as stack:
        here = session(stack, "-q")
        here.say("hush")
        here.warn("mind the gap")
        assert here.warnings == ["mind the gap"]
    assert capsys.readouterr().err == "WARNING: mind the gap\n"


def test_workers_of_a_series_are_let_go_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    beats: list[Any] = []
    send = MasterTransport.send_control_state
    monkeypatch.setattr(
        MasterTransport,
        "send_control_state",
        lambda self, beat: (beats.append(beat), send(self, beat)),
    )
    with ExitStack() as stack:
        here = session(stack, is_series=True)
        here.master(here.store().settings, Limits(), Nowhere())
        assert beats == []
    assert [beat.is_goodbye for beat in beats] == [True]


def test_workers_are_kept_while_something_takes_long() -> None:
    with ExitStack() as stack:
        here = session(stack)
        assert here.meanwhile(lambda: 1) == 1  # nobody to be kept yet
        master = here.master(here.store().settings, Limits(), Nowhere())
        turns: list[float] = []
        turn, enough = master._poll, threading.Event()

        def seen(wait_s: float) -> None:
            turns.append(wait_s)
            if len(turns) > 2:
                enough.set()
            turn(wait_s)

        master._poll = seen  # type: ignore[method-assign]
        assert here.meanwhile(lambda: enough.wait(20))
        with pytest.raises(ZeroDivisionError):
            here.meanwhile(lambda: 1 // 0)


def test_local_workers_are_told_of_the_wire_and_end_before_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    local, stop = Local(), MasterTransport._stop

    def seen(transport: MasterTransport) -> None:
        local.heard.append("the transport is closed")
        stop(transport)

    with ExitStack() as stack:
        words = ("--workers", "2", "--zmq-bind-ip", "0.0.0.0")
        here = Session(options(*words), stack, Interrupts(), local=local, most_users=7, seed=1)
        assert local.heard == []
        store = here.store()
        ports = here._transport.ports
        assert local.heard == [f"127.0.0.1 {ports.work} {ports.results} {ports.control} \n"]
        here.master(store.settings, Limits(), Nowhere())
        monkeypatch.setattr(MasterTransport, "_stop", seen)
    assert local.heard[1:] == ["there is a run", "their end", "the transport is closed"]
    assert (
        "INFO:Spawning local ssbench-worker (logging to a.log) with "
        "ssbench-worker ... --concurrency 4 --retries 0 local-0-1\n"
    ) in capsys.readouterr().err


def test_local_workers_get_a_key_that_nobody_else_has() -> None:
    local = Local()
    for _ in range(2):
        with ExitStack() as stack:
            here = Session(
                options("--workers", "2"), stack, Interrupts(), local=local, most_users=7, seed=1
            )
            here.store()
    keys = [line.split()[-1] for line in local.heard if " ssbench-key-1 " in line]
    assert len(set(keys)) == 2
