"""What ssbench-worker is told."""

from __future__ import annotations

import argparse

import pytest

from ssbench import __version__
from ssbench.cli.worker_options import worker_options, worker_parser


def worker(text: str) -> argparse.Namespace:
    return worker_parser().parse_args(text.split())


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (
            "-c 1000 --zmq-host bench-host-01 1",
            {"concurrency": 1000, "zmq_host": "bench-host-01", "worker_id": "1"},
        ),
        ("--concurrency 2 --batch-size 1 0", {"concurrency": 2, "batch_size": 1, "worker_id": "0"}),
        (
            "--retries 3 -p 50 -v --zmq-work-port 1 --zmq-results-port 2 --zmq-control-port 3 w",
            {
                "retries": 3, "profile_count": 50, "verbose": True, "zmq_work_port": 1,
                "zmq_results_port": 2, "zmq_control_port": 3,
            },
        ),
        ("--zmq-results_port 5", {"zmq_results_port": 5, "worker_id": None}),
    ],
)  # fmt: skip
def test_command_lines_of_the_worker(line: str, values: dict[str, object]) -> None:
    ns = vars(worker(line))
    assert {name: ns[name] for name in values} == values


def test_defaults_of_the_worker() -> None:
    ns = worker("")
    assert (ns.zmq_host, ns.concurrency, ns.retries, ns.batch_size) == ("127.0.0.1", 64, 10, None)
    assert (ns.zmq_work_port, ns.zmq_results_port, ns.zmq_control_port) == (13579, 13580, 13581)
    assert ns.profile_count is None


def test_a_worker() -> None:
    chosen = worker_options(worker_parser().parse_args(["--parent-pipe", "3", "-p", "9"]), {})
    assert (chosen.worker_id, chosen.parent_pipe, chosen.profile_count) == (None, 3, 9)


def test_it_knows_the_master_and_the_key_by_flag_or_variable() -> None:
    environ = {"SSBENCH_KEY_FILE": "env.key"}
    chosen = worker_options(worker("--zmq-host m"), environ)
    assert (chosen.zmq.address, chosen.zmq.key_file) == ("m", "env.key")
    chosen = worker_options(worker("--zmq-key-file my.key"), environ)
    assert (chosen.zmq.address, chosen.zmq.key_file) == ("127.0.0.1", "my.key")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("-c 0", "-c/--concurrency: 0 is out of range"),
        ("--retries -1", "--retries: -1 is out of range"),
        ("-p few", "-p/--profile-count: 'few' is not a whole number"),
        ("--zmq-work-port 65536", "--zmq-work-port: 65536 is out of range"),
        ("-q", "unknown option: -q"),
        ("one two", "1 unexpected argument"),
    ],
)
def test_wrong_usage_is_status_2_and_says_what_is_wrong(
    line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        worker(line)
    assert caught.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert says in said[0]
    assert said[1:] == ["(see ssbench-worker -h)"]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        worker("--version")
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"ssbench {__version__}\n"
