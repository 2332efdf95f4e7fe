"""Listings and deletes of the WebDAV driver, on a tree of names."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.storage.base import ContainerInfo, ObjectEntry
from ssbench.storage.registry import open_admin
from ssbench.storage.webdav import admin as webdavadmin
from tests.fakes.answered_store import Request, always, response
from tests.fakes.small_stores import Tree
from tests.storage.webdav.test_driver import driver_on


def answering(
    tree: Tree, begin: str = "", status: int = 0
) -> AbstractContextManager[tuple[Any, list[Request]]]:
    """An admin of the tree, whose server answers request lines that begin so with a status."""

    def answer(request: Request) -> bytes:
        return response(status) if status and request.line.startswith(begin) else tree(request)

    return driver_on(answer, kind=open_admin, network_timeout_s=20.0)


@contextmanager
def admin_of(tree: Tree) -> Iterator[Any]:
    with answering(tree) as (admin, _):
        yield admin


@pytest.mark.parametrize(("quota", "free"), [("4096", 4096), (" 7\n", 7), ("", None), ("-3", None)])
def test_the_collection_reports_what_is_available(quota: str, free: int | None) -> None:
    with admin_of(Tree(quota=quota)) as admin:
        assert admin.state().free_bytes == free


def pages(admin: Any, container: str, limit: int) -> list[list[str]]:
    found: list[list[str]] = []
    marker = ""
    while page := admin.list_objects(container, marker, limit):
        marker = page[-1].name
        found.append([entry.name for entry in page])
    return found


def flat(parts: Iterable[list[str]]) -> list[str]:
    return [name for part in parts for name in part]


def test_folders_without_end_and_without_objects_end() -> None:
    def folders(request: Request) -> bytes:
        folder = request.target
        inside = "".join(
            f"<response><href>{folder}{name}</href><propstat><prop><resourcetype><collection/>"
            "</resourcetype></prop><status>HTTP/1.1 200 OK</status></propstat></response>"
            for name in (("", "a/", "b/") if folder.count("/") < 20 else ("",))
        )
        return response(207, f'<multistatus xmlns="DAV:">{inside}</multistatus>'.encode())

    with (
        driver_on(folders, kind=open_admin, network_timeout_s=20.0, listed_max=200) as (admin, _),
        pytest.raises(StorageError, match=r"^folders of c: .* no end after 201 .* --max-listed"),
    ):
        admin.list_objects("c", "", 10)


def test_unfinished_listings_of_few_containers_are_kept() -> None:
    names = [f"c{number:02d}" for number in range(17)]
    tree = Tree(*(f"{name}/{n}" for name in names for n in range(3)))
    with answering(tree) as (admin, heard):
        for name in names:
            admin.list_objects(name, "", 1)
        assert len(heard) == 17
        for name in reversed(names):
            assert admin.list_objects(name, "0", 1) == [ObjectEntry("1", 7)]
        assert len(heard) == 18  # the first one was given up


def test_of_a_folder_no_more_is_held_than_a_page_needs() -> None:
    page = webdavadmin._Page(10)
    tracemalloc.start()
    try:
        for number in range(20_000, 0, -1):
            page.add(f"{number:06}", 1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [name for name, _ in page.entries()] == [f"{number:06}" for number in range(1, 11)]
    assert page.is_cut
    assert peak < 50_000


@pytest.mark.parametrize("kept", [1, 7, 60])
def test_a_folder_with_more_names_than_are_kept(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webdavadmin, "KEPT", kept)
    names = [f"tiny_{number:06d}" for number in range(60)]
    tree = Tree(*(f"c/{name}" for name in names), "c/deep/er/x", "c/tiny_000007x/y", "c/z/")
    with admin_of(tree) as admin:
        found = flat(pages(admin, "c", 9))
    assert found == sorted([*names, "deep/er/x", "tiny_000007x/y"])


@pytest.mark.parametrize(("depth", "listed"), [(64, True), (65, False)])
def test_folders_are_at_most_64_deep(depth: int, listed: bool) -> None:
    with admin_of(Tree("c/" + "d/" * depth + "x")) as admin:
        if listed:
            assert flat(pages(admin, "c", 9)) == ["d/" * depth + "x"]
        else:
            with pytest.raises(StorageError, match="c: more than 64 folders deep") as caught:
                admin.list_objects("c", "", 9)
            assert caught.value.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("c/.ssbench",), ContainerInfo(None, True, 0)),
        (("c/.ssbench", "c/a", "c/b/x", "c/b/y"), ContainerInfo(None, True, 2)),
        (("c/a",), ContainerInfo(None, False, None)),
        (("c/.ssbench", *(f"c/{n:06d}" for n in range(7000))), ContainerInfo(None, True, None)),
    ],
    ids=["empty", "some", "of others", "too many to count"],
)
def test_a_container_of_ours_has_a_count(paths: tuple[str, ...], expected: ContainerInfo) -> None:
    with admin_of(Tree(*paths)) as admin:
        assert admin.container_info("c") == expected
        assert admin.owns("c") == expected.marked


def test_a_delete_tells_what_was_there() -> None:
    tree = Tree("c/.ssbench", "c/a", "c/b", "c/tiny_0123456789_000003")
    with answering(tree, "DELETE /dav/c/b", 403) as (admin, _):
        assert admin.object_run_id("c", "a") is None
        unlisted = admin.object_run_id("c", "tiny_0123456789_000003")
        assert unlisted is None, "the mark does not list that run"
        with pytest.raises(StorageError, match="404"):
            admin.object_run_id("c", "none")
        assert admin.delete_object("c", "a")
        assert not admin.delete_object("c", "a")
        assert admin.bulk_delete("c", ["none", "b"]) == [("b", 403)]
        with pytest.raises(StorageError, match="403"):
            admin.delete_object("c", "b")
    with driver_on(always(b""), kind=open_admin, network_timeout_s=0.2) as (admin, _):
        with pytest.raises(StorageError) as caught:
            admin.bulk_delete("c", ["a"])
        assert caught.value.status == 0


def test_a_container_that_the_server_deletes_in_part_is_an_error() -> None:
    with answering(Tree("c/.ssbench"), "DELETE /dav/c/", 207) as (admin, _):
        with pytest.raises(StorageError, match='could not delete all of "c"') as caught:
            admin.delete_container("c")
        assert (caught.value.status, caught.value.sent) == (409, False)
    with answering(Tree("c/.ssbench"), "DELETE /dav/c/", 404) as (admin, _):
        assert not admin.delete_container("c")


def test_space_and_time_are_those_of_a_multistatus() -> None:
    with (
        answering(Tree(), "PROPFIND", 200) as (admin, _),
        pytest.raises(StorageError, match="PROPFIND returned 200"),
    ):
        admin.state()


def test_a_container_is_deleted_with_its_mark_and_empty_folders_only() -> None:
    tree = Tree("c/.ssbench", "c/a/b/", "d/x", "e/.ssbench", "e/a/b/precious")
    with admin_of(tree) as admin:
        assert admin.delete_container("c")
        for name, status, why in (("d", 403, "no mark"), ("e", 409, '"a/b/precious"')):
            with pytest.raises(StorageError, match=why) as caught:
                admin.delete_container(name)
            assert caught.value.status == status
        assert not admin.delete_container("nothing")
        left = {"/dav/d/x", "/dav/e/a/b/precious", "/dav/e/.ssbench"}
        assert left <= tree.paths
        assert "/dav/c/" not in tree.paths


@pytest.mark.parametrize("lists_dots", [True, False])
def test_a_collection_that_we_did_not_make_gets_no_mark(lists_dots: bool) -> None:
    # nginx lists nothing of the first; the second only looks the same.
    tree = Tree("c/.git/HEAD", "d/", lists_dots=lists_dots)
    before = set(tree.paths)
    with admin_of(tree) as admin:
        for name in ("c", "d"):
            assert admin.make_container(name) == ContainerInfo(
                None, marked=False, object_count=None
            )
            with pytest.raises(StorageError, match="no mark"):
                admin.delete_container(name)
    assert tree.paths == before


def test_a_mark_that_failed_is_set_by_the_next_attempt() -> None:
    tree = Tree()
    tree.failures = 2
    with admin_of(tree) as admin:
        for _ in range(2):
            with pytest.raises(StorageError, match="503"):
                admin.make_container("c")
        assert admin.make_container("c") is None
        assert admin.owns("c")


def test_a_collection_that_somebody_makes_at_the_same_moment_gets_no_mark() -> None:
    tree = Tree()

    def answer(request: Request) -> bytes:
        if request.method == "MKCOL":
            tree.paths.add("/dav/c/")
        return tree(request)

    with driver_on(answer, kind=open_admin, network_timeout_s=20.0) as (admin, _):
        assert admin.make_container("c") == ContainerInfo(None, marked=False, object_count=None)
    assert "/dav/c/.ssbench" not in tree.paths


def test_containers_are_the_folders_of_the_collection() -> None:
    tree = Tree("ssbench_000002/x", "ssbench_000001/x", "ssbench_file", "other/x")
    with admin_of(tree) as admin:
        found = admin.list_containers("ssbench_", "", 10)
        assert [entry.name for entry in found] == ["ssbench_000001", "ssbench_000002"]
        assert admin.list_containers("ssbench_", "ssbench_000001", 10) == found[1:]
        assert admin.list_containers("", "", 1)[0].name == "other"


def test_a_mark_names_the_newest_thousand_runs() -> None:
    """Each master rewrites it, whatever stood there."""
    tree, marks = Tree("c/.ssbench"), list[list[bytes]]()

    def answer(request: Request) -> bytes:
        if request.method == "GET":
            return response(200, b"\n".join(b"run%d" % number for number in range(5000)))
        if request.method == "PUT":
            marks.append(request.body.split(b"\n"))
        return tree(request)

    with driver_on(answer, kind=open_admin, network_timeout_s=20.0, run_id="newest") as (admin, _):
        admin.make_container("c")
    (runs,) = marks
    assert runs == [*(b"run%d" % number for number in range(4001, 5000)), b"newest"]
