"""docs/stat-file.rst is enough to read a stat file with nothing but gzip and msgpack."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any

import msgpack
import pytest
from docutils import nodes
from docutils.core import publish_doctree

from ssbench.cli.master import main
from ssbench.core.model import NONE_NS, RESULT_NUMBERS, ErrorKind, Phase, Result
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
from ssbench.statfile.blocks import FORMAT
from ssbench.statfile.records import _RECORD_TYPES, RESULTS
from tests.ports import held_port
from tests.report import runs

PAGE = Path(__file__).parents[2] / "docs" / "stat-file.rst"


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
COLUMNS = [row[0] for row in tables()["Results/column"]]
PHASES, OPERATION_NAMES, ERRORS = (
    names(f"Enumerations/{what}") for what in ("phase", "operation", "error")
)
WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8}


def by_the_page(path: Path) -> tuple[list[list[Any]], list[dict[str, Any]]]:
    """All records but results; and all results, offsets corrected, with their phase and worker."""
    with gzip.open(path) as file:
        items = list(msgpack.Unpacker(file, raw=False))
    others, results, shifts = [], [], dict[int, int]()
    for code, *rest in items:
        if code == CODES["results"]:
            phase, worker, packed = rest
            shift_ns = shifts.get(worker, 0)
            for row in rows(msgpack.unpackb(packed)):
                row["start_ns"] += shift_ns
                row["due_ns"] += shift_ns if row["due_ns"] != -1 else 0
                results.append({"phase": phase, "worker": worker, **row})
            continue
        (values,) = rest
        if code == CODES["PhaseRecord"]:
            shifts.clear()
        elif code == CODES["ClockRecord"]:
            shifts[values["worker"]] = values["shift_ns"]
        others.append([code, values])
    return others, results


def rows(batch: list[Any]) -> list[dict[str, Any]]:
    count, *packed = batch
    assert len(packed) == len(COLUMNS)
    *numbers, ids, details = packed
    columns = [unpacked(column, count) for column in numbers]
    columns += [transaction_ids(*ids, count), [""] * count]
    for at, text in zip(details[::2], details[1::2], strict=True):
        columns[-1][at] = text
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def unpacked(column: Any, count: int) -> list[Any]:
    if isinstance(column, int):
        return [column] * count
    base, kind, data = column
    width = WIDTHS[kind]
    assert len(data) == count * width
    return [
        base + int.from_bytes(data[at : at + width], "little") for at in range(0, len(data), width)
    ]


def transaction_ids(shape: str, suffix: bytes, data: bytes, count: int) -> list[Any]:
    if shape == "plain":
        return data.split(b"\n")[:count]
    digits = [data[at : at + 16].hex() for at in range(0, 16 * count, 16)]
    if shape == "uuid":
        return [b"tx" + each.encode() for each in digits]
    assert shape == "swift"
    return [f"tx{each[1:22]}-{each[22:]}".encode() + suffix for each in digits]


# Against what ssbench itself makes of the file --------------------------------------------


def agree(path: Path) -> list[dict[str, Any]]:
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
            columns = [record.column(name) for name in Result._fields]
            for row in map(Result._make, zip(*columns, strict=True)):
                due_ns = row.due_ns if row.due_ns == NONE_NS else row.due_ns + shift_ns
                expected.append(row._replace(start_ns=row.start_ns + shift_ns, due_ns=due_ns))
    assert [Result(**{name: row[name] for name in COLUMNS}) for row in results] == expected
    for operation in (CREATE, READ, UPDATE, DELETE):
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
    assert header["format"] == FORMAT
    known = Counter(type(record).__name__ for record in records if type(record) is not ResultBatch)
    by_code = {code: name for name, code in CODES.items()}
    assert Counter(by_code[code] for code, _ in others) - Counter({"RunHeader": 1}) == known
    return results


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
    assert {code: name for name, code in CODES.items()} == {
        **{code: record.__name__ for code, record in _RECORD_TYPES.items()},
        RESULTS: "results",
    }
    assert list(Result._fields[: RESULT_NUMBERS + 2]) == COLUMNS


@pytest.mark.parametrize(
    ("found", "rows"),
    [(PHASES, Phase), (OPERATION_NAMES, OPERATIONS.values()), (ERRORS, ErrorKind)],
)
def test_enumerations_are_whole(found: dict[int, str], rows: Iterable[Any]) -> None:
    assert found == {int(each): each.name for each in rows}


@pytest.mark.parametrize("record", _RECORD_TYPES.values())
def test_every_field_of_every_record_is_there(record: type[Any]) -> None:
    written = {
        row[0].removesuffix(" *"): row[0].endswith("*")
        for row in tables()[f"{record.__name__}/field"]
    }
    optional = {
        field.name: field.default is not MISSING or field.default_factory is not MISSING
        for field in fields(record)
    }
    assert written == {**({"format": False} if record is RunHeader else {}), **optional}


def test_the_widths_are_those_of_the_page() -> None:
    said = re.sub(r"\s+", " ", PAGE.read_text())
    for words in ('of 1 byte where the type is ``"B"``', '4 for ``"I"`` and 8 for ``"Q"``'):
        assert words in said
