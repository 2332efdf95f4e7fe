"""The store of a row: nginx on the second core, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import nginx
from benchmarks.bench import wrk
from benchmarks.bench.cores import TARGET, pinned


def lacking() -> str:
    """What must be installed for a row with nginx and wrk; "" if nothing is missing."""
    if nginx.find() is None:
        return nginx.NOT_HERE
    return "" if wrk.is_here() else wrk.NOT_HERE


@contextmanager
def serving(*, page_cache: bool = False) -> Iterator[nginx.Nginx]:
    """Run nginx within the block; ``page_cache`` as in nginx.start."""
    with pinned(TARGET):
        server = nginx.start(page_cache=page_cache)
    with server:
        yield server
