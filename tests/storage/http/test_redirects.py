"""Redirects on real sockets: no token and no password goes where it wasn't meant to go."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from msgspec.structs import replace

from ssbench.core.errors import AuthError, StorageError
from ssbench.core.model import ErrorKind, Job, SizeClass
from ssbench.core.operations import CRUD, Operation
from ssbench.core.scenario.values import crud_profile
from ssbench.storage.http.session import SameHostSession
from ssbench.storage.options import HttpSettings, shown_url
from ssbench.storage.swift.login import Authenticator
from ssbench.storage.swift.options import LoginOptions
from tests.fakes.drivers import WholeDriver, driver_settings
from tests.fakes.loopback_http import Answer, LoopbackServer, Request
from tests.servers.certificates import Certificates

STATUSES = (301, 302, 303, 307, 308)
TOKEN, PASSWORD = "AUTH_tk-not-for-you", "pw-not-for-you"
SIZES = (SizeClass("tiny", 1, 99, crud_profile([1, 1, 1, 1]), 10),)


class StorageUrl(LoopbackServer):
    """Sends everybody somewhere else."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.location = ""
        self.status = 302

    def answer(self, request: Request) -> Answer:
        return Answer(self.status, {"Location": self.location} if self.location else {})


@pytest.fixture(params=["http", "https"])
def site(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[StorageUrl]:
    with StorageUrl(certificates.server_context() if request.param == "https" else None) as made:
        yield made


@pytest.fixture
def elsewhere() -> Iterator[StorageUrl]:
    with StorageUrl() as made:
        yield made


#: Where a redirect may point: to the host itself, to another one, or to one without TLS.
TARGETS: dict[str, Callable[[StorageUrl, StorageUrl], str]] = {
    "same host": lambda site, elsewhere: f"{site.url}/v1/AUTH_other/x",
    "same host, by path": lambda site, elsewhere: "/v1/AUTH_other/x",
    "another host": lambda site, elsewhere: f"{elsewhere.url}/v1/AUTH_test/x",
    "another host, by slashes": lambda site, elsewhere: f"//{elsewhere.url[7:]}/x",
    "a user's": lambda site, elsewhere: f"http://{site.url.rpartition('/')[2]}@{elsewhere.url[7:]}",
}


def act(operation: Operation, storage: WholeDriver) -> object:
    return storage.actions[operation](Job(1, operation, 0, 1, 0, 50), 0)


REQUESTS: dict[str, Callable[[WholeDriver], object]] = {
    **{operation.name: partial(act, operation) for operation in CRUD},
    "container facts": lambda storage: storage.container_info("ssbench_000000"),
    "make container": lambda storage: storage.make_container("ssbench_000000"),
    "list containers": lambda storage: storage.list_containers("", "", 10),
    "list objects": lambda storage: storage.list_objects("ssbench_000000", "", 10),
    "delete object": lambda storage: storage.delete_object("ssbench_000000", "x"),
    "bulk delete": lambda storage: storage.bulk_delete("ssbench_000000", ["x"]),
    "delete container": lambda storage: storage.delete_container("ssbench_000000"),
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("ask", REQUESTS.values(), ids=REQUESTS)
def test_no_redirect_of_a_store_is_followed(
    site: StorageUrl,
    elsewhere: StorageUrl,
    certificates: Certificates,
    ask: Callable[[WholeDriver], object],
    target: Callable[[StorageUrl, StorageUrl], str],
) -> None:
    site.location = target(site, elsewhere)
    storage = WholeDriver(
        driver_settings(
            urls=(f"{site.url}/v1/AUTH_test",), token=TOKEN, run_id="run1", sizes=SIZES,
            container_count=2, cacert_pem=certificates.authority.read_text(),
        )
    )  # fmt: skip
    try:
        for times, site.status in enumerate(STATUSES, 1):
            with pytest.raises(StorageError) as caught:
                ask(storage)
            assert (caught.value.kind, caught.value.status) == (ErrorKind.STATUS, site.status)
            assert TOKEN not in str(caught.value)
            assert f"{site.status}, a redirect to {shown_url(site.location)}" in str(caught.value)
            assert len(site.seen) == times, "asked again"
    finally:
        storage.close()
    assert elsewhere.seen == []


LOGINS: dict[str, Callable[[str], LoginOptions]] = {
    "v1": lambda url: LoginOptions(auth=f"{url}/auth/v1.0", user="me", key=PASSWORD),
    "v2": lambda url: LoginOptions(
        os_auth_url=f"{url}/v2.0", os_username="me", os_password=PASSWORD, os_tenant_name="us",
        auth_version="2.0",
    ),
    "v3": lambda url: LoginOptions(
        os_auth_url=f"{url}/v3", os_username="me", os_password=PASSWORD, os_project_name="us"
    ),
    "v3 token": lambda url: LoginOptions(
        os_auth_url=f"{url}/v3", os_auth_token=PASSWORD, os_project_name="us"
    ),
    "v3 application credential": lambda url: LoginOptions(
        os_auth_url=f"{url}/v3", os_application_credential_id="a",
        os_application_credential_secret=PASSWORD,
    ),
}  # fmt: skip


@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS)
def test_no_password_goes_to_another_host(
    site: StorageUrl,
    elsewhere: StorageUrl,
    certificates: Certificates,
    login: Callable[[str], LoginOptions],
) -> None:
    site.location = f"{elsewhere.url}/v3/auth/tokens"
    credentials = replace(login(site.url), os_cacert=str(certificates.authority))
    for times, site.status in enumerate(STATUSES, 1):
        there = elsewhere.url.removeprefix("http://")
        with pytest.raises(AuthError, match=rf"redirects to another host \({there}\)") as caught:
            Authenticator(credentials).log_in()
        assert len(site.seen) == times
        assert PASSWORD not in str(caught.value)
    assert elsewhere.seen == []


@pytest.mark.parametrize("method", ["DELETE", "PUT", "delete"])
def test_a_request_that_could_change_something_is_not_repeated_elsewhere(
    elsewhere: StorageUrl, method: str
) -> None:
    elsewhere.location = "/other"
    with SameHostSession(HttpSettings()) as http:
        for times, elsewhere.status in enumerate(STATUSES, 1):
            response = http.request(method, f"{elsewhere.url}/x")
            assert response.status_code == elsewhere.status
            assert len(elsewhere.seen) == times
