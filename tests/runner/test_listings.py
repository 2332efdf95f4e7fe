"""Pages of listings, and how they end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.errors import SsbenchError, StorageError
from ssbench.runner.containers import list_containers, list_objects, open_uploads, pages
from ssbench.storage.base import ObjectEntry, OpenUpload, StoreLimits
from ssbench.storage.retrying_client import RetryingClient
from tests.runner.clients import client


def paged(*names_of_pages: str) -> list[str]:
    """The names of all pages that are got, each page a text of one-letter names."""
    script = iter([*names_of_pages, ""])
    found = pages(lambda marker: [ObjectEntry(name, 0) for name in next(script)])
    return [entry.name for page in found for entry in page]


@pytest.mark.parametrize("script", [("a", "a"), ("a", "b", "a"), ("ba",), ("aa",), ("ac", "b")])
def test_an_unordered_listing_ends(script: tuple[str, ...]) -> None:
    with pytest.raises(SsbenchError, match=r'listing is not in order: "[ab]" comes after "[abc]"'):
        paged(*script)


def endless(marker: str) -> list[ObjectEntry]:
    """A page of a listing in good order that never ends."""
    first = int(marker.rpartition("_")[2] or "0") + 1
    return [ObjectEntry(f"ssbench_{number:012}", 0) for number in range(first, first + 100)]


class EndlessStore:
    """A store whose listings have no end."""

    def limits(self) -> StoreLimits:
        return StoreLimits()

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ObjectEntry]:
        return endless(marker)

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        return endless(marker)

    def open_uploads(self, container: str, after: str) -> list[OpenUpload]:
        return [OpenUpload(entry.name, "x", 0) for entry in endless(after)]

    def abort_upload(self, container: str, upload: OpenUpload) -> bool:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        return "greenlets" if name == "concurrency" else lambda *_: None


@pytest.mark.parametrize(
    ("listing", "whose"),
    [
        (lambda it: list_containers(it, "ssbench"), "the containers"),
        (lambda it: list_objects(it, "c"), "c"),
        (lambda it: ([each] for each in open_uploads(it, "c")), "open uploads of c"),
    ],
)
def test_a_listing_without_end_ends_at_a_limit_that_an_option_raises(
    listing: Callable[[RetryingClient], Iterable[list[object]]], whose: str
) -> None:
    pages = listing(client(EndlessStore(), listed_max=5000))
    read: list[object] = []
    with pytest.raises(StorageError) as caught:
        read.extend(each for page in pages for each in page)
    assert len(read) == 5000
    assert str(caught.value) == (
        f"{whose}: the listing has no end after 5,100 entries: if there are more than 5,000,"
        " raise --max-listed"
    )


def test_a_listing_of_open_uploads_that_repeats_itself_ends() -> None:
    class Repeating(EndlessStore):
        def open_uploads(self, container: str, after: str) -> list[OpenUpload]:
            return [OpenUpload("a", "1")]

    with pytest.raises(SsbenchError, match="open uploads is not in order"):
        list(open_uploads(client(Repeating(), listed_max=100), "c"))


@given(st.lists(st.lists(st.text(max_size=3), max_size=4), max_size=6))
def test_any_listing_ends(script: list[list[str]]) -> None:
    """A store that begins again at its end: each name comes once and in order, or an error."""
    pages_in_turn = itertools.cycle(script) if any(script) else iter([])
    seen: list[str] = []

    def page_after(marker: str) -> list[ObjectEntry]:
        return [ObjectEntry(name, 0) for name in next(pages_in_turn, [])]

    with suppress(SsbenchError):
        for page in pages(page_after):
            seen += [entry.name for entry in page]
    assert seen == sorted(set(seen))
    assert len(seen) <= sum(map(len, script))
