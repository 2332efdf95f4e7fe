"""Packed results as rows and columns, for tests that look into batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgpack

from ssbench.core.columns import RESULT_SCHEMAS, SCHEMA_NUMBERS, ResultLayout, layout, layouts
from ssbench.core.errors import MessageError
from ssbench.core.model import Phase, Result
from ssbench.core.records import ResultBatch

_LAYOUTS = layouts(RESULT_SCHEMAS, ResultLayout)


def unpack_results(packed: Any) -> list[Sequence[Any]]:
    """The columns of a batch of this version, in the order of Result's fields.

    :raises MessageError: where it is none.
    """
    if type(packed) is not list:
        raise MessageError("no batch")
    try:
        data = msgpack.packb(packed)
    except OverflowError as error:
        raise MessageError("a number of more than 64 bits") from error
    if len(packed) not in SCHEMA_NUMBERS:
        raise MessageError("a batch of no schema")
    whole = layout(_LAYOUTS, SCHEMA_NUMBERS[len(packed)]).decode(data)
    batch = ResultBatch(Phase.RUN, 0, whole[0], Result._fields[: len(whole) - 1], data)
    return [batch.column(name) for name in Result._fields]


def result_rows(batch: ResultBatch) -> list[Result]:
    """The rows of a batch from a stat file."""
    columns = [batch.column(name) for name in Result._fields]
    return list(map(Result._make, zip(*columns, strict=True)))
