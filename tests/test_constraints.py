"""The versions that CI tested, and the make targets that install them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
PINNED = sorted((ROOT / "constraints").glob("*.txt"))
#: What pip does not list, what only `make fuzz` installs, and what no test needs.
NOT_FROZEN = {"setuptools", "wheel", "atheris"}
#: A pip that notes what it is asked for, and has no version of a constraint if ``refuses``.
PIP = """#!/bin/sh
echo "$@" >>{log}
case "$*" in *--constraint*) exit {status};; esac
"""


def asked_for(extras: str, python: str) -> list[Requirement]:
    """What setup.py has for that Python, with these extras: an expression of lists."""
    script = "import setuptools; setuptools.setup = dict; import setup; "
    script += f"print(*setup.requirements(), *{extras}, sep='\\n')"
    said = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = map(Requirement, said.stdout.splitlines())
    here = {"python_version": python}
    return [each for each in found if not each.marker or each.marker.evaluate(here)]


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.stem)
def test_the_tested_versions_are_those_that_are_asked_for(path: Path) -> None:
    lines = path.read_text().split()
    assert all(line.count("==") == 1 for line in lines), "a version each, and nothing else"
    pinned = {canonicalize_name(name): Version(v) for name, v in (x.split("==") for x in lines)}
    for each in asked_for("sum(setup.EXTRAS.values(), [])", path.stem):
        name = canonicalize_name(each.name)
        if name not in NOT_FROZEN:
            assert pinned[name] in each.specifier, each


def test_the_image_takes_tested_versions_by_their_hashes() -> None:
    steps = (ROOT / "deploy" / "docker" / "Dockerfile").read_text()
    assert "ARG BASE=debian:12-slim\n" in steps, "whose Python is 3.11"
    assert "--require-hashes --requirement /src/constraints/image.lock" in steps
    assert "--no-deps --no-build-isolation /src" in steps
    text = (ROOT / "constraints" / "image.lock").read_text()
    found = re.findall(r"^(\S+)==(\S+)((?: \\\n +--hash=sha256:[0-9a-f]{64})*)$", text, re.M)
    assert all(hashes for _, _, hashes in found)
    locked = {name: version for name, version, _ in found}
    assert len(locked) == text.count("==")
    lines = (ROOT / "constraints" / "3.11.txt").read_text().split()
    tested = {canonicalize_name(name): v for name, v in (line.split("==") for line in lines)}
    assert {name: tested.get(name, locked[name]) for name in locked} == locked
    (to_build,) = re.findall(r"^requires = \[(.*)\]", (ROOT / "pyproject.toml").read_text(), re.M)
    to_build = [Requirement(each) for each in re.findall(r'"(.*?)"', to_build)]
    for each in asked_for("setup.EXTRAS['html']", "3.11") + to_build:
        assert each.specifier.contains(locked[canonicalize_name(each.name)]), each


@pytest.mark.parametrize("target", [".for-demo", ".for-test"])
@pytest.mark.parametrize("can_be_had", [True, False], ids=["had", "not had"])
def test_make_takes_the_tested_versions_or_says_that_it_does_not(
    tmp_path: Path, target: str, can_be_had: bool
) -> None:
    (tmp_path / "bin").mkdir()
    log = tmp_path / "log"
    for name, text in {
        "pip": PIP.format(log=log, status=int(not can_be_had)), "python": "#!/bin/sh\necho 3.11\n",
    }.items():  # fmt: skip
        program = tmp_path / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
    said = subprocess.run(
        ["make", f"VENV={tmp_path}", f"{tmp_path}/{target}"], cwd=ROOT, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    first, *others = log.read_text().splitlines()
    assert first.endswith("--constraint constraints/3.11.txt")
    if can_be_had:
        assert (others, said.stderr) == ([], "")
    else:
        (newest,) = others
        assert newest == first.partition(" --constraint")[0]
        assert said.stderr.startswith("These are the newest versions, not those that CI tested: ")
        assert len(said.stderr.splitlines()) == 1
