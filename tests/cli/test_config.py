"""Command lines and environments, and the configurations that they give."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ssbench.cli.config import run_config
from ssbench.commands.run import search_config, sweep_config
from ssbench.core.errors import UsageError
from ssbench.runner.config import RunConfig, SearchConfig
from ssbench.storage.swift.options import login_options, plan_login
from tests.cli.shell import parsed
from tests.fakes.terminal import must_be_line, steering

LOGIN = "-A http://h/auth -U a:u -K s3cret"


def config(words: str, environ: dict[str, str] | None = None) -> RunConfig:
    return sweep_config(parsed(f"run-scenario -f very_small {words}"), environ or {})


def search(words: str) -> tuple[RunConfig, SearchConfig]:
    return search_config(parsed(f"find-limit -f very_small --noop {words}"), {})


def test_without_options_a_run_has_the_defaults_of_its_type() -> None:
    chosen = config("--noop")
    plain = RunConfig(scenario=chosen.scenario, store=chosen.store)
    assert chosen == plain


@pytest.mark.parametrize("words", ["--noop", "--storage noop"])
def test_the_noop_store_moves_no_data(words: str) -> None:
    assert config(words).is_noop
    assert not config("").is_noop
    assert config("--embedded-swift", {"ST_KEY": "k"}).store is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--noop --sweep users=1,2 -s -", "-s -: standard output is for the report"),
        (f"--embedded-swift {LOGIN}", "--embedded-swift has its own user and URL"),
        ("--noop --sweep users=1,2 -u 3", "--sweep sets the users: leave out -u"),
        ("--noop --sweep rate=1,2 --rate 3", "--sweep sets the rate: leave out --rate"),
        ("--noop --zmq-control-port 13579", "13579: give three different ports"),
    ],
)  # fmt: skip
def test_options_that_exclude_each_other_are_named(words: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        config(words)
    assert says in str(caught.value)


def test_a_scenario_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="no-such: no such file or canned scenario"):
        run_config(parsed("run-scenario -f no-such --noop"), {})


def test_options_are_checked_before_the_scenario_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="standard output is for the report"):
        run_config(parsed(f"run-scenario -f {tmp_path}/none --noop -s -"), {})


# Searches -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "how", "seconds", "warmup", "slos"),
    [
        ("--workers 2", SearchConfig("users", None, None, 0.05, 1), 13, 3,
         ["p99 < 50ms", "errors < 1%"]),
        ("--step-seconds 5 --warmup 0 --max-users 70 --start 8", SearchConfig("users", 8, 70), 5, 0,
         ["p99 < 50ms", "errors < 1%"]),
        ("--slo errors<5% --slo p99<50ms --over rate --max-rate 0.5 --start 0.1 --precision 1"
         " --confirm 0", SearchConfig("rate", 0.1, 0.5, 0.01, 0), 13, 3,
         ["p99 < 50ms", "errors < 5%"]),
    ],
)  # fmt: skip
def test_a_search_has_its_bounds_its_steps_and_a_limit_of_errors(
    words: str, how: SearchConfig, seconds: float, warmup: float, slos: list[str]
) -> None:
    """Steps include the warm-up."""
    run, found = search(f"--slo p99<50ms {words}")
    assert found == how
    assert run.overrides == {"run_seconds": seconds, "warmup": warmup}
    assert [str(each) for each in run.thresholds] == slos


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--slo p99<1s -u 5", "-u: find-limit searches for the number of users"),
        ("--slo p99<1s --max-rate 5", "--max-rate requires --over rate"),
        ("--slo p99<1s --over rate --max-users 5", "--max-users requires --over users"),
        ("--slo p99<1s --start 2.5", "give a whole number of users"),
    ],
)
def test_options_of_a_search_that_exclude_each_other(words: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        search(words)
    assert says in str(caught.value)


# The transport ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "free", "looks"),
    [
        ("", False, True),
        ("--workers 2", True, False),
        ("--workers 2 --zmq-work-port 7", False, False),
        ("--workers 2 --zmq-bind-ip 127.0.0.1", False, False),
        ("--workers 2 --zmq-key-file k", False, False),
        ("--workers 2 --ssh-workers a", False, False),
        ("--expect-workers 2", False, False),
        ("--worker-wait 9", False, False),
        ("--zmq-key-file k", False, False),
        ("--zmq-bind-ip 0.0.0.0", False, False),
    ],
)
def test_ports_are_free_ones_where_no_other_worker_can_join(
    words: str, free: bool, looks: bool
) -> None:
    """So that two runs with workers of their own can go on beside each other; and some are started
    where nothing says that others come."""
    chosen = config(f"--noop {words}")
    assert (chosen.bound.work_port == 0) is free
    assert free or chosen.bound == chosen.transport
    assert chosen.looks_for_workers is looks


# Environments -------------------------------------------------------------------------------


def test_no_repr_holds_a_secret() -> None:
    secrets = {
        "ST_KEY": "s3cret1",
        "OS_PASSWORD": "s3cret2",
        "OS_AUTH_TOKEN": "s3cret3",
        "OS_APPLICATION_CREDENTIAL_SECRET": "s3cret4",
    }
    for chosen in (config("", secrets), config(f"{LOGIN} -T s3cret")):
        assert "s3cret" not in repr(chosen)
        assert "s3cret" not in str(chosen)


SECRETS = ("ST_KEY", "OS_PASSWORD", "OS_AUTH_TOKEN", "OS_APPLICATION_CREDENTIAL_SECRET")
RUN = parsed("run-scenario -f very_small")


def environment_used(data: bytes) -> None:
    """Invariant: a way to log in, whose URL and repr are printable and show no secret; None for
    a given token; or UsageError, likewise. ``data`` is lines as openrc files have them."""
    lines = [line.partition("=") for line in os.fsdecode(data).split("\n")]
    environ = {name: value for name, sign, value in lines if sign and "\0" not in value}
    chosen = run_config(RUN, environ)
    assert chosen.store is not None
    said = [repr(chosen)]
    try:
        login = plan_login(login_options(chosen.store))
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
