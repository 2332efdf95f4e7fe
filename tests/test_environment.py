"""What whoever runs the tests has set reaches neither them nor the processes that they start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.environment import own_environment

SHOW = """
import json, os, time
print(json.dumps([sorted(os.environ), time.tzname, os.umask(0), os.listdir(os.environ["HOME"])]))
"""


def test_settings_of_others_are_left_out() -> None:
    names = {
        "COLUMNS", "LINES", "NO_COLOR", "LANG", "XDG_CONFIG_HOME", "https_proxy", "ST_KEY",
        "OS_CLOUD", "SWIFT_X", "AWS_PROFILE", "SSBENCH_WORKERS", "SSBENCH_METRICS_PORT", "CI",
        "PYTHONWARNINGS",
    }  # fmt: skip
    own = own_environment({"PATH": "/bin", **dict.fromkeys(names, "x")})
    assert own["PATH"] == "/bin"
    assert not names & {*own, *os.environ}


def test_a_process_that_a_test_starts_has_the_environment_of_the_tests() -> None:
    said = subprocess.run([sys.executable, "-c", SHOW], capture_output=True, text=True, check=True)
    names, zone, umask, home = json.loads(said.stdout)
    given = {name for name in names if name.startswith(("PYTEST_", "SSBENCH_", "COV"))}
    assert {*names} - given <= {
        "HOME", "LC_ALL", "TZ", "PATH", "TMPDIR", "LD_LIBRARY_PATH", "PYENV_ROOT", "PYENV_VERSION",
        "HYPOTHESIS_NO_PLUGINS", "OPENBLAS_NUM_THREADS", "PYTHONPYCACHEPREFIX", "PY_COLORS",
    }  # fmt: skip
    assert (zone, umask) == (["UTC", "UTC"], 0o022)
    assert not {"config", ".aws", ".netrc"} & {*home}, "browsers of other tests write .config"


def test_files_that_may_share_a_server_have_containers_of_their_own() -> None:
    """Which files run in one process, and in which order, is up to pytest."""
    files = defaultdict(set)
    for path in (Path(__file__).parent / "e2e").rglob("*.py"):
        for base in re.findall(r'container_base(?:=|": )"(\w+)"', path.read_text()):
            files[base].add(path.name)
    assert len(files) > 20
    assert {base: names for base, names in files.items() if len(names) > 1} == {}
