"""The row without a store: that it can be measured, and what it is held against."""

from __future__ import annotations

import pytest

from benchmarks.bench import noop
from benchmarks.bench.child import CommandError
from benchmarks.bench.figure import Verdict


@pytest.mark.e2e
def test_a_rate_is_parsed() -> None:
    assert noop.measure("-u 2 -o 100 --workers 1") > 10


@pytest.mark.e2e
def test_a_run_that_fails_gives_no_figure() -> None:
    with pytest.raises(CommandError, match="status 2"):
        noop.measure("-u 0")


def test_the_messages_alone_are_a_reference_of_the_same_run() -> None:
    assert noop.sockets(noop.SETTINGS[0]) > noop.measure("-u 2 -o 100 --workers 1")


def test_0_3_9_is_left_out_and_said_where_no_python_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noop, "measure", lambda options, program=(): 61_000.0)
    monkeypatch.setattr(noop, "sockets", lambda setting: 244_000.0)
    monkeypatch.setattr(noop, "old_program", lambda: None)
    sockets, old, *_ = noop.run(2)
    assert (sockets.ours, sockets.theirs, sockets.ratio) == ([61_000.0] * 2, [244_000.0] * 2, 0.25)
    assert (old.reference, old.verdict, old.optional) == ("ssbench 0.3.9", Verdict.NOT_RUN, True)
    monkeypatch.setattr(noop, "old_program", lambda: "/opt/old/ssbench-master")
    _, old, *_ = noop.run(1)
    assert (old.theirs, old.ratio) == ([61_000.0], 1.0)
