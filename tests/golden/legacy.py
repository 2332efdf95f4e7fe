"""Files of ssbench 0.3.9 as records, in the few lines that the reports' tests need."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack

from ssbench.core.model import NONE_NS, ErrorKind, Operation, Phase, Result
from ssbench.core.records import PhaseRecord, Record, ResultBatch, RunHeader, WorkerRecord

FOLDER = Path(__file__).parent / "ssbench-0.3.9"
_OPERATIONS = {
    "upload_object": Operation.CREATE,
    "get_object": Operation.READ,
    "update_object": Operation.UPDATE,
    "delete_object": Operation.DELETE,
}


def read(path: Path) -> Iterator[Record]:
    """The records of a whole, undamaged file."""
    with gzip.open(path) as file:
        scenario, *lists = msgpack.Unpacker(file, strict_map_key=False)
    rows = [row for rows in lists for row in rows]
    yield RunHeader(
        run_id="",
        started_at=rows[0]["completed_at"] if rows else 0.0,
        ssbench_version=scenario["version"],
        scenario_given=scenario["_scenario_data"],
        scenario=scenario,
        overrides={},
        seed=0,
        driver="swift",
    )
    workers = sorted({row["worker_id"] for row in rows if "worker_id" in row})
    for index, worker_id in enumerate(workers):
        yield WorkerRecord(index, str(worker_id), "", 0, 0, "0.3.9")
    origin = min(int(row["completed_at"]) for row in rows) - 100 if rows else 0
    yield PhaseRecord(Phase.RUN, float(origin), 0)
    classes = [size["name"] for size in scenario["_scenario_data"]["sizes"]]
    for number, row in enumerate(rows, 1):
        result = _result(number, row, classes, origin)
        worker = workers.index(row["worker_id"]) if "worker_id" in row else -1
        yield ResultBatch(Phase.RUN, worker, [[value] for value in result])


def _result(number: int, row: dict[str, Any], classes: list[str], origin: int) -> Result:
    last = row.get("last_byte_latency")
    completed = row.get("completed_at", origin) - origin
    return Result(
        number=number,
        operation=_OPERATIONS[row["type"]],
        size_class=classes.index(row["size_str"]),
        object=0,
        due_ns=NONE_NS,
        start_ns=round((completed - (last or 0.0)) * 1e9),
        headers_ns=NONE_NS,
        first_byte_ns=_ns(row.get("first_byte_latency")),
        last_byte_ns=_ns(last),
        bytes_moved=0 if "exception" in row else row.get("size", 0),
        retries=row.get("retries", 0),
        not_found_retries=0,
        rate_limited=0,
        reconnects=0,
        renewals=0,
        url=0,
        status=0,
        error=ErrorKind.INTERNAL if "exception" in row else ErrorKind.NONE,
        unknown=0,
        transaction_id=(row.get("trans_id") or "").encode(),
        detail=row.get("exception", ""),
    )


def _ns(seconds: float | None) -> int:
    return NONE_NS if seconds is None else round(seconds * 1e9)
