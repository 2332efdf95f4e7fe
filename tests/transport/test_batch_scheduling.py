"""Who gives way to whom."""

from __future__ import annotations

import os
import threading

import pytest

from ssbench.transport.batch_scheduling import HAS_BATCH, batch_scheduling

needs_batch = pytest.mark.skipif(not HAS_BATCH, reason="only Linux has such threads")


def policies() -> tuple[int, int]:
    """Of this thread, and of one that it begins."""
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
    thread.start()
    thread.join()
    return os.sched_getscheduler(0), found[0]


@needs_batch
def test_threads_that_begin_within_give_way() -> None:
    with batch_scheduling():
        assert policies() == (os.SCHED_BATCH, os.SCHED_BATCH)
    assert policies() == (os.SCHED_OTHER, os.SCHED_OTHER)


@needs_batch
def test_after_an_error_too_this_thread_is_as_it_was() -> None:
    with pytest.raises(KeyError), batch_scheduling():
        raise KeyError
    assert policies() == (os.SCHED_OTHER, os.SCHED_OTHER)


@needs_batch
def test_another_policy_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getscheduler", lambda pid: os.SCHED_IDLE)
    monkeypatch.setattr(os, "sched_setscheduler", None)
    with batch_scheduling():
        pass


@needs_batch
def test_where_it_is_not_allowed_nothing_is_different(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    with batch_scheduling():
        assert policies() == (os.SCHED_OTHER, os.SCHED_OTHER)
