"""Runs on numbered objects, in a folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ssbench.commands.bench.command import EmptiedContainers, run_bench
from ssbench.commands.bench.settings import METHODS, BenchConfig
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.runner.config import FREE_PORTS, RunConfig, ScenarioText
from ssbench.runner.single_run import RunResult
from ssbench.runner.stop import Stop
from ssbench.storage.file.admin import FileAdmin
from ssbench.storage.options import StoreOptions

pytestmark = pytest.mark.usefixtures("forked_workers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of containers; "photos" is another program's."""
    (tmp_path / "store" / "photos").mkdir(parents=True)
    for number in range(4):
        (tmp_path / "store" / "photos" / f"bench-{number}").write_text("precious")
    return tmp_path / "store"


def bench_config(
    folder: Path, method: str, container: str, *, containers: int = 1, **run: Any
) -> BenchConfig:
    return BenchConfig(
        method=METHODS[method],
        container=container,
        containers=containers,
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


def bench(folder: Path, method: str, container: str, **run: Any) -> RunResult:
    return run_bench(bench_config(folder, method, container, **run))[0]


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
    with pytest.raises(UsageError, match="--existing never changes objects"):
        bench(folder, method, "photos", existing="photos")
    assert contents(folder) == before


def test_with_use_existing_they_are_changed(folder: Path) -> None:
    assert bench(folder, "delete", "photos", use_existing=True).outcome.counts.done == 4
    assert contents(folder) == {}


def test_containers_of_an_earlier_run_are_ours_and_missing_ones_no_error(folder: Path) -> None:
    for method in ("put", "post", "delete"):
        assert bench(folder, method, "own").outcome.counts.done == 4
    assert not (folder / "own").exists()
    assert bench(folder, "delete", "own").outcome.counts.failed == 4


def test_a_stop_ends_the_deletion_of_emptied_containers_and_counts_those_that_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_bench(bench_config(folder, "put", "own", containers=5))
    delete, stop = FileAdmin.delete_container, Stop()

    def delete_and_stop(storage: FileAdmin, container: str) -> bool:
        if not stop.requested:  # a second call would end it at once
            stop("enough")
        return delete(storage, container)

    monkeypatch.setattr(FileAdmin, "delete_container", delete_and_stop)
    monkeypatch.setattr("ssbench.commands.bench.command._CONCURRENCY", 1)
    config = bench_config(folder, "delete", "own", containers=5)
    result, emptied = run_bench(config, stop=stop)
    left = len([*folder.glob("own*")])
    assert left >= 2
    assert emptied == EmptiedContainers(5 - left, Counter(interrupted=left))
    assert result.reasons == {ExitStatus.INTERRUPTED: "enough"}
