"""Which files are uploaded, their checksums, and what is refused before the run."""

from __future__ import annotations

import os
from contextlib import ExitStack
from hashlib import md5
from pathlib import Path

import pytest

from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.model import Phase
from ssbench.core.observer import SilentObserver
from ssbench.runner.config import RunConfig, TransportConfig
from ssbench.runner.scenarios import ScenarioText
from ssbench.runner.stop import Stop
from ssbench.runner.transfer import Download, TransferConfig, Upload, compute_md5, list_files
from ssbench.storage.options import StoreOptions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "files"
    for name, size in {"b": 3, "a/z": 5, "a.txt": 0, ".ssbench": 9, "a/.hidden": 1}.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(b"x" * size)
    (place / "link").symlink_to("b")
    (place / "loop").symlink_to(".")
    os.mkfifo(place / "pipe")
    (place / "hollow").mkdir()
    return place


def test_regular_files_are_listed_by_name_and_no_link_is_followed(folder: Path) -> None:
    found = list_files(str(folder))
    assert found.names == ["a.txt", "a/.hidden", "a/z", "b"]
    assert found.sizes == [0, 1, 5, 3]
    assert (found.skipped_links, found.skipped_others) == (2, 1)
    assert found.newest_ns == max((folder / name).stat().st_ctime_ns for name in found.names)
    assert list_files(str(folder), 2).names == ["a.txt", "a/.hidden"]
    (folder.parent / "way").symlink_to(folder)
    assert list_files(str(folder.parent / "way")).names == found.names


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "none: No such file"),
        ("files/b", "files/b: Not a directory"),
        ("files/hollow", "has no files"),
        ("latin", "latin/\\udce9: the name is not UTF-8"),
    ],
)
def test_a_folder_that_can_not_be_uploaded_is_refused(folder: Path, name: str, says: str) -> None:
    (folder.parent / "latin").mkdir()
    (folder.parent / os.fsdecode(b"latin/\xe9")).touch()
    with pytest.raises(UsageError) as caught:
        list_files(str(folder.parent / name))
    assert says in str(caught.value)


def test_checksums_are_in_the_order_of_the_files_and_unreadable_ones_are_unknown(
    folder: Path,
) -> None:
    counts: list[tuple[int, int]] = []
    paths = [str(folder / name) for name in ("b", "gone", "a/z", "link")]
    found, seconds = compute_md5(paths, 2, lambda *each: counts.append(each), Stop())
    expected = [md5(b"xxx").digest(), bytes(16), md5(b"xxxxx").digest(), bytes(16)]
    assert found == b"".join(expected)
    assert seconds > 0
    assert counts == [(n, 4) for n in (1, 2, 3, 4)]


def test_a_stop_ends_the_computation_of_checksums(folder: Path) -> None:
    stop = Stop()
    stop("interrupted")
    with pytest.raises(KeyboardInterrupt):
        compute_md5([str(folder / "b")], 1, lambda *each: None, stop)


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
        Upload(config(folder, store, **changes), stack)
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
        Upload(config(folder, store), stack)
    for changes in ({"overwrite": True}, {"prefix": "apart"}, {"container": "new"}):
        with ExitStack() as stack:
            Upload(config(folder, store, **changes), stack)


def test_a_download_is_compared_with_listed_files_only(folder: Path, tmp_path: Path) -> None:
    for name in ("b", "a.txt", "link/b", "more"):
        (tmp_path / "c" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / name).write_bytes(b"xxx")
    (folder / "link").unlink()
    (folder / "link").symlink_to(".")
    store = StoreOptions("file", {"path": str(tmp_path)})
    with ExitStack() as stack:
        download = Download(config(folder, store, checksums=[]), stack)
        assert list(download.names) == ["a.txt", "b", "link/b", "more"]
        assert download.unknown == ["link/b", "more"]
        assert download.missing == ["a/.hidden", "a/z"]


def test_a_download_names_the_files_that_it_can_not_read(folder: Path, tmp_path: Path) -> None:
    class Removal(SilentObserver):
        def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
            if title == "Computing MD5":
                (folder / "b").unlink()

    (tmp_path / "c").mkdir()
    for name in ("b", "a.txt", "more"):
        (tmp_path / "c" / name).write_bytes(b"xxx")
    store = StoreOptions("file", {"path": str(tmp_path)})
    with ExitStack() as stack:
        download = Download(config(folder, store, checksums=[]), stack, [Removal()])
        assert download.unreadable == ["b"]
        assert download.unknown == ["more"]


def test_a_download_of_nothing_is_refused(folder: Path, tmp_path: Path) -> None:
    store = StoreOptions("file", {"path": str(tmp_path)})
    (tmp_path / "c").mkdir()
    for container, says in (("c", "there is no object in c/"), ("none", "no such container")):
        with pytest.raises(SsbenchError, match=says), ExitStack() as stack:
            Download(config(None, store, container=container, checksums=[]), stack)


def test_only_regular_files_are_read_for_their_md5(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    paths = [str(tmp_path / "file"), "/dev/zero", str(tmp_path), f"{tmp_path}/link", f"{tmp_path}/"]
    counted: list[tuple[int, int]] = []
    digests, _ = compute_md5(paths, 2, lambda done, total: counted.append((done, total)), Stop())
    assert digests == md5(b"content").digest() + bytes(4 * 16)
    assert counted[-1] == (5, 5)
