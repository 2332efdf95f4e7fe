"""Whether an average of the run may be quoted, in words and as rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ssbench.core.stats.counted_seconds import Noted, steadiness
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.stats.steady import (
    Drifted,
    Stalled,
    SteadinessFinding,
    TooShort,
    TwoLevels,
    Unsteady,
)
from ssbench.core.text import plural

#: Kind of finding -> its name for programs.
NAMES: dict[type[SteadinessFinding], str] = {
    TooShort: "too_short",
    Stalled: "stalled",
    Drifted: "drifted",
    TwoLevels: "two_levels",
    Unsteady: "unsteady",
}

_MOST_LINES = 2


def steady_lines(stats: RunStats) -> list[str]:
    """What speaks against it, two lines at most; nothing where the run was steady."""
    noted = steadiness(stats)
    if stats.run.legacy:
        # Its reports say no more than 0.3.9 did, unless there is something to warn of.
        noted = [each for each in noted if not isinstance(each.finding, TooShort)]
    lines = list(_lines(noted))
    left = len(lines) - _MOST_LINES
    if left > 0:
        lines[_MOST_LINES:] = [f"({plural(left, 'finding')} more of the kind: --json has all)"]
    return lines


def _lines(noted: list[Noted]) -> Iterator[str]:
    """A line for each sentence, with the stages that it is true of."""
    stages: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for stage, finding in noted:
        word = "Note" if isinstance(finding, TooShort) else "Warning"
        stages[word, finding.sentence()] += [] if stage is None else [stage + 1]
    for (word, sentence), those in stages.items():
        of = f"Stage{'s' if len(those) > 1 else ''} {', '.join(map(str, those))}: " if those else ""
        yield f"{word}: {of}{sentence}"


def steady_rows(stats: RunStats) -> list[dict[str, Any]]:
    """The findings, with their figures and their sentences."""
    return [
        {
            "finding": NAMES[type(finding)],
            "stage": None if stage is None else stage + 1,
            **asdict(finding),
            "sentence": finding.sentence(),
        }
        for stage, finding in steadiness(stats)
    ]
