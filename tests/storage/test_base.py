"""Whether what is called a driver has the contract's shape; tests/contract says what it does."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

from ssbench.storage import DRIVERS
from ssbench.storage.base import Storage, StoreLimits
from tests.fakes.memory_storage import MemoryStorage

METHODS = [
    name for name in vars(Storage) if not name.startswith("_") and callable(getattr(Storage, name))
]


def driver_classes() -> list[type]:
    places = [place.split(":") for place in DRIVERS.values()]
    return [getattr(import_module(module), name) for module, name in places] + [MemoryStorage]


@pytest.mark.parametrize("driver", driver_classes(), ids=lambda driver: driver.__name__)
@pytest.mark.parametrize("method", METHODS)
def test_a_driver_takes_what_the_contract_gives(driver: type, method: str) -> None:
    # open_storage loads drivers by name, so the type checker never compares the two.
    promised = inspect.signature(getattr(Storage, method)).parameters
    taken = inspect.signature(getattr(driver, method)).parameters
    assert list(taken) == list(promised)
    assert {name: each.annotation for name, each in taken.items()} == {
        name: each.annotation for name, each in promised.items()
    }


@pytest.mark.parametrize("driver", driver_classes(), ids=lambda driver: driver.__name__)
def test_the_tokens_serial_is_read_not_called(driver: type) -> None:
    assert isinstance(inspect.getattr_static(driver, "token_serial"), property)


def test_a_store_that_says_nothing_has_no_limits() -> None:
    silent = StoreLimits()
    assert silent.raw == {}
    values = [getattr(silent, name) for name in StoreLimits.__slots__ if name != "raw"]
    assert values == [None] * 6
