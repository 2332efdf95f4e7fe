from __future__ import annotations

import argparse

import pytest

from ssbench.cli.commands import master_parser
from ssbench.cli.config import store_options
from ssbench.storage.swift.options import (
    LoginOptions,
    login_options,
    plan_login,
)

PARSER = master_parser(["cleanup-containers"])


def credentials_from(ns: argparse.Namespace, environ: dict[str, str]) -> LoginOptions:
    return login_options(store_options(ns, environ))


def parsed(*argv: str) -> argparse.Namespace:
    needed = ["--os-cert", "c"] if argv[:1] in (("--os-key",), ("--os_key",)) else []
    return PARSER.parse_args(["cleanup-containers", *needed, *argv])


OLD = {"ST_AUTH": "http://old/auth/v1.0", "ST_USER": "a:u", "ST_KEY": "k"}
NEW = {"OS_AUTH_URL": "http://ks/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p",
       "OS_PROJECT_NAME": "p", "OS_USER_DOMAIN_NAME": "d"}  # fmt: skip


@pytest.mark.parametrize("environ", [OLD, NEW, OLD | NEW], ids=["old", "new", "both"])
def test_a_token_option_overrides_a_login_in_the_environment(environ: dict[str, str]) -> None:
    typed = ["-T", "typed", "-S", "http://h/v1/A"]
    assert plan_login(credentials_from(parsed(*typed), environ)) is None


def test_a_token_option_is_exchanged_despite_a_password_in_the_environment() -> None:
    login = plan_login(credentials_from(parsed("-T", "typed"), NEW))
    assert login is not None
    assert (login.method, login.arguments["token"]) == ("v3token", "typed")
