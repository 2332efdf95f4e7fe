"""CPU time of an operation with many users, workers and objects.

Each figure is an absolute cost beside a reference of the same rounds: wrk with as many connections,
or, without a store, a fixed piece of Python work. The bounds are 15 % above the costs recorded in
docs/explanation/performance.rst for commit 7a4cfad. (A ratio of many to few would get worse if the
small case became cheaper.)
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

from benchmarks.bench import ours, simulated, target, wrk
from benchmarks.bench.cores import CLIENT, pinned
from benchmarks.bench.figure import Figure, at_most, not_run
from benchmarks.bench.ours import Load
from benchmarks.bench.simulated import Setup

_USERS, _SIZE, _SECONDS, _WRK_SECONDS = 2000, 4096, 1.5, 1
_USER_BOUNDS = {"worker": at_most(2.0), "master": at_most(0.3)}
#: Hosts without a store, and the bounds of worker and master.
_HOSTS = {
    "64 workers of 64 users": (Setup(64, 64 * 64, 1000), at_most(7.0), at_most(4.3)),
    "10,000,000 objects": (Setup(1, 1024, 10_000_000), at_most(5.3), at_most(5.0)),
}
#: Rounds without a store: creating 10 million objects takes a quarter of a minute.
_MAX_ROUNDS = 3
_PYTHON = "a step of a Python loop"
_STEPS, _PASSES = 10_000, 20

Samples = defaultdict[str, list[float]]


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    yield from _users(rounds)
    for words, (setup, *bounds) in _HOSTS.items():
        taken: Samples = defaultdict(list)
        for _ in range(min(rounds, _MAX_ROUNDS)):
            cost = simulated.run(setup)
            taken["worker"].append(cost.worker_us)
            taken["master"].append(cost.master_us)
            taken["python"].append(python_step_us())
        for who, bound in zip(("worker", "master"), bounds, strict=True):
            what = f"{words}, no-op, {who}"
            yield Figure(what, "µs", taken[who], _PYTHON, taken["python"], bound)


def _users(rounds: int) -> Iterator[Figure]:
    """One worker with many users, against a store."""
    words = f"{_USERS:,} users, GET, {{}}"
    why_not = target.lacking()
    if why_not:
        for who, bound in _USER_BOUNDS.items():
            yield not_run(words.format(who), "wrk", bound, why_not)
        return
    taken: Samples = defaultdict(list)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # nginx and wrk inherit it
    with target.serving() as server:
        server.put("peers/object", _SIZE)
        for _ in range(rounds):
            done = ours.run(Load(server.url, ours.GET, _SIZE, _USERS, _SECONDS))
            taken["worker"].append(done.worker_us)
            taken["master"].append(done.master_us)
            url = f"{server.url}/peers/object"
            said = wrk.run(url, connections=_USERS, seconds=_WRK_SECONDS)
            taken["wrk"].append(said.us_a_request)
    for who, bound in _USER_BOUNDS.items():
        yield Figure(words.format(who), "µs", taken[who], "wrk, a request", taken["wrk"], bound)


def python_step_us() -> float:
    """CPU time in µs of one step of a fixed Python loop on the client's core (median of 20)."""
    with pinned(CLIENT):
        return median(_pass_s() for _ in range(_PASSES)) / _STEPS * 1e6


def _pass_s() -> float:
    began = time.thread_time()
    found = {}
    for number in range(_STEPS):
        name = f"object {number:08d}"
        found[name] = (number, len(name), number * 3 % 7)
    assert sum(entry[2] for entry in found.values()) > 0
    return time.thread_time() - began
