from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from ssbench.core.errors import UsageError
from ssbench.core.option import AssumedUrl
from ssbench.storage.options import scheme_notes
from ssbench.storage.swift.login import Authenticator
from ssbench.storage.swift.options import (
    LoginOptions,
    check_http_url,
    choose_version,
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


@pytest.mark.parametrize(
    ("given_options", "version"),
    [
        (OLD, "1.0"),
        ({**OLD, "os_project_domain_id": "d"}, "1.0"),
        ({**OLD, "auth_version": "2"}, "2.0"),
        ({**OLD, "auth_version": "3"}, "3"),
        (NEW, "2.0"),
        ({**NEW, "auth_version": "1.0"}, "2.0"),
        ({**NEW, "os_user_domain_id": "d"}, "3"),
        ({**NEW, "os_user_domain_name": "d"}, "3"),
        ({**NEW, "os_project_domain_id": "d"}, "3"),
        ({**NEW, "os_project_domain_name": "d"}, "3"),
        ({**NEW, "auth_version": "2.0", "os_user_domain_id": "d"}, "2.0"),
        ({**NEW, "os_auth_url": "http://ks:5000/v3"}, "3"),
        ({**NEW, "os_auth_url": "http://ks:5000/v3/"}, "3"),
        ({**NEW, "os_auth_url": "http://ks:5000/v2.0"}, "2.0"),
        ({"auth": "http://h", "user": "u"}, "2.0"),
        (APP, "3"),
        ({**NEW, "os_auth_type": "v1password"}, "1.0"),
        ({**OLD, "os_auth_type": "v2password"}, "2.0"),
        ({**OLD, "os_auth_type": "v3password"}, "3"),
        ({**NEW, "os_auth_type": "v3applicationcredential", "auth_version": "2"}, "3"),
        ({**NEW, "os_auth_type": "password"}, "2.0"),
    ],
)
def test_version_follows_from_what_is_given(given_options: dict[str, str], version: str) -> None:
    assert choose_version(LoginOptions(**given_options)) == version


def test_unknown_versions_and_types_are_reported_with_the_valid_ones() -> None:
    with pytest.raises(UsageError, match=r"auth version '4' is unknown: give one of 1, 1\.0, 2"):
        parse_version("4")
    with pytest.raises(UsageError, match=r"auth type 'kerberos' is unknown: .*v1password"):
        choose_version(LoginOptions(**NEW, os_auth_type="kerberos"))


def test_version_2_login_completes_the_url_and_takes_the_tenant_from_the_user() -> None:
    options = {**OLD, "auth": "http://ks:5000/", "auth_version": "2"}
    login = plan_login(LoginOptions(**options))
    assert login is not None
    assert (login.method, login.url) == ("v2password", "http://ks:5000/v2.0")
    expected = {"username": "tester", "password": "k3y", "tenant_name": "test"}
    assert login.arguments == expected


def test_given_domains_are_kept_and_ids_need_none() -> None:
    named = plan_login(
        LoginOptions(**NEW, os_tenant_name="p", os_user_domain_name="X", os_project_domain_name="Y")
    )
    assert named is not None
    assert named.arguments["user_domain_name"] == "X"
    assert "user_domain_id" not in named.arguments
    assert "project_domain_id" not in named.arguments
    by_id = plan_login(
        LoginOptions(
            os_auth_url="http://ks/identity/v3", os_user_id="u", os_password="pw", os_project_id="p"
        )
    )
    assert by_id is not None
    assert by_id.url == "http://ks/identity/v3"
    assert by_id.arguments == {"user_id": "u", "password": "pw", "project_id": "p"}


def test_application_credentials_need_no_project() -> None:
    login = plan_login(LoginOptions(**APP))
    assert login is not None
    assert login.method == "v3applicationcredential"
    assert login.arguments == {
        "application_credential_id": "id",
        "application_credential_secret": "shh",
    }


def test_without_options_the_ways_to_log_in_are_named() -> None:
    with pytest.raises(UsageError) as caught:
        plan_login(LoginOptions())
    for word in ("ST_AUTH", "ST_USER", "ST_KEY", "OS_AUTH_URL", "OS_PASSWORD", "OS_CLOUD", "-A",
                 "-T and -S", "OS_STORAGE_URL", "--embedded-swift"):  # fmt: skip
        assert word in str(caught.value)


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
    ("text", "url"),
    [
        ("h:8080/auth", "http://h:8080/auth"),
        ("s3.example.com:443", "https://s3.example.com:443"),
        ("10.0.0.1:9443/a?b=secret", "https://10.0.0.1:9443/a?b=secret"),
        ("[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_without_a_scheme_the_port_decides_and_the_user_is_told(text: str, url: str) -> None:
    found = check_http_url(text, "URL")
    assert found == url
    [note] = scheme_notes([found, "http://h:1"])
    assert f"so {'/'.join(url.split('/')[:3])} is used" in note


@pytest.mark.parametrize(
    ("auth", "url"),
    [("h:8080/auth/v1.0", "https://h:8080/auth/v1.0"), ("127.0.0.1:80/a", "http://127.0.0.1:80/a")],
)
def test_a_password_goes_to_another_host_by_https_unless_http_was_given(
    auth: str, url: str
) -> None:
    login = Authenticator(LoginOptions(auth=auth, user="u", key="k"))
    assert login.where == url
    assert login.notes == scheme_notes([AssumedUrl(url)])


@given(st.text(max_size=60))
def test_check_http_url_gives_the_url_or_a_usage_error(text: str) -> None:
    """Invariant: any text is either returned, perhaps with a scheme, free of blanks, or refused."""
    try:
        url = check_http_url(text, "URL")
    except UsageError:
        return
    assert url.endswith(text)
    assert url.lower().startswith(("http://", "https://"))
    assert " " not in text
    assert text.isprintable()


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
