"""The master's sockets, and the warning if strangers could connect."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from ssbench.runner.config import TransportConfig
from ssbench.runner.session import bind, load_key
from ssbench.transport.key import CurveKey


def options(key_file: str | None = None) -> TransportConfig:
    return TransportConfig(None, 0, 0, 0, key_file)


def test_a_master_may_have_connections_to_many_workers(few_files: int) -> None:
    with bind(options(), None, None, print):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files, few_files)


def test_the_key_is_that_of_the_file(tmp_path: Path) -> None:
    assert load_key(options()) is None
    path = tmp_path / "key"
    key = CurveKey.generate()
    key.save(str(path))
    assert load_key(options(str(path))) == key


@pytest.mark.parametrize(
    ("address", "with_key", "warned"),
    [
        (None, False, False),
        ("127.0.0.1", False, False),
        ("127.0.0.9", False, False),
        ("0.0.0.0", False, True),
        ("0.0.0.0", True, False),
        (None, True, False),
    ],
)
def test_a_warning_if_strangers_could_connect(
    address: str | None, with_key: bool, warned: bool
) -> None:
    warnings: list[str] = []
    key = CurveKey.generate() if with_key else None
    with bind(options(), key, address, warnings.append) as wire:
        assert bool(warnings) == warned
        if warned:
            (text,) = warnings
            assert "\n" not in text
            assert "--zmq-key-file" in text
            assert str(wire.ports.control) in text


def test_larger_batches_have_shorter_pipes() -> None:
    with (
        bind(options(), None, None, print, 256) as large,
        bind(options(), None, None, print) as one,
    ):
        assert large.pipe < one.pipe
