"""The driver without a store: every operation succeeds at once."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from time import perf_counter_ns

import pytest

from ssbench.core.model import Job
from ssbench.core.operations import OPERATIONS, Body, Effect, Operation, Target, register
from ssbench.core.settings import StorageSettings
from ssbench.storage.noop import NoopStorage


@pytest.fixture
def own_row() -> Iterator[Operation]:
    """A row that another module registers."""
    row = register(
        Operation(1999, "OWN_FETCH", Effect.NONE, target=Target.OBJECTS, body=Body.RECEIVED)
    )
    yield row
    del OPERATIONS[row]


def test_every_registered_operation_succeeds_at_once_and_moves_its_bytes(
    own_row: Operation,
) -> None:
    storage = NoopStorage(StorageSettings(driver="noop"))
    assert own_row in storage.actions
    for number, row in OPERATIONS.items():
        began_ns = perf_counter_ns()
        drawn = row.draw(Random(1), 77, **row.parameter_values({})) if row.draw else ()
        timing = storage.actions[number](Job(1, number, 0, 0, 0, 77, arguments=drawn), 0)
        assert began_ns <= timing.headers_ns == timing.last_byte_ns <= perf_counter_ns()
        assert timing.bytes_moved == (77 if row.moves_content else 0)
        assert timing.status // 100 == 2
