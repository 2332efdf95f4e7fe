"""Paged listings and bulk deletes, for the admins of stores that support neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from ssbench.core.errors import StorageError
from ssbench.storage.base import ObjectEntry

_KEPT = 16  #: containers whose listings are kept at a time


class ListingPages:
    """Pages of listings, for stores that list all names after a given one at once.

    A page would cost as much as all that follows it, so the rest of a listing is kept for its next
    page. Its methods may be called in any thread.
    """

    def __init__(self) -> None:
        #: Container -> the last name of a page, and what follows it.
        self._kept: dict[str, tuple[str, Iterator[ObjectEntry]]] = {}

    def page(
        self, objects: Iterator[ObjectEntry], container: str, marker: str, limit: int
    ) -> list[ObjectEntry]:
        """As ``StoreAdmin.list_objects``.

        :param objects: all objects after the marker, in order; begun only if none of them are kept.
        """
        last, entries = self._kept.pop(container, ("", objects))
        if not marker or marker != last:
            entries = objects
        found = list(islice(entries, limit))
        if found and len(found) == limit:
            self._kept[container] = found[-1].name, entries
            for oldest in [*self._kept][:-_KEPT]:
                self._kept.pop(oldest, None)
        return found

    def close(self) -> None:
        """Drop all that is kept."""
        self._kept.clear()


def delete_each(
    delete: Callable[[str, str], object], container: str, names: Sequence[str]
) -> list[tuple[str, int]]:
    """As ``StoreAdmin.bulk_delete``, one object after another.

    :param delete: ``delete_object`` of the store.
    :raises StorageError: one without a status, which may be worth a retry.
    """
    failures = []
    for name in names:
        try:
            delete(container, name)
        except StorageError as error:
            if not error.status:
                raise
            failures.append((name, error.status))
    return failures
