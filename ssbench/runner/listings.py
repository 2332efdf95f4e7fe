"""Listings of containers and objects page by page, and concurrent work on what they list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import Protocol, TypeVar

from gevent.pool import Pool

from ssbench.core.errors import SsbenchError, outcome_of
from ssbench.core.settings import LISTED_MAX
from ssbench.core.text import printable
from ssbench.storage.base import (
    ContainerEntry,
    ObjectEntry,
    StoreLimits,
    check_listed,
    out_of_order,
)
from ssbench.storage.retrying_client import RetryingClient

#: Maximum entries per listing page, which bounds the memory of a page.
PAGE = 1_000

T = TypeVar("T")


class Named(Protocol):
    """An entry of a listing."""

    @property
    def name(self) -> str:
        """The key that the listing is sorted by."""


Entry = TypeVar("Entry", bound=Named)


def page_size(limits: StoreLimits) -> int:
    """Entries per listing page to request from this store."""
    return min(limits.listing_limit or PAGE, PAGE)


def list_containers(
    client: RetryingClient, base: str, limit: int
) -> Iterator[list[ContainerEntry]]:
    """Pages of the account's containers from ``base_`` on. Ends once the client is stopping.

    :param limit: entries of a page.
    :raises SsbenchError: as ``pages``; or the account can't be listed.
    """

    def page_after(marker: str) -> list[ContainerEntry]:
        if client.stopping():
            return []
        return client.call(client.storage.list_containers, f"{base}_", marker, limit)

    return pages(page_after, "", client.listed_max, "the containers", client.shown)


def list_objects(
    client: RetryingClient, container: str, limit: int, prefix: str = "", marker: str = ""
) -> Iterator[list[ObjectEntry]]:
    """Pages of a container's objects whose names begin with the prefix, and are longer. Ends once
    the client is stopping.

    :param limit: entries of a page.
    :param marker: only names after it.
    :raises SsbenchError: as ``pages``; or the container can't be listed.
    """

    def page_after(marker: str) -> list[ObjectEntry]:
        if client.stopping():
            return []
        return client.call(client.storage.list_objects, container, marker, limit)

    # No object is named by the prefix alone, and all names with it follow in the listing.
    start, most = marker or prefix, client.listed_max
    for page in pages(page_after, start, most, printable(container), client.shown):
        found = [entry for entry in page if entry.name.startswith(prefix)]
        yield found
        if len(found) < len(page):
            break


def pages(
    page_after: Callable[[str], list[Entry]],
    marker: str = "",
    most: int = LISTED_MAX,
    what: str = "",
    shown: Callable[[str], str] = printable,
) -> Iterator[list[Entry]]:
    """The pages of a listing after the marker, to its end.

    :param page_after: fetches the page after a marker.
    :param most: entries; ``what``: whose they are, for messages.
    :param shown: a name as messages may show it.
    :raises SsbenchError: the names are not in ascending order (Swift sorts by the bytes in
        UTF-8), or there are more: such a listing might never end.
    """
    read = 0
    # A short page may be followed by another (sharded listings): only an empty one is the end.
    while page := page_after(marker):
        names = [marker, *(entry.name for entry in page)]
        if fault := out_of_order(names):
            before, name = map(shown, fault)
            raise SsbenchError(
                f'the store\'s listing is not in order: "{name}" comes after "{before}"'
            )
        marker = names[-1]
        read += len(page)
        check_listed(read, most, what)
        yield page


def for_each(
    client: RetryingClient,
    work: Callable[[T], None],
    items: Iterable[T],
    on_done: Callable[[int], None] = lambda done: None,
) -> None:
    """Call ``work`` for each item, ``client.concurrency`` at a time, until the client is stopping.

    :param on_done: called with the number of items that are done, after each.
    :raises SsbenchError: the first one that ``work`` raises; the others are ended.
    """
    # Raised here: gevent prints exceptions that leave a greenlet.
    pool, wanted = Pool(client.concurrency), takewhile(lambda _: not client.stopping(), items)
    outcomes = pool.imap_unordered(
        lambda item: outcome_of(work, item), wanted, maxsize=client.concurrency
    )
    try:
        for done, outcome in enumerate(outcomes, start=1):
            outcome()
            on_done(done)
    finally:
        pool.kill()
