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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this checkout, built beside it, since a build leaves its traces."""
    place = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        shutil.copy(ROOT / name, place)
    for name in ("ssbench", "scenarios", "bin", "docs"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(place / "dist"), str(place)], check=True)
    (built,) = (place / "dist").glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_canned_scenarios_ship(wheel: zipfile.ZipFile) -> None:
    canned = {f"ssbench/scenarios/{path.name}" for path in (ROOT / "scenarios").glob("*.scenario")}
    assert "ssbench/scenarios/very_small.scenario" in canned
    assert canned <= set(wheel.namelist())


def test_every_module_ships_and_no_test_does(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "ssbench").rglob("*.py")}
    assert modules <= names
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]


def test_the_commands_and_the_version_are_right(wheel: zipfile.ZipFile) -> None:
    about = f"ssbench-{__version__}.dist-info"
    points = wheel.read(f"{about}/entry_points.txt").decode()
    assert "ssbench-master = ssbench.cli.start:master" in points
    assert "ssbench-worker = ssbench.cli.start:worker" in points
    metadata = wheel.read(f"{about}/METADATA").decode()
    assert "Requires-Python: >=3.10" in metadata
    assert "Provides-Extra: embedded" in metadata


def test_man_pages_and_completions_ship(wheel: zipfile.ZipFile) -> None:
    share = f"ssbench-{__version__}.data/data/share"
    names = {name.removeprefix(f"{share}/") for name in wheel.namelist() if share in name}
    assert names == {path for path, _ in shellfiles.files()}
    assert {
        "man/man1/ssbench-master-run-scenario.1",
        "man/man1/ssbench-worker.1",
        "bash-completion/completions/ssbench-master",
        "zsh/site-functions/_ssbench-worker",
        "fish/vendor_completions.d/ssbench-master.fish",
    } <= names


@pytest.mark.parametrize("name", ["ssbench-master", "ssbench-worker"])
def test_the_commands_run_from_a_checkout(name: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "bin" / name), "--version"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert __version__ in run.stdout
