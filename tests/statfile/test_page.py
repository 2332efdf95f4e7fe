"""docs/reference/stat-file.rst is enough to read a stat file with nothing but gzip and msgpack."""

from __future__ import annotations

import csv
import gzip
import io
import re
import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgpack
import pytest
from docutils import nodes
from docutils.core import publish_doctree

from ssbench.cli.master import main
from ssbench.core.columns import RESULT_COLUMNS, pack_results
from ssbench.core.model import ErrorKind, Phase, Result
from ssbench.core.operations import CREATE, DELETE, OPERATIONS, READ, UPDATE
from ssbench.core.records import (
    ClockRecord,
    HostRecord,
    MarkRecord,
    PhaseRecord,
    ResultBatch,
    RunHeader,
    WorkerRecord,
)
from ssbench.core.stats.run_stats import RunStats
from ssbench.statfile import StatFileWriter, read
from ssbench.statfile.format import FORMAT, RECORD_TYPES, RESULTS, RESULTS_1, SCHEMA
from tests.fakes.batches import result_rows
from tests.golden.compare import FOLDER
from tests.ports import held_port
from tests.report import runs

PAGE = Path(__file__).parents[2] / "docs/reference/stat-file.rst"


@cache
def tables() -> dict[str, list[list[str]]]:
    """Title of the section, and head of the first column -> rows of the table."""
    document = publish_doctree(PAGE.read_text(), settings_overrides={"report_level": 5})
    found: dict[str, list[list[str]]] = {}
    for table in document.findall(nodes.table):
        head, *body = (
            [" ".join(entry.astext().split()) for entry in row.findall(nodes.entry)]
            for row in table.findall(nodes.row)
        )
        title = table.parent[0].astext()
        found[f"{title}/{head[0]}"] = body
    return found


def names(table: str) -> dict[int, str]:
    """Number -> word at the beginning of its meaning."""
    return {int(row[0]): row[1].partition(":")[0] for row in tables()[table]}


# What somebody makes of the page ----------------------------------------------------------


CODES = {row[1]: int(row[0]) for row in tables()["Records/code"]}
EMPTY = {"id": b"", "text": "", "ints": ()}
#: Name -> kind, and default, of which those that may not be missing have none.
COLUMNS = {
    name.removesuffix(" *"): (kind, EMPTY[kind] if default == "empty" else int(default or -99))
    for name, kind, default, *_ in tables()["Results/column"]
}
FORMAT_1 = [[name, COLUMNS[name][0]] for name in list(COLUMNS)[:21]]
PHASES, OPERATION_NAMES, ERRORS = (
    names(f"Enumerations/{what}") for what in ("phase", "operation", "error")
)
RESULT_CODES = [int(row[0]) for row in tables()["Records/code"] if row[1] == "results"]
MAGIC = b"\x1f\x8b\x08\x04"  # gzip with an extra field
WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}


def by_the_page(path: Path) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """All records but results; and all results, offsets corrected, with their phase and worker."""
    others, results, shifts = [], [], dict[int, int]()
    schemas: dict[int, list[list[str]]] = {}
    for code, *rest in whole_blocks(path.read_bytes()):
        if code == CODES["schema"]:
            number, schemas_columns = rest
            schemas[number] = schemas_columns
            continue
        if code in RESULT_CODES:
            phase, worker, *number, packed = rest
            schema = schemas[number[0]] if number else FORMAT_1
            shift_ns = shifts.get(worker, 0)
            for row in rows(schema, msgpack.unpackb(packed)):
                row["start_ns"] += shift_ns
                results.append({"phase": phase, "worker": worker, **row})
            continue
        (values,) = rest
        if code == CODES["PhaseRecord"]:
            shifts.clear()
        elif code == CODES["ClockRecord"]:
            shifts[values["worker"]] = values["shift_ns"]
        others.append([code, values])
    return others, results


def whole_blocks(data: bytes) -> Iterator[Any]:
    """The records of each block that is not damaged: its header's length leads to the next one."""
    at = data.find(MAGIC)
    while at >= 0:
        (length,) = struct.unpack_from("<I", data, at + 21)
        try:
            records = list(msgpack.Unpacker(io.BytesIO(gzip.decompress(data[at : at + length]))))
        except (EOFError, OSError, zlib.error, struct.error):
            at = data.find(MAGIC, at + 1)
            continue
        yield from records
        at = data.find(MAGIC, at + length)


def rows(schema: list[list[str]], batch: list[Any]) -> list[dict[str, Any]]:
    count, *packed = batch
    assert len(packed) == len(schema)
    columns = {name: [default] * count for name, (_, default) in COLUMNS.items()}
    for (name, kind), column in zip(schema, packed, strict=True):
        if name in COLUMNS:
            assert COLUMNS[name][0] == kind
            columns[name] = UNPACKED[kind](column, count)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def unpacked(column: Any, count: int) -> list[Any]:
    if isinstance(column, int):
        return [column] * count
    base, kind, data = column
    width = WIDTHS[kind]
    assert len(data) == count * width
    return [
        base + int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)
    ]


def transaction_ids(column: list[Any], count: int) -> list[Any]:
    shape, suffix, data = column
    if shape == "plain":
        return data.split(b"\n")[:count]
    digits = [data[at : at + 16].hex() for at in range(0, 16 * count, 16)]
    if shape == "uuid":
        return [b"tx" + each.encode() for each in digits]
    assert shape == "swift"
    return [f"tx{each[1:22]}-{each[22:]}".encode() + suffix for each in digits]


def texts(column: list[Any], count: int) -> list[Any]:
    if column and isinstance(column[0], list):
        column = [item for part in column for item in part]
    found = [""] * count
    for at, text in zip(column[::2], column[1::2], strict=True):
        found[at] = text
    return found


def lists(column: list[Any], count: int) -> list[Any]:
    lengths = unpacked(column[0], count)
    numbers = iter(unpacked(column[1], sum(lengths)))
    return [tuple(next(numbers) for _ in range(length)) for length in lengths]


UNPACKED = {"int": unpacked, "id": transaction_ids, "text": texts, "ints": lists}


# Against what ssbench itself makes of the file --------------------------------------------


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """A line for each operation."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(COLUMNS))
    writer.writeheader()
    writer.writerows({name: row[name] for name in COLUMNS} for row in rows)
    return text.getvalue()


def agree(path: Path, version: int = FORMAT) -> list[dict[str, Any]]:
    """Assert that the reader of the page finds the operations that ssbench finds."""
    others, results = by_the_page(path)
    with read(path) as reader:
        records = list(reader)
    stats = RunStats.of(records)
    shifts: dict[int, int] = {}
    expected: list[Result] = []
    for record in records:
        if isinstance(record, PhaseRecord):
            shifts.clear()
        elif isinstance(record, ClockRecord):
            shifts[record.worker] = record.shift_ns
        elif isinstance(record, ResultBatch):
            shift_ns = shifts.get(record.worker, 0)
            for row in result_rows(record):
                expected.append(row._replace(start_ns=row.start_ns + shift_ns))
    assert results
    assert as_csv(results) == as_csv(row._asdict() for row in expected)
    for operation in (CREATE, READ, UPDATE, DELETE) if version == FORMAT else ():
        own = [
            row
            for row in results
            if PHASES[row["phase"]] == "RUN" and OPERATION_NAMES[row["operation"]] == operation.name
        ]
        tally = stats.total(operation)
        failed = [row for row in own if ERRORS[row["error"]] != "NONE"]
        assert (tally.count, tally.errors) == (len(own) - len(failed), len(failed))
    header, again = (values for code, values in others if code == CODES["RunHeader"])
    assert header == again
    assert header["format"] == version
    known = Counter(type(record).__name__ for record in records if type(record) is not ResultBatch)
    by_code = {code: name for name, code in CODES.items()}
    assert Counter(by_code[code] for code, _ in others) - Counter({"RunHeader": 1}) == known
    return results


@pytest.mark.parametrize("path", sorted((FOLDER / "format-1").glob("*.stat.gz")), ids=str)
def test_files_of_format_1(path: Path) -> None:
    """Damaged ones and one that is cut off are among them."""
    agree(path, 1)


def test_a_file_of_several_schemas(tmp_path: Path) -> None:
    path = tmp_path / "mixed.stat.gz"
    several = [
        runs.result(
            n,
            READ,
            items=n,
            others=(n, n + 1),
            statuses=(200, 404),
            group=n % 2,
            parts=(2, 1, 0, n, 7) * (n % 2),
            part_id=b"part" * (n % 2),
            version_id=b"v" * (n % 2),
        )
        for n in range(1, 9)
    ]
    kinds = {"colour": "text", **{name: kind for name, (kind, _) in COLUMNS.items()}}
    for name in ("due_ns", "transaction_id", "detail", "status"):
        del kinds[name]
    count, *columns = pack_results(several)
    columns = [int(each) if isinstance(each, int) else each for each in columns]
    by_name = {"colour": [0, "red"], **dict(zip(COLUMNS, columns, strict=True))}
    other = msgpack.packb([count, *(by_name[name] for name in reversed(kinds))])
    with StatFileWriter.create(path) as writer:
        writer.write(runs.header())
        writer.write(PhaseRecord(Phase.RUN, 100.0, 4))
        for turn in range(3):
            writer.write(runs.batch([runs.result(n, READ) for n in range(9 * turn, 9)] or several))
            writer.write(runs.batch(several, worker_index=1))
            if turn != 1:
                writer.append_results(Phase.RUN, 2, tuple(reversed(kinds.items())), other)
            writer.flush()
        writer.write(runs.footer(sent=None))
    whole = agree(path)
    data = path.read_bytes()
    third = [at for at in range(len(data)) if data.startswith(MAGIC, at)][3]
    path.write_bytes(data[: third + 90] + b"\0\0\0" + data[third + 93 :])
    assert 0 < len(agree(path)) < len(whole)


def test_a_file_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run.stat.gz"
    words = ["run-scenario", "-f", "very_small", "--noop", "-o", "300", "--workers", "2", "-R"]
    for name in ("work", "results", "control"):
        words += [f"--zmq-{name}-port", str(held_port())]
    assert main([*words, "-q", "-s", str(path)]) == 0
    results = agree(path)
    assert Counter(PHASES[row["phase"]] for row in results)["RUN"] == 300
    assert {row["size_class"] for row in results} <= {0, 1, 2}


def test_a_file_with_all_that_a_run_can_meet(tmp_path: Path) -> None:
    path = tmp_path / "all.stat.gz"
    numbers = {"bytes_moved": 1 << 40, "due_ns": 7}
    swift = b"tx%021x-%010x"
    shapes: list[list[bytes]] = [
        [b"tx" + b"%032x" % n for n in range(5)],
        [swift % (n << 60, n) + b"-suffix" for n in range(5)],
        [b"plain-%d" % n for n in range(4)] + [b""],
        [b""],
    ]
    records: list[Any] = [
        runs.header(),
        WorkerRecord(0, "w0", "h", 1, 4, "1"),
        PhaseRecord(Phase.RUN, 100.0, 4),
        MarkRecord(5, "stage", 0, 4, 9.5),
        HostRecord(-1, 1.0, {"cpu_percent": 3.5}),
        ClockRecord(0, Phase.RUN, 12_345, 9),
    ]
    for shape, ids in enumerate(shapes):
        rows = [
            runs.result(
                5 * shape + n, READ, transaction_id=id_, retries=n << 10 * shape,
                **(numbers if n else {"due_ns": -1}),
            )
            for n, id_ in enumerate(ids)
        ]  # fmt: skip
        if shape:
            rows.append(runs.failure(99, READ, detail=f"because {shape}"))
        records.append(runs.batch(rows))
        records.append(ClockRecord(0, Phase.RUN, -shape, 9, 5))
    records += [PhaseRecord(Phase.CLEANUP, 101.0, 4), runs.batch(rows), runs.footer(sent=None)]
    with StatFileWriter.create(path) as writer:
        for record in records:
            writer.write(record)
    results = agree(path)
    assert [row["transaction_id"] for row in results if not row["error"]][:16] == [
        id_ for shape in shapes for id_ in shape
    ]
    assert {row["detail"] for row in results} >= {"because 1", "because 3", ""}


# The page against the code ----------------------------------------------------------------


def test_codes_and_columns_are_those_of_the_code() -> None:
    assert {
        **{record.__name__: code for code, record in RECORD_TYPES.items()},
        "schema": SCHEMA,
        "results": RESULTS,
    } == CODES
    assert RESULT_CODES == [RESULTS_1, RESULTS]
    assert list(Result._fields) == list(COLUMNS) == list(RESULT_COLUMNS)
    for name, column in RESULT_COLUMNS.items():
        assert COLUMNS[name][0] == column.kind
        if not column.required:
            batch = ResultBatch(Phase.RUN, 0, 1, (), b"\x91\x01")
            assert list(batch.column(name)) == [COLUMNS[name][1]]


@pytest.mark.parametrize(
    ("found", "rows"),
    [(PHASES, Phase), (OPERATION_NAMES, OPERATIONS.values()), (ERRORS, ErrorKind)],
)
def test_enumerations_are_complete(found: dict[int, str], rows: Iterable[Any]) -> None:
    assert found == {int(each): each.name for each in rows}


@pytest.mark.parametrize("record", RECORD_TYPES.values())
def test_every_field_of_every_record_is_there(record: type[Any]) -> None:
    written = {
        row[0].removesuffix(" *"): row[0].endswith("*")
        for row in tables()[f"{record.__name__}/field"]
    }
    optional = {
        name: number >= len(record.__struct_fields__) - len(record.__struct_defaults__)
        for number, name in enumerate(record.__struct_fields__)
    }
    assert written == {**({"format": False} if record is RunHeader else {}), **optional}


def test_the_widths_are_those_of_the_page() -> None:
    said = re.sub(r"\s+", " ", PAGE.read_text())
    for words in ('of 1 byte where the type is ``"B"``', '4 for ``"I"`` and 8 for ``"Q"``'):
        assert words in said
