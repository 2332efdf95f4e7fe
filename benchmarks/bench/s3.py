"""S3, one worker: 4 KiB beside our own Swift's CPU time, 8 MiB over TLS beside wrk's MB/s.

Every request is signed. nginx checks no signature; tests/storage/s3/test_driver.py has botocore
recompute those of captured requests, and the real servers of tests/contract check them. Large
bodies are unsigned (--s3-payload unsigned), as SDKs send them over TLS.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import ours, target, wrk
from benchmarks.bench.figure import Figure, at_least, at_most, not_run
from benchmarks.bench.ours import Load

_SECONDS = 2
_SMALL_USERS, _SMALL = 64, 4096
_BIG_USERS, _BIG = 4, 8 * 2**20
_CPU, _SWIFT, _MOST = "CPU time of the worker per operation", "ssbench with Swift", at_most(1.35)
_RATE, _WRK, _LEAST = "8 MiB over TLS, MB/s, one core", "wrk over TLS", at_least(1.0)
_VERBS = {"GET": ours.GET, "PUT": ours.PUT}


def run(rounds: int) -> Iterator[Figure]:
    """The figures of the row."""
    why_not = target.lacking()
    for verb in _VERBS:
        if why_not:
            yield not_run(f"{verb}, {_CPU}", _SWIFT, _MOST, why_not)
            yield not_run(f"{verb}, {_RATE}", _WRK, _LEAST, why_not)
        else:
            yield _small(verb, rounds)
            yield _big(verb, rounds)


def _small(verb: str, rounds: int) -> Figure:
    mine: list[float] = []
    theirs: list[float] = []
    with target.serving() as server:
        for _ in range(rounds):
            for url, store, taken in ((server.s3_url, "s3", mine), (server.url, "swift", theirs)):
                load = Load(url, _VERBS[verb], _SMALL, _SMALL_USERS, _SECONDS, store=store)
                taken.append(ours.run(load).worker_us)
    return Figure(f"{verb}, {_CPU}", "µs", mine, _SWIFT, theirs, _MOST)


def _big(verb: str, rounds: int) -> Figure:
    mine, theirs = [], []
    with target.serving(page_cache=verb == "GET") as server:
        server.put("peers/object", _BIG)
        load = Load(
            server.s3_tls_url, _VERBS[verb], _BIG, _BIG_USERS, _SECONDS, objects=1, store="s3",
            options=["--os-cacert", server.authority, "--s3-payload", "unsigned"],
        )  # fmt: skip
        for _ in range(rounds):
            mine.append(ours.run(load).per_s * _BIG / 1e6)
            said = wrk.run(
                f"{server.tls_url}/peers/object", connections=_BIG_USERS, seconds=_SECONDS,
                put_size=_BIG if verb == "PUT" else None,
            )  # fmt: skip
            theirs.append(said.per_s * _BIG / 1e6)
    return Figure(f"{verb}, {_RATE}", "MB/s", mine, _WRK, theirs, _LEAST)
