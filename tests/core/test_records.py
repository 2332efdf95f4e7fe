"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import get_args

import pytest

from ssbench.core.model import Phase, Result
from ssbench.core.records import Record, ResultBatch, RunFooter, RunHeader


def test_a_batch_knows_its_length_and_its_columns_by_name() -> None:
    columns = [[index, index] for index in range(len(Result._fields))]
    batch = ResultBatch(Phase.RUN, 0, columns)
    assert len(batch) == 2
    for index, name in enumerate(Result._fields):
        assert batch.column(name) == [index, index]


def test_a_run_that_went_well_has_nothing_to_tell_at_its_end() -> None:
    footer = RunFooter(5.0, "complete", "", 4.0)
    assert not any(getattr(footer, f.name) for f in fields(footer)[4:])


def test_records_stay_as_they_were_written() -> None:
    for kind in get_args(Record):
        assert kind.__dataclass_params__.frozen
    header = RunHeader("r", 0.0, "1.0", {}, {}, {}, 1, "noop")
    with pytest.raises(FrozenInstanceError):
        header.seed = 2  # type: ignore[misc]
