from __future__ import annotations

import gzip
import io
import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.columns import MAX_ROWS, RESULT_SCHEMAS
from ssbench.core.errors import StatFileError
from ssbench.core.model import Phase
from ssbench.core.records import ResultBatch, RunFooter
from ssbench.statfile import StatFileWriter, read
from ssbench.statfile.format import FORMAT, BlockBuilder, Source, encode_record, read_blocks
from tests.fakes.mutations import fuzz
from tests.statfile.samples import (
    FOOTER,
    HEADER,
    OLD,
    PHASE,
    RECORDS,
    WORKER,
    batch,
    old_result,
    result,
    write_old,
    write_run,
)
from tests.statfile.test_blocks import resealed

NO_FOOTER = "there is no footer: the run was cut off, or is still going on"


@pytest.fixture(scope="module")
def run_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_run(tmp_path_factory.mktemp("run") / "run.stat.gz")


def read_bytes(data: bytes) -> tuple[list[object], list[str], bool]:
    with read(io.BytesIO(data)) as run:
        records = list(run)
        return records, run.damage, run.complete


def read_or_refuse(data: bytes) -> tuple[list[object], list[str], bool] | None:
    """None where the file is refused, in one line."""
    try:
        return read_bytes(data)
    except StatFileError as error:
        refused = str(error)
    assert "\n" not in refused
    return None


def test_a_file_cut_off_anywhere_gives_the_blocks_before(run_bytes: bytes) -> None:
    """Cut at any byte, a file gives a beginning of its records and is incomplete, or is refused."""
    most = 0
    for end in range(len(run_bytes)):
        found = read_or_refuse(run_bytes[:end])
        if found is None:
            assert not most, "only what has no block at all is refused"
            continue
        records, damage, complete = found
        assert records == RECORDS[: len(records)]
        assert most <= len(records) < len(RECORDS)
        assert damage[-1] == NO_FOOTER
        assert not complete
        most = len(records)
    assert most == len(RECORDS) - 1


@fuzz
@given(data=st.data())
def test_damage_costs_the_blocks_that_it_touches(run_bytes: bytes, data: st.DataObject) -> None:
    """A bit is flipped, or bytes are put in or cut out: no record of another block is lost, and the
    file is said to be damaged."""
    at = data.draw(st.integers(0, len(run_bytes) - 1))
    junk, cut = b"", 0
    kind = data.draw(st.sampled_from(["flip", "put in", "cut out"]))
    if kind == "flip":
        junk, cut = bytes([run_bytes[at] ^ 1 << data.draw(st.integers(0, 7))]), 1
    elif kind == "put in":
        junk = data.draw(st.binary(min_size=1, max_size=60))
    else:
        cut = data.draw(st.integers(1, 60))  # blocks are longer
    spoilt = run_bytes[:at] + junk + run_bytes[at + cut :]
    records, damage, complete = read_bytes(spoilt)
    assert len(records) >= len(RECORDS) - (2 if kind == "cut out" else 1)
    assert [record for record in RECORDS if record in records] == records
    assert records[0] == HEADER or kind == "cut out", "it stands twice"
    assert complete == (not damage)
    assert damage or records == RECORDS, "only in the bits that fill up a byte"


@settings(max_examples=200)
@given(st.lists(st.integers(0, len(RECORDS) + 3), max_size=12))
def test_blocks_swapped_and_repeated(run_bytes: bytes, order: list[int]) -> None:
    """Each block counts once at most, in the order of the file, and the damage is told."""
    starts = [found.offset for found in read_blocks(Source(io.BytesIO(run_bytes)), print)]
    blocks = [run_bytes[a:b] for a, b in pairwise([*starts, len(run_bytes)])]
    found = read_or_refuse(b"".join(blocks[number % len(blocks)] for number in order))
    assert (found is None) == (not order)
    if found is not None:
        records, damage, complete = found
        assert [record for record in RECORDS if record in records] == records
        assert complete == (not damage)
        assert not complete or records == RECORDS


def test_other_files_are_reported_by_name(tmp_path: Path) -> None:
    path = tmp_path / "thesis"
    for content, word in (
        (b"", "empty"),
        (b"once upon a time", "no stat file"),
        (b"\x81\xa1a\x01", "it is msgpack, but no stat file"),
        (b"\x92\x01\x02", "nothing of a run is in it"),
        (gzip.compress(b"once upon a time"), "it is gzip, but no stat file"),
        (gzip.compress(b"\x81\xa1a\x01"), "it is msgpack, but no stat file"),
        (gzip.compress(b"\x92\x01\x02"), "nothing of a run is in it"),
        (gzip.compress(b""), "no stat file"),
    ):
        path.write_bytes(content)
        with pytest.raises(StatFileError, match=f"^{path}: .*{word}"):
            read(path)
    with pytest.raises(StatFileError, match="nothing: can't be read: No such file"):
        read(tmp_path / "nothing")
    with pytest.raises(StatFileError, match="has to be a regular file, and is a folder"):
        read(tmp_path)


def test_uncompressed_files_are_read(run_bytes: bytes) -> None:
    for packed in (run_bytes, (OLD / "noop.stat.gz").read_bytes()):
        with read(io.BytesIO(packed)) as run:
            expected = list(run)
        with read(io.BytesIO(gzip.decompress(packed))) as run:
            assert list(run) == expected
            assert run.complete


def test_a_file_is_found_with_and_without_its_suffix(run_bytes: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.stat.gz").write_bytes(run_bytes)
    with read(tmp_path / "a.stat") as run:
        assert (run.name, run.notes) == (str(tmp_path / "a.stat.gz"), [])
    (tmp_path / "b.stat").write_bytes(run_bytes)
    with read(tmp_path / "b.stat.gz") as run:
        assert run.name == str(tmp_path / "b.stat")
    (tmp_path / "a.stat").write_bytes(gzip.decompress(run_bytes))
    with read(tmp_path / "a.stat") as run:
        assert run.name == str(tmp_path / "a.stat")
        assert run.notes == [f"there is {tmp_path / 'a.stat.gz'} as well, which was not read"]
    with pytest.raises(StatFileError, match=r"c\.stat: can't be read: No such file"):
        read(tmp_path / "c.stat")


def test_a_file_of_a_later_version_is_reported_as_such(run_bytes: bytes) -> None:
    with pytest.raises(
        StatFileError,
        match=rf"written by a newer ssbench \(format {FORMAT + 1}\); this one reads up to",
    ):
        read(io.BytesIO(resealed(run_bytes, 16, bytes([FORMAT + 1]))))


def test_a_recompressed_file_is_read(run_bytes: bytes) -> None:
    again = gzip.compress(gzip.decompress(run_bytes))
    assert read_bytes(again) == (RECORDS, [], True)
    records, damage, _ = read_bytes(again[:-40])
    assert records == RECORDS[: len(records)]
    assert len(records) > 1
    assert "cut off" in damage[0]


def test_the_first_of_two_joined_files_is_read(run_bytes: bytes) -> None:
    records, damage, complete = read_bytes(run_bytes + run_bytes)
    assert records == RECORDS
    assert "out of order" in damage[0]
    assert not complete


def test_a_lost_header_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "run"
    write_run(path, [WORKER, FOOTER])
    records, damage, complete = read_bytes(path.read_bytes())
    assert records == [WORKER, FOOTER]
    assert damage == ["the run's header is lost"]
    assert not complete


def test_the_list_of_damage_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with StatFileWriter.create(path) as writer:
        writer.write(HEADER)
    builder = BlockBuilder()
    builder.add(b"\x01" * 1000)
    path.write_bytes(path.read_bytes() + builder.finish(2))
    _, damage, _ = read_bytes(path.read_bytes())
    assert len(damage) == 101
    assert damage[-1] == "and more"


def test_stdin_is_read_and_left_open(run_bytes: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.BytesIO(run_bytes)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stdin))
    with read("-") as run:
        assert list(run) == RECORDS
    assert not stdin.closed


def test_a_file_of_0_3_9_cut_off_anywhere_is_incomplete() -> None:
    """Cut at any byte, an old file gives a beginning of its results, or is refused."""
    whole = (OLD / "real.stat.gz").read_bytes()
    for end in range(0, len(whole), 997):
        found = read_or_refuse(whole[:end])
        if found is not None:
            assert found[0]
            assert found[1][-1] == NO_FOOTER
            assert not found[2]


def test_a_damaged_batch_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "run.stat.gz"
    with StatFileWriter.create(path) as writer:
        for record in RECORDS[:4]:
            writer.write(record)
        writer.append_results(Phase.RUN, 0, RESULT_SCHEMAS[0], b"rubbish")
        for record in RECORDS[4:]:
            writer.write(record)
    with read(path) as reader:
        batches = [r for r in reader if isinstance(r, ResultBatch)]
    assert sum(batch.count for batch in batches) == 3
    assert reader.damage == ["a record is malformed: malformed results"]


def test_a_batch_of_the_maximum_number_of_failures_is_read(tmp_path: Path) -> None:
    """With more than 8,192 of them the record was refused as damaged."""
    rows = [result(n, error=1, detail="why", transaction_id=b"") for n in range(MAX_ROWS)]
    path = tmp_path / "a.stat.gz"
    write_run(path, [HEADER, PHASE, batch(rows), FOOTER])
    with read(path) as run:
        found = [r for r in run if isinstance(r, ResultBatch)]
        assert [list(each.column("detail")) for each in found] == [["why"] * MAX_ROWS]
        assert run.complete


def test_the_results_in_a_file_are_bounded(tmp_path: Path) -> None:
    """A file of some KB that holds 327,680 results which are all alike."""
    path, two = tmp_path / "a.stat.gz", batch([result(1)] * 2)
    packed = msgpack.packb([MAX_ROWS, *two.columns.values()])
    many = replace(two, count=MAX_ROWS, packed=packed)
    write_run(path, [HEADER, PHASE, *[many] * 5, FOOTER])
    with read(path) as run:
        assert sum(r.count for r in run if isinstance(r, ResultBatch)) == 4 * MAX_ROWS
        assert run.damage == ["it holds far more than a run writes: the rest is not read"]
        assert not run.complete


def test_the_empty_members_of_a_file_are_counted() -> None:
    data = gzip.compress(encode_record(HEADER)) + gzip.compress(b"") * 11_000
    with read(io.BytesIO(data)) as run:
        assert list(run) == [HEADER]
        assert run.damage == ["it inflates to far more than a run writes: the rest is not read"]


def test_records_other_than_results_can_be_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.stat.gz"
    write_run(path)
    wanted = [record for record in RECORDS if not isinstance(record, ResultBatch)]
    with read(path) as reader:
        assert list(reader.without_results()) == wanted
    write_old(tmp_path / "old.stat", [old_result()])
    with read(tmp_path / "old.stat") as old:
        kinds = {type(record) for record in old.without_results()}
    assert ResultBatch not in kinds
    assert RunFooter in kinds
