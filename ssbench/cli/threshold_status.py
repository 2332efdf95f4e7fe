"""``--threshold``: read before the run, held against the scenario, judged at the end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ssbench.core.errors import ExitStatus, UsageError

if TYPE_CHECKING:
    from ssbench.core.stats.run_stats import RunStats
    from ssbench.core.stats.scenario_view import ScenarioView
    from ssbench.core.stats.thresholds import Threshold


def thresholds_from(ns: argparse.Namespace) -> tuple[Threshold, ...]:
    """Each once, in the order given.

    :raises UsageError: a line for each that is malformed.
    """
    if not ns.thresholds:
        return ()
    from ssbench.core.stats.thresholds import Threshold  # few runs promise anything

    found, faults = [], []
    for text in dict.fromkeys(ns.thresholds):
        try:
            found.append(Threshold.parse(text))
        except UsageError as error:
            faults.append(str(error))
    _raise(faults)
    return tuple(found)


def check(
    thresholds: Sequence[Threshold], scenario: ScenarioView, *, open_loop: bool | None = None
) -> None:
    """See that a run of the scenario can have what they speak of.

    :param open_loop: whether its operations fall due at a time; None where that isn't known.
    :raises UsageError: a line for each of which it can't.
    """
    faults = []
    for threshold in thresholds:
        try:
            threshold.check(scenario, open_loop=open_loop)
        except UsageError as error:
            faults.append(str(error))
    _raise(faults)


def _raise(faults: Sequence[str]) -> None:
    if faults:
        raise UsageError("\n".join(faults))


def reasons(stats: RunStats, thresholds: Sequence[Threshold]) -> dict[ExitStatus, str]:
    """THRESHOLD_MISSED, and which were, where the run missed any."""
    missed = [str(each) for each in thresholds if not each.judge(stats).passed]
    return {ExitStatus.THRESHOLD_MISSED: f"missed {'; '.join(missed)}"} if missed else {}
