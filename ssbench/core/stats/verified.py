"""What --verify found in a run, warm-up and cool-down included."""

from __future__ import annotations

from ssbench.core.model import ErrorKind
from ssbench.core.operations import Body, row_of
from ssbench.core.stats.batches import Part
from ssbench.core.stats.tally import ErrorExample

VERIFIED = ("reads", "bytes_read", "corrupt", "stale")  #: the sums of a Verified
_COLUMNS = ("error", "start_ns", "last_byte_ns", "detail", "transaction_id")


class Verified:
    """Sums over the operations of runs that were verified; merges in any order."""

    def __init__(self) -> None:
        self.reads = 0  #: whose body was checked, whatever came of it
        self.bytes_read = 0
        self.corrupt = 0  #: READs, and uploads whose ETag was wrong
        self.stale = 0
        self.example: ErrorExample | None = None  #: the earliest that was corrupt

    def __repr__(self) -> str:
        return f"<Verified {self.reads} READs, {self.corrupt} corrupt, {self.stale} stale>"

    def add(self, part: Part, origin_ns: int) -> None:
        """Count some rows; offsets count from ``origin_ns`` of the wall clock."""
        operation, _size_class = part.group
        moved = part.column("bytes_moved")
        if not part.failed:
            if row_of(operation).body is Body.RECEIVED:
                self._add_reads(len(moved), sum(moved))
            return
        kinds = part.column("error")
        self.corrupt += kinds.count(ErrorKind.CORRUPT)
        self.stale += kinds.count(ErrorKind.STALE)
        checked = (ErrorKind.CORRUPT, ErrorKind.STALE)
        if row_of(operation).body is Body.RECEIVED:
            sizes = [size for size, kind in zip(moved, kinds, strict=True) if kind in checked]
            self._add_reads(len(sizes), sum(sizes))
        for kind, start, last, detail, identifier in zip(*map(part.column, _COLUMNS), strict=True):
            if kind == ErrorKind.CORRUPT:
                at_ns = origin_ns + start + max(0, last)
                self._keep(ErrorExample(at_ns, operation, detail, identifier))

    def merge(self, other: Verified) -> None:
        """Add ``other``, which stays as it is."""
        self._add_reads(other.reads, other.bytes_read)
        self.corrupt += other.corrupt
        self.stale += other.stale
        if other.example:
            self._keep(other.example)

    def _add_reads(self, count: int, size: int) -> None:
        self.reads += count
        self.bytes_read += size

    def _keep(self, example: ErrorExample) -> None:
        self.example = min(self.example or example, example)
