"""What it costs to watch a run: on a terminal of 160x50, and on an open page of ``--web``.

4 KiB GETs of 64 users, without a store and with nginx; master and worker on one core, the viewers
on the other. Runs with and without viewers alternate; each figure is the median of the ratios of
the pairs, as the machine's speed drifts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from benchmarks.bench import ours, target
from benchmarks.bench.figure import Figure, at_least, at_most, not_run
from benchmarks.bench.ours import Load, Ours

_USERS, _SIZE, _SECONDS = 64, 4096, 4
_PAIRS = 2  #: a round
_NOWHERE = "http://127.0.0.1:9/v1/AUTH_test"
_CPU, _RATE = "CPU time of master and worker per operation", "operations/s"
_WANTED = {_CPU: at_most(1.02), _RATE: at_least(0.98)}
_REFERENCE = "not watched"


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    no_op = Load(_NOWHERE, ours.GET, _SIZE, _USERS, _SECONDS, options=["--noop"])
    yield from _figures("no-op", no_op, rounds)
    why_not = target.lacking()
    if why_not:
        yield from (
            not_run(f"nginx, {what}", _REFERENCE, _WANTED[what], why_not) for what in _WANTED
        )
        return
    with target.serving() as server:
        yield from _figures("nginx", replace(no_op, url=server.url, options=()), rounds)


def _figures(store: str, load: Load, rounds: int) -> Iterator[Figure]:
    plain: list[Ours] = []
    watched: list[Ours] = []
    for number in range(_PAIRS * rounds):
        turns = [(load, plain), (replace(load, watched=True), watched)]
        for each, taken in turns if number % 2 else reversed(turns):
            taken.append(ours.run(each))
    for what, figure in ((_CPU, _cpu_us), (_RATE, lambda done: done.per_s)):
        with_us, without_us = [figure(done) for done in watched], [figure(done) for done in plain]
        ratios = [one / other for one, other in zip(with_us, without_us, strict=True)]
        note = f"{median(with_us):,.4g} and {median(without_us):,.4g}"
        yield Figure(
            f"{store}, {what}", "times", ratios, _REFERENCE, [1.0], _WANTED[what], note=note
        )


def _cpu_us(done: Ours) -> float:
    return done.master_us + done.worker_us
