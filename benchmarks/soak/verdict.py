"""Accounts for every operation of a soak, by the stat file and the server's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.store import Answer
from ssbench import statfile
from ssbench.core.model import Phase
from ssbench.core.operations import CREATE, DELETE, READ, UPDATE, row_of
from ssbench.core.records import PhaseRecord, Record, ResultBatch, WorkerRecord
from ssbench.core.stats.run_stats import RunStats

#: What the store is asked with.
METHODS = {
    CREATE: "PUT",
    READ: "GET",
    UPDATE: "PUT",
    DELETE: "DELETE",
}
#: Nobody who is well is silent for so long.
HUNG_S = 60.0


@dataclass
class Accounts:
    """Sums of a run."""

    stats: RunStats
    started_s: float = 0.0  #: of the run phase, wall clock
    #: Transaction id -> method, of every operation that was done in the run.
    done: dict[bytes, str] = field(default_factory=dict)
    others: set[bytes] = field(default_factory=set)  #: of other phases, and of failed operations
    #: Worker id -> when (seconds into the run) its last operation ended.
    last_s: dict[str, float] = field(default_factory=dict)
    without_id: int = 0  #: done, but under an unknown id
    doubled: int = 0  #: ids that two operations have
    not_logged: int = 0  #: done according to the stat file, and not to the server's log
    unreported: int = 0  #: done according to the server's log, and not to the stat file

    @property
    def sent(self) -> int | None:
        return self.stats.run.sent

    @property
    def finished(self) -> int:
        """Completed operations, failed ones included."""
        return self.stats.total().operations

    @property
    def run_seconds(self) -> float:
        return self.stats.run.footer.run_seconds if self.stats.run.footer else 0.0

    @property
    def longest_silence_s(self) -> int:
        """The longest time in seconds without any operation."""
        longest = here = 0
        for count in self.stats.completions():
            here = 0 if count else here + 1
            longest = max(longest, here)
        return longest

    def wrong(self) -> Iterator[str]:
        """A line per inconsistency."""
        run, total = self.stats.run, self.stats.total()
        if not run.complete:
            yield f"the stat file is not complete: {'; '.join(run.damage) or 'no footer'}"
        if self.sent != total.count + total.errors + run.lost:
            yield (
                f"{self.sent} sent, but {total.count} done, {total.errors} failed and"
                f" {run.lost} lost"
            )
        if len(self.done) + self.without_id != total.count:
            yield f"{len(self.done)} results are done, but {total.count} by the report's sum"
        if self.doubled:
            yield f"{self.doubled} transaction ids are of more than one operation"
        if self.without_id:
            yield f"{self.without_id} operations were done without a transaction id"
        if self.not_logged:
            yield f"{self.not_logged} operations were done that the server's log doesn't have"
        most = run.lost + total.errors + total.retries + total.renewals
        if self.unreported > most:
            yield f"the server did {self.unreported} operations that no result has, above {most}"
        if self.longest_silence_s > HUNG_S:
            yield f"no operation for {self.longest_silence_s} s"
        if sum(self.stats.requests_per_worker().values()) != total.operations:
            yield "the sum over the workers is not the sum over the operations"


def accounts(path: Path, answers: Iterable[tuple[bytes, Answer]]) -> Accounts:
    """Read a stat file, and compare it with the requests in the server's log."""
    with statfile.read(str(path)) as reader:
        stats = RunStats()
        found = Accounts(stats)
        for record in reader:
            stats.add(record)
            _add(found, record)
        stats.run.damage += [str(fault) for fault in reader.damage]
    _compare(found, answers)
    return found


def _add(found: Accounts, record: Record) -> None:
    if isinstance(record, PhaseRecord) and record.phase is Phase.RUN:
        found.started_s = record.started_at
    elif isinstance(record, WorkerRecord):
        found.last_s.setdefault(record.worker_id, 0.0)
    elif isinstance(record, ResultBatch):
        names = ("operation", "error", "transaction_id", "start_ns", "last_byte_ns")
        rows = zip(*map(record.column, names), strict=True)
        for operation, error, identifier, start_ns, last_ns in rows:
            identifier = bytes(identifier)
            if record.phase is not Phase.RUN or error:
                found.others.add(identifier)
                continue
            found.without_id += not identifier
            found.doubled += identifier in found.done
            found.done[identifier] = METHODS[row_of(operation)]
            worker = found.stats.run.workers[record.worker].worker_id
            ended_s = (start_ns + max(last_ns, 0)) / 1e9
            found.last_s[worker] = max(found.last_s.get(worker, 0.0), ended_s)


def _compare(found: Accounts, answers: Iterable[tuple[bytes, Answer]]) -> None:
    """Compare in both directions."""
    missing = dict(found.done)
    for identifier, answer in answers:
        method = found.done.get(identifier)
        # A DELETE that was tried again, because the first had no response, finds nothing.
        if method == answer.method and (answer.status < 300 or answer.status == 404):
            missing.pop(identifier, None)
        elif method is None and identifier not in found.others and answer.status < 300:
            found.unreported += answer.method in METHODS.values()
    found.not_logged = len(missing)
