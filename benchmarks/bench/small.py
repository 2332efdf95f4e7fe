"""4 KiB GET and PUT, 64 users, one worker: CPU time beside wrk's, rates beside other clients'.

Every result is recorded, with both latencies and its transaction id. Master and worker share one
core; each other client has it to itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from benchmarks.bench import ours, target, wrk
from benchmarks.bench.figure import Bound, Figure, at_least, at_most, not_run
from benchmarks.bench.ours import Load
from benchmarks.bench.peers import run as peers
from benchmarks.nginx import Nginx

_USERS, _SIZE, _SECONDS = 64, 4096, 2
#: Other clients are far from the bounds: fewer rounds suffice.
_PEER_ROUNDS = 3
_NO_NECTAR = "not run: proxy.golang.org doesn't have its module"
_CPU, _RATE = "CPU time of the worker per operation", "operations/s, one core"
_RATES: Mapping[str, Bound] = {
    "swiftclient on gevent": at_least(40),
    "Locust": at_least(8),
}

#: Method -> our profile, and what wrk and the peers are to upload.
_VERBS = {"GET": (ours.GET, None), "PUT": (ours.PUT, _SIZE)}

Samples = defaultdict[str, list[float]]


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    why_not = target.lacking()
    if why_not:
        yield from (not_run(f"{verb}, {_CPU}", "wrk", at_most(2.0), why_not) for verb in _VERBS)
        return
    no_locust = peers.install_locust()
    samples: dict[str, Samples] = {verb: defaultdict(list) for verb in _VERBS}
    with target.serving() as server:
        server.put("peers/object", _SIZE)
        for number in range(rounds):
            for verb, taken in samples.items():
                _measure(server, verb, taken)
                if number < _PEER_ROUNDS:
                    _measure_peers(server, verb, taken, with_locust=not no_locust)
    for verb, taken in samples.items():
        yield from _figures(verb, taken, no_locust)


def _measure(server: Nginx, verb: str, taken: Samples) -> None:
    profile, put_size = _VERBS[verb]
    done = ours.run(Load(server.url, profile, _SIZE, _USERS, _SECONDS))
    taken["worker us"].append(done.worker_us)
    taken["rate"].append(done.per_s)
    url = f"{server.url}/peers/object"
    said = wrk.run(url, connections=_USERS, seconds=_SECONDS, put_size=put_size)
    taken["wrk us"].append(said.us_a_request)
    taken["wrk rate"].append(said.per_s)


def _measure_peers(server: Nginx, verb: str, taken: Samples, *, with_locust: bool) -> None:
    size = _VERBS[verb][1] or 0
    url = f"{server.url}/peers/object"
    said = peers.swiftclient(url, users=_USERS, seconds=_SECONDS, put_size=size)
    taken["swiftclient on gevent"].append(said.per_s)
    if with_locust:
        said = peers.locust(url, users=_USERS, seconds=_SECONDS, put_size=size)
        taken["Locust"].append(said.per_s)


def _figures(verb: str, taken: Mapping[str, Sequence[float]], no_locust: str) -> Iterator[Figure]:
    yield Figure(
        f"{verb}, {_CPU}", "µs", taken["worker us"], "wrk, a request", taken["wrk us"],
        at_most(2.0),
    )  # fmt: skip
    words = f"{verb}, {_RATE}"
    for peer, bound in _RATES.items():
        if peer in taken:
            wrks = median(taken["wrk rate"]) / median(taken[peer])
            yield Figure(
                words, "/s", taken["rate"], peer, taken[peer], bound, note=f"wrk: {wrks:.3g}"
            )
        else:
            yield not_run(words, peer, bound, no_locust, optional=True)
    yield not_run(words, "nectar", at_least(1.0), _NO_NECTAR, optional=True)
