"""Objects of 8 and 64 MiB, 4 users, one worker: MB/s, CPU time and memory, beside wrk.

A MB is 1,000,000 bytes. Uploads go to files in memory. Downloads come from the page cache by
sendfile; from /dev/shm, nginx itself would be the limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.bench import ours, target, wrk
from benchmarks.bench.figure import Figure, at_least, at_most, below, not_run
from benchmarks.bench.ours import Load
from benchmarks.nginx import Nginx

_USERS, _SECONDS, _MIB = 4, 2, 2**20
_RATE, _CPU = "MB/s, one core", "CPU time of the worker per MB"
_MEMORY, _MEMORY_LIMIT_MB = "peak memory of the worker", 100

#: Method -> our profile, whether its files are on a disk, the lowest ratio of rates.
_VERBS = {"GET": (ours.GET, True, 1.2), "PUT": (ours.PUT, False, 0.9)}


class _Size(NamedTuple):
    mib: int
    rounds: int  #: at most


_SIZES = (_Size(8, 5), _Size(64, 3))
#: One, as for wrk: with more, nginx and our socket buffers would use more memory than wrk's.
_OBJECTS = 1
_KINDS = [(size, verb) for size in _SIZES for verb in _VERBS]

Samples = defaultdict[str, list[float]]


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    why_not = target.lacking()
    if why_not:
        for size, verb in _KINDS:
            yield not_run(_words(size, verb, _RATE), "wrk", at_least(_VERBS[verb][2]), why_not)
            yield not_run(_words(size, verb, _CPU), "wrk", at_most(1.0), why_not)
        return
    for size, verb in _KINDS:
        taken: Samples = defaultdict(list)
        # A server for each kind, to bound the space that objects take.
        with target.serving(page_cache=_VERBS[verb][1]) as server:
            server.put("peers/object", size.mib * _MIB)
            for _ in range(min(rounds, size.rounds)):
                _measure(server, size, verb, taken)
        yield from _figures(size, verb, taken)


def _measure(server: Nginx, size: _Size, verb: str, taken: Samples) -> None:
    octets = size.mib * _MIB
    load = Load(server.url, _VERBS[verb][0], octets, _USERS, _SECONDS, _OBJECTS)
    done = ours.run(load)
    taken["rate"].append(done.per_s * octets / 1e6)
    taken["us"].append(done.worker_us / octets * 1e6)
    taken["memory"].append(done.worker_mb)
    said = wrk.run(
        f"{server.url}/peers/object", connections=_USERS, seconds=_SECONDS,
        put_size=octets if verb == "PUT" else None,
    )  # fmt: skip
    taken["wrk rate"].append(said.per_s * octets / 1e6)
    taken["wrk us"].append(said.us_a_request / octets * 1e6)


def _figures(size: _Size, verb: str, taken: Mapping[str, Sequence[float]]) -> Iterator[Figure]:
    yield Figure(
        _words(size, verb, _RATE), "MB/s", taken["rate"], "wrk", taken["wrk rate"],
        at_least(_VERBS[verb][2]),
    )  # fmt: skip
    yield Figure(_words(size, verb, _CPU), "µs", taken["us"], "wrk", taken["wrk us"], at_most(1.0))
    yield below(_words(size, verb, _MEMORY), "MB", taken["memory"], _MEMORY_LIMIT_MB)


def _words(size: _Size, verb: str, what: str) -> str:
    return f"{size.mib} MiB {verb}, {what}"
