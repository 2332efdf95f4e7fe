"""Runs to write and read back, for the tests of this folder."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any

import msgpack

from ssbench.core.columns import pack_results
from ssbench.core.model import NONE_NS, Phase, Result
from ssbench.core.operations import READ
from ssbench.core.records import (
    EventRecord,
    HostRecord,
    PhaseRecord,
    ProfileRecord,
    Record,
    ResultBatch,
    RunFooter,
    RunHeader,
    WorkerRecord,
)
from ssbench.statfile import StatFileWriter
from tests.report import runs

OLD = Path(__file__).parent.parent / "golden" / "ssbench-0.3.9"

HEADER = RunHeader(
    run_id="r1",
    started_at=1.7e9,
    ssbench_version="1.0.0",
    scenario_given={"name": "small", "sizes": [{"name": "tiny"}]},
    scenario={"name": "small", "user_count": 4},
    overrides={"user_count": 4},
    seed=7,
    driver="noop",
    hosts={"hostname": "one", "load_average": [0.5, 0.25, 0.125]},
    versions={"python": "3.11"},
)
WORKER = WorkerRecord(0, "w-0", "one", 42, 64, "1.0.0")
PHASE = PhaseRecord(Phase.RUN, 1.7e9 + 1, 4)
HOST = HostRecord(-1, 2.0, {"cpu": 0.5})
PROFILE = ProfileRecord(0, {"main (a.py:1);run (b.py:2)": 12_000_000}, 2, 50_000)
FOOTER = RunFooter(
    ended_at=1.7e9 + 9,
    ended="complete",
    reason="",
    run_seconds=8.0,
    skipped={"DELETE": 2},
    workers_lost=("w-1",),
    warnings=("slow",),
)


def result(number: int, operation: Any = READ, **changed: Any) -> Result:
    times = {"start_ns": number * 1000, "headers_ns": 900, "first_byte_ns": 950}
    identifier = b"tx%021x-%010x" % (number, 1_700_000_000)
    plain = {**times, "last_byte_ns": 1000, "bytes_moved": 4096, "transaction_id": identifier}
    return runs.result(number, operation, **{**plain, **changed})


def busy_rows(count: int) -> list[Result]:
    """As a cluster would give them: random latencies, Swift's transaction ids."""
    rng = random.Random(1)
    rows, start_ns = [], 0
    for number in range(1, count + 1):
        start_ns += int(rng.expovariate(1 / 20000))
        operation = rng.choices((0, 1, 2, 3), (10, 75, 10, 5))[0]
        last = int(rng.lognormvariate(16.2, 0.5))
        rows.append(
            result(
                number,
                operation=operation,
                size_class=rng.randrange(3),
                object=rng.randrange(10000),
                start_ns=start_ns,
                headers_ns=int(last * rng.random()),
                first_byte_ns=int(last * rng.random()) if operation == 1 else NONE_NS,
                last_byte_ns=last,
                bytes_moved=rng.randrange(4096, 8192) if operation < 3 else 0,
                status=(201, 200, 201, 204)[operation],
                transaction_id=b"tx%021x-%010x" % (rng.getrandbits(84), 1_700_000_000),
            )
        )
    return rows


def batch(rows: list[Result]) -> ResultBatch:
    return ResultBatch.of_rows(Phase.RUN, 0, rows)


def packed(rows: list[Result]) -> bytes:
    data: bytes = msgpack.packb(pack_results(rows))
    return data


RECORDS: list[Record] = [
    HEADER,
    WORKER,
    PHASE,
    batch([result(1), result(2, error=1, status=503, detail="no room")]),
    HOST,
    batch([result(3)]),
    PROFILE,
    EventRecord(1_700_000_000.5, "node 3 down", "alice"),
    FOOTER,
]


def write_run(path: Path, records: list[Record] = RECORDS) -> bytes:
    """A file with every record in a block of its own; gives its bytes."""
    with StatFileWriter.create(path, overwrite=True) as writer:
        for record in records:
            writer.write(record)
            writer.flush()
    return path.read_bytes()


def write_at_once(path: Path, records: list[Record]) -> bytes:
    """A file with the records in as few blocks as a run's."""
    with StatFileWriter.create(path, overwrite=True) as writer:
        for record in records:
            writer.write(record)
    return path.read_bytes()


def old_result(**changed: Any) -> dict[str, Any]:
    """A result as ssbench 0.3.9 wrote it; a field that is given as ... is left out."""
    fields: dict[str, Any] = {
        "retries": 0,
        "container": "ssbench_000000_default_policy",
        "name": "zero_000012",
        "size_str": "zero",
        "size": 10,
        "type": "upload_object",
        "first_byte_latency": None,
        "last_byte_latency": 0.25,
        "completed_at": 1000.5,
        "worker_id": 1,
        "trans_id": "tx1",
    } | changed
    return {key: value for key, value in fields.items() if value is not ...}


def old_scenario() -> dict[str, Any]:
    """The scenario of the sample files."""
    with gzip.open(OLD / "real.stat.gz") as file:
        scenario: dict[str, Any] = next(iter(msgpack.Unpacker(file)))
    return scenario


def write_old(path: Path, results: list[Any], scenario: Any = None) -> bytes:
    """A file of 0.3.9 with these results."""
    with gzip.open(path, "wb") as file:
        file.write(msgpack.packb(scenario or old_scenario(), use_bin_type=False))
        for item in results:
            file.write(msgpack.packb([item], use_bin_type=False))
    return path.read_bytes()
