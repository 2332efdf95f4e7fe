"""Whether what is called a driver has the contract's shape; tests/contract says what it does."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

import pytest

from ssbench.storage.base import ObjectStore, StoreAdmin
from ssbench.storage.registry import ROWS, load
from tests.fakes.memory_storage import MemoryStorage

HALVES = [
    *((load(row.driver), ObjectStore) for row in ROWS.values()),
    *((load(row.admin or row.driver), StoreAdmin) for row in ROWS.values()),
    (MemoryStorage, ObjectStore),
    (MemoryStorage, StoreAdmin),
]


def types_of(parameters: Mapping[str, inspect.Parameter]) -> list[str]:
    """By name: a module whose annotations are read has classes in place of their names."""
    found = (each.annotation for each in parameters.values())
    return [each if isinstance(each, str) else each.__name__ for each in found]


@pytest.mark.parametrize(("driver", "half"), HALVES)
def test_a_driver_takes_what_the_contract_gives(driver: type, half: type) -> None:
    # Drivers are loaded by name, so the type checker never compares the two.
    methods = [name for name in dir(half) if name[0] != "_" and callable(getattr(half, name))]
    assert "close" in methods
    for method in methods:
        promised = inspect.signature(getattr(half, method)).parameters
        taken = inspect.signature(getattr(driver, method)).parameters
        assert list(taken) == list(promised)
        assert types_of(taken) == types_of(promised)
    assert isinstance(inspect.getattr_static(driver, "credentials_serial"), property)
