from __future__ import annotations

from pathlib import Path

import pytest

from ssbench.core.messages import Jobs, decode
from ssbench.core.model import Phase
from ssbench.transport.master_transport import MasterTransport
from tests.cli.shell import Shell


@pytest.fixture
def shell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Shell:
    """Commands whose temporary files are in ``tmp_path``."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return Shell(capsys, tmp_path)


@pytest.fixture
def interrupted_cleanup(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second interrupt comes when the first objects are to be deleted."""
    send_jobs = MasterTransport.send_jobs

    def send_or_end(self: MasterTransport, data: bytes) -> bool:
        message = decode(data)
        if isinstance(message, Jobs) and message.phase == Phase.CLEANUP:
            raise KeyboardInterrupt("interrupted by SIGINT")
        return send_jobs(self, data)

    monkeypatch.setattr(MasterTransport, "send_jobs", send_or_end)
