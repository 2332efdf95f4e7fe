"""What the admin of every store does where others have containers, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.settings import StorageSettings
from ssbench.storage.registry import open_admin
from tests.fakes.answered_store import driver_on
from tests.fakes.drivers import driver_settings
from tests.fakes.http_server import FakeContainer, FakeObject, FakeSwift
from tests.fakes.small_stores import Buckets, Tree

NAME, MARK = "b_000001", ".ssbench"


class Place(NamedTuple):
    """A store that others use."""

    admin: Any
    make: Callable[..., None]  #: a container with objects of these names, by somebody else
    contents: Callable[[], set[str]]  #: ``container/`` and ``container/object``; the mark is one
    #: Contents of containers of somebody else's that get our mark, or our run's id in it.
    changed: tuple[tuple[str, ...], ...] = ((),)
    names_are_paths: bool = True  #: of containers


@contextmanager
def on_swift(folder: Path) -> Iterator[Place]:
    with (
        FakeSwift() as swift,
        closing(open_admin(driver_settings("tk", urls=(swift.url,), run_id="run1"))) as admin,
    ):
        there = swift.containers

        def make(container: str, *names: str) -> None:
            headers = {"X-Container-Meta-Ssbench": "another"} if MARK in names else {}
            objects = {each: FakeObject(b"", {}) for each in names if each != MARK}
            there[container] = FakeContainer("gold", headers, objects)

        def contents() -> set[str]:
            marks = {each for each in there if "X-Container-Meta-Ssbench" in there[each].headers}
            objects = {f"{each}/{name}" for each in there for name in there[each].objects}
            return {f"{each}/" for each in there} | {f"{each}/{MARK}" for each in marks} | objects

        yield Place(admin, make, contents)


@contextmanager
def on_s3(folder: Path) -> Iterator[Place]:
    server = Buckets()

    def make(container: str, *names: str) -> None:
        bucket = f"/{container.replace('_', '-')}"
        server.paths |= {bucket, *(f"{bucket}/{each}" for each in names)}

    def contents() -> set[str]:
        found = (each[1:].replace("-", "_", 1) for each in server.paths)
        return {each if "/" in each else f"{each}/" for each in found}

    with driver_on("s3", server, kind=open_admin, paths=("",)) as (admin, _):
        yield Place(admin, make, contents, names_are_paths=False)


@contextmanager
def on_webdav(folder: Path) -> Iterator[Place]:
    tree = Tree()

    def make(container: str, *names: str) -> None:
        tree.paths |= Tree(f"{container}/", *(f"{container}/{each}" for each in names)).paths

    with driver_on("webdav", tree, kind=open_admin, paths=("/dav/",)) as (admin, _):
        yield Place(
            admin, make, lambda: {each[5:] for each in tree.paths} - {""}, changed=((MARK,),)
        )


@contextmanager
def on_files(folder: Path) -> Iterator[Place]:
    def make(container: str, *names: str) -> None:
        for name in ("", *names):
            place = folder / container / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch() if name else place.mkdir()

    def contents() -> set[str]:
        found = (str(each.relative_to(folder)) for each in folder.rglob("*"))
        return {each if "/" in each else f"{each}/" for each in found}

    settings = StorageSettings("file", store={"path": str(folder)}, run_id="run1")
    with closing(open_admin(settings)) as admin:
        yield Place(admin, make, contents)


@pytest.fixture(params=[on_swift, on_s3, on_webdav, on_files])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with request.param(tmp_path) as found:
        yield found


@pytest.mark.parametrize("there", [None, (), (MARK,), ("theirs",)])
def test_the_caller_hears_before_a_container_becomes_ours(
    place: Place, there: tuple[str, ...] | None
) -> None:
    if there is not None:
        place.make(NAME, *there)
    had, heard = place.contents(), list[set[str]]()
    found = place.admin.make_container(NAME, lambda: heard.append(place.contents()))
    assert (found is None) == (there is None)
    assert heard == [had] * (there is None or there in place.changed)
    assert place.admin.owns(NAME) == (there == (MARK,) or bool(heard))
    assert place.contents() == (had | {f"{NAME}/", f"{NAME}/{MARK}"} if heard else had)


def test_a_container_of_somebody_else_is_not_deleted(place: Place) -> None:
    place.make(NAME, "theirs")
    had = place.contents()
    with pytest.raises(StorageError) as caught:
        place.admin.delete_container(NAME)
    assert caught.value.status in (403, 409)
    assert place.contents() == had


def test_a_container_of_ours_is_deleted_once_it_is_empty(place: Place) -> None:
    place.make(NAME, MARK, "a")
    had = place.contents()
    with pytest.raises(StorageError) as caught:
        place.admin.delete_container(NAME)
    assert caught.value.status == 409
    assert place.contents() == had
    assert place.admin.delete_object(NAME, "a")
    assert place.admin.bulk_delete(NAME, []) == [] if place.names_are_paths else True
    assert place.admin.delete_container(NAME)
    assert place.contents() == set()
    assert not place.admin.delete_container(NAME)
    for ask in (place.admin.owns, place.admin.container_info):
        with pytest.raises(StorageError) as caught:
            ask(NAME)
        assert caught.value.status == 404


@pytest.mark.parametrize("name", [".", "..", "../../b/c/o", "a/../b", "a/."])
def test_names_that_could_lead_elsewhere_are_never_sent(place: Place, name: str) -> None:
    admin = place.admin
    place.make(NAME, MARK, "a/x")
    place.make("a", "b")
    had = place.contents()
    asks: list[Callable[[], object]] = [
        lambda: admin.delete_object(NAME, name),
        lambda: admin.object_run_id(NAME, name),
    ]
    if place.names_are_paths:
        asks += [
            lambda: admin.bulk_delete(NAME, [name, "a/x"]),
            lambda: admin.container_info(name),
            lambda: admin.make_container(name),
            lambda: admin.list_objects(name, "", 1),
            lambda: admin.delete_container(name),
            lambda: admin.delete_object(name, "a"),
        ]
    for ask in asks:
        with pytest.raises(StorageError, match=r"not (sent|tried)") as caught:
            ask()
        assert not caught.value.sent
    assert place.contents() == had
