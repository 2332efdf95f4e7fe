"""Which seconds of a run count, and whether it was steady in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ssbench.core.buckets import Buckets
from ssbench.core.series import SECOND_NS, Second
from ssbench.core.stats import RunStats
from ssbench.core.steady import Finding, check

#: Seconds behind the last completion that are believed to have been silent, and seconds of a run.
#: What a damaged file says beyond must cost neither time nor memory.
LONGEST_SILENCE = 3_600
LONGEST_RUN = 1_000_000


class Noted(NamedTuple):
    """What speaks against quoting an average of a run, or of a stage of it."""

    stage: int | None  #: its index; None where the load had one only
    finding: Finding


def counted(stats: RunStats, stage: int | None = None) -> range:
    """The seconds that count, without warm-up and cool-down; the first and the last are partial.

    Seconds at the end in which nothing completed any more are among them.

    :param stage: only of that stage of the load; None stands for all.
    """
    known = stats.series.span
    begins = [mark.at_ns for mark in stats.run.stages]
    if not begins or not known:
        return known[:LONGEST_RUN]
    first = stage or 0
    after = len(begins) if stage is None else stage + 1
    if first >= len(begins):
        return range(0)
    facts = stats.run.scenario
    low_ns = begins[first] + (facts.warmup_s * SECOND_NS if first == 0 else 0)
    high_ns: float = known.stop * SECOND_NS
    if after < len(begins):
        high_ns = begins[after]
    elif stats.run.end_ns is not None:
        high_ns = stats.run.end_ns - facts.cooldown_s * SECOND_NS
    low, high = int(low_ns // SECOND_NS), -int(-high_ns // SECOND_NS)
    found = range(max(low, known.start), min(high, known.stop + LONGEST_SILENCE))
    return found[:LONGEST_RUN]


def counted_seconds(stats: RunStats, operation: int | None = None) -> list[Second]:
    """What completed in the seconds that count, without a gap.

    :param operation: only of that type; None stands for all.
    """
    wanted = counted(stats)
    found = [each for each in stats.series.seconds(operation) if each.second in wanted]
    in_flight = found[-1].in_flight if found else 0
    silent = wanted[len(found) :]
    return found + [Second(at, 0, 0, 0, in_flight, Buckets(), Buckets()) for at in silent]


def steadiness(stats: RunStats) -> list[Noted]:
    """What speaks against quoting an average; nothing where the run was steady, or did nothing.

    Stages are judged apart: they are meant to differ.
    """
    return list(_noted(stats)) if stats.total().count else []


def _noted(stats: RunStats) -> Iterator[Noted]:
    several = stats.stage_count > 1
    for stage in range(stats.stage_count) if several else (None,):
        seconds = counted(stats, stage)
        counts, moved = stats.series.totals(seconds)
        # 0.3.9 doesn't store the size of what was read.
        found = check(counts, () if stats.run.legacy else moved, zero_s=seconds.start + 1)
        yield from (Noted(stage, finding) for finding in found)
