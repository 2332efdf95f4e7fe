"""The table of operations."""

from __future__ import annotations

import pytest

from ssbench.core import operations
from ssbench.core.model import Phase
from ssbench.core.operations import OPERATIONS, RECEIVING, Body, Effect, NotFound, Operation


@pytest.fixture
def _table_as_before():  # type: ignore[no-untyped-def]
    rows, receiving = dict(OPERATIONS), set(RECEIVING)
    yield
    OPERATIONS.clear()
    OPERATIONS.update(rows)
    RECEIVING.clear()
    RECEIVING.update(receiving)


@pytest.mark.parametrize("row", OPERATIONS.values(), ids=lambda row: row.name)
def test_rows_contradict_nothing(row: Operation) -> None:
    assert OPERATIONS[int(row)] is row
    assert operations.row_of(int(row)) is row
    assert row.name == row.name.upper()
    assert len(row.progress) == 4
    # What creates or replaces sends content; what only reads can't be undecided.
    assert row.changes_content == (row.effect not in (Effect.NONE, Effect.TOUCHES))
    assert (row.effect in (Effect.CREATES, Effect.REPLACES)) == (row.body is Body.SENT)
    assert (row in RECEIVING) == (row.body is Body.RECEIVED)
    if row.not_found is NotFound.SUCCESS:
        assert row.effect is Effect.REMOVES


def test_a_phase_around_the_run_has_one_operation() -> None:
    assert [row.name for row in operations.of_phase(Phase.POPULATE)] == ["ENSURE"]
    assert [row.name for row in operations.of_phase(Phase.CLEANUP)] == ["REMOVE"]


def test_a_run_s_operation_is_found_by_its_name_in_any_case() -> None:
    assert operations.operation_named("create") is operations.CREATE
    assert operations.operation_named("Head") is operations.HEAD
    assert operations.operation_named("ensure") is None
    assert operations.operation_named("") is None


def test_a_number_that_nobody_knows_has_a_name_and_does_nothing() -> None:
    row = operations.row_of(17)
    assert (int(row), row.name, row.effect, row.body) == (
        17,
        "OPERATION 17",
        Effect.NONE,
        Body.NONE,
    )


@pytest.mark.usefixtures("_table_as_before")
def test_a_driver_s_module_can_add_a_row() -> None:
    row = operations.register(Operation(200, "PEEK", Effect.NONE, body=Body.RECEIVED))
    assert operations.operation_named("peek") is row
    assert 200 in RECEIVING


@pytest.mark.usefixtures("_table_as_before")
@pytest.mark.parametrize(("number", "name"), [(0, "OTHER"), (201, "READ")])
def test_a_number_or_name_that_is_taken_is_refused(number: int, name: str) -> None:
    with pytest.raises(ValueError, match="has that number or name"):
        operations.register(Operation(number, name, Effect.NONE))
