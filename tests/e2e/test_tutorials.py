"""The tutorials, followed: each command in its turn, against a Swift, shortened to seconds."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import LONGEST_S, MASTER, clean_environment, free_ports
from tests.test_docs import ROOT, command_lines, page

TUTORIALS = [
    ROOT / f"docs/tutorial/{name}.rst" for name in ("first-run", "own-cluster", "first-comparison")
]


def test_the_tutorials_work(tmp_path: Path, fresh_swift: Callable[..., EmbeddedSwift]) -> None:
    swift = fresh_swift()
    login = {"ST_AUTH": swift.auth_url, "ST_USER": swift.user, "ST_KEY": swift.key}
    (scenario,) = re.findall(r"^\{\n.*?^\}$", page(TUTORIALS[0]).astext(), re.MULTILINE | re.DOTALL)
    assert scenario.count('"run_seconds": 20') == 1
    (tmp_path / "photos.scenario").write_text(
        scenario.replace('"run_seconds": 20', '"run_seconds": 1')
    )
    ran = []
    for line in [line for path in TUTORIALS for line in command_lines(path)]:
        if line.startswith("make"):
            continue
        line = line.replace("--embedded-swift", "").replace("--warmup 10", "")
        line = re.sub(r"--duration \d+", "--duration 1", line)
        words = shlex.split(line)[1:]
        if words[0] in ("run-scenario", "doctor"):
            words += free_ports()
        if words[0] == "run-scenario":
            words += ["-c", "3"]
        found = subprocess.run(
            [sys.executable, MASTER, *words],
            cwd=tmp_path,
            env={**clean_environment(), **login, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        # doctor also says what is wrong with a busy host.
        assert found.returncode in ((0, 1) if words[0] == "doctor" else (0,)), (line, found)
        ran.append(words[0])
    assert {"run-scenario", "report-scenario", "compare", "doctor", "cleanup-containers"} <= {*ran}
    assert (tmp_path / "photos.html").exists()
