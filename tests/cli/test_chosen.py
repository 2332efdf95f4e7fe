from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from ssbench.cli.chosen import (
    cleanup_options,
    overrides_from,
    report_options,
    run_options,
    worker_options,
    zmq_options,
)
from ssbench.cli.options import master_parser, worker_parser
from ssbench.core.errors import UsageError

LOGIN = "-A http://h/auth -U a:u -K s3cret"


def ns(line: str) -> argparse.Namespace:
    return master_parser().parse_args(line.split())


def test_overrides_are_what_was_given_and_nothing_else() -> None:
    assert overrides_from(ns("run-scenario -f s")) == {}
    line = (
        "run-scenario -f s -u 4 -o 5 -r 6.5 -c 7 -b 8 --delete-after 0 -p gold --seed 0 "
        "--container-base mine"
    )
    assert overrides_from(ns(line)) == {
        "user_count": 4,
        "operation_count": 5,
        "run_seconds": 6.5,
        "container_count": 7,
        "block_size": 8,
        "delete_after": 0,
        "policy": "gold",
        "seed": 0,
        "container_base": "mine",
    }


def test_a_run_against_ones_own_store() -> None:
    chosen = run_options(ns(f"run-scenario -f s {LOGIN} -S http://n/v1/A -S http://o/v1/A"), {})
    assert chosen.store is not None
    assert chosen.store.credentials.auth == "http://h/auth"
    assert chosen.store.storage_urls == ("http://n/v1/A", "http://o/v1/A")
    assert chosen.percentiles == (95.0,)
    assert chosen.zmq.address is None
    assert (chosen.batch_size, chosen.operation_timeout_s) == (None, None)


@pytest.mark.parametrize("instead", ["--noop", "--embedded-swift"])
def test_runs_that_need_no_credentials_have_none(instead: str) -> None:
    assert run_options(ns(f"run-scenario -f s {instead}"), {"ST_KEY": "k"}).store is None


def test_where_nothing_is_read_there_is_nothing_to_verify() -> None:
    with pytest.raises(UsageError, match="--verify has nothing to check with --noop"):
        run_options(ns("run-scenario -f s --noop --verify"), {})
    assert run_options(ns("run-scenario -f s --embedded-swift --verify"), {}).verify
    assert not run_options(ns("run-scenario -f s --embedded-swift"), {}).verify


def test_the_embedded_swift_takes_no_credentials() -> None:
    with pytest.raises(UsageError, match="--embedded-swift has a user and a URL of its own"):
        run_options(ns(f"run-scenario -f s --embedded-swift {LOGIN}"), {})


def test_local_workers_count_among_those_expected() -> None:
    line = "run-scenario -f s --noop --workers 2 --expect-workers"
    assert run_options(ns(f"{line} 4"), {}).expect_workers == 4
    with pytest.raises(UsageError, match="--expect-workers 1 is fewer than the 2 of --workers"):
        run_options(ns(f"{line} 1"), {})


def test_percentiles_come_once_each_in_their_order() -> None:
    line = "report-scenario -s f --pctile 99.9 --pctile 50 --pctile 99.9"
    assert report_options(ns(line)).percentiles == (99.9, 50.0)


@pytest.mark.parametrize(("flag", "name"), [("", "text"), ("--csv", "csv"), ("--json", "json")])
def test_formats_of_a_report(flag: str, name: str) -> None:
    assert report_options(ns(f"report-scenario -s f {flag}")).format == name


@pytest.mark.parametrize("option", ["-f", "-r", "--time-series", "--host-stats"])
def test_a_report_does_not_overwrite_the_results(option: str, tmp_path: Path) -> None:
    (tmp_path / "run.gz").write_bytes(b"results")
    (tmp_path / "link").symlink_to("run.gz")
    for path in ("run.gz", "link"):
        with pytest.raises(UsageError, match=f"{option} .*{path}: that is the stat file"):
            report_options(ns(f"report-scenario -s {tmp_path}/run.gz {option} {tmp_path}/{path}"))
    report_options(ns(f"report-scenario -s {tmp_path}/run.gz {option} {tmp_path}/other"))


def test_the_key_file_of_the_environment_gives_way_to_the_flags() -> None:
    environ = {"SSBENCH_KEY_FILE": "env.key"}
    line = "kill-workers --zmq-bind-ip ::1"
    assert zmq_options(ns(line), environ, "::1").key_file == "env.key"
    assert zmq_options(ns(line), {"SSBENCH_KEY_FILE": ""}, None).key_file is None
    typed = ns(f"{line} --zmq-key-file my.key")
    assert zmq_options(typed, environ, "::1").key_file == "my.key"
    worker = worker_options(worker_parser().parse_args(["--zmq-host", "m"]), environ)
    assert (worker.zmq.address, worker.zmq.key_file) == ("m", "env.key")


def test_ports_must_differ() -> None:
    with pytest.raises(UsageError, match="--zmq-control-port 13579: give three different ports"):
        zmq_options(ns("kill-workers --zmq-control-port 13579"), {}, None)


def test_a_clean_up() -> None:
    chosen = cleanup_options(ns(f"cleanup-containers -p * --dry-run {LOGIN}"), {})
    assert (chosen.container_base, chosen.concurrency, chosen.policy) == ("ssbench", 10, "*")
    assert chosen.dry_run
    assert not chosen.yes


def test_a_worker() -> None:
    chosen = worker_options(worker_parser().parse_args(["--parent-pipe", "3", "-p", "9"]), {})
    assert (chosen.worker_id, chosen.parent_pipe, chosen.profile_count) == (None, 3, 9)


def test_no_repr_holds_a_secret() -> None:
    secrets = {
        "ST_KEY": "s3cret1",
        "OS_PASSWORD": "s3cret2",
        "OS_AUTH_TOKEN": "s3cret3",
        "OS_APPLICATION_CREDENTIAL_SECRET": "s3cret4",
    }
    for chosen in (
        run_options(ns("run-scenario -f s"), secrets),
        run_options(ns(f"run-scenario -f s {LOGIN} -T s3cret"), {}),
        cleanup_options(ns("cleanup-containers --os-password s3cret"), secrets),
    ):
        assert "s3cret" not in repr(chosen)
        assert "s3cret" not in str(chosen)
