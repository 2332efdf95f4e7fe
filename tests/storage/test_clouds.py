"""Logins of clouds.yaml, and what is wrong with such files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ssbench.core.errors import UsageError
from ssbench.storage.options import StoreOptions
from ssbench.storage.swiftlogin import LoginOptions, login_options, plan_login

PASSWORD = """\
clouds:
  mine:
    auth:
      auth_url: http://k:5000
      username: me
      password: s3cret
      project_name: p
      user_domain_name: Default
      project_domain_id: default
    regions: [one, two]
    interface: internal
    verify: false
    cacert: ca.pem
  other: {auth: {auth_url: http://o/v3}}
"""
Log = Callable[..., LoginOptions]


@pytest.fixture
def log_in(tmp_path: Path) -> Log:
    """Options of a login to the cloud "mine" of a file."""

    def options(text: str, given: Mapping[str, Any] | None = None, **environ: str) -> LoginOptions:
        path = tmp_path / "clouds.yaml"
        path.write_text(text)
        return login_options(
            StoreOptions(
                given={"os_cloud": "mine"} if given is None else given,
                environ={"OS_CLIENT_CONFIG_FILE": str(path), **environ},
            )
        )

    return options


def test_a_password_with_region_interface_and_tls(log_in: Log) -> None:
    found = log_in(PASSWORD)
    login = plan_login(found)
    assert login is not None
    assert (login.method, login.url) == ("v3password", "http://k:5000/v3")
    assert login.arguments == {
        "username": "me", "password": "s3cret", "project_name": "p",
        "user_domain_name": "Default", "project_domain_id": "default",
    }  # fmt: skip
    assert (found.os_region_name, found.os_endpoint_type) == ("one", "internal")
    assert (found.insecure, found.os_cacert) == (True, "ca.pem")
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("cloud", "method"),
    [
        ("auth_type: v3applicationcredential, auth: {auth_url: U, application_credential_id: i, "
         "application_credential_secret: s}", "v3applicationcredential"),
        ("auth_type: v2password, auth: {auth_url: U, username: u, password: 123, tenant_name: t}",
         "v2password"),
        ("identity_api_version: 2, auth: {auth_url: U, username: u, password: p, project_name: t}",
         "v2password"),
        ("auth: {auth_url: U/v2.0, username: u, password: p, project_name: t}", "v2password"),
        ("auth_type: token, auth: {auth_url: U, token: t, project_id: p}", "v3token"),
        ("username: u, password: p, auth: {auth_url: U, project_id: p}", "v3password"),
    ],
)  # fmt: skip
def test_kinds_of_logins(log_in: Log, cloud: str, method: str) -> None:
    login = plan_login(log_in(f"clouds: {{mine: {{{cloud}}}}}".replace("U", "http://k")))
    assert login is not None
    assert login.method == method


def test_the_command_line_overrides_the_cloud(log_in: Log) -> None:
    given = {"os_cloud": "mine", "os_username": "you", "os_region_name": "two"}
    found = log_in(PASSWORD, given, OS_PASSWORD="env", ST_KEY="env", OS_AUTH_TOKEN="env")
    assert (found.os_username, found.os_region_name) == ("you", "two")
    assert (found.os_password, found.key, found.os_auth_token) == ("s3cret", "", "")


def test_the_variable_names_a_cloud_unless_another_login_is_given(log_in: Log) -> None:
    assert log_in(PASSWORD, {}, OS_CLOUD="mine").os_username == "me"
    for given in ({"auth": "http://a", "user": "u", "key": "k"}, {"os_username": "you"}):
        assert log_in(PASSWORD, given, OS_CLOUD="mine").os_password == ""


def test_secrets_of_another_file_are_added(log_in: Log, tmp_path: Path) -> None:
    secure = tmp_path / "secure.yaml"
    secure.write_text("clouds: {mine: {auth: {password: other}}}")
    text = PASSWORD.replace("      password: s3cret\n", "")
    assert log_in(text, OS_CLIENT_SECURE_FILE=str(secure)).os_password == "other"


@pytest.mark.parametrize(
    ("text", "given", "says"),
    [
        (PASSWORD, {"os_cloud": "mime"}, "clouds.yaml has no such cloud; it has mine, other"),
        ("clouds: {}", {"os_cloud": "mine"}, "clouds.yaml has no such cloud; it has none"),
        (PASSWORD, {"os_cloud": "mine", "os_region_name": "three"}, "three is not a valid region"),
        ("clouds: {mine: [s3cret]}", None, "malformed"),
        ("clouds: {mine: {auth: s3cret}}", None, "malformed"),
        (
            "clouds: {mine: {auth: {auth_url: http://k}, region_name: '{s3cret}'}}",
            None,
            "malformed",
        ),
        ("clouds: [s3cret]", None, "malformed"),
        ("s3cret", None, "not a valid mapping"),
        ("clouds: {mine: s3cret", None, "not readable, or not YAML: "),
        ("clouds: {mine: {auth_type: none, auth: {auth_url: http://k}}}", None, "auth type 'none'"),
        ("clouds: {mine: {auth: {auth_url: http://k}}}", None, "credentials are incomplete"),
    ],
)
def test_wrong_files_are_errors_that_show_no_value(
    log_in: Log, text: str, given: Mapping[str, Any] | None, says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        plan_login(log_in(text, given))
    assert says in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_without_openstacksdk_the_message_says_how_to_get_it(
    log_in: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openstack.config", None)
    with pytest.raises(UsageError, match=r"pip install '\.\[clouds\]'"):
        log_in(PASSWORD)
