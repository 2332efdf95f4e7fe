"""The first few rejected messages are logged, the rest are counted."""

from __future__ import annotations

import pytest

from ssbench import __version__
from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.messages import PROTOCOL
from ssbench.core.rejected_messages import MAX_LOGGED, MAX_WORKERS, RejectedMessages


def test_only_a_few_of_many_messages_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    rejected = RejectedMessages("results")
    for number in range(10_000):
        rejected.add(MessageError(f"fault {number}"))
    assert rejected.count == 10_000
    assert len(caplog.messages) == MAX_LOGGED
    assert caplog.messages[0] == "Rejected a message on the results port: fault 0"
    assert caplog.messages[-1].endswith("further ones are only counted")
    assert repr(rejected) == "<RejectedMessages of the results port: 10000>"


def test_a_worker_of_another_protocol_is_named_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rejected = RejectedMessages("results")
    for _ in range(100):
        rejected.add(ProtocolError("protocol 2", 2, sender="w1 (host, pid 1)", release="1.1"))
        rejected.add(ProtocolError("protocol 2", 2))  # its other messages
    assert rejected.workers() == [
        "Worker w1 (host, pid 1) can't join: its ssbench 1.1 speaks protocol 2, this ssbench"
        f" {__version__} protocol {PROTOCOL}; install the same release on every host"
    ]
    assert rejected.workers() == []
    assert caplog.messages == []
    assert rejected.count == 200


def test_a_limited_number_of_workers_of_another_protocol_is_named() -> None:
    rejected = RejectedMessages("results")
    for number in range(10_000):
        rejected.add(ProtocolError("protocol 2", 2, sender=f"w{number} (h, pid 1)", release="2"))
    lines = rejected.workers()
    assert len(lines) == MAX_WORKERS
    assert lines[-1].endswith("further ones are not named")


def test_one_other_message_of_another_protocol_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rejected = RejectedMessages("control")
    for _ in range(100):
        rejected.add(ProtocolError("protocol 2; this ssbench speaks 1", 2))
    assert caplog.messages == [
        "Rejected a message on the control port: protocol 2; this ssbench speaks 1"
    ]
