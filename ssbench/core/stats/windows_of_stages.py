"""What counts of each stage of a load: all but warm-ups and the cool-down.

Times are nanoseconds from the run phase's start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from ssbench.core.records import MarkRecord
from ssbench.core.stats.scenario_view import ScenarioView

SECOND_NS = 1_000_000_000
NEVER_NS = 1 << 63


class Span(NamedTuple):
    """A stretch of time; where nothing of a stage counts, low and high are the same."""

    low_ns: int
    high_ns: int  #: NEVER_NS where the end isn't known

    @property
    def seconds(self) -> float | None:
        """How long it is; None where nobody knows."""
        return None if self.high_ns == NEVER_NS else (self.high_ns - self.low_ns) / SECOND_NS


def planned_end_ns(begin_ns: int, view: ScenarioView) -> int:
    """When a load that begins then is to end; NEVER_NS where its operations end it."""
    seconds = view.run_seconds
    if seconds is None or not 0 <= seconds < NEVER_NS / SECOND_NS:
        return NEVER_NS
    return begin_ns + round(seconds * SECOND_NS)


def load_end_ns(marks: Sequence[MarkRecord], view: ScenarioView) -> int | None:
    """When a load ended: at its first ``end`` mark, and not after its time was over.

    :param marks: of one run.
    :return: as an offset from the run phase's start; None without an ``end`` mark.
    """
    marked_ns = next((mark.at_ns for mark in marks if mark.name == "end"), None)
    begin_ns = next((mark.at_ns for mark in marks if mark.name == "stage"), None)
    if marked_ns is None or begin_ns is None:
        return marked_ns
    return min(marked_ns, planned_end_ns(begin_ns, view))


def counts_from_ns(stage: int, begin_ns: int, first_ns: int, view: ScenarioView) -> int:
    """Where the warm-ups of a stage are over: its own, and the run's, which may reach into it.

    :param begin_ns: when the stage began; ``first_ns``: when the first one did.
    """
    own_ns = begin_ns + round(view.stage_warmup_s(stage) * SECOND_NS)
    return max(own_ns, first_ns + round(view.warmup_s * SECOND_NS))


def counts_until_ns(end_ns: int | None, view: ScenarioView) -> int:
    """Where the cool-down begins.

    :param end_ns: when the load ended; None: not known, and NEVER_NS is the answer.
    """
    return NEVER_NS if end_ns is None else end_ns - round(view.cooldown_s * SECOND_NS)


def spans(begins_ns: Sequence[int], end_ns: int | None, view: ScenarioView) -> list[Span]:
    """What counts of each stage.

    :param begins_ns: of each stage.
    :param end_ns: when the load ended; None where that isn't known.
    """
    last_ns = counts_until_ns(end_ns, view)
    found = []
    for stage, (begin_ns, after_ns) in enumerate(pairwise([*begins_ns, last_ns])):
        low_ns = counts_from_ns(stage, begin_ns, begins_ns[0], view)
        found.append(Span(low_ns, max(low_ns, min(after_ns, last_ns))))
    return found


def joined(parts: Sequence[Span]) -> list[Span]:
    """The stretches of time that they make up; those without length are gone."""
    found: list[Span] = []
    for part in parts:
        if part.low_ns == part.high_ns:
            continue
        if found and found[-1].high_ns == part.low_ns:
            part = Span(found.pop().low_ns, part.high_ns)
        found.append(part)
    return found


def gaps_ns(parts: Sequence[Span], low_ns: int, high_ns: int) -> int:
    """How much of this time lies between them."""
    return sum(
        max(0, min(after, high_ns) - max(before, low_ns)) for before, after in _gaps(joined(parts))
    )


def _gaps(parts: Sequence[Span]) -> Iterator[tuple[int, int]]:
    for one, other in pairwise(parts):
        yield one.high_ns, other.low_ns
