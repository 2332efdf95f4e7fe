from __future__ import annotations

import pytest

from ssbench.core.errors import UsageError
from ssbench.core.settings import StorageSettings
from ssbench.storage import DRIVERS, open_storage
from ssbench.storage.noop import NoopStorage


class OwnStorage(NoopStorage):
    """A user's own driver."""


def test_a_driver_is_opened_by_name() -> None:
    assert type(open_storage(StorageSettings(driver="noop"))) is NoopStorage


def test_a_users_own_driver_is_opened_by_its_place() -> None:
    own = StorageSettings(driver=f"{__name__}:OwnStorage")
    assert type(open_storage(own, seed=1)) is OwnStorage


@pytest.mark.parametrize("name", ["swfit", "", "no.such.module:Class", "ssbench.core:X", ":X"])
def test_an_unknown_driver_is_told_with_what_would_be_right(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_storage(StorageSettings(driver=name))
    assert f'"{name}"' in str(caught.value)
    if ":" not in name:
        assert all(known in str(caught.value) for known in DRIVERS)
