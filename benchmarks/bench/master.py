"""CPU time per operation of the master beside its workers', with the default batch size.

4 KiB GETs. At a quarter, one core of the master serves four cores of workers; at a sixth, six.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from benchmarks.bench import ours, target
from benchmarks.bench.figure import Figure, at_most, not_run
from benchmarks.bench.ours import Load

_SIZE, _SECONDS = 4096, 2
_WANTED = at_most(0.25)
_REFERENCE = "its workers"
#: Words -> workers, users.
_CROWDS = {"1 worker of 64 users": (1, 64), "3 workers of 64 users each": (3, 192)}


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    why_not = target.lacking()
    if why_not:
        yield from (not_run(words, _REFERENCE, _WANTED, why_not) for words in _CROWDS)
        return
    masters, workers = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    with target.serving() as server:
        for _ in range(rounds):
            for words, (count, users) in _CROWDS.items():
                load = Load(server.url, ours.GET, _SIZE, users, _SECONDS, workers=count)
                done = ours.run(load)
                masters[words].append(done.master_us)
                workers[words].append(done.worker_us)
    for words in _CROWDS:
        yield Figure(
            f"CPU time of the master per operation, {words}", "µs", masters[words],
            _REFERENCE, workers[words], _WANTED,
        )  # fmt: skip
