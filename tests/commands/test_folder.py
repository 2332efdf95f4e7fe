"""Which files of a folder are listed, and their checksums."""

from __future__ import annotations

import os
from hashlib import md5
from pathlib import Path

import pytest

from ssbench.commands.transfer.plan import compute_md5, list_files
from ssbench.core.errors import UsageError
from ssbench.runner.stop import Stop
from tests.descriptors import open_descriptors


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
        ("latin", r"latin/\\udce9: the name is not UTF-8"),
    ],
)
def test_a_folder_that_can_not_be_uploaded_is_refused(folder: Path, name: str, says: str) -> None:
    (folder.parent / "latin").mkdir()
    (folder.parent / os.fsdecode(b"latin/\xe9")).touch()
    with pytest.raises(UsageError, match=says):
        list_files(str(folder.parent / name))


def test_checksums_are_in_the_order_of_the_files_and_those_of_others_unknown(folder: Path) -> None:
    counts: list[tuple[int, int]] = []
    names = ("b", "gone", "a/z", "link", "a", "a/", "/dev/zero", "pipe")
    descriptors = open_descriptors()
    paths = [str(folder / name) for name in names]
    found, seconds = compute_md5(paths, 2, lambda *each: counts.append(each), Stop())
    digests = [found[at : at + 16] for at in range(0, len(found), 16)]
    assert digests == [md5(b"xxx").digest(), bytes(16), md5(b"xxxxx").digest(), *[bytes(16)] * 5]
    assert seconds > 0
    done = [each for each, _ in dict.fromkeys(counts)]
    assert [each for each in done if each] == [*range(1, len(names) + 1)]
    assert {total for _, total in counts} == {len(names)}
    assert open_descriptors() <= descriptors


def test_a_stop_ends_the_computation_of_checksums(folder: Path) -> None:
    stop = Stop()
    stop("interrupted")
    with pytest.raises(KeyboardInterrupt):
        compute_md5([str(folder / "b")], 1, lambda *each: None, stop)
