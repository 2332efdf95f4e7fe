"""The store of a worker: one for each run, and a token that beats renew."""

from __future__ import annotations

from dataclasses import replace

import gevent
import pytest

from ssbench.core.settings import StorageSettings
from ssbench.worker import store
from ssbench.worker.store import WorkerStore
from tests.fakes.memory_storage import MemoryStorage

SECOND = 1_000_000_000
OLD = StorageSettings(driver="memory", run_id="run1", token="old", token_serial=1)
NEW = replace(OLD, token="new", token_serial=2)


class Scene:
    """A worker's store, and who asks for tokens."""

    def __init__(self) -> None:
        self.now_ns = SECOND
        self.opened: list[MemoryStorage] = []
        self.asked: list[int] = []
        self.wanted = True
        self.store = WorkerStore(
            "w7", self._open, lambda: self.now_ns, ask=self.asked.append, wanted=lambda: self.wanted
        )

    def _open(self, settings: StorageSettings) -> MemoryStorage:
        self.opened.append(MemoryStorage(None, settings))
        return self.opened[-1]

    def say(self, settings: StorageSettings) -> None:
        """A beat brings these."""
        self.now_ns += 1
        self.store.take_token(settings.to_map())


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_ASK_S", 0.001)


# Opening ----------------------------------------------------------------------------------


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
    with pytest.raises((TypeError, ValueError, KeyError)):
        Scene().store.open({"sizes": [{}]})


def test_without_a_store_there_is_nothing_to_close_or_renew() -> None:
    here = Scene()
    here.store.close()
    here.say(NEW)
    assert here.store.renew(0) is False
    assert here.asked == []


# The token --------------------------------------------------------------------------------


def test_only_a_newer_token_is_taken() -> None:
    here = Scene()
    storage = here.store.open(NEW.to_map())
    here.say(OLD)
    assert storage.token_serial == 2
    here.say(replace(NEW, token_serial=3))
    assert storage.token_serial == 3


@pytest.mark.parametrize("said", [{}, {"token_serial": "9"}, {"token_serial": None}])
def test_a_serial_that_is_none_changes_nothing(said: dict[str, object]) -> None:
    here = Scene()
    storage = here.store.open(OLD.to_map())
    here.store.take_token(said)
    assert storage.token_serial == 1


def test_it_asks_until_a_token_comes() -> None:
    here = Scene()
    here.store.open(OLD.to_map())
    waiting = gevent.spawn(here.store.renew, here.now_ns)
    with gevent.Timeout(5):
        while len(here.asked) < 3:
            gevent.sleep(0.001)
        here.say(NEW)
        assert waiting.get() is True
    assert set(here.asked) == {1}


def test_a_token_that_came_since_the_attempt_began_is_not_asked_for() -> None:
    here = Scene()
    here.store.open(OLD.to_map())
    began_ns = here.now_ns
    here.say(NEW)
    assert here.store.renew(began_ns) is True
    assert here.asked == []


def test_it_gives_up_after_a_minute_or_where_nobody_wants_one() -> None:
    here = Scene()
    here.store.open(OLD.to_map())
    waiting = gevent.spawn(here.store.renew, here.now_ns)
    with gevent.Timeout(5):
        while not here.asked:
            gevent.sleep(0.001)
        here.now_ns += 60 * SECOND + 1
        assert waiting.get() is False
    here.wanted = False
    assert here.store.renew(here.now_ns) is False
