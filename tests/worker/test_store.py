"""The store of a worker: opened once per run, with the newest token."""

from __future__ import annotations

import random

import gevent
import pytest
from msgspec.structs import replace

from ssbench.core.errors import MessageError
from ssbench.core.model import Phase
from ssbench.core.settings import StorageSettings
from ssbench.worker import links as store_module
from ssbench.worker.links import WorkerStore
from ssbench.worker.machine import WorkerMachine, WorkerSettings
from tests.fakes.control_states import IDLE
from tests.fakes.drivers import with_token
from tests.fakes.memory_storage import MemoryStorage

SECOND = 1_000_000_000
OLD = StorageSettings(driver="memory", run_id="run1", credentials=(with_token("old", 1),))
NEW = replace(OLD, credentials=(*OLD.credentials, with_token("new", 2)))


class Scene:
    """A worker's store on a real machine; as a JobChannel it counts what it flushes."""

    def __init__(self) -> None:
        self.now_ns = SECOND
        self.opened: list[MemoryStorage] = []
        self.asked = 0
        self.machine = WorkerMachine(WorkerSettings("w7"), random.Random(1), self.now_ns)
        self.store = WorkerStore(self.machine, self, self._open)  # type: ignore[arg-type]

    def clock(self) -> int:
        return self.now_ns

    def flush(self) -> None:
        self.asked += len(self.machine.outbox)
        self.machine.outbox.clear()

    def _open(self, settings: StorageSettings) -> MemoryStorage:
        self.opened.append(MemoryStorage(None, settings))
        return self.opened[-1]

    def control(self, settings: StorageSettings) -> None:
        """A control state brings these settings."""
        self.now_ns += 1
        state = IDLE._replace(
            master_ns=self.now_ns, run="run1", phase=Phase.RUN, timeout_s=1e4,
            workers={self.machine.incarnation: (1, None)}, settings=settings.to_map(),
        )  # fmt: skip
        self.machine.receive_control_state(state, self.now_ns, self.now_ns)
        self.machine.outbox.clear()
        self.store.set_credentials(settings.newest)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_LOOK_S", 0.001)


def test_a_run_has_one_store_through_all_phases() -> None:
    here = Scene()
    first = here.store.open(OLD.to_map())
    assert here.store.open(NEW.to_map()) is first
    assert here.opened[0].settings.worker_id == "w7"
    assert not here.opened[0].closed


def test_another_run_has_another_store() -> None:
    here = Scene()
    here.store.open(OLD.to_map())
    here.store.open(replace(OLD, run_id="run2").to_map())
    assert [storage.closed for storage in here.opened] == [True, False]
    here.store.close()
    assert here.opened[1].closed


def test_settings_that_cannot_be_used_are_an_error() -> None:
    with pytest.raises(MessageError, match=r"settings: .* `\$.sizes\[0\]`"):
        Scene().store.open({"sizes": [{}]})


def test_only_a_newer_token_is_used() -> None:
    here = Scene()
    storage = here.store.open(NEW.to_map())
    here.control(OLD)
    assert storage.credentials_serial == 2
    here.control(replace(NEW, credentials=(with_token("new", 3),)))
    assert storage.credentials_serial == 3


def test_users_wait_until_a_newer_token_comes() -> None:
    here = Scene()
    here.store.open(OLD.to_map())
    here.control(OLD)
    here.now_ns += 1
    waiting = gevent.spawn(here.store.renew, here.now_ns)
    with gevent.Timeout(60):
        while not here.asked:
            gevent.sleep(0.001)
        here.control(NEW)
        assert waiting.get() is True
    assert here.asked == 1


def test_the_wait_for_a_token_ends() -> None:
    here = Scene()
    here.control(OLD)
    here.now_ns += 1
    waiting = gevent.spawn(here.store.renew, here.now_ns)
    with gevent.Timeout(60):
        while not here.asked:
            gevent.sleep(0.001)
        here.now_ns += 60 * SECOND + 1
        assert waiting.get() is False
