"""Where master and workers meet, as both are told."""

from __future__ import annotations

import argparse

import pytest

from ssbench.cli.options import master_parser
from ssbench.cli.zmq_options import ZmqOptions, zmq_options
from ssbench.core.errors import UsageError


def ns(line: str) -> argparse.Namespace:
    return master_parser().parse_args(line.split())


def test_where_nothing_is_said_they_meet_at_three_ports_without_a_key() -> None:
    assert zmq_options(ns("kill-workers"), {}, None) == ZmqOptions(None, 13579, 13580, 13581, None)


def test_the_results_port_has_an_old_spelling_too() -> None:
    typed = ns("kill-workers --zmq-work-port 1 --zmq-results_port 2 --zmq-control-port 3")
    assert zmq_options(typed, {}, "::1") == ZmqOptions("::1", 1, 2, 3, None)


def test_the_key_file_of_the_environment_gives_way_to_the_flags() -> None:
    environ = {"SSBENCH_KEY_FILE": "env.key"}
    line = "kill-workers --zmq-bind-ip ::1"
    assert zmq_options(ns(line), environ, "::1").key_file == "env.key"
    assert zmq_options(ns(line), {"SSBENCH_KEY_FILE": ""}, None).key_file is None
    with pytest.raises(UsageError, match="--zmq-key-file: the name is empty"):
        zmq_options(ns(f"{line} --zmq-key-file="), environ, None)
    typed = ns(f"{line} --zmq-key-file my.key")
    assert zmq_options(typed, environ, "::1").key_file == "my.key"


def test_ports_must_differ() -> None:
    with pytest.raises(UsageError, match="--zmq-control-port 13579: give three different ports"):
        zmq_options(ns("kill-workers --zmq-control-port 13579"), {}, None)
