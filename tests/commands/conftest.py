from __future__ import annotations

import os
from pathlib import Path

import pytest

from ssbench.core.messages import ControlState
from ssbench.transport.master_transport import MasterTransport
from tests.cli.conftest import shell

__all__ = ["shell"]


@pytest.fixture
def control_states(monkeypatch: pytest.MonkeyPatch) -> list[ControlState]:
    """Those that masters of this process have sent: they tell workers that the master is there."""
    states: list[ControlState] = []
    send = MasterTransport.send_control_state

    def send_and_record(self: MasterTransport, state: ControlState) -> None:
        states.append(state)
        send(self, state)

    monkeypatch.setattr(MasterTransport, "send_control_state", send_and_record)
    return states


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of several kinds, links, a pipe and an empty folder."""
    place = tmp_path / "files"
    for name, size in {"b": 3, "a/z": 5, "a.txt": 0, ".ssbench": 9, "a/.hidden": 1}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"x" * size)
    (place / "link").symlink_to("b")
    (place / "loop").symlink_to(".")
    os.mkfifo(place / "pipe")
    (place / "hollow").mkdir()
    return place
