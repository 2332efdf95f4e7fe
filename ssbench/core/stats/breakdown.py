"""A run by worker and by storage URL, and its errors by second: what only a page shows.

Counting it adds up to a quarter to the time of reading a stat file, so it must be asked for.
"""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from msgspec import Struct, field

from ssbench.core.model import SECOND_NS
from ssbench.core.stats.histogram import Histogram
from ssbench.core.stats.results import ResultGroup, exact_sum
from ssbench.core.stats.series import MAX_SECONDS
from ssbench.core.stats.tally import possible_statuses

#: What results are counted by: the column of a row's source.
SOURCES = ("worker", "url")


class SourceTally(Struct):
    """Sums over the results of one worker, or of one storage URL."""

    count: int = 0  #: successes
    errors: int = 0
    bytes_moved: int = 0  #: by successes
    #: Of successes, from start to last byte.
    service: Histogram = field(default_factory=Histogram)


class Breakdown:
    """The results that count of one run, or of several."""

    def __init__(self) -> None:
        #: (column of SOURCES, run id, number of the worker or URL) -> its sums.
        self.sources: defaultdict[tuple[str, str, int], SourceTally] = defaultdict(SourceTally)
        #: (ErrorKind, HTTP status, second of its end from the run's start) -> failures.
        self.errors: Counter[tuple[int, int, int]] = Counter()

    def __repr__(self) -> str:
        return f"<Breakdown of {len(self.sources)} sources>"

    def add(self, group: ResultGroup, run_id: str) -> None:
        """Count the rows of a group that counts."""
        for source in SOURCES:
            numbers = group.column(source)
            for number in np.unique(numbers).tolist():
                tally = self.sources[source, run_id, number]
                rows = numbers == number
                if group.failed:
                    tally.errors += int(np.count_nonzero(rows))
                    continue
                durations_ns = group.column("last_byte_ns")[rows]
                tally.count += len(durations_ns)
                tally.bytes_moved += exact_sum(group.column("bytes_moved")[rows])
                known = durations_ns[durations_ns >= 0]
                if len(known):
                    tally.service.record_many(known)
        if group.failed:
            seconds = group.ends_ns // SECOND_NS
            possible = (seconds >= 0) & (seconds < MAX_SECONDS)
            columns = (group.column("error"), possible_statuses(group), seconds)
            self.errors.update(zip(*(each[possible].tolist() for each in columns), strict=True))
