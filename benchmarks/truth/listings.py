"""Whether LIST finds out listings that are wrong: of an S3 that lies in some, and knows in which.

The small S3 of the tests answers; each of its listings has an id, by which the results are found.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from random import Random

from benchmarks.truth import clients
from tests.fakes.loopback_http import Answer
from tests.fakes.s3_store import S3Store

_OPERATIONS, _TIMEOUT_S = 400, 90
_SHARE = 0.05  #: of the listings
_PAGE = 100  #: entries of each LIST; the clean-up asks for more at a time
_KEYS = {"crud_profile": None, "operations": {"list": 1}, "list_limit": _PAGE}

#: What a listing has in place of its keys, of which there are two or more.
LIES: dict[str, Callable[[list[str]], list[str]]] = {
    "a name outside of the prefix": lambda keys: [*keys[:-1], "~" + keys[-1]],
    "a name twice": lambda keys: [keys[0], *keys[:-1]],
    "names that are not in order": lambda keys: [*keys[2:], *keys[:2]],
}


class LyingS3(S3Store):
    """Lies in some of the listings of LIST."""

    def __init__(self, lie: Callable[[list[str]], list[str]]) -> None:
        super().__init__()
        self.lied: set[str] = set()  #: the ids of such listings
        self._lie, self._rng, self._numbers = lie, Random(1), count()

    def listed(self, query: dict[str, list[str]]) -> Answer:
        right = super().listed(query)
        identifier = f"listing{next(self._numbers)}"
        if query.get("max-keys") == [str(_PAGE)] and self._rng.random() < _SHARE:
            self.lied.add(identifier)
            right = self.listing(self._lie(self.keys_of(query)), is_truncated=False)
        return right._replace(headers={"x-amz-request-id": identifier})


def check(only: str = "") -> Iterator[str]:
    """Print a line for each lie; yields what was not found out, or wrongly."""
    for words, lie in LIES.items():
        name = f"LIST of an S3: {words}"
        if only not in name:
            continue
        with LyingS3(lie) as store, tempfile.TemporaryDirectory(prefix="ssbench-truth-") as folder:
            options = [*store.options, "-u", "8", "-o", str(_OPERATIONS)]
            place = Path(folder)
            told = clients.ssbench(options, place, _TIMEOUT_S, _KEYS, store.environment)
        lied, found = store.lied & set(told.results), told.failed
        print(
            f"{name}: {len(lied)} of {len(told.results)} listings, found out {len(found & lied)},"
            f" right ones refused {len(found - lied)} (at most 0)",
            flush=True,
        )
        if found != lied or not lied:
            yield f"MISSED: {name}"
