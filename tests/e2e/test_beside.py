"""Two runs on one host, neither of which names ports or workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.namespaces import Namespace

pytestmark = [pytest.mark.program("ip"), pytest.mark.program("unshare")]


def test_a_run_takes_free_ports_where_another_master_has_the_default_ones(tmp_path: Path) -> None:
    with Namespace("--net") as host:
        host.run("ip", "link", "set", "lo", "up")
        with host.listener(13579):
            master = str(Path(sys.executable).parent / "ssbench-master")
            words = ["run", "very_small", "--noop", "-o", "50", "-s", str(tmp_path / "x.stat.gz")]
            done = subprocess.run(
                [*host.prefix, master, *words],
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            asked = subprocess.run(
                [*host.prefix, master, *words, "--force", "--expect-workers", "1"],
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
    assert (done.returncode, "on free ones" in " ".join(done.stderr.split())) == (0, True)
    assert asked.returncode == 1
    assert "Address already in use; is another ssbench-master running?" in asked.stderr
