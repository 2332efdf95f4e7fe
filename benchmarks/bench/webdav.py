"""WebDAV, one worker, 4 KiB, beside our own Swift's CPU time: the same requests but for headers."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import ours, target
from benchmarks.bench.figure import Figure, at_most, not_run
from benchmarks.bench.ours import Load

_SECONDS, _USERS, _SIZE = 2, 64, 4096
_WHAT, _SWIFT, _MOST = "CPU time of the worker per operation", "ssbench with Swift", at_most(1.1)


def run(rounds: int) -> Iterator[Figure]:
    """The figures of the row."""
    why_not = target.lacking()
    for verb, profile in (("GET", ours.GET), ("PUT", ours.PUT)):
        if why_not:
            yield not_run(f"{verb}, {_WHAT}", _SWIFT, _MOST, why_not)
            continue
        mine: list[float] = []
        theirs: list[float] = []
        with target.serving() as server:
            for _ in range(rounds):
                for url, store, taken in (
                    (server.dav_url, "webdav", mine),
                    (server.url, "swift", theirs),
                ):
                    load = Load(url, profile, _SIZE, _USERS, _SECONDS, store=store)
                    taken.append(ours.run(load).worker_us)
        yield Figure(f"{verb}, {_WHAT}", "µs", mine, _SWIFT, theirs, _MOST)
