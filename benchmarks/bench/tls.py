"""4 KiB GET over TLS, 64 users, one worker, kept connections: CPU time beside wrk's.

ssbench verifies the certificate and wrk doesn't; with 64 handshakes per run it makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import ours, target, wrk
from benchmarks.bench.figure import Figure, at_most, not_run
from benchmarks.bench.ours import Load

_USERS, _SIZE, _SECONDS = 64, 4096, 2
_WORDS, _REFERENCE = "GET, CPU time of the worker per operation", "wrk over TLS, a request"
_WANTED = at_most(2.5)


def run(rounds: int) -> Iterator[Figure]:
    """The one figure of the row."""
    why_not = target.lacking()
    if why_not:
        yield not_run(_WORDS, _REFERENCE, _WANTED, why_not)
        return
    mine, theirs = [], []
    with target.serving() as server:
        server.put("peers/object", _SIZE)
        trusting = ["--os-cacert", server.authority]
        load = Load(server.tls_url, ours.GET, _SIZE, _USERS, _SECONDS, options=trusting)
        url = f"{server.tls_url}/peers/object"
        for _ in range(rounds):
            mine.append(ours.run(load).worker_us)
            theirs.append(wrk.run(url, connections=_USERS, seconds=_SECONDS).us_a_request)
    yield Figure(_WORDS, "µs", mine, _REFERENCE, theirs, _WANTED)
