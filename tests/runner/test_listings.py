"""Pages of listings, and how they end."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.errors import SsbenchError
from ssbench.runner.listings import pages
from ssbench.storage.base import ObjectEntry


def paged(*names_of_pages: str) -> list[str]:
    """The names of all pages that are got, each page a text of one-letter names."""
    script = iter([*names_of_pages, ""])
    found = pages(lambda marker: [ObjectEntry(name, 0) for name in next(script)])
    return [entry.name for page in found for entry in page]


def test_pages_are_read_until_an_empty_one() -> None:
    assert paged("ab", "c", "df") == [*"abcdf"]
    assert paged() == []


@pytest.mark.parametrize("script", [("a", "a"), ("a", "b", "a"), ("ba",), ("aa",), ("ac", "b")])
def test_an_unordered_listing_ends(script: tuple[str, ...]) -> None:
    with pytest.raises(SsbenchError, match=r'listing is not in order: "[ab]" comes after "[abc]"'):
        paged(*script)


def test_a_listing_before_its_marker_is_rejected() -> None:
    with pytest.raises(SsbenchError, match='"a" comes after "b"'):
        next(pages(lambda marker: [ObjectEntry("a", 0)], "b"))


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
