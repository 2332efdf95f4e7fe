"""Results that no operation of the phase can have are refused, in every form that columns have."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from ssbench.core.columns import (
    RESULT_SCHEMAS,
    SCHEMA_NUMBERS,
    ResultLayout,
    pack_column,
    pack_results,
    unpack_column,
)
from ssbench.core.dispatch.result_bounds import ANY_RESPONSE, ResultBounds
from ssbench.core.errors import MessageError
from ssbench.core.model import (
    MAX_ADDRESSES,
    NONE_NS,
    UNCERTAIN_NS,
    Job,
    Result,
    SizeClass,
)
from ssbench.core.operations import OPERATIONS, READ
from ssbench.storage.http.response import MAX_ERROR_BODY
from tests.core.workload.fleet import row

SECOND = 1_000_000_000
MIB = 1 << 20
MARGIN_NS = 300 * SECOND
SIZES = [SizeClass("small", 1, 4096, (), 10), SizeClass("large", MIB, 8 * MIB, (), 10)]
START, NOW = 1000 * SECOND, 1060 * SECOND
LATEST = NOW - START + MARGIN_NS


def bounds(**other: Any) -> ResultBounds:
    """Of a phase that began a minute ago, with two size classes and two storage URLs."""
    made = ResultBounds(**{"sizes": SIZES, "urls": 2, **other})
    made.begin(START)
    return made


def rows(count: int, **first: int) -> list[Result]:
    """So many results; the first has these values, the others are ordinary."""
    plain = [row(Job(n + 1, int(READ), 0, n, 0, 100)) for n in range(count)]
    return [plain[0]._replace(**first), *plain[1:]]


def taken(packed: list[Any], made: ResultBounds | None = None) -> bool:
    """Whether a batch is read, has numbers of jobs, and is within bounds."""
    try:
        columns = ResultLayout(RESULT_SCHEMAS[SCHEMA_NUMBERS[len(packed)]]).decode(
            msgpack.packb(packed)
        )
        unpack_column(columns[1], columns[0])
        (made or bounds()).check(columns, NOW)
    except MessageError:
        return False
    return True


ALLOWED = [
    ("size_class", 0, 1), ("operation", 0, max(OPERATIONS)), ("object", 0, 2**53),
    ("due_ns", NONE_NS, LATEST), ("start_ns", -MARGIN_NS, LATEST),
    ("headers_ns", UNCERTAIN_NS, LATEST), ("first_byte_ns", UNCERTAIN_NS, LATEST),
    ("last_byte_ns", 0, LATEST), ("bytes_moved", 0, 8 * MIB), ("retries", 0, 10**6),
    ("not_found_retries", 0, 10**6), ("rate_limited", 0, 10**6), ("reconnects", 0, 10**6),
    ("renewals", 0, 10**6), ("url", 0, 1), ("status", 0, 999), ("error", 0, 255), ("unknown", 0, 1),
    ("group", 0, 10**6), ("renewed_ns", 0, LATEST), ("address", 0, MAX_ADDRESSES),
]  # fmt: skip


@pytest.mark.parametrize(("field", "least", "most"), ALLOWED)
def test_a_column_is_accepted_up_to_its_bounds(field: str, least: int, most: int) -> None:
    for count in (1, 2, 64):
        for value in (least, most):
            assert taken(pack_results(rows(count, **{field: value}))), value
        for value in (least - 1, most + 1, 2**63 - 1, -(2**63)):
            assert not taken(pack_results(rows(count, **{field: value}))), value


def test_a_low_base_rejects_no_valid_column() -> None:
    forged = pack_results(rows(2))
    at = 1 + Result._fields.index("start_ns")
    near, far = (9 * SECOND).to_bytes(8, "little"), (2 * MARGIN_NS).to_bytes(8, "little")
    forged[at] = [-9 * SECOND - MARGIN_NS, "Q", near + far]
    assert taken(forged)
    forged[at] = [-9 * SECOND - MARGIN_NS, "Q", far + bytes(8)]
    assert not taken(forged)


@pytest.mark.parametrize(
    "column",
    [True, None, 1.0, 1e308, float("nan"), "0", b"", [], [0], [0, "B"], [0, "B", b""], {},
     [0, "B", b"\0\0\0"], [0, "H", b"\0\0\0"], [0, "x", b"\0\0"], [0, b"B", b"\0\0"],
     [0, [], b"\0"], [0.0, "B", b"\0\0"], [True, "B", b"\0\0"], [0, "B", "ab"],
     [0, "B", [0, 0]]],
    ids=repr,
)  # fmt: skip
def test_a_malformed_column_is_rejected_at_any_place(column: Any) -> None:
    """Our own reader would refuse the record."""
    for count in (1, 2):
        for at in range(1, 20):
            forged = pack_results(rows(count))
            forged[at] = column
            assert not taken(forged), at


def test_an_unknown_operation_is_rejected() -> None:
    unknown = max(OPERATIONS) + 1
    for column in (unknown, [0, "B", bytes([READ, unknown])], [READ, "H", bytes([0, 0, 99, 0])]):
        forged = pack_results(rows(2))
        forged[2] = column
        assert not taken(forged)
    forged[2] = pack_column([int(READ), 0])
    assert taken(forged)


def test_bytes_are_bounded_by_the_largest_object_and_by_any_response() -> None:
    assert ANY_RESPONSE == MAX_ERROR_BODY == MIB
    small = bounds(sizes=SIZES[:1])
    for count in (1, 2):
        assert taken(pack_results(rows(count, bytes_moved=ANY_RESPONSE)), small)
        assert not taken(pack_results(rows(count, bytes_moved=ANY_RESPONSE + 1)), small)
        assert not taken(pack_results(rows(count, size_class=1)), small)
