"""The line that tells a local worker where its master is."""

from __future__ import annotations

import json
import os

import pytest

from ssbench.core.errors import UsageError
from ssbench.core.model import WorkerExit
from ssbench.transport.key import CurveKey
from ssbench.transport.master_transport import MasterTransport
from ssbench.transport.parent_pipe import (
    GroupStarted,
    MasterAddress,
    address_line,
    from_line,
    read_address,
    to_line,
)
from ssbench.transport.sockets import Ports


class Wire(MasterTransport):
    """One that listens nowhere."""

    def __init__(self, ip: str, key: CurveKey | None) -> None:
        self.ip, self.ports, self.key = ip, Ports(1, 2, 65535), key


def _line(**changes: object) -> bytes:
    line = {"host": "h", "ports": [1, 2, 3], "key": "", "paths": []}
    return json.dumps({**line, **changes}).encode() + b"\n"


def read(data: bytes) -> MasterAddress | None:
    read_end, write_end = os.pipe()
    os.write(write_end, data)
    os.close(write_end)
    try:
        return read_address(read_end)
    finally:
        os.close(read_end)  # it is still ours: its end says that the master is gone


@pytest.mark.parametrize("key", [None, CurveKey.generate()], ids=["plain", "encrypted"])
@pytest.mark.parametrize(
    ("ip", "host"),
    [("10.0.0.1", "10.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("fe80::1", "fe80::1")],
)
def test_a_key_passes_through_the_pipe(ip: str, host: str, key: CurveKey | None) -> None:
    paths = ("/data/a b", "/\N{SNOWMAN}")
    line = address_line(Wire(ip, key), paths=paths).encode("ascii")
    assert read(line) == MasterAddress(host, Ports(1, 2, 65535), key, paths)


def test_a_closed_pipe_means_that_the_parent_is_gone() -> None:
    assert read(b"") is None


@pytest.mark.parametrize(
    "data", [b"\n", b"127.0.0.1\n", b"[]\n", b"{}\n", b"\xff\n", b"[" * 60_000, _line(ports=[1, 2]),
             _line(ports=[1, -2, 3]), _line(ports=[1, 2, "s3cret"]), _line(paths=[1])]
)  # fmt: skip
def test_other_input_is_rejected_and_not_shown(data: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        read(data)
    assert str(caught.value) == "the parent's pipe: no address of a master"


def test_a_malformed_key_is_rejected_and_not_shown() -> None:
    with pytest.raises(UsageError, match=r"^the parent's pipe: not a key") as caught:
        read(_line(key="ssbench-key-1 s3cret"))
    assert "s3cret" not in str(caught.value)


STARTED = GroupStarted("1.0.0", 1763800000.5, "2001:db8::7", {"a-0": 1, "a-1": 2})


@pytest.mark.parametrize("report", [STARTED, WorkerExit("a-0", 1, "it exited with status 1", 1)])
def test_a_report_survives_its_line(report: GroupStarted | WorkerExit) -> None:
    assert from_line(to_line(report)) == report


def test_control_characters_of_another_host_reach_no_terminal() -> None:
    found = from_line(to_line(WorkerExit("a\x1b[2J", 1, "\x07", 1)))
    assert found == WorkerExit("a\\x1b[2J", 1, "\\x07", 1)
