"""Batches joined while packed have the rows that each has alone."""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.columns import pack_results, unpack_results
from ssbench.core.errors import MessageError
from ssbench.core.model import NONE_NS, RESULT_NUMBERS
from ssbench.core.stats import joined as joined_module
from ssbench.core.stats.joined import Joined
from tests.statfile.samples import result

HEX_ID = st.integers(0, 2**84 - 1).map(lambda n: b"tx%021x-%010x" % (n, 1_700_000_000))
UUID_ID = st.integers(0, 2**128 - 1).map(lambda n: b"tx%032x" % n)
PLAIN_ID = st.binary(max_size=8).filter(lambda text: b"\n" not in text)
IDS = st.sampled_from([HEX_ID, UUID_ID, PLAIN_ID]).flatmap(lambda ids: ids)
NUMBERS = st.one_of(st.just(7), st.integers(0, 300), st.integers(-(2**40), 2**40))
ROW: Any = st.builds(
    result,
    NUMBERS,
    operation=st.integers(0, 3),
    object=NUMBERS,
    due_ns=st.sampled_from([NONE_NS, 5, 2**40]),
    start_ns=st.integers(-(2**62), 2**62),
    last_byte_ns=st.integers(NONE_NS, 2**50),
    transaction_id=IDS,
    detail=st.sampled_from(["", "", "no room"]),
)
BATCHES = st.lists(st.lists(ROW, min_size=1, max_size=5), min_size=1, max_size=6)


def packed_and_sent(rows: list[Any]) -> Any:
    return msgpack.unpackb(msgpack.packb(pack_results(rows)), strict_map_key=False)


@given(BATCHES, st.sampled_from([1, 2, 256]))
def test_every_column_has_the_rows_of_all_batches_in_order(
    batches: list[list[Any]], at_a_time: int
) -> None:
    packed = [packed_and_sent(rows) for rows in batches]
    with mock.patch.object(joined_module, "_AT_A_TIME", at_a_time):
        joined = Joined(packed)
    assert joined.batches == len(packed)
    wanted: list[list[Any]] = [[] for _ in joined]
    for each in packed:
        for column, more in zip(wanted, unpack_results(each), strict=True):
            column.extend(more)
    assert [list(column) for column in joined] == wanted
    assert joined.rows == len(joined[0]) == sum(map(len, batches))
    assert [list(column) for column in joined[-2:]] == wanted[-2:]
    assert [joined[-2][row] for row in range(joined.rows)] == wanted[-2]
    assert list(joined[-2][1:]) == wanted[-2][1:]


def spoilt(at: int, value: Any) -> list[Any]:
    batch = packed_and_sent([result(n) for n in (1, 2, 3)])
    return [*batch[:at], value, *batch[at + 1 :]]


IDS_AT, DETAILS_AT = 1 + RESULT_NUMBERS, 2 + RESULT_NUMBERS


@pytest.mark.parametrize(
    "batch",
    [
        None,
        {},
        [],
        spoilt(0, 0),
        spoilt(0, 65537),
        spoilt(0, True),
        spoilt(1, "text"),
        spoilt(1, None),
        spoilt(1, True),
        spoilt(1, [0, "B"]),
        spoilt(1, [0, "B", b"ab"]),
        spoilt(1, [0, "d", b"12345678"]),
        spoilt(1, [0, 66, b"abc"]),
        spoilt(1, [0, [], b"abc"]),
        spoilt(1, [0, "H", b"abc"]),
        spoilt(1, [0.0, "B", b"abc"]),
        spoilt(1, [0, "B", "abc"]),
        spoilt(IDS_AT, b""),
        spoilt(IDS_AT, ["plain", b""]),
        spoilt(IDS_AT, ["plain", b"", b"a\nb\n"]),
        spoilt(IDS_AT, ["swift", b"", b"short"]),
        spoilt(IDS_AT, ["new", b"", b"a\nb\nc\n"]),
        spoilt(IDS_AT, [1, b"", b"a\nb\nc\n"]),
        spoilt(IDS_AT, [[], b"", b"a\nb\nc\n"]),
        spoilt(IDS_AT, ["plain", "", b"a\nb\nc\n"]),
        spoilt(IDS_AT, ["plain", b"", "a\nb\nc\n"]),
        spoilt(DETAILS_AT, None),
        spoilt(DETAILS_AT, {0: "a map"}),
        spoilt(DETAILS_AT, [3, "beyond"]),
        spoilt(DETAILS_AT, [0, b"bytes"]),
        spoilt(DETAILS_AT, [0]),
    ],
)
def test_one_malformed_batch_spoils_the_join(batch: Any) -> None:
    """Whatever ``unpack_results`` refuses of one is refused among many."""
    with pytest.raises(MessageError):
        unpack_results(batch)
    sound = packed_and_sent([result(4), result(5)])
    with pytest.raises(MessageError):
        Joined([sound, batch, sound])


def test_ids_are_unpacked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most are never asked for, and they are half of a file."""
    joined = Joined([packed_and_sent([result(n)]) for n in range(10)])
    asked: list[int] = []

    def unpack(packed: Any, count: int) -> list[bytes]:
        asked.append(count)
        return [b"tx"]

    monkeypatch.setattr("ssbench.core.stats.joined.unpack_ids", unpack)
    assert joined[IDS_AT - 1][7] == b"tx"
    assert asked == [1]


def test_plain_ids_of_a_large_batch_are_unpacked_once() -> None:
    """One by one, 20,000 took 9 s when each unpacked all."""
    rows = [result(n, transaction_id=b"request-%d" % n) for n in range(20_000)]
    ids = Joined([packed_and_sent(rows)])[RESULT_NUMBERS]
    began_s = time.process_time()
    assert [ids[row] for row in range(len(rows))] == [row.transaction_id for row in rows]
    assert time.process_time() - began_s < 3
