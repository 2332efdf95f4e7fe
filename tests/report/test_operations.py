"""The files by operation: their columns, names, times and order."""

from __future__ import annotations

import csv
import io
import json
import zlib
from typing import Any

import msgpack
import pytest
from msgspec.structs import replace

from ssbench.core.model import NONE_NS, UNCERTAIN_NS, ErrorKind, Phase, Result
from ssbench.core.operations import OPERATIONS, READ, UPDATE, Operation
from ssbench.core.records import (
    AddressRecord,
    ClockRecord,
    MarkRecord,
    PhaseRecord,
    Record,
    ResultBatch,
    RunHeader,
    WorkerRecord,
)
from ssbench.report.operations import (
    ALL_COLUMNS,
    READ_COLUMNS,
    WRITE_COLUMNS,
    operation_json,
    operation_rows,
    over_time_rows,
    write_parquet,
)
from tests.report import runs

START_S = 1_700_000_000
START_NS = START_S * 10**9
SECOND = 10**9
SCENARIO = {
    "name": "bench get",
    "sizes": [{"name": "bench", "size_min": 1, "size_max": 1}],
    "initial_files": {"bench": 10},
    "container_base": "c",
    "container_count": 2,
}
HEADER = RunHeader(
    "0123456789", START_S, "1.0.0", {}, SCENARIO, {}, 1, "swift",
    names={"kind": "numbered", "prefix": "x-"},
)  # fmt: skip
RUN = PhaseRecord(Phase.RUN, START_S, 4)


def result(
    number: int, start_ns: int, took_ns: int, operation: Operation = READ, **more: Any
) -> Result:
    times = {"start_ns": start_ns, "headers_ns": took_ns // 2, "last_byte_ns": took_ns}
    values = {**times, "first_byte_ns": NONE_NS, "bytes_moved": 7, "transaction_id": b"tx1", **more}
    return runs.result(number, operation, **values)


def batch(*rows: Result, worker: int = 0, phase: Phase = Phase.RUN) -> ResultBatch:
    return ResultBatch.of_rows(phase, worker, rows)


def lines(records: list[Record], *columns: str) -> list[str]:
    return "".join(operation_rows(records, columns or ALL_COLUMNS)).splitlines()


def test_each_operation_has_a_line_with_its_completion_and_name() -> None:
    records = [HEADER, RUN, batch(result(0, 5, 10), result(3, 20, 30, headers_ns=UNCERTAIN_NS))]
    assert lines(records, *READ_COLUMNS) == [
        "completion_time_unix_nano,object_name,transaction_id,status,headers_elapsed_nanoseconds,"
        "elapsed_nanoseconds",
        f"{START_NS + 15},c0/x-0,tx1,200,5,10",
        f"{START_NS + 50},c1/x-3,tx1,200,,30",
    ]
    assert lines(records, *WRITE_COLUMNS)[1] == f"{START_NS + 15},c0/x-0,tx1,200,10"


def parquet_of(records: list[Record]) -> Any:
    import pyarrow  # has a thread of its own, which processes of tests must not be forked beside
    from pyarrow import parquet

    file = io.BytesIO()
    write_parquet(records, file)
    return parquet.read_table(pyarrow.BufferReader(file.getvalue()))


def test_json_lines_and_parquet_have_the_values_of_the_csv() -> None:
    rows = [result(0, 5, 10), result(3, 20, 30, headers_ns=UNCERTAIN_NS, error=ErrorKind.STATUS)]
    records = [HEADER, RUN, batch(rows[0]), batch(rows[1])]
    found = [json.loads(line) for line in "".join(operation_json(records)).splitlines()]
    assert found == parquet_of(records).to_pylist()
    assert [tuple(row) for row in found] == [ALL_COLUMNS] * 2
    as_csv = list(csv.DictReader(lines(records)))
    assert as_csv == [
        {
            key: "" if value is None else str(value).lower() if value is True else str(value)
            for key, value in row.items()
        }
        for row in found
    ]
    assert [row["error"] for row in found] == [None, "status"]
    assert [row["headers_elapsed_nanoseconds"] for row in found] == [5, None]


def test_a_row_says_where_and_when_an_operation_began_and_whether_it_counts() -> None:
    """Warm-up and cool-down are in no figure of a report."""
    timed = {**SCENARIO, "run_seconds": 10, "warmup": 2, "cooldown": 3}
    header = replace(HEADER, scenario=timed, store={"urls": ["http://a", "http://b"]})
    rows = [result(0, at * SECOND, 10, url=at % 2, address=at % 2) for at in (1, 2, 6, 7)]
    mark = MarkRecord(0, "stage", 0, 4)
    worker = WorkerRecord(7, "w-7", "host", 1, 4, "1.0.0")
    records = [
        header, RUN, worker, mark, AddressRecord(7, Phase.RUN, ("192.0.2.1:80",)),
        batch(*rows, worker=7), MarkRecord(10 * SECOND, "end"),
    ]  # fmt: skip
    ends_ns = {header.run_id: 10 * SECOND}
    found = [json.loads(line) for line in "".join(operation_json(records, ends_ns)).splitlines()]
    assert [row["counted"] for row in found] == [False, True, True, False]
    assert {(row["size_class"], row["worker"]) for row in found} == {("bench", "w-7")}
    assert [(row["endpoint"], row["address"]) for row in found] == [
        ("http://b", "192.0.2.1:80"), ("http://a", None), ("http://a", None),
        ("http://b", "192.0.2.1:80"),
    ]  # fmt: skip
    assert found[1]["start_time_unix_nano"] == START_NS + 2 * SECOND
    assert found[1]["due_time_unix_nano"] is None


def test_parquet_is_written_in_row_groups() -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [result(0, n, 10) for n in range(40_000)]
    file = io.BytesIO()
    write_parquet([HEADER, RUN, batch(*rows), batch(*rows)], file)
    found = parquet.ParquetFile(pyarrow.BufferReader(file.getvalue())).metadata
    sizes = [found.row_group(n).num_rows for n in range(found.num_row_groups)]
    assert sizes == [65_536, 80_000 - 65_536]


def test_numbers_beyond_64_bits_are_null_in_parquet() -> None:
    record = batch(result(0, 5, 10))
    packed = msgpack.unpackb(record.packed)
    at = 1 + record.names.index("bytes_moved")
    packed[at] = [1 << 62, "Q", b"\xff" * 8]
    damaged = replace(record, packed=msgpack.packb(packed))
    assert parquet_of([HEADER, RUN, damaged]).column("bytes").to_pylist() == [None]


def test_the_clock_of_a_worker_is_corrected() -> None:
    shift = ClockRecord(1, Phase.RUN, 1000, 10)
    records = [HEADER, RUN, shift, batch(result(0, 5, 10), worker=1), batch(result(1, 5, 10))]
    assert [line.split(",")[0] for line in lines(records)[1:]] == [
        str(START_NS + 1015), str(START_NS + 15),
    ]  # fmt: skip


def test_what_a_damaged_header_does_not_tell_is_empty() -> None:
    strange = replace(HEADER, names={"kind": "of a later release"})
    for records in ([RUN, batch(result(1, 0, 1))], [strange, RUN, batch(result(1, 0, 1))]):
        assert lines(records)[1].split(",")[2] == ""


@pytest.mark.parametrize(
    "names",
    [
        {"kind": "listed", "containers": [], "names": ["x"]},
        {"kind": "listed", "containers": ["c"], "names": []},
        {"kind": "listed", "containers": ["c"], "names": None},
        {"kind": "listed", "containers": ["c"], "packed_names": b"damaged"},
        {"kind": "listed", "containers": ["c"], "packed_names": zlib.compress(b"\xff")},
        {"kind": "listed", "containers": 7, "names": ["x"]},
        {"kind": "numbered", "prefix": "x"},
    ],
)
def test_damaged_names_are_empty(names: dict[str, object]) -> None:
    (list_row,) = (row for row in OPERATIONS.values() if row.name == "LIST")
    damaged = replace(HEADER, names=names, scenario={**SCENARIO, "container_count": -1})
    rows = batch(result(1, 0, 1), result(99, 0, 1, list_row))
    assert [line.split(",")[2] for line in lines([damaged, RUN, rows])[1:]] == ["", ""]


def test_operations_of_the_old_program_have_no_container() -> None:
    legacy = replace(HEADER, run_id="", ssbench_version="0.3.9", names={})
    assert lines([legacy, RUN, batch(result(1, 0, 1, UPDATE))])[1].split(",")[1:3] == [
        "UPDATE", "bench_000001",
    ]  # fmt: skip


def test_a_malformed_batch_costs_its_own_lines_only() -> None:
    broken = ResultBatch(Phase.RUN, 0, 3, ("number",), b"\x91\x01")
    assert len(lines([HEADER, RUN, broken, batch(result(1, 0, 1))])) == 2


def over_time(records: list[Record], *methods: str) -> list[str]:
    return "".join(over_time_rows(records, methods)).splitlines()


def test_minutes_begin_with_the_load_and_the_last_ends_with_it() -> None:
    begin, end = MarkRecord(SECOND, "stage", 0, 4), MarkRecord(131 * SECOND, "end", 0, 4)
    rows = [result(n, at * SECOND, SECOND) for n, at in enumerate((1, 59, 61, 62, 121))]
    failed = result(9, 62 * SECOND, 1, error=ErrorKind.STATUS)
    assert over_time([HEADER, RUN, begin, batch(*rows, failed), end]) == [
        "time_unix_nano,count_since_last_time",
        f"{START_NS + SECOND},0",
        f"{START_NS + 61 * SECOND},2",
        f"{START_NS + 121 * SECOND},2",
        f"{START_NS + 131 * SECOND},1",
    ]


def test_a_damaged_time_adds_no_millions_of_lines() -> None:
    begin, end = MarkRecord(0, "stage", 0, 4), MarkRecord(1 << 62, "end", 0, 4)
    times = over_time([HEADER, RUN, begin, batch(result(1, 0, 1), result(2, 1 << 61, 1)), end])
    assert len(times) == 2 + 1_000_000 // 60 + 1
    assert times[2].endswith(",1")
    assert times[-1] == f"{START_NS + 1_000_000 * SECOND},1"
