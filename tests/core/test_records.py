"""The records of a run."""

from __future__ import annotations

import msgpack

from ssbench.core.model import NONE_NS, RESULT_NUMBERS, Phase, Result
from ssbench.core.records import ResultBatch


def test_a_batch_knows_its_length_and_its_columns_by_name() -> None:
    rows = [(*range(n, n + RESULT_NUMBERS), b"tx", "why", 7, (n,), (), 0, n, n) for n in (0, 9)]
    batch = ResultBatch.of_rows(Phase.RUN, 0, rows)
    assert batch.count == 2
    for index, name in enumerate(Result._fields):
        assert list(batch.column(name)) == [row[index] for row in rows]


def test_unknown_columns_are_ignored_and_missing_ones_have_their_default() -> None:
    packed = msgpack.packb([2, [0, "B", b"\1\2"], "red"])
    batch = ResultBatch(Phase.RUN, 0, 2, ("number", "colour"), packed)
    assert list(batch.column("number")) == [1, 2]
    assert list(batch.column("due_ns")) == [NONE_NS] * 2
    assert list(batch.column("transaction_id")) == [b"", b""]
    assert list(batch.column("detail")) == ["", ""]
    assert list(batch.column("others")) == [(), ()]
