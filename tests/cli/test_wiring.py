"""The master's sockets, and when a word of warning is due."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from ssbench.cli.wiring import bind, key_of, ports_of
from ssbench.cli.zmq_options import ZmqOptions
from ssbench.transport.key import CurveKey
from ssbench.transport.sockets import Ports


def options(key_file: str | None = None) -> ZmqOptions:
    return ZmqOptions(None, 0, 0, 0, key_file)


def test_a_master_may_have_connections_to_many_workers(few_files: int) -> None:
    with bind(options(), None, None, print):
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files, few_files)


def test_ports_and_key_are_those_of_the_options(tmp_path: Path) -> None:
    assert ports_of(ZmqOptions(None, 1, 2, 3, None)) == Ports(1, 2, 3)
    assert key_of(options()) is None
    path = tmp_path / "key"
    key = CurveKey.generate()
    key.save(str(path))
    assert key_of(options(str(path))) == key


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
def test_a_warning_where_anybody_could_talk(
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
