"""Uploads and downloads: what is refused before the run, and what is compared."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ssbench.commands.transfer.plan import (
    ContainerDownload,
    FolderUpload,
    TransferWorkload,
)
from ssbench.commands.transfer.settings import TransferConfig
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.live import Observer
from ssbench.core.model import Failure, Phase
from ssbench.core.operations import CREATE
from ssbench.core.settings import TransportConfig
from ssbench.runner import existing
from ssbench.runner.config import RunConfig, ScenarioText
from ssbench.storage.options import StoreOptions


def config(folder: Path | None, store: StoreOptions, **changes: object) -> TransferConfig:
    run = RunConfig(
        scenario=ScenarioText(b"", "upload"), store=store, worker_wait_s=0.0,
        transport=TransportConfig(None, 0, 0, 0),
    )  # fmt: skip
    given = {"container": "c", "checksums": ["none"], **changes}
    return TransferConfig(folder=folder and str(folder), run=run, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"container": ".."}, 'no segment may be "." or ".."'),
        ({"prefix": "a/../b"}, 'no segment may be "." or ".."'),
        ({"checksums": ["store"]}, 'the store "file" has no checksums; stores that have it: swift'
         "(.*); without them: --checksum none"),
        ({"prefix": "x" * 300}, "the name has "),
    ],
)  # fmt: skip
def test_what_a_store_can_not_take_is_refused_before_the_run(
    folder: Path, tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    store = StoreOptions("file", {"path": str(tmp_path)})
    with pytest.raises(UsageError, match=says), ExitStack() as stack:
        FolderUpload(config(folder, store, **changes), stack)
    assert not (tmp_path / "c").exists()


ALL = ("a.txt", "a/.hidden", "a/z", "b")


def put(container: Path, *names: str) -> None:
    for name in names:
        path = container / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))


@pytest.mark.parametrize(
    ("there", "changes", "says"),
    [
        (("b", "c"), {}, "1 object with names of files: b; --overwrite"),
        (ALL[1:], {}, "3 objects with names of files: a/.hidden, a/z, b; --overwrite"),
        (ALL, {}, "4 objects with names of files: a.txt, a/.hidden, a/z, ...; --overwrite"),
        (ALL, {"limit": 1}, "1 object with names of files: a.txt; --overwrite"),
        (("up/b",), {"prefix": "up"}, "1 object with names of files: up/b; --overwrite"),
        (("b",), {"limit": 3}, None),
        (("b", "up/c"), {"prefix": "up"}, None),
        ((), {}, None),
        ((*ALL, ".ssbench"), {}, None),  # with our mark
        (ALL, {"overwrite": True}, None),
    ],
)
def test_an_upload_replaces_no_objects_of_others_unless_told_to(
    folder: Path,
    tmp_path: Path,
    there: tuple[str, ...],
    changes: dict[str, object],
    says: str | None,
) -> None:
    (tmp_path / "c").mkdir()
    put(tmp_path / "c", *there)
    given = config(folder, StoreOptions("file", {"path": str(tmp_path)}), **changes)
    with ExitStack() as stack:
        if says is None:
            found = FolderUpload(given, stack).container
            assert found is not None
            assert found.marked == (".ssbench" in there)
        else:
            with pytest.raises(UsageError, match=re.escape(says)):
                FolderUpload(given, stack)


def test_a_container_is_missing_or_can_not_be_used(folder: Path, tmp_path: Path) -> None:
    given = config(folder, StoreOptions("file", {"path": str(tmp_path)}))
    with ExitStack() as stack:
        upload = FolderUpload(given, stack)
        assert upload.container is None
        assert (list(upload.names), list(upload.sizes)) == ([*ALL], [0, 1, 5, 3])
        assert upload.total_bytes == 9
    (tmp_path / "c").touch()
    with pytest.raises(SsbenchError, match='container "c": c: Not a directory'), ExitStack() as new:
        FolderUpload(given, new)


@pytest.mark.parametrize(
    ("changes", "names", "missing", "unknown"),
    [
        ({}, ["b", "more", "up/a.txt", "up/b", "up/x"], ["a.txt", "a/.hidden", "a/z"],
         ["more", "up/a.txt", "up/b", "up/x"]),
        ({"prefix": "up"}, ["up/a.txt", "up/b", "up/x"], ["a/.hidden", "a/z"], ["up/x"]),
        ({"prefix": "up", "limit": 1}, ["up/a.txt"], [], []),
        ({"prefix": "up", "limit": 3}, ["up/a.txt", "up/b", "up/x"], [], ["up/x"]),
        ({"prefix": "up", "folder": None}, ["up/a.txt", "up/b", "up/x"], [], []),
    ],
)  # fmt: skip
def test_a_download_names_what_one_side_lacks(
    folder: Path,
    tmp_path: Path,
    changes: dict[str, Any],
    names: list[str],
    missing: list[str],
    unknown: list[str],
) -> None:
    put(tmp_path / "c", "b", "more", "up/a.txt", "up/b", "up/x")
    store, own = StoreOptions("file", {"path": str(tmp_path)}), {"folder": folder, **changes}
    with ExitStack() as stack:
        found = ContainerDownload(config(own.pop("folder"), store, checksums=[], **own), stack)
        assert list(found.names) == names
        assert list(found.sizes) == list(map(len, names))
        assert (found.missing, found.unknown, found.unreadable) == (missing, unknown, [])
        assert found.listed == (3 if "prefix" in changes else 5)


def test_a_download_of_every_second_object_misses_no_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(existing, "MOST_OBJECTS", 3)
    put(tmp_path / "c", "b", "c", "d", "e")
    store = StoreOptions("file", {"path": str(tmp_path)})
    with ExitStack() as stack:
        found = ContainerDownload(config(folder, store, checksums=[]), stack)
        assert (list(found.names), found.listed, found.missing) == (["b", "d"], 4, [])


def test_each_file_has_an_outcome() -> None:
    workload = TransferWorkload(int(CREATE), [5, 7, 9, 11])
    jobs = workload.take(0, 4, 0.0)
    assert [job.size for job in jobs] == [5, 7, 9, 11]
    workload.succeeded(jobs[:2], 0.0)
    workload.failed(jobs[2], Failure(), 0.0)
    assert (workload.bytes, workload.failed_numbers) == (12, [2])
    assert list(workload.ended) == [1, 1, 1, 0]
    workload.lost(jobs[3:])
    assert (workload.bytes, workload.failed_numbers) == (12, [2, 3])
    assert list(workload.ended) == [1, 1, 1, 1]


def test_a_download_names_the_files_that_it_can_not_read(folder: Path, tmp_path: Path) -> None:
    class Removal(Observer):
        def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
            if title == "Computing MD5":
                (folder / "b").unlink()

    (tmp_path / "c").mkdir()
    for name in ("b", "a.txt", "more"):
        (tmp_path / "c" / name).write_bytes(b"xxx")
    store = StoreOptions("file", {"path": str(tmp_path)})
    with ExitStack() as stack:
        download = ContainerDownload(config(folder, store, checksums=[]), stack, [Removal()])
        assert download.unreadable == ["b"]
        assert download.unknown == ["more"]


def test_a_download_of_nothing_is_refused(folder: Path, tmp_path: Path) -> None:
    store = StoreOptions("file", {"path": str(tmp_path)})
    (tmp_path / "c").mkdir()
    for container, says in (("c", "there is no object in c/"), ("none", "no such container")):
        with pytest.raises(SsbenchError, match=says), ExitStack() as stack:
            ContainerDownload(config(None, store, container=container, checksums=[]), stack)
