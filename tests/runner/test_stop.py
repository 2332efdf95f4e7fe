"""Stop: a request to end a run, from wherever it comes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import pytest

from ssbench.runner.stop import Stop


def test_a_call_before_there_is_a_listener_ends_the_next_step() -> None:
    stop = Stop()
    stop.check()
    stop("enough")
    with pytest.raises(KeyboardInterrupt, match="enough"):
        stop.check()
    with pytest.raises(KeyboardInterrupt, match="enough"):
        stop.sleep(0)
    assert stop.raised


def call_within(outer: Callable[[], None], inner: Callable[[], None], line: int) -> bool:
    """Call ``outer``, and ``inner`` at a line of Stop, as a signal may; whether it has the line."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal line
        if event == "line" and frame.f_globals["__name__"] == Stop.__module__:
            line -= 1
            if line == -1:
                inner()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        outer()
    finally:
        sys.settrace(before)
    return line < 0


@pytest.mark.parametrize("call_first", [True, False])
def test_a_call_is_heard_once_whenever_it_comes(call_first: bool) -> None:
    for line in count():
        heard: list[str] = []
        stop = Stop()
        call, listen = partial(stop, "enough"), partial(stop.listen, heard.append)
        if not call_within(*((call, listen) if call_first else (listen, call)), line):
            break
        assert heard == ["enough"], line
    assert line > 2


def test_a_call_while_another_run_begins_ends_that_one() -> None:
    for line in count():
        heard: list[str] = []
        stop = Stop()
        stop.listen(heard.append)
        if not call_within(partial(stop, "enough"), partial(stop.listen, None), line):
            break
        assert heard in ([], ["enough"]), line
        with pytest.raises(KeyboardInterrupt, match="enough"):
            stop.check()
    assert line > 2


def test_waiting_for_work_can_be_shown() -> None:
    shown: list[str] = []
    enough = threading.Event()

    def waiting() -> None:
        shown.append("waiting")
        enough.set()

    assert Stop().run_interruptible(lambda: enough.wait(10), waiting)
    assert shown
