"""Redirects on real sockets: no token and no password goes where it wasn't meant to go."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from ssbench.core.errors import AuthError
from ssbench.storage.http.session import SameHostSession
from ssbench.storage.options import HttpSettings
from ssbench.storage.swift.login import Authenticator
from ssbench.storage.swift.options import LoginOptions
from tests.fakes.loopback_http import Answer, LoopbackServer, Request
from tests.servers.certificates import Certificates

STATUSES = (301, 302, 303, 307, 308)
PASSWORD = "pw-not-for-you"


class StorageUrl(LoopbackServer):
    """Sends everybody somewhere else."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
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


@pytest.mark.parametrize(
    "location",
    [
        r"http://{there}\@{here}/v3/auth/tokens",  # requests goes to the first
        r"//{there}\@{here}/v3/auth/tokens",
        "http://[/",
        "http://\xe2\x84\x80/",  # a character that some take for several
        "http://\xff/",
        "http://{there}#@{here}/",
    ],
)
@pytest.mark.parametrize("login", LOGINS.values(), ids=LOGINS)
def test_no_password_goes_where_two_readers_of_a_url_disagree_on_its_host(
    elsewhere: StorageUrl, login: Callable[[str], LoginOptions], location: str
) -> None:
    with StorageUrl() as site:
        here, there = (each.url.removeprefix("http://") for each in (site, elsewhere))
        site.location = location.format(here=here, there=there)
        with pytest.raises(AuthError, match=r"redirects to another host") as caught:
            Authenticator(login(site.url)).log_in()
    assert elsewhere.seen == []
    assert PASSWORD not in str(caught.value)


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
