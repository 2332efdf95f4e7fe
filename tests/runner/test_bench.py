"""Runs on numbered objects, in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssbench.core.errors import SsbenchError, UsageError
from ssbench.runner.api import FREE_PORTS
from ssbench.runner.bench import BenchConfig, run_bench
from ssbench.runner.config import RunConfig
from ssbench.runner.methods import METHODS
from ssbench.runner.scenarios import ScenarioText
from ssbench.runner.single_run import RunResult
from ssbench.storage.options import StoreOptions

pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of containers; "photos" is another program's."""
    (tmp_path / "store" / "photos").mkdir(parents=True)
    for number in range(4):
        (tmp_path / "store" / "photos" / f"bench-{number}").write_text("precious")
    return tmp_path / "store"


def bench(folder: Path, method: str, container: str, **run: Any) -> RunResult:
    config = BenchConfig(
        method=METHODS[method],
        container=container,
        prefix="bench-",
        count=4,
        size=9 if METHODS[method].uploads else None,
        seconds=1.0 if METHODS[method].is_mixed else None,
        run=RunConfig(
            scenario=ScenarioText(b"", "bench"),
            store=StoreOptions("file", {"path": str(folder)}),
            transport=FREE_PORTS,
            workers=1,
            retries=0,
            stats_file=str(folder.parent / "bench.stat.gz"),
            force=True,
            **run,
        ),
    )
    return run_bench(config)[0]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (folder / "photos").iterdir()}


@pytest.mark.parametrize("method", ["put", "post", "delete", "mixed"])
def test_objects_in_a_container_without_our_mark_stay_as_they_are(
    folder: Path, method: str
) -> None:
    before = contents(folder)
    with pytest.raises(
        SsbenchError, match=r'container "photos" .* no mark of ours.*--use-existing'
    ):
        bench(folder, method, "photos")
    assert contents(folder) == before


def test_with_use_existing_they_are_changed(folder: Path) -> None:
    assert bench(folder, "delete", "photos", use_existing=True).outcome.counts.done == 4
    assert contents(folder) == {}


def test_containers_of_an_earlier_run_are_ours_and_missing_ones_no_error(folder: Path) -> None:
    for method in ("put", "post", "delete"):
        assert bench(folder, method, "own").outcome.counts.done == 4
    assert not (folder / "own").exists()
    assert bench(folder, "delete", "own").outcome.counts.failed == 4


@pytest.mark.parametrize("method", ["put", "post", "delete", "mixed"])
def test_no_run_on_existing_objects_changes_them(folder: Path, method: str) -> None:
    before = contents(folder)
    with pytest.raises(UsageError, match="--existing never changes objects"):
        bench(folder, method, "photos", existing="photos")
    assert contents(folder) == before
