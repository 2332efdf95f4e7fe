"""Who is waited for, and what is said of those who didn't come."""

from __future__ import annotations

import pytest

from ssbench.core.dispatch.worker_registry import SECOND
from ssbench.core.errors import ExitStatus, FewerWorkersError, NoWorkersError
from ssbench.core.model import WorkerExit
from ssbench.master.worker_wait import ALL_JOINED_NS, WorkerWait
from tests.master.test_worker_manager import FakeChildren, Scene, hello


def worker_wait(
    here: Scene, users: int = 8, expected: int | None = None, *, fewer_ok: bool = False
) -> WorkerWait:
    return WorkerWait(
        here.transport,
        here.manager,
        users,
        expected,
        30.0,
        fewer_ok=fewer_ok,  # type: ignore[arg-type]
    )


def test_as_many_as_are_expected_are_enough_at_once() -> None:
    here = Scene()
    wait = worker_wait(here, expected=2)
    here.deliver(hello(1, "a"))
    assert not wait.complete(here.now_ns + 100 * SECOND)
    here.deliver(hello(2, "b"))
    assert wait.complete(here.now_ns)
    assert wait.shortcomings() == []


def test_where_no_number_is_known_nobody_new_may_come_for_a_while() -> None:
    here = Scene()
    wait = worker_wait(here)
    here.deliver(hello(1, "a"))
    assert not wait.complete(here.now_ns + 100 * SECOND), "they are 4 users of 8"
    here.deliver(hello(2, "b"))
    assert not wait.complete(here.now_ns + ALL_JOINED_NS)
    assert wait.complete(here.now_ns + ALL_JOINED_NS + 1)
    assert wait.shortcomings() == []


def test_nobody_came() -> None:
    here = Scene()
    with pytest.raises(NoWorkersError) as caught:
        worker_wait(here).shortcomings()
    assert str(caught.value) == (
        "no worker came within 30 s to ports 1, 2 and 3 of 192.0.2.1; start ssbench-worker"
        " processes with the same --zmq-key-file, or give --workers N"
    )


def test_fewer_came_and_why_is_said() -> None:
    here = Scene()
    here.deliver(hello(1, "twin"), hello(2, "twin"))
    with pytest.raises(FewerWorkersError) as caught:
        worker_wait(here, expected=2).shortcomings()
    assert caught.value.exit_status is ExitStatus.WORKERS_LOST
    assert str(caught.value).startswith(
        'only 1 of 2 workers came within 30 s (the worker id "twin" is taken by twin ('
    )
    assert str(caught.value).endswith("(--fewer-workers-ok runs with fewer)")
    few, small = worker_wait(here, expected=2, fewer_ok=True).shortcomings()
    assert few.startswith('Only 1 of 2 workers came (the worker id "twin" is taken by twin (')
    assert small.startswith("The workers can run only 4 of 8 users (twin (host, pid 1): 4);")
    assert worker_wait(here, users=4).shortcomings() == []
    assert repr(worker_wait(here, expected=2)).startswith("<WorkerWait for 2 workers")


def test_a_local_worker_that_ended_is_not_waited_for() -> None:
    children = FakeChildren()
    here = Scene(children=children)
    wait = worker_wait(here, expected=2)
    here.deliver(hello(1, "local-0"))
    children.ending = [WorkerExit("local-1", 5, "it exited with status 1")]
    here.pass_time(0.01)
    assert not wait.complete(here.now_ns)
    here.pass_time(0.3)
    assert wait.complete(here.now_ns)
    with pytest.raises(FewerWorkersError, match="only 1 of 2 workers came"):
        wait.shortcomings()


def test_where_all_local_workers_ended_nobody_is_waited_for() -> None:
    children = FakeChildren()
    here = Scene(children=children)
    wait = worker_wait(here, expected=1)
    children.ending = [WorkerExit("local-0", 5, "it exited with status 1")]
    here.pass_time(0.01)
    children.all_ended = True
    here.pass_time(0.3)
    assert wait.complete(here.now_ns)
    with pytest.raises(NoWorkersError, match="all local workers have ended, and no other can join"):
        wait.shortcomings()


def test_who_is_waited_for_is_said() -> None:
    here = Scene()
    some, expected = worker_wait(here), worker_wait(here, expected=3)
    assert some.progress(29 * SECOND + 1) == "Waiting for workers: none so far (29 s left)"
    here.deliver(hello(1, "a"))
    assert some.progress(SECOND) == "Waiting for workers: 1 so far, for 4 of 8 users (1 s left)"
    assert expected.progress(SECOND) == "Waiting for workers: 1 of 3 (1 s left)"


@pytest.mark.parametrize("has_key", [False, True])
def test_an_address_that_only_this_host_can_reach_is_told_of(has_key: bool) -> None:
    here = Scene()
    here.transport.ip, here.transport.is_loopback, here.transport.has_key = (
        "127.0.0.1",
        True,
        has_key,
    )
    with pytest.raises(NoWorkersError) as caught:
        worker_wait(here).shortcomings()
    text = str(caught.value)
    assert "or give --workers N. 127.0.0.1 can be reached from this host only" in text
    assert text.endswith("bind another address with --zmq-bind-ip")
    assert ("make-key" in text) is not has_key
