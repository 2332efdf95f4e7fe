"""The storage settings of a control state: they arrive complete, and show no secret."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from ssbench.core.model import SizeClass
from ssbench.core.scenario.values import crud_profile
from ssbench.core.settings import Credentials, StorageSettings, typed
from tests.fakes.control_states import IDLE

WHOLE = StorageSettings(
    driver="noop",
    store={"urls": ["http://a/v1/x", "http://b/v1/x"], "insecure": False},
    credentials=(Credentials(2, 1e9, {}), Credentials(3, None, {"token": "s3cret-t0ken"})),
    run_id="abc",
    sizes=(
        SizeClass("tiny", 1, 10, crud_profile([1, 1, 1, 1]), 7),
        SizeClass("großé", 0, 5 << 30, crud_profile([0.0, 1.0, 0.0, 0.0]), 0),
    ),
    placement="gold",
    delete_after_s=60,
    verify=True,
)


def test_no_repr_shows_the_token() -> None:
    assert "s3cret" not in repr(WHOLE)
    assert "s3cret" not in str(replace(WHOLE, run_id="b"))
    state = IDLE._replace(serial=7, run="b", phase=2, settings=WHOLE.to_map())
    assert "s3cret" not in f"{state} {state!r}"
    assert "7" in repr(state)


def test_unknown_settings_of_a_newer_master_are_ignored() -> None:
    assert StorageSettings.from_map({**WHOLE.to_map(), "of_the_future": 1}) == WHOLE


@dataclass(frozen=True)
class OutsideSettings:
    """Settings of a driver outside this repository."""

    bucket: str
    urls: tuple[str, ...] = ()


def test_the_settings_of_a_driver_may_be_a_dataclass() -> None:
    given_map = {"bucket": "b", "urls": ["http://a/"], "of_the_future": 1}
    assert typed(OutsideSettings, given_map) == OutsideSettings("b", ("http://a/",))
    with pytest.raises(TypeError):
        typed(OutsideSettings, {})
