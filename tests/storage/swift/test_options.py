from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from ssbench.core.errors import UsageError
from ssbench.core.option import AssumedUrl
from ssbench.storage.options import StoreOptions, scheme_notes
from ssbench.storage.swift.login import Authenticator
from ssbench.storage.swift.options import (
    LoginOptions,
    check_http_url,
    choose_version,
    login_options,
    parse_version,
    plan_login,
)

OLD = {"auth": "http://h/auth/v1.0", "user": "test:tester", "key": "k3y"}
NEW = {"os_auth_url": "http://ks:5000", "os_username": "me", "os_password": "pw"}
APP = {
    "os_auth_url": "http://ks:5000/v3",
    "os_application_credential_id": "id",
    "os_application_credential_secret": "shh",
}


def test_unknown_versions_and_types_are_reported_with_the_valid_ones() -> None:
    with pytest.raises(UsageError, match=r"auth version '4' is unknown: give one of 1, 1\.0, 2"):
        parse_version("4")
    with pytest.raises(UsageError, match=r"auth type 'kerberos' is unknown: .*v1password"):
        choose_version(LoginOptions(**NEW, os_auth_type="kerberos"))


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"auth": "http://h", "user": "u"}, "-K/--key (ST_KEY) missing"),
        ({"key": "k"}, "-A/--auth (ST_AUTH) and -U/--user (ST_USER) missing"),
        (NEW, "--os-project-name (OS_PROJECT_NAME) missing"),
        ({**NEW, "auth_version": "3"}, "--os-project-name (OS_PROJECT_NAME) missing"),
        ({**NEW, "os_password": "", "os_tenant_id": "t"}, "--os-password (OS_PASSWORD) missing"),
        (
            {**APP, "os_application_credential_secret": ""},
            "--os-application-credential-secret (OS_APPLICATION_CREDENTIAL_SECRET) missing",
        ),
        ({"os_auth_token": "t"}, "or give a storage URL with the token: -S (OS_STORAGE_URL)"),
        ({"os_storage_url": "http://h/v1/a"}, "or give a token with the storage URL: -T"),
    ],
)
def test_missing_options_are_named(options: dict[str, str], missing: str) -> None:
    with pytest.raises(UsageError) as caught:
        plan_login(LoginOptions(**options))
    assert missing in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["k3y\n", " k3y", "k\x003y"])
def test_a_key_unfit_for_headers_is_rejected_and_not_shown(key: str) -> None:
    with pytest.raises(UsageError, match="the key begins or ends") as caught:
        plan_login(LoginOptions(**{**OLD, "key": key}))
    assert "3y" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["h/auth", "h:x/auth", "ftp://h/", "http://", "http://h:99999/", "http://h/a b", "http://[::1"],
)
def test_invalid_urls(url: str) -> None:
    with pytest.raises(UsageError, match="is invalid: it should look like http://host:port/path"):
        check_http_url(url, "auth URL")


@pytest.mark.parametrize(
    "url", ["http://node[01-02]:9000/v1", "node[1,3]:9000", "node{1...2}:9000", "http://n{a,b}/dav"]
)
def test_a_range_of_hosts_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="only --ssh-workers takes ranges of hosts: repeat"):
        check_http_url(url, "the URL")
    assert check_http_url("http://[::1]:80/{a,b}[1]", "the URL")


@pytest.mark.parametrize("auth", ["http://::1]:8080/v3", "http://[::1/v3"])
def test_an_auth_url_with_an_unclosed_bracket_is_rejected(auth: str) -> None:
    with pytest.raises(UsageError, match="is invalid: it should look like"):
        plan_login(LoginOptions(auth=auth, user="u", os_password="p", os_project_name="q"))


@pytest.mark.parametrize("url", ["http://u:s3cret@h/", "http://u:s3c/ret@h/", "u:s3cret@h"])
def test_urls_with_passwords_are_rejected_and_not_shown(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_http_url(url, "auth URL")
    assert "s3c" not in str(caught.value)


@pytest.mark.parametrize(
    ("auth", "url"),
    [
        ("h:8080/auth/v1.0", "https://h:8080/auth/v1.0"),
        ("127.example.com:80/a", "https://127.example.com:80/a"),
        *(
            (f"{local}:80/a", f"http://{local}:80/a")
            for local in ("127.0.0.9", "LOCALHOST", "[::1]")
        ),
    ],
)
def test_a_password_goes_to_another_host_by_https_unless_http_was_given(
    auth: str, url: str
) -> None:
    login = Authenticator(LoginOptions(auth=auth, user="u", key="k"))
    assert login.where == url
    assert login.notes == scheme_notes([AssumedUrl(url)])


OLD_VARIABLES = {"ST_AUTH": "http://old/auth/v1.0", "ST_USER": "a:u", "ST_KEY": "k"}
NEW_VARIABLES = {
    "OS_AUTH_URL": "http://ks/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p",
    "OS_PROJECT_NAME": "p", "OS_USER_DOMAIN_NAME": "d",
}  # fmt: skip


def test_a_given_token_goes_before_a_login_in_the_environment() -> None:
    token, url = {"os_auth_token": "typed"}, {"os_storage_url": "http://h/v1/A"}
    for environ in (OLD_VARIABLES, NEW_VARIABLES, OLD_VARIABLES | NEW_VARIABLES):
        both = StoreOptions(given=token | url, environ=environ)
        assert plan_login(login_options(both)) is None
    login = plan_login(login_options(StoreOptions(given=token, environ=NEW_VARIABLES)))
    assert login is not None, "it is exchanged"
    assert (login.method, login.arguments["token"]) == ("v3token", "typed")


NAMES = [f.name for f in fields(LoginOptions) if f.type is str]


@given(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["", "x", "3", "http://h/", "v1"])))
def test_any_combination_is_planned_or_a_usage_error(options: dict[str, str]) -> None:
    """Invariant: plan_login returns a login with all that its method needs, None, or UsageError."""
    try:
        login = plan_login(LoginOptions(**options))
    except UsageError:
        return
    if login is None:
        assert options["os_auth_token"]
        assert options["os_storage_url"]
    else:
        assert login.url.startswith("http://h/")
        assert all(login.arguments.values())


def test_no_secret_is_in_a_repr() -> None:
    secrets = {
        "key": "SECRET1",
        "os_password": "SECRET2",
        "os_auth_token": "SECRET3",
        "os_application_credential_secret": "SECRET4",
    }
    credentials = LoginOptions(auth="http://h", user="u", **secrets)
    assert "SECRET" not in repr(credentials)
    assert "SECRET" not in repr(plan_login(credentials))
