"""Large stat files, as a run against a Swift leaves them, made in a fraction of its time.

A unit of operations is drawn and packed once, as a worker packs it, and written over and over with
later numbers, later times and fresh transaction ids, so that nothing of it compresses better than
a run's own would.
"""

from __future__ import annotations

import heapq
import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from ssbench.core.columns import RESULT_SCHEMAS, pack_results
from ssbench.core.model import NONE_NS, Phase, Result
from ssbench.core.records import MarkRecord, PhaseRecord, RunFooter, RunHeader, WorkerRecord
from ssbench.core.scenario.scenario import Scenario
from ssbench.statfile import StatFileWriter

_UNIT = 100_000  #: operations that are drawn
_STARTED = 1_700_000_000
_SIZES = (4096, 65536, 1 << 20)
_SCENARIO = {
    "name": "large file",
    "sizes": [
        {"name": f"of {size}", "size_min": size, "size_max": size, "crud_profile": [1, 6, 2, 1]}
        for size in _SIZES
    ],
    "initial_files": {f"of {size}": 100 for size in _SIZES},
    "user_count": 64,
}
_STATUS = (201, 200, 201, 204)
_SECOND = 10**9
#: Where a packed batch has what has to be another one each time.
_NUMBER, _DUE, _START = (
    1 + Result._fields.index(name) for name in ("number", "due_ns", "start_ns")
)
_IDS = -2


@dataclass(frozen=True, slots=True)
class Shape:
    """What is in a file."""

    operations: int
    rows: int = 32  #: of a batch
    rate: float | None = None  #: operations a second that fall due; None: a closed loop
    cooldown_s: float = 0.0


def write(path: Path, shape: Shape) -> None:
    """A file of that shape, of 64 users and two workers."""
    rows = _drawn(shape.rate)
    span_ns = max(row.start_ns for row in rows)
    batches = [pack_results(rows[at : at + shape.rows]) for at in range(0, _UNIT, shape.rows)]
    scenario = Scenario.resolve(_text(shape), "large file")
    units = -(-shape.operations // _UNIT)
    end_ns = units * span_ns
    with StatFileWriter.create(path) as writer:
        writer.write(
            RunHeader(
                "0123456789", _STARTED, "1.0", scenario.given, scenario.to_dict(), {}, 1, "swift"
            )
        )
        for worker in range(2):
            writer.write(WorkerRecord(worker, f"worker-{worker}", "here", 1, 32, "1.0"))
        writer.write(PhaseRecord(Phase.RUN, _STARTED, 64))
        writer.write(MarkRecord(0, "stage", users=64, rate=shape.rate))
        for unit in range(units):
            for at, batch in enumerate(_later(batches, unit, span_ns)):
                writer.append_results(Phase.RUN, at % 2, RESULT_SCHEMAS[0], msgpack.packb(batch))
            writer.tick(unit * span_ns / _SECOND)
        writer.write(MarkRecord(end_ns, "end", users=64))
        sent = units * _UNIT
        seconds = end_ns / _SECOND
        writer.write(RunFooter(_STARTED + seconds, "complete", "", seconds, sent=sent))


def _text(shape: Shape) -> str:
    return json.dumps(
        {**_SCENARIO, "operation_count": shape.operations, "cooldown": shape.cooldown_s}
    )


def _drawn(rate: float | None) -> list[Result]:
    """A unit of operations in the order in which they end: 64 users, some 3.5 ms each."""
    rng = random.Random(1)
    free = [rng.randrange(10**6) for _ in range(64)]
    heapq.heapify(free)
    due_ns, rows = NONE_NS, []
    for number in range(1, _UNIT + 1):
        start_ns = heapq.heappop(free) + int(rng.expovariate(1 / 15_000))
        if rate:
            due_ns += int(rng.expovariate(rate) * _SECOND)
            start_ns = max(start_ns, due_ns + int(rng.expovariate(1 / 40_000)))
        row = _row(rng, number, due_ns, start_ns)
        rows.append(row)
        heapq.heappush(free, start_ns + row.last_byte_ns)
    return sorted(rows, key=lambda row: row.start_ns + row.last_byte_ns)


def _row(rng: random.Random, number: int, due_ns: int, start_ns: int) -> Result:
    operation = rng.choices(range(4), (10, 60, 20, 10))[0]
    size_class = rng.choices(range(3), (60, 30, 10))[0]
    size = _SIZES[size_class]
    headers_ns = int(rng.lognormvariate(14.9, 0.5))
    first_ns = headers_ns + int(rng.expovariate(1 / 20_000)) if operation == 1 else NONE_NS
    last_ns = max(headers_ns, first_ns) + int(rng.expovariate(1 / 30_000))
    failed = rng.random() < 0.0005
    return Result(
        number, operation, size_class, rng.randrange(100_000), due_ns, start_ns,
        headers_ns, first_ns, last_ns + (size // 3 if operation == 1 else 0),
        0 if operation == 3 else size, 0, 0, 0, 0, 0, 0,
        503 if failed else _STATUS[operation], int(failed), 0,
        b"tx%021x-%010x" % (rng.getrandbits(84), _STARTED), "no room" if failed else "",
    )  # fmt: skip


def _later(batches: Sequence[list[Any]], unit: int, span_ns: int) -> Iterator[list[Any]]:
    """The same, so many units later."""
    later_ns = unit * span_ns
    when = (_STARTED + later_ns // _SECOND).to_bytes(5, "big")
    for batch in batches:
        count: int = batch[0]
        new = list(batch)
        new[_NUMBER] = _raised(batch[_NUMBER], unit * _UNIT)
        new[_START] = _raised(batch[_START], later_ns)
        if batch[_DUE] != NONE_NS:
            new[_DUE] = _raised(batch[_DUE], later_ns)
        noise = os.urandom(11 * count)
        # As columns.pack_ids has them: a digit is 0, 21 are random, 10 tell the time.
        ids = [b"\0" + noise[at + 1 : at + 11] + when for at in range(0, 11 * count, 11)]
        new[_IDS] = [*batch[_IDS][:2], b"".join(ids)]
        yield new


def _raised(column: Any, by: int) -> Any:
    return column + by if isinstance(column, int) else [column[0] + by, *column[1:]]
