"""The store of a row: nginx on the second core, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import nginx
from benchmarks.bench import wrk
from benchmarks.bench.cores import TARGET, standing


def lacking() -> str:
    """What must be installed before a row with nginx and wrk can run; "" where all is there."""
    if nginx.find() is None:
        return nginx.NOT_HERE
    return "" if wrk.is_here() else wrk.NOT_HERE


@contextmanager
def serving(*, page_cache: bool = False) -> Iterator[nginx.Nginx]:
    """It, for as long as the block takes; ``page_cache`` as for nginx.start."""
    with standing(TARGET):
        server = nginx.start(page_cache=page_cache)
    with server:
        yield server
