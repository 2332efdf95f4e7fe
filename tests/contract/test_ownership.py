"""What the admin of every store does where others have containers, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ssbench.core.errors import StorageError
from tests.contract.stores import MARK, PLACES, Place

NAME = "b_000001"


@pytest.fixture(params=PLACES.values(), ids=PLACES)
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
