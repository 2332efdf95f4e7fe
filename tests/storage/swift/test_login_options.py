from __future__ import annotations

import argparse

import pytest

from ssbench.cli.commands import master_parser
from ssbench.cli.config import given_on_command_line, store_options
from ssbench.storage.swift.options import (
    OPTIONS,
    LoginOptions,
    login_options,
    plan_login,
)

PARSER = master_parser(["cleanup-containers"])
ROWS = [
    option
    for option in OPTIONS
    if option.type is not bool and not option.repeat and option.name != "os_cloud"
]


def credentials_from(ns: argparse.Namespace, environ: dict[str, str]) -> LoginOptions:
    return login_options(store_options(ns, environ))


def parsed(*argv: str) -> argparse.Namespace:
    needed = ["--os-cert", "c"] if argv[:1] in (("--os-key",), ("--os_key",)) else []
    return PARSER.parse_args(["cleanup-containers", *needed, *argv])


@pytest.mark.parametrize(
    "option", [row for row in ROWS if row.name.startswith("os_")], ids=lambda option: option.name
)
def test_each_os_option_has_a_hidden_spelling_with_underscores(option) -> None:  # type: ignore[no-untyped-def]
    ns = parsed(f"--{option.name}", "x")
    assert getattr(credentials_from(ns, {}), option.name) == "x"


def test_auth_version_has_three_variables_in_this_order() -> None:
    environ = {"ST_AUTH_VERSION": "1", "OS_AUTH_VERSION": "2", "OS_IDENTITY_API_VERSION": "3"}
    seen = []
    for name in list(environ):
        seen.append(credentials_from(parsed(), environ).auth_version)
        del environ[name]
    assert seen == ["1.0", "2.0", "3"]


@pytest.mark.parametrize(
    ("text", "insecure"),
    [("true", True), ("1", True), ("Yes", True), ("on", True), ("t", True), ("y", True),
     ("0", False), ("false", False), ("no", False), ("", False)],
)  # fmt: skip
def test_insecure_in_the_environment(text: str, insecure: bool) -> None:
    assert credentials_from(parsed(), {"SWIFTCLIENT_INSECURE": text}).insecure is insecure
    assert credentials_from(parsed("--insecure"), {"SWIFTCLIENT_INSECURE": text}).insecure


OLD = {"ST_AUTH": "http://old/auth/v1.0", "ST_USER": "a:u", "ST_KEY": "k"}
NEW = {"OS_AUTH_URL": "http://ks/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p",
       "OS_PROJECT_NAME": "p", "OS_USER_DOMAIN_NAME": "d"}  # fmt: skip
TOKEN = {"OS_AUTH_TOKEN": "t", "OS_STORAGE_URL": "http://h/v1/A"}


def test_login_options_override_a_token_in_the_environment() -> None:
    c = credentials_from(parsed("-A", "http://h", "-U", "u", "-K", "k"), TOKEN)
    assert c.os_auth_token == ""
    assert c.os_storage_url == "http://h/v1/A"
    typed = credentials_from(parsed("-U", "u", "-T", "typed"), TOKEN)
    assert typed.os_auth_token == "typed"


@pytest.mark.parametrize("environ", [OLD, NEW, OLD | NEW], ids=["old", "new", "both"])
def test_a_token_option_overrides_a_login_in_the_environment(environ: dict[str, str]) -> None:
    typed = ["-T", "typed", "-S", "http://h/v1/A"]
    assert plan_login(credentials_from(parsed(*typed), environ)) is None


def test_a_token_option_is_renewed_by_login_options() -> None:
    typed = ["-T", "typed", "-S", "http://h/v1/A", "-K", "k"]
    login = plan_login(credentials_from(parsed(*typed), OLD))
    assert login is not None
    assert login.method == "v1password"


def test_options_that_count_as_given() -> None:
    assert not given_on_command_line(parsed("--os-cacert", "f", "--insecure"))
    for argv in (["-A", "x"], ["-T", "x"], ["-S", "http://h/v1/A"], ["--os-username", "x"]):
        assert given_on_command_line(parsed(*argv))
