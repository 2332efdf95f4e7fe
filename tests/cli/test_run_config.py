"""What run-scenario is told, and what environments can do to it."""

from __future__ import annotations

import argparse
import os

import pytest

from ssbench.cli.cleanup_options import cleanup_options
from ssbench.cli.options import master_parser
from ssbench.cli.run_config import overrides_from, run_options
from ssbench.cli.worker_options import worker_options, worker_parser
from ssbench.core.errors import UsageError
from ssbench.storage.swiftlogin import login_options, plan_login
from tests.corpus import recorded
from tests.fakes.mutations import fuzzed
from tests.fakes.terminal import must_be_line, steering

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
    login = login_options(chosen.store)
    assert login.auth == "http://h/auth"
    assert login.storage_urls == ("http://n/v1/A", "http://o/v1/A")
    assert chosen.percentiles == (95.0,)
    assert chosen.zmq.address is None
    assert (chosen.batch_size, chosen.operation_timeout_s) == (None, None)


def test_the_embedded_swift_needs_no_store_of_the_users() -> None:
    assert run_options(ns("run-scenario -f s --embedded-swift"), {"ST_KEY": "k"}).store is None


@pytest.mark.parametrize("words", ["--noop", "--storage noop"])
def test_noop_is_a_store_that_moves_nothing(words: str) -> None:
    assert run_options(ns(f"run-scenario -f s {words}"), {}).noop
    assert not run_options(ns("run-scenario -f s"), {}).noop


def test_where_nothing_is_read_there_is_nothing_to_verify() -> None:
    with pytest.raises(UsageError, match="--verify has nothing to check with --noop"):
        run_options(ns("run-scenario -f s --noop --verify"), {})
    assert run_options(ns("run-scenario -f s --embedded-swift --verify"), {}).verify
    assert not run_options(ns("run-scenario -f s --embedded-swift"), {}).verify


@pytest.mark.parametrize("command", ["run-scenario", "run-scenario --sweep users=1,2"])
def test_results_do_not_go_where_the_report_goes(command: str) -> None:
    with pytest.raises(UsageError, match=r"^-s -: standard output is for the report; name a file$"):
        run_options(ns(f"{command} -f s --noop -s -"), {})


def test_the_embedded_swift_takes_no_credentials() -> None:
    with pytest.raises(UsageError, match="--embedded-swift has its own user and URL"):
        run_options(ns(f"run-scenario -f s --embedded-swift {LOGIN}"), {})


def test_local_workers_count_among_those_expected() -> None:
    line = "run-scenario -f s --noop --workers 2 --expect-workers"
    assert run_options(ns(f"{line} 4"), {}).expect_workers == 4
    with pytest.raises(UsageError, match="--expect-workers 1 is fewer than the 2 of --workers"):
        run_options(ns(f"{line} 1"), {})


def test_without_a_store_no_throughput_can_be_promised() -> None:
    line = "run-scenario -f s --threshold throughput>1MB/s"
    with pytest.raises(UsageError, match="with --noop nothing is moved"):
        run_options(ns(f"{line} --noop"), {})
    assert run_options(ns(f"{line} --embedded-swift"), {}).thresholds


def test_thresholds_are_read() -> None:
    line = "run-scenario --noop -f s --threshold errors<1% --threshold rate>5/s"
    chosen = run_options(ns(line), {})
    assert [str(each) for each in chosen.thresholds] == ["errors < 1%", "rate > 5/s"]


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


ENVIRONMENT_WORDS = [
    b"\n", b"=", b"", b"http://", b"https://", b"@", b"://u:p@h/", b"[::1]", b":99999", b"v3",
    b"2.0", b"\nOS_AUTH_TYPE=", b"\nST_AUTH=", b"\nOS_STORAGE_URL=http://h/", b"\x1b[2J", b"\r",
    b"\xc2\x9b", b"\xe2\x80\xae", b"\xff", b"\nOS_AUTH_TOKEN=t",
    b"\nOS_USERNAME=", b"\nOS_PASSWORD=",
]  # fmt: skip
SECRETS = ("ST_KEY", "OS_PASSWORD", "OS_AUTH_TOKEN", "OS_APPLICATION_CREDENTIAL_SECRET")
RUN = master_parser().parse_args(["run-scenario", "-f", "s"])
WORKER = worker_parser().parse_args([])


def environment_used(data: bytes) -> None:
    """Invariant: a way to log in, whose URL and repr are printable and show no secret; None for
    a given token; or UsageError, likewise. ``data`` is lines as openrc files have them."""
    lines = [line.partition("=") for line in os.fsdecode(data).split("\n")]
    environ = {name: value for name, sign, value in lines if sign and "\0" not in value}
    worker_options(WORKER, environ)
    options = run_options(RUN, environ)
    assert options.store is not None
    said = [repr(options)]
    try:
        login = plan_login(login_options(options.store))
    except UsageError as error:
        assert not steering(str(error))  # noqa: PT017 - an error is one of two fine outcomes
        said.append(str(error))
    else:
        said.append(repr(login))
        if login is not None:
            must_be_line(login.url)
            assert login.url.lower().startswith(("http://", "https://"))
    shown = "".join(said)
    for name in SECRETS:
        value = environ.get(name, "")
        public = "".join(v for n, v in environ.items() if n not in SECRETS)
        # What mutations made of a word of our own isn't one.
        assert "-secret" not in value[1:] or value not in shown or value in public, name


@fuzzed(recorded("environments"), ENVIRONMENT_WORDS)
def test_spoilt_environments(data: bytes) -> None:
    """Invariant: that of ``environment_used``."""
    environment_used(data)


def test_when_a_run_is_steady_enough() -> None:
    assert run_options(ns("run-scenario -f s --noop --auto-stop-window 9"), {}).auto_stop is None
    chosen = run_options(ns("run-scenario -f s --noop --auto-stop"), {}).auto_stop
    assert chosen is not None
    assert (chosen.window_s, chosen.tolerance) == (15, 0.075)  # as SteadyStateDetector has them
    line = "run-scenario -f s --noop --auto-stop --auto-stop-window 4 --auto-stop-tolerance 20"
    chosen = run_options(ns(line), {}).auto_stop
    assert chosen is not None
    assert (chosen.window_s, chosen.tolerance) == (4, 0.2)


@pytest.mark.parametrize(
    ("words", "option"), [("users=1,2 -u 3", "-u"), ("rate=1,2 --rate 3", "--rate")]
)
def test_a_sweep_says_itself_what_it_is_over(words: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"^--sweep sets the .*: leave out {option}$"):
        run_options(ns(f"run-scenario -f s --noop --sweep {words}"), {})
    sweep = run_options(ns("run-scenario -f s --noop --sweep users=1,2 --rate 3"), {}).sweep
    assert sweep is not None
    assert (sweep.over, sweep.loads) == ("users", (1, 2))
