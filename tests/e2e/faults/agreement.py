"""What a run says it did, held against the log that the server kept of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ssbench import statfile
from ssbench.core.operations import CREATE, DELETE, ENSURE, READ, REMOVE, UPDATE, row_of
from ssbench.core.records import ResultBatch
from ssbench.core.stats.run_stats import RunStats
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Request, requests, stats_of

#: Only what the store was asked last is in a result; ENSURE asks with HEAD before it puts.
METHODS = {
    CREATE: {"PUT"},
    READ: {"GET"},
    UPDATE: {"PUT"},
    DELETE: {"DELETE"},
    ENSURE: {"HEAD", "PUT"},
    REMOVE: {"DELETE"},
}
#: Of a warning in the stat file: what was given up on, in whatever phase.
GIVEN_UP = re.compile(r"(?<=lost with it: )\d+|\b\d+(?= operations? did not end)")
#: Of the warning of operations that may have run twice.
DOUBTFUL = re.compile(r"\b(\d+) operations? may have run in addition to those counted")
_REPEATS = ("retries", "not_found_retries", "reconnects", "renewals")


class Done(NamedTuple):
    """The columns of a result that the log knows of."""

    number: int
    operation: int
    size_class: int
    object: int
    status: int
    error: int
    transaction_id: bytes
    repeats: int  #: requests besides the last one


@dataclass
class Agreement:
    """Of a run and a log that don't contradict each other."""

    done: int = 0  #: results whose request is in the log
    #: In the log, but in no result, and no failed attempt that a result tells of.
    others: list[Request] = field(default_factory=list)

    def of_worker(self, worker_id: str) -> list[Request]:
        """Those of the others that this worker sent: its id is a part of the transaction's."""
        return [request for request in self.others if worker_id in request.transaction]


def agrees_with_log(
    swift: EmbeddedSwift, base: str, stat_file: Path, *, damaged: bool = False
) -> Agreement:
    """Make sure that each operation was done once, and is accounted for as the server knows it.

    Each result's transaction is in the log, with its method and status; no transaction and no
    number is in two results, no object is created twice; and what the log has besides is at most
    what was lost, a first attempt that was repeated, or one that the run says may have run twice.

    :param base: the run's container_base, which no other run may share.
    :param damaged: the file was cut off: what isn't in it can't be held against the log.
    """
    stats = stats_of(stat_file, damaged=damaged)
    results = list(results_of(stat_file))
    _done_once(results)
    log = _by_transaction(swift, base)
    known: list[Request] = []
    repeated: Counter[tuple[str, str, str]] = Counter()
    for result in results:
        if result.transaction_id:
            known.append(_logged(result, log.pop(result.transaction_id.decode(), [])))
            repeated[_what(known[-1])] += result.repeats
        else:
            assert result.error or not result.status, f"done, but by no transaction: {result}"
    others = [r for lines in log.values() for r in lines if r.method != "HEAD"]
    if not damaged:
        repeats = sum(result.repeats for result in results)
        without = sum(not result.transaction_id for result in results)
        again = Counter(map(_what, others)) & Counter(map(_what, known))
        most = lost_in_all(stats) + repeats + without + min(told_in(stats, DOUBTFUL), again.total())
        assert len(others) <= most, (
            f"{len(others)} requests of which no result tells, but only {most} operations that"
            f" were lost or repeated: {others[:5]}"
        )
    return Agreement(len(known), [*_unexplained(others, repeated)])


def _unexplained(
    others: list[Request], repeated: Counter[tuple[str, str, str]]
) -> Iterator[Request]:
    """Those but the attempts that a busy store refused (503, say) and that were repeated."""
    for request in others:
        if request.status >= 499 and repeated[_what(request)] > 0:
            repeated[_what(request)] -= 1
        else:
            yield request


def lost_in_all(stats: RunStats) -> int:
    """Operations that were given up on, those of populating and cleaning up included."""
    return max(told_in(stats, GIVEN_UP), stats.run.lost)


def told_in(stats: RunStats, words: re.Pattern[str]) -> int:
    """The sum of the numbers in such warnings."""
    return sum(int(count) for text in stats.run.warnings for count in words.findall(text))


def results_of(path: Path) -> Iterator[Done]:
    """Of all phases."""
    names = [name for name in Done._fields if name != "repeats"]
    with statfile.read(str(path)) as reader:
        for record in reader:
            if isinstance(record, ResultBatch):
                repeats = map(sum, zip(*map(record.column, _REPEATS), strict=True))
                columns: list[Any] = [*map(record.column, names), repeats]
                yield from map(Done._make, zip(*columns, strict=True))


def _done_once(results: list[Done]) -> None:
    for what, values in (
        ("job number", [r.number for r in results]),
        ("transaction", [r.transaction_id for r in results if r.transaction_id]),
        ("created object", [(r.size_class, r.object) for r in results
                            if r.operation == CREATE]),
    ):  # fmt: skip
        twice = [value for value, count in Counter(values).items() if count > 1]
        assert not twice, f"{what} in more than one result: {twice[:5]}"


def _by_transaction(swift: EmbeddedSwift, base: str) -> dict[str, list[Request]]:
    """The log, as far as it is about objects. A line is written before its answer goes out."""
    log: dict[str, list[Request]] = {}
    for request in requests(swift, base):
        if request.object:
            log.setdefault(request.transaction, []).append(request)
    return log


def _what(request: Request) -> tuple[str, str, str]:
    """What is the same when an operation runs a second time."""
    return request.method, request.container, request.object


def _logged(result: Done, lines: list[Request]) -> Request:
    """The request of a result."""
    assert len(lines) == 1, f"{len(lines)} requests in the log for {result}"
    (request,) = lines
    methods = METHODS[row_of(result.operation)]
    assert request.method in methods, f"{request} {result}"
    assert request.status == result.status, f"{request} {result}"
    return request
