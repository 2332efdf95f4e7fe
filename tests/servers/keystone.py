"""A real Keystone (v3) with a real Swift behind it, both on loopback."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ssbench.embedded import EmbeddedSwift
from ssbench.embedded.launcher import bound_socket
from ssbench.embedded.plan import PIPELINE
from ssbench.host.process import child_environment
from tests.servers.swift import swift_options
from tests.timing import PATIENCE_S

ADMIN_PASSWORD = "keystone-admin"
SERVICE_PASSWORD = "swift-service"


@dataclass(frozen=True)
class Account:
    """What a client gives to Keystone; ``domain`` is the user's and the project's."""

    user: str
    password: str
    project: str
    domain: str


#: One in the default domain, one in a domain of its own.
TESTER = Account("tester", "testing", "test", "Default")
STRANGER = Account("stranger", "strange", "faraway", "Elsewhere")


class KeystoneSwift:
    """Keystone at ``auth_url``, Swift in its catalog (region RegionOne), from ``with`` on.

    ``app_id`` and ``app_secret`` are an application credential of TESTER's.
    """

    def __init__(self) -> None:
        self.app_id = ""
        self.app_secret = ""

    def __enter__(self) -> KeystoneSwift:
        with contextlib.ExitStack() as opened:
            top = opened.enter_context(tempfile.TemporaryDirectory(prefix="ssbench-keystone-"))
            listener = opened.enter_context(bound_socket("127.0.0.1", 0))
            self.auth_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v3"
            self._process = spawn(top, listener.fileno(), self.auth_url)
            opened.callback(self._end)
            listener.close()
            self.swift = opened.enter_context(
                EmbeddedSwift(swift_options(proxy_conf=proxy_conf(self.auth_url)))
            )
            self._api = self._wait_until_ready(f"{top}/output")
            self._furnish()
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _wait_until_ready(self, output: str) -> Api:
        deadline = time.monotonic() + PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                return Api(self.auth_url, Account("admin", ADMIN_PASSWORD, "admin", "Default"))
            time.sleep(0.05)
        with open(output, errors="replace") as file:
            raise AssertionError(f"Keystone gave no answer: {file.read()[-3000:]}")

    def _furnish(self) -> None:
        """Users, projects and the object store's catalog entry."""
        api = self._api
        api.post("domains", "domain", name="Elsewhere")
        roles = {role["name"]: role["id"] for role in api.get("roles")["roles"]}
        service = Account("swift", SERVICE_PASSWORD, "service", "Default")
        for account, role in ((service, "service"), (TESTER, "member"), (STRANGER, "member")):
            api.enrol(account, roles[role])
        url = f"{self.swift.base_url}/v1/KEY_%(project_id)s"
        store = api.post("services", "service", name="swift", type="object-store")
        api.post(
            "endpoints",
            "endpoint",
            interface="public",
            region_id="RegionOne",
            service_id=store["id"],
            url=url,
        )
        tester = Api(self.auth_url, TESTER)
        made = tester.post(
            f"users/{tester.user_id}/application_credentials",
            "application_credential",
            name="ssbench",
        )
        self.app_id, self.app_secret = made["id"], made["secret"]


def spawn(top: str, fd: int, auth_url: str) -> subprocess.Popen[bytes]:
    settings = {"top": top, "url": auth_url.removesuffix("/v3"), "password": ADMIN_PASSWORD}
    with open(f"{top}/output", "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.servers.keystone_server", str(fd)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=(fd,),
            cwd=Path(__file__).parents[2],  # where the package "tests" is
            env=child_environment(()),
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(settings).encode() + b"\n")
    process.stdin.flush()
    return process


def proxy_conf(auth_url: str) -> dict[str, dict[str, str]]:
    """What makes a Swift take Keystone's tokens beside its own."""
    return {
        "pipeline:main": {
            "pipeline": PIPELINE.replace(
                "s3api tempauth", "authtoken s3api s3token keystoneauth tempauth"
            )
        },
        "filter:authtoken": {
            "paste.filter_factory": "keystonemiddleware.auth_token:filter_factory",
            "www_authenticate_uri": auth_url,
            "auth_url": auth_url,
            "auth_type": "password",
            "project_domain_id": "default",
            "user_domain_id": "default",
            "project_name": "service",
            "username": "swift",
            "password": SERVICE_PASSWORD,
            "delay_auth_decision": "true",
            "cache": "swift.cache",
            "include_service_catalog": "false",
        },
        "filter:s3token": {"use": "egg:swift#s3token", "auth_uri": auth_url},
        "filter:keystoneauth": {
            "use": "egg:swift#keystoneauth",
            "operator_roles": "admin, member",
            "reseller_prefix": "KEY",
        },
    }


class Api:
    """Keystone's API, as one account."""

    def __init__(self, auth_url: str, account: Account) -> None:
        self._url = auth_url
        domain = {"name": account.domain}
        user = {"name": account.user, "domain": domain, "password": account.password}
        identity = {"methods": ["password"], "password": {"user": user}}
        scope = {"project": {"name": account.project, "domain": domain}}
        answer = self._call(
            "POST", "auth/tokens", {"auth": {"identity": identity, "scope": scope}}, {}
        )
        self._headers = {"X-Auth-Token": answer["X-Subject-Token"]}
        self.user_id: str = answer["token"]["user"]["id"]

    def get(self, path: str) -> dict[str, Any]:
        return self._call("GET", path, None, self._headers)

    def post(self, path: str, kind: str, **values: object) -> dict[str, Any]:
        """Make a thing of that kind; what was made."""
        made: dict[str, Any] = self._call("POST", path, {kind: values}, self._headers)[kind]
        return made

    def enrol(self, account: Account, role_id: str) -> None:
        """Make the account's project and user, and give the user that role in it."""
        domains = self.get(f"domains?name={account.domain}")["domains"]
        domain_id = domains[0]["id"]
        project = self.post("projects", "project", name=account.project, domain_id=domain_id)
        user = self.post(
            "users", "user", name=account.user, password=account.password, domain_id=domain_id
        )
        path = f"projects/{project['id']}/users/{user['id']}/roles/{role_id}"
        self._call("PUT", path, None, self._headers)

    def _call(self, method: str, path: str, body: Any, headers: dict[str, str]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self._url}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **headers},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            token = answer.headers.get("X-Subject-Token")
            found: dict[str, Any] = json.loads(answer.read() or b"{}")
        return {**found, "X-Subject-Token": token} if token else found
