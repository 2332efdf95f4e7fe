"""A run by worker and by storage URL, and its errors by second: what only a page shows.

Counting it adds up to a quarter to the time of reading a stat file, so it must be asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from msgspec import field

from ssbench.core.model import SECOND_NS
from ssbench.core.stats.budget import OTHERS, Budget
from ssbench.core.stats.histogram import Histogram
from ssbench.core.stats.results import ResultGroup
from ssbench.core.stats.series import MAX_SECONDS
from ssbench.core.stats.tally import Counts, possible_statuses
from ssbench.core.stats.windows import LEFT_OUT, Windows

#: What results are counted by: the column of a row's source.
SOURCES = ("worker", "url")


class SourceTally(Counts):
    """Counts of one worker, or of one storage URL."""

    #: Of successes, from start to last byte.
    service: Histogram = field(default_factory=Histogram)


class Breakdown:
    """The results of one run, or of several; of those that do not count only the shares in the
    windows of the rates."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        #: (column of SOURCES, run id, number of the worker or URL) -> its sums.
        self.sources: defaultdict[tuple[str, str, int], SourceTally] = defaultdict(SourceTally)
        #: (ErrorKind, HTTP status, second of its end from the run's start) -> failures.
        self.errors: Counter[tuple[int, int, int]] = Counter()

    def __repr__(self) -> str:
        return f"<Breakdown of {len(self.sources)} sources>"

    def add(self, group: ResultGroup, run_id: str, windows: Windows, origin_ns: int) -> None:
        """Count results that are all failures or all successes, and all count or do not.

        :param origin_ns: wall clock; offsets count from it.
        """
        for source in SOURCES:
            numbers = group.column(source)
            own = np.unique(numbers)
            fits = [self._budget.fits("sources", (source, run_id, each)) for each in own.tolist()]
            numbers = np.where(np.isin(numbers, own[fits]), numbers, OTHERS)
            order = np.argsort(numbers, kind="stable")
            for rows in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
                part, key = group.part(rows), (source, run_id, int(numbers[rows[0]]))
                if not group.failed:
                    for _stage, sums in windows.shares(part):
                        self.sources[key].add_shares(*sums)
                if group.stage == LEFT_OUT:
                    continue
                tally = self.sources[key]
                tally.add(part, origin_ns)
                durations_ns = part.column("last_byte_ns")
                known = durations_ns[durations_ns >= 0]
                if len(known) and not group.failed:
                    tally.service.record_many(known)
        if group.failed and group.stage != LEFT_OUT:
            seconds = group.ends_ns // SECOND_NS
            possible = (seconds >= 0) & (seconds < min(MAX_SECONDS, self._budget.seconds))
            columns = (group.column("error"), possible_statuses(group), seconds)
            self.errors.update(zip(*(each[possible].tolist() for each in columns), strict=True))
