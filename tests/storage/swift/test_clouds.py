"""Logins of clouds.yaml, and what is wrong with such files."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import ModuleType
from typing import Any

import pytest

from ssbench.commands.transfer.settings import env_file
from ssbench.core.errors import AuthError, UsageError
from ssbench.host import files
from ssbench.storage.options import StoreOptions
from ssbench.storage.swift.login import Authenticator
from ssbench.storage.swift.options import LoginOptions, cloud_values, login_options, plan_login
from tests.fakes.keystone_v3 import KeystoneV3

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


def cloud_read(data: bytes) -> None:
    with NamedTemporaryFile() as file, warnings.catch_warnings():
        file.write(data)
        file.flush()
        environ = {"OS_CLIENT_CONFIG_FILE": file.name}
        values = cloud_values("mine", environ, None)
    assert all(type(value) in (str, bool, tuple) for value in values.values())
    assert sum(map(len, filter(None, map(str, values.values())))) <= 1000 + 10 * len(data)


CLOUDS = [
    PASSWORD.encode(),
    b"clouds: {mine: {auth_type: v3token, auth: {auth_url: 'http://k', token: abc}}}\n",
    b"a: &a [x, x]\nb: &b [*a, *a]\nclouds: {mine: {auth: {username: me}, regions: *b}}\n",
]


def test_no_file_is_used_that_another_user_has_placed_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be merged with the user's own, and say where the password is sent."""
    # Before chdir: openstacksdk keeps the working directory of its import.
    monkeypatch.setattr("openstack.config.loader.CONFIG_FILES", [str(tmp_path / "clouds.yaml")])
    monkeypatch.chdir(tmp_path)
    Path("clouds.yaml").write_text(PASSWORD)
    Path(".env").write_text("OS_AUTH_URL=http://k")
    mine = os.stat_result([0o100644, 0, 0, 1, os.geteuid(), *[0] * 5])
    theirs = os.stat_result([0o100644, 0, 0, 1, os.geteuid() + 1, *[0] * 5])
    for mode, facts in ((0o775, theirs), (0o777, mine), (0o1777, mine)):
        tmp_path.chmod(mode)
        monkeypatch.setattr("ssbench.host.files.os.lstat", lambda path, facts=facts: facts)
        assert cloud_values("mine", {}, None)["os_password"] == "s3cret"
        assert env_file(Path(".env"), {}) == {"OS_AUTH_URL": "http://k"}
    monkeypatch.setattr("ssbench.host.files.os.lstat", lambda path: theirs)
    for mode in (0o1777, 0o1770, 0o777):
        tmp_path.chmod(mode)
        with pytest.raises(UsageError, match=r"clouds\.yaml: another user has placed it there"):
            cloud_values("mine", {}, None)
        with pytest.raises(UsageError, match=r"\.env: another user has placed it there"):
            env_file(Path(".env"), {})
    named = {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")}
    monkeypatch.setattr("openstack.config.loader.CONFIG_FILES", [])
    assert cloud_values("mine", named, None)["os_password"] == "s3cret"


def test_no_file_is_used_that_another_user_places_while_the_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openstacksdk opens them again, by their names, after they were checked."""
    home, placed = tmp_path / "home.yaml", tmp_path / "clouds.yaml"
    home.write_text(PASSWORD)
    tmp_path.chmod(0o1777)

    def read_found(path: str) -> str:
        placed.write_text(PASSWORD.replace("http://k", "http://theirs"))
        return files.read_found(path)

    monkeypatch.setattr("openstack.config.loader.CONFIG_FILES", [str(placed), str(home)])
    monkeypatch.setattr("ssbench.storage.swift.options.read_found", read_found)
    assert cloud_values("mine", {}, None)["os_auth_url"] == "http://k:5000"
    assert placed.exists()


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
        # Those that need no auth_type: nothing else can be meant.
        ("auth: {auth_url: U, application_credential_id: i, application_credential_secret: s}",
         "v3applicationcredential"),
        ("auth: {auth_url: U, token: t, project_id: p}", "v3token"),
    ],
)  # fmt: skip
def test_kinds_of_logins(log_in: Log, cloud: str, method: str) -> None:
    login = plan_login(log_in(f"clouds: {{mine: {{{cloud}}}}}".replace("U", "http://k")))
    assert login is not None
    assert login.method == method


USER = "username: me, password: pass-3, user_domain_id: default"
AUTH = f"auth: {{auth_url: U, {USER}, project_name: p, project_domain_id: d}}"
APPLICATION = (
    "auth_type: v3applicationcredential, auth: {auth_url: U,"
    " application_credential_secret: app-secret, "
)


@pytest.mark.parametrize(
    "cloud",
    [
        AUTH,
        f"{AUTH}, region_name: south",
        f"{AUTH}, region_name: south, object_store_region_name: north",
        f"{AUTH}, swift_region_name: south",
        f"{AUTH}, regions: [south, north]",
        f"{AUTH}, regions: [{{name: south, values: {{interface: internal}}}}]",
        f"{AUTH}, interface: internal",
        f"{AUTH}, endpoint_type: internalURL",
        f"{AUTH}, interface: [admin, internal, public]",
        f"{AUTH}, interface: internal, object_store_interface: public",
        f"{AUTH}, object_store_interface: internal",
        f"{AUTH}, object_store_endpoint: http://mine.test/v1/A",
        f"{AUTH}, object_store_endpoint_override: http://mine.test/v1/A",
        f"{AUTH}, object_store_endpoint: http://a.test, object_store_endpoint_override: http://b.test",
        f"{AUTH}, swift_endpoint_override: http://mine.test/v1/A",
        f"{AUTH}, object_store_endpoint_override: 'http://mine.test/v1/AUTH_%(project_id)s'",
        f"{AUTH}, object_store_service_type: swift-2",
        f"{AUTH}, object_store_service_name: other",
        f"auth: {{auth_url: U, {USER}, default_domain_id: d, project_name: p}}",
        f"auth: {{auth_url: U, {USER}, tenant_id: p}}",
        "username: me, password: pass-3, user_domain_id: default, project_id: p,"
        " auth: {auth_url: U}",
        "auth_type: v3token, auth: {auth_url: U, token: given-token, project_id: p}",
        f"{APPLICATION}application_credential_id: app-id}}",
        f"{APPLICATION}application_credential_name: n, username: me, user_domain_name: x}}",
        f"{APPLICATION}application_credential_name: n, user_id: me}}",
    ],
)
def test_a_cloud_means_what_openstacksdk_makes_of_it(tmp_path: Path, cloud: str) -> None:
    """The same login is sent, and the same storage URL chosen."""
    from openstack.config import loader  # loads slowly

    path = tmp_path / "clouds.yaml"
    with AnyUser() as keystone:
        path.write_text(f"clouds: {{mine: {{{cloud}}}}}".replace("U", f"{keystone.url}/v3", 1))
        with warnings.catch_warnings():  # of parts of openstacksdk that are not used
            warnings.simplefilter("ignore")
            config = loader.OpenStackConfig([str(path)], secure_files=[], load_envvars=False)
            region = config.get_one("mine")
            session = region.get_session()
            client = region.get_session_client("object-store")
            wanted = client.get_endpoint(skip_discovery=True)
            wanted = wanted and wanted % {"project_id": session.get_project_id()}
            session.get_token()
        mine = StoreOptions(
            given={"os_cloud": "mine"}, environ={"OS_CLIENT_CONFIG_FILE": str(path)}
        )
        try:
            found = Authenticator(login_options(mine)).log_in().settings["urls"][0]
        except AuthError:  # nothing of the catalog fits
            found = None
        theirs, ours = (each.json()["auth"] for each in keystone.seen if each.method == "POST")
    assert found == wanted
    assert ours == theirs


class AnyUser(KeystoneV3):
    """Lets everybody in, and has three object stores."""

    def __init__(self) -> None:
        super().__init__()
        (store, *_) = self.catalog
        endpoint = {**store["endpoints"][0], "url": "http://second.test/v1/A"}
        second = {**store, "name": "other", "id": "s3", "endpoints": [endpoint]}
        self.catalog += [second, {**second, "type": "swift-2", "id": "s4"}]

    def _is_known(self, identity: dict[str, Any]) -> bool:
        return True


def test_values_that_yaml_changes_are_named_and_not_shown(log_in: Log) -> None:
    text = PASSWORD.replace("s3cret", "0123456").replace("project_name: p", "project_name: 0001")
    (note,) = log_in(text).notes
    assert "takes auth.password, auth.project_name of clouds.yaml for" in note
    assert "quotes" in note
    assert "42798" not in note
    assert log_in(PASSWORD.replace("s3cret", "'0123456'")).notes == ()


def test_without_a_home_directory_the_message_says_so(
    log_in: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openstack.config", Homeless("openstack.config"))
    with pytest.raises(UsageError, match="could not determine the home directory"):
        log_in(PASSWORD)


class Homeless(ModuleType):
    """openstacksdk asks for its folders when it is imported."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("could not determine the home directory for '~/.config'")


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
        (
            "clouds: {mine: {auth: {auth_url: http://k, trust_id: s3cret, system_scope: all}}}",
            None,
            "ssbench does not support system_scope, trust_id in auth of clouds.yaml",
        ),
        (
            f"clouds: {{mine: {{{APPLICATION.replace('U', 'http://k')}"
            "application_credential_name: n}}}",
            None,
            "credentials are incomplete: --os-username (OS_USERNAME) missing",
        ),
        # A vendor's profile that openstacksdk has to fetch.
        (
            "clouds: {mine: {profile: 'http://me:s3cret@127.0.0.1:1', auth: {password: s3cret}}}",
            None,
            "its profile http://127.0.0.1:1/.well-known/openstack/api: connection refused",
        ),
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
