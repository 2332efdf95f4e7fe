"""Batches as columns: what was packed comes out again, and nothing else gets in."""

from __future__ import annotations

import random
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.columns import (
    JOB_SCHEMAS,
    MAX_DETAILS,
    MAX_ROWS,
    RESULT_SCHEMAS,
    JobLayout,
    ResultLayout,
    layout,
    layouts,
    pack_results,
)
from ssbench.core.errors import MessageError
from ssbench.core.messages import pack
from ssbench.core.model import RESULT_NUMBERS, Job, Phase, Result
from ssbench.core.operations import READ
from ssbench.core.records import ResultBatch
from tests.fakes.batches import unpack_results
from tests.fakes.values import (
    Leaf,
    Script,
    any_of,
    binary,
    boolean,
    int64,
    none,
    scripted,
    text,
)

OWN_JOBS = JobLayout(JOB_SCHEMAS[0])


LETTERS = st.binary(max_size=40).map(lambda text: text.replace(b"\n", b""))
HEX = st.text("0123456789abcdef", min_size=31, max_size=31)
UUID_IDS = HEX.map(lambda digits: f"tx0{digits}".encode())
SWIFT_IDS = st.builds(
    lambda digits, suffix: f"tx{digits[:21]}-{digits[21:]}{suffix}".encode(),
    HEX,
    st.sampled_from(["", "-node", "-0123456789abcdef", "é"]),
)
IDS = st.one_of(
    *[st.lists(each, min_size=1, max_size=20) for each in (UUID_IDS, SWIFT_IDS, LETTERS)],
    st.lists(UUID_IDS | SWIFT_IDS | LETTERS, min_size=1, max_size=20),
)


def some(script: Script, leaf: Leaf, most: int = 3) -> tuple[Any, ...]:
    """None of these in half of the rows."""
    return tuple(leaf(script) for _ in range(max(0, script.below(2 * most + 2) - most - 1)))


def a_job(script: Script) -> Job:
    numbers = [int64(script) for _ in range(7)]
    if boolean(script):
        return Job(*numbers)
    arguments = some(script, any_of(int64, binary, key=none, depth=0))
    return Job(*numbers, some(script, int64), arguments, int64(script))


def a_result(script: Script) -> tuple[Any, ...]:
    numbers = [int64(script) for _ in range(RESULT_NUMBERS)]
    if boolean(script):
        identifier = b"tx0" + script.take(16).hex()[1:].encode()
    else:
        identifier = binary(script).replace(b"\n", b"")
    detail = text(script) if boolean(script) else ""
    last = [int64(script) if boolean(script) else 0 for _ in range(5)]
    lists = [some(script, int64) for _ in range(2)]
    parts = (some(script, int64), identifier) if boolean(script) else ((), b"")
    version = identifier if boolean(script) else b""
    return (*numbers, identifier, detail, last[0], *lists, *last[1:], *parts, version)


JOBS = scripted(lambda script: [a_job(script) for _ in range(1 + script.below(20))], 1000)
RESULTS = scripted(lambda script: [a_result(script) for _ in range(1 + script.below(20))], 1500)


def over_the_wire(packed: Any) -> Any:
    return msgpack.unpackb(msgpack.packb(packed), strict_map_key=False)


def test_no_details_may_be_an_empty_map() -> None:
    """As in stat files of before 1.0."""
    packed = pack_results([(*[0] * RESULT_NUMBERS, b"tx", "")])
    data = msgpack.packb([*packed[:-1], {}])
    batch = ResultBatch(Phase.RUN, 0, 1, Result._fields[: len(packed) - 1], data)
    assert batch.column("detail") == [""]


@pytest.mark.parametrize("count", [MAX_DETAILS, MAX_DETAILS + 1, 3 * MAX_DETAILS, MAX_ROWS])
def test_details_of_many_rows_round_trip_in_short_lists(count: int) -> None:
    rows = [(n, *[0] * (RESULT_NUMBERS - 1), b"tx", f"error {n}") for n in range(count)]
    packed = over_the_wire(pack_results(rows))
    lists = packed[-1] if isinstance(packed[-1][0], list) else [packed[-1]]
    assert max(map(len, lists)) <= 2 * MAX_DETAILS
    assert unpack_results(packed)[RESULT_NUMBERS + 1] == [row[-1] for row in rows]


# Round trips ------------------------------------------------------------------------------


@given(JOBS)
def test_jobs_round_trip(jobs: list[Job]) -> None:
    assert OWN_JOBS.decode(pack(jobs)) == jobs


def test_jobs_of_any_release_are_read_with_the_defaults_of_missing_columns() -> None:
    for count in (1, 2):
        jobs = [Job(n, READ, 0, n, 0, 1) for n in range(count)]
        read = OWN_JOBS.decode(pack(jobs))
        assert read == jobs
        assert type(read[0].operation) is int
    older = JobLayout(JOB_SCHEMAS[0][:6])
    assert older.decode(msgpack.packb([[1, 2, 3, 4, 5, 6]])) == [Job(1, 2, 3, 4, 5, 6)]


@given(JOBS, st.randoms(use_true_random=False))
def test_jobs_in_the_schema_of_another_release_are_read(
    jobs: list[Job], chance: random.Random
) -> None:
    """Columns in another order, and one that is unknown here."""
    columns = [*JOB_SCHEMAS[0], ("colour", "text")]
    order = list(range(len(columns)))
    chance.shuffle(order)
    rows = [[[*job, "red"][at] for at in order] for job in jobs]
    other = JobLayout(tuple(columns[at] for at in order))
    assert other.decode(msgpack.packb(rows)) == jobs


@given(RESULTS, st.randoms(use_true_random=False))
def test_results_of_another_release_s_schema_come_back(
    rows: list[tuple[Any, ...]], chance: random.Random
) -> None:
    """Columns in another order, and one that is unknown here."""
    count, *packed = pack_results(rows)
    whole = [
        *zip(RESULT_SCHEMAS[-1], packed, strict=False),
        (("colour", "light"), {"any": "thing"}),
    ]
    chance.shuffle(whole)
    layout = ResultLayout(tuple(column for column, _ in whole))
    arranged = layout.decode(msgpack.packb([count, *(data for _, data in whole)]))
    no_ids = ["plain", b"", b"\n" * count]
    missing = [0, [0, 0], [0, 0], 0, 0, 0, 0, [0, 0], no_ids, no_ids]
    own = [*over_the_wire([count, *packed]), *missing[len(packed) - RESULT_NUMBERS - 2 :]]
    assert over_the_wire(arranged) == own[: len(arranged)]


def test_a_schema_without_a_required_column_is_rejected() -> None:
    schema = RESULT_SCHEMAS[0]
    schemas = [schema, schema[1:], (("number", "text"), *schema[1:]), schema[:9], schema * 2]
    found = layouts(schemas, ResultLayout)
    assert [each is not None for each in found] == [True, False, False, True, False]
    for at in (1, 2, 5, 10**9):
        with pytest.raises(MessageError, match="unknown"):
            layout(found, at)


@given(RESULTS, IDS)
def test_results_round_trip(rows: list[tuple[Any, ...]], ids: list[bytes]) -> None:
    """Transaction ids of one shape, which take less, and of several."""
    before, after = slice(RESULT_NUMBERS), slice(RESULT_NUMBERS + 1, None)
    rows = [(*row[before], ids[at % len(ids)], *row[after]) for at, row in enumerate(rows)]
    columns = unpack_results(over_the_wire(pack_results(rows)))
    assert len(columns) == len(Result._fields)
    assert list(zip(*columns, strict=True)) == rows


def test_a_newline_in_an_id_does_not_shift_other_ids() -> None:
    packed = pack_results([(*[0] * RESULT_NUMBERS, each, "") for each in (b"a\nb", b"c")])
    assert list(unpack_results(packed)[RESULT_NUMBERS]) == [b"a b", b"c"]


# Hostile input ----------------------------------------------------------------------------


MALFORMED: dict[str, list[object]] = {
    "number": [True, 1.5, None, b"", [0, "B"], [0, "b", b"\0\0"], [0, "B", b"\0"],
               ["0", "B", b"\0\0"], [0, "B", "\0\0"], [0, b"B", b"\0\0"], [True, "B", b"\0\0"]],
    "transaction_id": [["plain", b"", raw] for raw in (b"", b"a\n", b"a\nb", b"a\nb\nc",
                                                       b"a\nb\nc\n")],
    "detail": [None, {0: "x"}, {"0": "x"}, [0], [-1, "x"], [2, "x"], ["0", "x"], [0, b"x"],
               [True, "x"], [0, "x", 0, "y"], [1, "x", 0, "y"], [[0, "x"], [0, "y"]],
               [[1, "x"], [0, "y"]], [[0], ["x"], [1]], [[0, "x"], 1, "y"], [[[0, "x"]]],
               [[0, "x"], {}]],
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_column_is_rejected_in_a_message_and_in_a_file(name: str) -> None:
    for column in MALFORMED[name]:
        packed = pack_results([(*[0] * RESULT_NUMBERS, b"tx", "")] * 2)
        packed[1 + Result._fields.index(name)] = column
        with pytest.raises(MessageError):
            unpack_results(packed)
        names = Result._fields[: len(packed) - 1]
        with pytest.raises(MessageError):
            ResultBatch(Phase.RUN, 0, 2, names, msgpack.packb(packed)).column(name)
