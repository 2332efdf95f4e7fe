"""Many batches of one form are decoded as each of them is; a malformed one is noticed."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ssbench.core.errors import MessageError
from ssbench.core.model import NONE_NS, ErrorKind, Phase, Result
from ssbench.core.operations import READ
from ssbench.core.records import ResultBatch
from ssbench.core.stats.results import PhaseResults, as_ints
from tests.fakes.batches import result_rows
from tests.report import runs

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
