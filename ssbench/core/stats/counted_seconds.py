"""Which seconds of a run count, and whether it was steady in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ssbench.core.stats.histogram import Buckets
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.series import SECOND_NS, Second
from ssbench.core.stats.steady import SteadinessFinding, check
from ssbench.core.stats.windows import joined

#: Seconds behind the last completion that are believed to have been silent, and seconds of a run.
#: What a damaged file says beyond must cost neither time nor memory.
LONGEST_SILENCE = 3_600
LONGEST_RUN = 1_000_000


class Noted(NamedTuple):
    """What speaks against quoting an average of a run, or of a stage of it."""

    stage: int | None  #: its index; None where the load had one only
    finding: SteadinessFinding


def counted(stats: RunStats, stage: int | None = None) -> list[range]:
    """The seconds that count, without warm-ups and cool-down: stretches of neighbours, of each of
    which the first and the last are partial.

    Seconds at the end in which nothing completed any more are among them.

    :param stage: only of that stage of the load; None stands for all.
    """
    known, spans = stats.series.span, stats.run.spans
    if not spans or not known:
        return [known[:LONGEST_RUN]] if known else []
    last = min(known.stop + LONGEST_SILENCE, known.start + LONGEST_RUN)
    if stats.run.end_ns is None:
        last = min(last, known.stop)
    found = []
    for low_ns, high_ns in joined(spans if stage is None else spans[stage : stage + 1]):
        low, high = low_ns // SECOND_NS, -(-high_ns // SECOND_NS)
        found.append(range(max(low, known.start), min(high, last)))
    return [each for each in found if each]


def whole(seconds: Sequence[range]) -> list[int]:
    """Without the partial ones."""
    return [second for stretch in seconds for second in stretch[1:-1]]


def whole_seconds(stats: RunStats, operation: int | None = None) -> list[Second]:
    """What completed in the whole seconds that count, as if there were no gaps between stages.

    :param operation: only of that type; None stands for all.
    """
    known = list(stats.series.seconds(operation))
    in_flight = known[-1].in_flight if known else 0
    nothing = Buckets.merged([])
    silent = Second(0, 0, 0, 0, in_flight, nothing, nothing)  # behind the last completion
    found = {each.second: each for each in known}
    return [found.get(at) or replace(silent, second=at) for at in whole(counted(stats))]


def steadiness(stats: RunStats) -> list[Noted]:
    """What speaks against quoting an average; nothing where the run was steady, or did nothing.

    Stages are judged apart: they are meant to differ.
    """
    return list(_noted(stats)) if stats.total().count else []


def _noted(stats: RunStats) -> Iterator[Noted]:
    several = stats.stage_count > 1
    for stage in range(stats.stage_count) if several else (None,):
        # At most one stretch, as all that is left out of a stage is at its ends.
        for seconds in counted(stats, stage):
            counts, moved = stats.series.totals(seconds)
            # 0.3.9 doesn't store the size of what was read.
            no_bytes = stats.run.legacy or stats.run.no_store
            found = check(counts, () if no_bytes else moved, zero_s=seconds.start + 1)
            yield from (Noted(stage, finding) for finding in found)
