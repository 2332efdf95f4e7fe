"""The first few refused messages are told of, a flood of them isn't."""

from __future__ import annotations

import pytest

from ssbench import __version__
from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.messages import PROTOCOL
from ssbench.transport.rejected_messages import MOST_WORKERS, TOLD, RejectedMessages


def test_a_flood_is_counted_and_told_of_in_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    rejected = RejectedMessages("results")
    for number in range(10_000):
        rejected.tell(MessageError(f"fault {number}"))
    assert rejected.count == 10_000
    assert len(caplog.messages) == TOLD
    assert caplog.messages[0] == "Refused a message on the results port: fault 0"
    assert caplog.messages[-1].endswith("more of them are only counted")
    assert repr(rejected) == "<RejectedMessages of the results port: 10000>"


def test_a_worker_of_another_protocol_is_named_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rejected = RejectedMessages("results")
    for _ in range(100):
        rejected.tell(ProtocolError("protocol 2", 2, sender="w1 (host, pid 1)", release="1.1"))
        rejected.tell(ProtocolError("protocol 2", 2))  # whatever else it says
    assert rejected.workers() == [
        "Worker w1 (host, pid 1) can't join: its ssbench 1.1 speaks protocol 2, this ssbench"
        f" {__version__} protocol {PROTOCOL}; install the same release on every host"
    ]
    assert rejected.workers() == []
    assert caplog.messages == []
    assert rejected.count == 200


def test_so_many_workers_of_another_protocol_are_named_and_no_more() -> None:
    rejected = RejectedMessages("results")
    for number in range(10_000):
        rejected.tell(ProtocolError("protocol 2", 2, sender=f"w{number} (h, pid 1)", release="2"))
    lines = rejected.workers()
    assert len(lines) == MOST_WORKERS
    assert lines[-1].endswith("no more such workers are named")


def test_other_messages_of_another_protocol_are_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rejected = RejectedMessages("control")
    for _ in range(100):
        rejected.tell(ProtocolError("protocol 2; this ssbench speaks 1", 2))
    assert caplog.messages == [
        "Refused a message on the control port: protocol 2; this ssbench speaks 1"
    ]
