"""Results as arrays: joined from batches, divided into groups, added up."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ssbench.core.columns import WIDTHS, unpack_column
from ssbench.core.errors import MessageError
from ssbench.core.model import NONE_NS, UNCERTAIN_NS, ErrorKind, Phase, Result
from ssbench.core.operations import CREATE, READ
from ssbench.core.records import ResultBatch
from ssbench.core.stats.results import (
    PhaseResults,
    ResultGroup,
    as_ints,
    decoded,
    exact_sum,
)
from ssbench.core.stats.tally import Counts, Latency
from tests.fakes.batches import result_rows
from tests.report import runs

kinds = st.tuples(st.sampled_from([CREATE, READ]), st.integers(0, 1), st.booleans())


def results_of(*batches: ResultBatch) -> PhaseResults:
    return PhaseResults(batches, {})


def group_of(*rows: Result) -> ResultGroup:
    (group,) = results_of(runs.batch(rows)).groups()
    return group


whole = st.one_of(
    st.integers(-5, 5), st.integers(-(1 << 66), 1 << 66), st.sampled_from([(1 << 63) - 1, -1 << 63])
)


@given(st.lists(whole, min_size=1, max_size=50))
def test_sums_are_exact_whatever_a_file_holds(values: list[int]) -> None:
    """Invariant: sums are those of Python's whole numbers, where 64 bits wrap, too."""
    assert exact_sum(as_ints(values)) == sum(values)


packed = st.one_of(
    whole.filter(lambda number: -(1 << 63) <= number < 1 << 64),
    st.builds(
        lambda base, code, number: [base, code, number.to_bytes(WIDTHS[code], "little")],
        st.one_of(st.just(0), st.integers(-(1 << 63), (1 << 64) - 1)),
        st.sampled_from(list(WIDTHS)),
        st.integers(0, 255),
    ),
)


@given(st.lists(st.tuples(packed, st.integers(1, 3)), min_size=1, max_size=9))
def test_columns_decoded_at_once_are_those_decoded_one_by_one(
    batches: list[tuple[Any, int]],
) -> None:
    """Invariant: as core.columns.unpack_column, for any mixture of bases, widths and sizes."""
    pieces = [
        piece if isinstance(piece, int) else [*piece[:2], piece[2] * count]
        for piece, count in batches
    ]
    counts = [count for _piece, count in batches]
    wanted = [n for at, count in enumerate(counts) for n in unpack_column(pieces[at], count)]
    assert decoded(pieces, counts).tolist() == wanted


half = st.integers(-(1 << 62), (1 << 62) - 1)


@given(st.lists(st.tuples(half, half, half), min_size=1, max_size=9))
def test_extreme_times_are_computed_exactly(times: list[tuple[int, int, int]]) -> None:
    rows = [
        runs.result(1, READ, start_ns=start, last_byte_ns=last, bytes_moved=moved)
        for start, last, moved in times
    ]
    counts = Counts()
    (group,) = results_of(*(runs.batch([row]) for row in rows)).groups()
    counts.add(group, 0)
    assert counts.bytes_moved == sum(moved for _start, _last, moved in times)
    assert counts.first_start_ns == min(start for start, _last, _moved in times)
    assert counts.last_end_ns == max(start + max(last, 0) for start, last, _moved in times)


def latency_of(*durations_ns: int) -> Latency:
    """Of as many operations, whose transaction ids are a, b, c ..."""
    rows = [
        runs.result(n, READ, last_byte_ns=duration, transaction_id=b"%c" % (97 + n))
        for n, duration in enumerate(durations_ns)
    ]
    latency = Latency()
    group = group_of(*rows)
    latency.add(group.column("last_byte_ns"), group)
    return latency


def test_due_times_stay_as_they_were_drawn_when_a_workers_clock_is_corrected() -> None:
    rows = [runs.result(1, READ, start_ns=90 * 10**6, due_ns=80 * 10**6), runs.result(2, READ)]
    columns = PhaseResults([runs.batch(rows)], {0: 7 * 10**6}).column
    assert columns("start_ns")[0] == 97 * 10**6
    assert [*columns("due_ns")] == [80 * 10**6, NONE_NS]


def test_uncertain_durations_are_counted_and_in_no_figure() -> None:
    latency = latency_of(UNCERTAIN_NS, NONE_NS, 7, UNCERTAIN_NS)
    latency.merge(latency_of(UNCERTAIN_NS))
    latency.merge(latency_of(NONE_NS))
    assert (latency.uncertain, latency.histogram.count, latency.worst) == (3, 1, (7, b"c"))
    assert latency.histogram.out_of_range == 0


# Many batches of one form

MANY = 34  #: batches; enough for a matrix, and for two of half as many each
COLUMNS = ("start_ns", "due_ns", "first_byte_ns", "status", "retries", "items", "error")

_whole = st.sampled_from(
    [0, 1, 127, 128, 255, 1 << 16, 1 << 32, (1 << 63) - 1, -1, -33, -(1 << 40)]
)
_kind = st.fixed_dictionaries(
    {
        "rows": st.sampled_from([1, 2, 3]),
        "start_ns": _whole,
        "due_ns": st.one_of(st.just(NONE_NS), _whole),
        "status": st.sampled_from([200, 0, 70_000]),
        "spread": st.sampled_from([0, 1, 300]),
        "items": st.sampled_from([0, 5]),
        "transaction_id": st.sampled_from(
            [b"", b"tx%032x" % 5, b"tx%021x-%010xabc" % (1, 2), b"n"]
        ),
        "detail": st.sampled_from(["", "", "no room"]),
    }
)


def _batch(at: int, rows: int, spread: int, start_ns: int, **changes: Any) -> ResultBatch:
    """A batch whose rows have bytes_moved of their own."""
    return runs.batch(
        [
            runs.result(
                1, READ, bytes_moved=1000 * at + row, retries=(at + row) % 3,
                start_ns=max(start_ns - spread * (row + at % 2), -(1 << 63)), **changes,
            )
            for row in range(rows)
        ],
        worker_index=at % 3,
    )  # fmt: skip


_LONG = {
    "rows": 130, "start_ns": 7, "due_ns": NONE_NS, "status": 200, "spread": 300, "items": 5,
    "transaction_id": b"tx%032x" % 5, "detail": "",
}  # fmt: skip


@settings(max_examples=25)
@example([_LONG])
@given(st.lists(_kind, min_size=1, max_size=2))
def test_each_row_is_that_of_its_batch(kinds: list[dict[str, Any]]) -> None:
    """Invariant: every row is there once, with its values, of any mixture of forms."""
    batches = [_batch(at, **kinds[at % len(kinds)]) for at in range(MANY)]
    wanted = {
        row.bytes_moved: (at % 3, row) for at, b in enumerate(batches) for row in result_rows(b)
    }
    results = PhaseResults(batches, {})
    assert len(results) == len(wanted)
    assert results.by_worker() == {
        worker: sum(batch.count for batch in batches if batch.worker == worker)
        for worker in range(3)
    }
    rows = [wanted[moved] for moved in results.column("bytes_moved").tolist()]
    assert results.workers.tolist() == [worker for worker, _row in rows]
    for name in COLUMNS:
        assert results.column(name).tolist() == [getattr(row, name) for _worker, row in rows]
    some = range(0, len(rows), 7)
    assert results.ids(as_ints(some)) == [rows[at][1].transaction_id for at in some]
    assert results.details(as_ints(some)) == [rows[at][1].detail for at in some]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("status", piece)
            for piece in (
                "text", None, True, [0, "B"], [0, "B", b"ab"], [0, "d", b"12345678"],
                [0, 66, b"abc"], [0, [], b"abc"], [0, "H", b"abc"], [0, "D", b"abc"],
                [0.0, "B", b"abc"], [True, "B", b"abc"], [0, "B", "abc"],
            )
        ),
        ("transaction_id", ["plain", b"", b"a\nb\ncd"]),
        ("transaction_id", ["plain", b"", b"a\nbcd\n"]),
        ("transaction_id", ["other", b"", b"a\nb\nc\n"]),
        ("error", [0, "B", b"123", 4]),
    ],
)  # fmt: skip
def test_one_malformed_batch_is_noticed_among_few_and_among_many(name: str, value: Any) -> None:
    rows = [
        runs.result(n, READ, status=200 + n, transaction_id=b"%d" % n, error=ErrorKind(n))
        for n in range(3)
    ]
    sound = runs.batch(rows)
    columns = msgpack.unpackb(sound.packed)
    columns[1 + Result._fields.index(name)] = value
    malformed = ResultBatch(Phase.RUN, 0, 3, sound.names, msgpack.packb(columns))
    for count in (0, 1, MANY):
        for batches in ([malformed, *[sound] * count], [*[sound] * count, malformed]):
            with pytest.raises(MessageError):
                PhaseResults(batches, {})
    with pytest.raises(MessageError):
        PhaseResults([malformed] * MANY, {})
    assert len(PhaseResults([sound] * MANY, {})) == 3 * MANY


def test_a_batch_with_another_number_of_rows_than_its_record_is_noticed() -> None:
    sound = runs.batch([runs.result(1, READ)])
    other = ResultBatch(Phase.RUN, 0, 2, sound.names, sound.packed)
    with pytest.raises(MessageError):
        PhaseResults([*[sound] * MANY, other], {})
