"""What ``pip install`` gives a user."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from docs import shellfiles
from ssbench import __version__

ROOT = Path(__file__).parents[2]

SOURCES = ("setup.py", "pyproject.toml", "requirements.txt", "LICENSE", "README.rst")


def test_the_wheel_has_all_that_a_user_needs_and_no_test(tmp_path: Path) -> None:
    """It is built beside the checkout, since a build leaves its traces."""
    for name in SOURCES:
        shutil.copy(ROOT / name, tmp_path)
    for name in ("ssbench", "scenarios", "bin", "docs"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(tmp_path / "dist"), str(tmp_path)], check=True)
    (built,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(built) as wheel:
        names = set(wheel.namelist())
        about = f"ssbench-{__version__}.dist-info"
        points = wheel.read(f"{about}/entry_points.txt").decode()
        metadata = wheel.read(f"{about}/METADATA").decode()

    canned = {f"ssbench/scenarios/{path.name}" for path in (ROOT / "scenarios").glob("*.scenario")}
    assert "ssbench/scenarios/very_small.scenario" in canned
    assert canned <= names
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "ssbench").rglob("*.py")}
    assert modules <= names
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]

    assert "ssbench-master = ssbench.cli.start:master" in points
    assert "ssbench-worker = ssbench.cli.start:worker" in points
    assert "Requires-Python: >=3.10" in metadata
    assert "Provides-Extra: embedded" in metadata

    share = f"ssbench-{__version__}.data/data/share/"
    shared = {name.removeprefix(share) for name in names if name.startswith(share)}
    assert shared == {path for path, _ in shellfiles.files()}
    assert {
        "man/man1/ssbench-master-run-scenario.1",
        "man/man1/ssbench-worker.1",
        "bash-completion/completions/ssbench-master",
        "zsh/site-functions/_ssbench-worker",
        "fish/vendor_completions.d/ssbench-master.fish",
    } <= shared


@pytest.mark.parametrize("name", ["ssbench-master", "ssbench-worker"])
def test_the_commands_run_from_a_checkout(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "bin" / name), "--version"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert __version__ in run.stdout
