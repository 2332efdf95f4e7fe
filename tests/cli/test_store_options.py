"""How to reach a store, as every command that talks to one is told."""

from __future__ import annotations

import argparse

import pytest

from ssbench.cli.options import master_parser
from ssbench.cli.store_options import store_options

NEEDED = {"run-scenario": "-f s", "find-limit": "-f s --slo p", "cleanup-containers": ""}


def ns(line: str) -> argparse.Namespace:
    return master_parser().parse_args(line.split())


@pytest.mark.parametrize("command", sorted(NEEDED))
def test_urls_and_time_outs_go_to_store_and_login(command: str) -> None:
    line = f"{command} {NEEDED[command]} -S http://n/v1/A -S http://o/v1/A -T s3cret"
    chosen = store_options(ns(f"{line} --connect-timeout 1.5 --network-timeout 2.5"), {})
    assert chosen.storage_urls == ("http://n/v1/A", "http://o/v1/A")
    assert (chosen.connect_timeout_s, chosen.network_timeout_s) == (1.5, 2.5)
    login = chosen.credentials
    assert (login.os_storage_url, login.os_auth_token) == ("http://n/v1/A", "s3cret")
    assert (login.connect_timeout_s, login.network_timeout_s) == (1.5, 2.5)
    assert "s3cret" not in repr(chosen)


def test_what_the_environment_says_of_the_store_is_the_logins() -> None:
    chosen = store_options(ns("cleanup-containers"), {"OS_STORAGE_URL": "http://e/v1/A"})
    assert (chosen.storage_urls, chosen.credentials.os_storage_url) == ((), "http://e/v1/A")
    assert (chosen.connect_timeout_s, chosen.network_timeout_s) == (10.0, 20.0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--connect-timeout 0", "--connect-timeout: 0 is not a duration: give seconds above 0"),
        ("--network-timeout soon", "--network-timeout: 'soon' is not a duration"),
        ("-S host:8080", "-S/--storage-url: the URL 'host:8080'"),
        ("-S http://u:s3cret@h/v1/A", "-S/--storage-url: the URL"),
    ],
)
def test_bad_values_are_said_and_no_password_with_them(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        ns(f"cleanup-containers {words}")
    said = capsys.readouterr().err
    assert says in said
    assert "s3cret" not in said
