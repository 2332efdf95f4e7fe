"""Uploads and downloads: what is refused before the run, and what is compared."""

from __future__ import annotations

from contextlib import ExitStack
from hashlib import md5
from pathlib import Path

import pytest

from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.live import Observer
from ssbench.core.model import Phase
from ssbench.runner.config import RunConfig, TransportConfig
from ssbench.runner.folder import compute_md5
from ssbench.runner.scenarios import ScenarioText
from ssbench.runner.stop import Stop
from ssbench.runner.transfer import ContainerDownload, FolderUpload, TransferConfig
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
        ({"checksums": ["store"]}, 'the store "file" has no checksums; stores that have it: swift'),
        ({"checksums": ["store"]}, "; without them: --checksum none"),
        ({"prefix": "x" * 300}, "the name has "),
    ],
)
def test_what_a_store_can_not_take_is_refused_before_the_run(
    folder: Path, tmp_path: Path, changes: dict[str, object], says: str
) -> None:
    store = StoreOptions("file", {"path": str(tmp_path)})
    with pytest.raises(UsageError) as caught, ExitStack() as stack:
        FolderUpload(config(folder, store, **changes), stack)
    assert says in str(caught.value)
    assert not (tmp_path / "c").exists()


def test_an_upload_names_objects_of_others_that_it_would_replace(
    folder: Path, tmp_path: Path
) -> None:
    store = StoreOptions("file", {"path": str(tmp_path)})
    (tmp_path / "c").mkdir()
    (tmp_path / "c/b").touch()
    (tmp_path / "c/other").touch()
    names = "1 object with names of files: b; --overwrite"
    with pytest.raises(UsageError, match=names), ExitStack() as stack:
        FolderUpload(config(folder, store), stack)
    for changes in ({"overwrite": True}, {"prefix": "apart"}, {"container": "new"}):
        with ExitStack() as stack:
            FolderUpload(config(folder, store, **changes), stack)


def test_a_download_is_compared_with_listed_files_only(folder: Path, tmp_path: Path) -> None:
    for name in ("b", "a.txt", "link/b", "more"):
        (tmp_path / "c" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / name).write_bytes(b"xxx")
    (folder / "link").unlink()
    (folder / "link").symlink_to(".")
    store = StoreOptions("file", {"path": str(tmp_path)})
    with ExitStack() as stack:
        download = ContainerDownload(config(folder, store, checksums=[]), stack)
        assert list(download.names) == ["a.txt", "b", "link/b", "more"]
        assert download.unknown == ["link/b", "more"]
        assert download.missing == ["a/.hidden", "a/z"]


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


def test_only_regular_files_are_read_for_their_md5(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    paths = [str(tmp_path / "file"), "/dev/zero", str(tmp_path), f"{tmp_path}/link", f"{tmp_path}/"]
    counted: list[tuple[int, int]] = []
    digests, _ = compute_md5(paths, 2, lambda done, total: counted.append((done, total)), Stop())
    assert digests == md5(b"content").digest() + bytes(4 * 16)
    assert counted[-1] == (5, 5)
