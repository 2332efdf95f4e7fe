"""Who gets credentials, what a session leaves, and what observers see without operations."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TypeVar

import gevent
import pytest
from gevent._hub_local import get_hub_if_exists
from msgspec.structs import replace

from ssbench import statfile
from ssbench.commands.doctor import Doctor, Verdict
from ssbench.core.errors import UsageError
from ssbench.core.records import RunFooter
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import TransportConfig
from ssbench.runner import open_session
from ssbench.runner.config import RunConfig, ScenarioText
from ssbench.runner.session import own_hub
from ssbench.runner.stop import Stop
from ssbench.statfile import StatFileWriter
from ssbench.storage.options import StoreOptions
from ssbench.transport.key import CurveKey
from tests.report import runs
from tests.storage.webdav.test_login import ABSENT, ALLOW, BASIC, FOUND, WHO, server

T = TypeVar("T")

ONE_USER = Scenario("x", (), user_count=1)


@pytest.mark.parametrize(
    ("challenge", "address", "with_key", "fits"),
    [(BASIC, None, False, True), (BASIC, "0.0.0.0", True, True), (ABSENT, "0.0.0.0", False, True),
     (BASIC, "0.0.0.0", False, False)],
)  # fmt: skip
def test_a_run_and_doctor_give_no_password_to_whoever_connects(
    tmp_path: Path, challenge: bytes, address: str | None, with_key: bool, fits: bool
) -> None:
    key = str(tmp_path / "key") if with_key else None
    if key:
        CurveKey.generate().save(key)
    with server(challenge, FOUND, ALLOW) as (url, _):
        config = RunConfig(
            scenario=ScenarioText(b"", "x"), store=StoreOptions("webdav", {"urls": [url]}, WHO),
            transport=TransportConfig(address, 0, 0, 0, key), worker_wait_s=0.0,
        )  # fmt: skip
        refused = pytest.raises(UsageError, match="are as good as your")
        with (
            open_session(config, [ONE_USER]) as session,
            nullcontext() if fits else refused,
        ):
            session.store()
    with server(challenge, FOUND, ALLOW) as (url, _):
        store = StoreOptions("webdav", {"urls": [url]}, WHO)
        rows = Doctor(replace(config, store=store)).findings()
        (row,) = [
            row for row in rows if row.check == "login" and row.verdict is not Verdict.WARNING
        ]
        assert (row.verdict is Verdict.OK) == fits
        assert ("are as good as your password" in row.result) != fits


def test_a_stop_of_an_earlier_run_ends_the_next_one_at_its_first_step() -> None:
    stop, config = Stop(), RunConfig(scenario=ScenarioText(b"", "x"), store=StoreOptions("noop"))
    stop.listen(print)  # as the master of the run before did
    with open_session(config, [ONE_USER], stop=stop):
        assert not stop.graceful
        stop("enough")
        with pytest.raises(KeyboardInterrupt, match="enough"):
            stop.check()


def in_a_thread(call: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_the_footer_of_a_run_with_any_number_of_warnings_can_be_read(tmp_path: Path) -> None:
    config = RunConfig(scenario=ScenarioText(b"", "x"), store=StoreOptions("noop"))
    with open_session(config, [ONE_USER]) as session:
        for number in range(20_000):
            session.warn(f"The credentials could not be renewed: {number}")
        found = tuple(session.warnings)
    with StatFileWriter.create(tmp_path / "x") as writer:
        writer.write(runs.header())
        writer.write(replace(runs.footer(), warnings=found))
    with statfile.read(tmp_path / "x") as reader:
        *_, footer = reader
    assert isinstance(footer, RunFooter)
    assert reader.complete
    first, *_, before, last = footer.warnings
    assert (first[-2:], before[-5:], last[:16]) == (" 0", " 3999", "Further warnings")


def test_a_hub_of_a_thread_is_as_it_was_or_gone() -> None:
    def own() -> tuple[bool, bool]:
        with own_hub():
            hub = gevent.get_hub()
            noted = KeyboardInterrupt in hub.NOT_ERROR
        return noted, get_hub_if_exists() is None

    def of_others() -> tuple[bool, bool]:
        hub = gevent.get_hub()
        before = hub.NOT_ERROR
        with own_hub():
            noted = KeyboardInterrupt in hub.NOT_ERROR and gevent.get_hub() is hub
        kept = get_hub_if_exists() is hub and before == hub.NOT_ERROR
        hub.destroy(destroy_loop=True)
        return noted, kept

    assert in_a_thread(own) == (True, True)
    assert in_a_thread(of_others) == (True, True)


TWO_SESSIONS = """
import os, subprocess, gevent
from ssbench.runner.session import own_hub
for _ in range(2):
    with own_hub():
        child = subprocess.Popen(["sh", "-c", "exit 3"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        gevent.sleep(0.01)
        print(child.wait())
"""


def test_the_status_of_a_child_is_known_in_each_session_of_a_process() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_SESSIONS], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3\n3\n", "")
