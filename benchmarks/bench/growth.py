"""Processor time of an operation as users, workers and objects become many.

A sample is what it costs with many over what it costs with few, of the same round: ours beside
wrk's from 8 to 2,000 users, and beside no growth at all where wrk has nothing of the kind.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Iterator

from benchmarks.bench import crowd, ours, target, wrk
from benchmarks.bench.crowd import Host
from benchmarks.bench.figure import Figure, at_most, not_run
from benchmarks.bench.ours import Load
from benchmarks.nginx import Nginx

_WITHIN = at_most(1.15)
_SIZE, _SECONDS, _WRK_SECONDS = 4096, 1.5, 1
#: With 8, batches are small, and what costs by the batch costs most: the middle is where an
#: operation is cheapest, so growth is looked for from there as well.
_FEW_USERS, _MANY_USERS = (8, 64), 2000
#: A worker has as many users, whether it is alone or not: with fewer, batches would be smaller.
_FEW_WORKERS, _MANY_WORKERS = Host(1, 64, 1000), Host(64, 64 * 64, 1000)
_FEW_OBJECTS, _MANY_OBJECTS = Host(1, 1024, 1000), Host(1, 1024, 10_000_000)
#: Rounds that crowds get at most: 10 million objects take a quarter of a minute to make.
_MOST_ROUNDS = 3

Samples = defaultdict[str, list[float]]


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    yield from _users(rounds)
    rounds = min(rounds, _MOST_ROUNDS)
    yield from _crowds("1 to 64 workers of 64 users", _FEW_WORKERS, _MANY_WORKERS, rounds)
    yield from _crowds("1,000 to 10,000,000 objects", _FEW_OBJECTS, _MANY_OBJECTS, rounds)


def _users(rounds: int) -> Iterator[Figure]:
    """One worker with few users and with many, against a store."""
    words = "{} to 2,000 users, GET, {}"
    sides = [(few, who) for few in _FEW_USERS for who in ("worker", "master")]
    why_not = target.lacking()
    if why_not:
        yield from (not_run(words.format(*side), "wrk", _WITHIN, why_not) for side in sides)
        return
    taken: Samples = defaultdict(list)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # for nginx and wrk, which inherit it
    with target.serving() as server:
        server.put("peers/object", _SIZE)
        for _ in range(rounds):
            _measure_users(server, taken)
    for few, who in sides:
        grown, wrks = taken[f"{who} {few}"], taken[f"wrk {few}"]
        yield Figure(words.format(few, who), "times", grown, "wrk", wrks, _WITHIN)


def _measure_users(server: Nginx, taken: Samples) -> None:
    many = _cost(server, _MANY_USERS)
    for users in _FEW_USERS:
        for who, few_us in _cost(server, users).items():
            taken[f"{who} {users}"].append(many[who] / few_us)


def _cost(server: Nginx, users: int) -> dict[str, float]:
    """µs an operation, by who had them."""
    done = ours.run(Load(server.url, ours.GET, _SIZE, users, _SECONDS))
    said = wrk.run(f"{server.url}/peers/object", connections=users, seconds=_WRK_SECONDS)
    return {"worker": done.worker_us, "master": done.master_us, "wrk": said.us_a_request}


def _crowds(words: str, few: Host, many: Host, rounds: int) -> Iterator[Figure]:
    """From one host to another, without a store."""
    worker, master = [], []
    for _ in range(rounds):
        little, much = crowd.run(few), crowd.run(many)
        worker.append(much.worker_us / little.worker_us)
        master.append(much.master_us / little.master_us)
    for who, grown in (("workers", worker), ("master", master)):
        yield Figure(f"{words}, no-op, {who}", "times", grown, "no growth", [1.0], _WITHIN)
