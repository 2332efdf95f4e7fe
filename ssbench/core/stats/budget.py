"""What the statistics of a file keep: in proportion to what was read of it.

A file from elsewhere can name a million operations, size classes, stages or workers in a few bytes,
each of which would cost memory, time, and a row of a report. Files of runs stay below the limits,
or lose only details: what exceeds them is counted together, as OTHERS, where that is possible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable

OTHERS = -1  #: in place of the number of an operation, size class, cause of errors, worker or URL
OTHERS_NAME = "all others"

#: Bytes that statistics take at most beside those in proportion to the file; the numbers below are
#: for so many.
MEMORY = 200_000_000
_FREE, _BYTES_OF_ROW = 2000, 2048  #: rows of a table, whatever was read; bytes that allow one more
_FREE_SECONDS, _BYTES_OF_SECOND = 10_000, 64
_FREE_WORK = 500_000  #: steps, whatever was read; each byte allows one more
#: Records, or parts of the statistics -> how many there may be, in relation to rows of a table.
_SHARES = {
    "groups": 0.4,
    "causes of errors": 1.0,
    "sources": 1.0,
    "operations over time": 0.025,
    "stages": 0.25,
    "changes of the number of users": 10.0,
    "workers": 10.0,
    "addresses": 1.0,
    "clocks of workers": 10.0,
    "hosts": 1.0,
    "profiles": 0.5,
    "starts of phases": 0.1,
    "records between results": 0.5,
    "marks": 1.0,
}


class Budget:
    """Counts what is kept, and what is left out.

    :param bytes_read: of the file, so far; None: nothing is limited, as in statistics of a run of
        this process.
    :param memory: bytes for what does not depend on the file's size.
    """

    def __init__(self, bytes_read: Callable[[], int] | None = None, memory: int = MEMORY) -> None:
        self._bytes_read = bytes_read
        self._scale = memory / MEMORY
        self._kept: defaultdict[str, set[Hashable]] = defaultdict(set)
        self._more: Counter[str] = Counter()
        self._work = 0

    def __repr__(self) -> str:
        return f"<Budget {sum(map(len, self._kept.values()))} kept>"

    def fits(self, what: str, key: Hashable) -> bool:
        """Whether there is room for this, once for each key.

        :param what: a key of _SHARES.
        """
        kept = self._kept[what]
        if key in kept:
            return True
        if self._bytes_read is not None:
            rows = _FREE * self._scale + self._bytes_read() // _BYTES_OF_ROW
            most = rows * _SHARES[what]
            if len(kept) >= most:
                return False
        kept.add(key)
        return True

    def keeps(self, what: str, key: Hashable) -> bool:
        """As ``fits``; False is counted, for ``left_out``."""
        fits = self.fits(what, key)
        self._more[what] += not fits
        return fits

    def works(self, steps: int) -> bool:
        """Whether there is time for this many steps of a microsecond, which are then spent."""
        if self._bytes_read is None:
            return True
        self._work += steps
        return self._work <= _FREE_WORK * self._scale + self._bytes_read()

    @property
    def seconds(self) -> float:
        """Seconds that a time series may have."""
        if self._bytes_read is None:
            return float("inf")
        return _FREE_SECONDS * self._scale + self._bytes_read() // _BYTES_OF_SECOND

    @property
    def left_out(self) -> list[str]:
        """A line on each kind of record that was left out. Results never are."""
        return [
            f"{count:,} {what} were left out; --max-report-memory raises the limit"
            for what, count in sorted((+self._more).items())
        ]
