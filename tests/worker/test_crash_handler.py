"""What nobody has caught is told to who can end it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import gevent
import gevent.event
import pytest
from gevent.hub import get_hub

from ssbench.worker.crash_handler import RESERVE_BYTES, CrashHandler


def told_when(happens: Callable[[], object]) -> str:
    """What is told when this happens in a thread with a hub of its own."""
    told: list[str] = []

    def wait() -> None:
        hub = get_hub()
        over = gevent.event.Event()

        def tell(reason: str) -> None:
            told.append(reason)
            over.set()

        CrashHandler(hub, tell)
        happens()
        over.wait(5)
        hub.destroy(destroy_loop=True)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    return "; ".join(told)


def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "out of memory"),
        (ValueError("nonsense"), "it can't go on: ValueError: nonsense"),
    ],
    ids=repr,
)
def test_an_error_that_ends_a_greenlet_is_told(
    error: Exception, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert told_when(lambda: gevent.spawn(fail, error)) == reason
    said = capfd.readouterr().err
    # A defect wants its traceback; where memory is out there is none to be had.
    assert ("Traceback" in said) == isinstance(error, ValueError)


def test_an_error_in_a_callback_of_the_loop_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    def begin() -> None:
        timer: Any = get_hub().loop.timer(0.001)
        timer.start(fail, MemoryError())

    assert told_when(begin) == "out of memory"
    assert capfd.readouterr().err == ""


def test_a_greenlet_that_is_killed_is_no_error() -> None:
    def begin() -> None:
        gevent.spawn(gevent.sleep, 5).kill()
        gevent.spawn_later(0.01, fail, MemoryError())

    assert told_when(begin) == "out of memory"


def test_the_reserve_is_freed_with_the_first_word() -> None:
    class Hub:
        def handle_error(self, *about: object) -> None:
            """Prints."""

    hub, told = Hub(), []
    crash_handler = CrashHandler(hub, told.append)
    assert len(crash_handler._reserve or b"") == RESERVE_BYTES
    # The loop may have no instance yet, only what to make one of.
    hub.handle_error(None, OSError, "no room", None)
    assert crash_handler._reserve is None
    assert told == ["it can't go on: OSError: no room"]
