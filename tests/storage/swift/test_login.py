"""Logins over real HTTP on loopback, against small fakes of each authentication service."""

from __future__ import annotations

import logging
import traceback
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from ssbench.core.errors import AuthError, RejectedError
from ssbench.core.model import Timing
from ssbench.storage.base import Access
from ssbench.storage.http import session
from ssbench.storage.http.addresses import Endpoint
from ssbench.storage.http.connection import Connection, EndpointState, Upload
from ssbench.storage.http.response import Collector
from ssbench.storage.http.session import BoundedAdapter
from ssbench.storage.options import HttpSettings
from ssbench.storage.swift.login import Authenticator
from ssbench.storage.swift.options import LoginOptions
from tests.fakes.auth_v1 import AuthV1
from tests.fakes.keystone_v2 import KeystoneV2
from tests.fakes.keystone_v3 import KeystoneV3
from tests.fakes.loopback_http import Answer, LoopbackServer, Request
from tests.fakes.piecewise_stream import PiecewiseStream
from tests.fakes.terminal import must_be_line
from tests.servers.certificates import Certificates


@pytest.fixture
def v1() -> Iterator[AuthV1]:
    with AuthV1() as fake:
        yield fake


@pytest.fixture
def v2() -> Iterator[KeystoneV2]:
    with KeystoneV2() as fake:
        yield fake


@pytest.fixture
def v3() -> Iterator[KeystoneV3]:
    with KeystoneV3() as fake:
        yield fake


def old(fake: AuthV1, **more: Any) -> LoginOptions:
    return LoginOptions(**{"auth": fake.auth_url, "user": fake.user, "key": fake.key, **more})


def new2(fake: KeystoneV2, **more: Any) -> LoginOptions:
    options = {
        "os_auth_url": fake.url,
        "os_username": fake.user,
        "os_password": fake.key,
        "os_tenant_name": fake.tenant,
    }
    return LoginOptions(**{**options, **more})


def new3(fake: KeystoneV3, **more: Any) -> LoginOptions:
    options = {
        "os_auth_url": f"{fake.url}/v3",
        "os_username": fake.user,
        "os_password": fake.key,
        "os_project_name": fake.project,
    }
    return LoginOptions(**{**options, **more})


def reached(access: Access) -> tuple[str, str]:
    """The token and the storage URL."""
    return access.credentials.payload["token"], access.settings["urls"][0]


def token_of(access: Access) -> str:
    return reached(access)[0]


def failure(credentials: LoginOptions) -> str:
    """The one line of a failed login."""
    with pytest.raises(AuthError) as caught:
        Authenticator(credentials).log_in()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- version 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(200, {}, b"<html>"), "not one of an authentication service"),
        (Answer(200, {"X-Storage-Url": "http://h/v1/a"}), "not one of an authentication service"),
        (Answer(200, {"X-Storage-Url": "no url", "X-Auth-Token": "t"}), "storage URL 'no url'"),
        (Answer(200, {"X-Storage-Url": "http://h/v1/a", "X-Auth-Token": ""}), "token is empty"),
    ],
)
def test_malformed_v1_answers(answer: Answer, says: str) -> None:
    with LoopbackServer(answer) as fake:
        text = failure(LoginOptions(auth=f"{fake.url}/auth", user="u", key="k3y"))
    assert says in text


# --- where the key goes


def test_a_redirect_on_the_same_host_is_followed(v1: AuthV1) -> None:
    plain = v1.answer

    def answer(request: Request) -> Answer:
        if request.path == "/auth":
            return Answer(302, {"Location": "/auth/v1.0"})
        return plain(request)

    v1.answer = answer  # type: ignore[method-assign]
    assert token_of(Authenticator(old(v1, auth=f"{v1.url}/auth")).log_in()) == "token-1"


def test_circular_redirects_are_an_error() -> None:
    with LoopbackServer(Answer(302, {"Location": "/again"})) as fake:
        text = failure(LoginOptions(auth=f"{fake.url}/auth", user="u", key="k"))
        assert "too many redirects" in text
        assert len(fake.seen) < 10


# --- version 2


OVERLOADED = "returned 500: the service has failed, or is overloaded: see its logs"


@pytest.mark.parametrize(
    ("version", "status", "says"),
    [
        ("1", 401, "is the user ACCOUNT:USER, and the key right? For Keystone give --auth-v"),
        ("1", 404, "no such page: is the URL right (tempauth has /auth/v1.0)? For Keystone give"),
        ("1", 412, "no such page: is the URL right (tempauth has /auth/v1.0)? (412)"),
        ("1", 400, "returned 400"),
        ("1", 405, "returned 405"),
        ("1", 499, "returned 499"),
        ("1", 500, OVERLOADED),
        ("2", 400, "Keystone finds the request malformed: check user and tenant (400)"),
        ("2", 403, "(403): check user, password and tenant, and whether this Keystone speaks v3"),
        ("2", 404, "no such page: does this Keystone speak v3? Try --auth-version 3 (404)"),
        ("2", 405, "this is not Keystone: for tempauth or swauth give --auth-version 1 (405)"),
        ("2", 412, "returned 412"),
        ("2", 500, OVERLOADED),
        ("3", 400, "the request malformed: check user, project and domains (400)"),
        ("3", 401, "(401): check user and password, and the domains of user and project"),
        ("3", 404, "no such page: is this Keystone's URL, and does it speak v3? (404)"),
        ("3", 405, "this is not Keystone: for tempauth or swauth give --auth-version 1 (405)"),
        ("3", 500, OVERLOADED),
    ],
)
def test_a_status_is_explained_by_what_it_most_likely_means(
    version: str, status: int, says: str
) -> None:
    with LoopbackServer(Answer(status)) as fake:
        text = failure(LoginOptions(auth=fake.url, user="a:u", key="k", auth_version=version))
    assert says in text
    if says.startswith("returned"):
        assert text.endswith(says)


# --- version 3


def test_v3_without_a_catalog(v3: KeystoneV3) -> None:
    v3.catalog = []
    assert "the catalog is empty: has the user a role in the project?" in failure(new3(v3))
    found = Authenticator(new3(v3, os_storage_url="http://s/v1/A")).log_in()
    assert reached(found)[1] == "http://s/v1/A"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(201, {}, b"not json"),
        Answer(201, {"X-Subject-Token": "t"}, b"[]"),
        Answer(201, {"X-Subject-Token": "t"}, b'{"token": 7}'),
        Answer(201, {"X-Subject-Token": "t"}, b'{"token": {"catalog": 7}}'),
        Answer(201, {}, b'{"token": {"catalog": []}}'),
        Answer(300, {}, b'{"versions": []}'),
        Answer(201, {"X-Subject-Token": "t"}, b"[" * 1_000_000),
        Answer(201, {"X-Subject-Token": "t"}, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
        Answer(401, {}, b"[" * 1_000_000),
        Answer(201, {"X-Subject-Token": "t"}, b'{"token": [' + b"{}," * 2_000_000 + b"{}]}"),
    ],
)
def test_malformed_v3_answers(answer: Answer) -> None:
    with LoopbackServer(answer) as fake, KeystoneV3() as v3:
        tracemalloc.start()
        try:
            failure(new3(v3, os_auth_url=f"{fake.url}/v3"))
            assert tracemalloc.get_traced_memory()[1] < 100e6
        finally:
            tracemalloc.stop()


SECRET = "Xq7-key-of-nobody"


@pytest.mark.parametrize(
    "catalog",
    [
        [{"type": f"a {SECRET}", "name": "x", "id": "1", "endpoints": []}],
        [{"type": "object-store", "name": "x", "id": "1", "endpoints": [
            {"id": "1", "interface": "public", "region": "r", "url": f"http://h/v1/{SECRET}"},
        ]}],
        [{"type": "object-store", "name": "x", "id": "1", "endpoints": [
            {"id": "1", "interface": "public", "region": SECRET, "url": "http://h/v1/a"},
        ]}],
    ],
)  # fmt: skip
def test_a_catalog_that_repeats_the_password_does_not_show_it(catalog: Any) -> None:
    with KeystoneV3(key=SECRET) as v3:
        v3.catalog = catalog
        said = failure(new3(v3))
    assert SECRET[:8] not in said
    assert "***" in said or "repeats the key" in said


def test_a_catalog_of_any_length_is_a_short_message(v3: KeystoneV3) -> None:
    entry = {"name": "x", "id": "1", "endpoints": []}
    v3.catalog = [{**entry, "type": f"type{number}"} for number in range(10_000)]
    said = failure(new3(v3))
    assert "only type0, type1, type10" in said
    assert len(said) < 2000


# --- no authentication at all


class Store(LoopbackServer):
    """Takes one token, and answers all else with 401."""

    def __init__(self, token: str, status: int = 204) -> None:
        super().__init__()
        self.token, self.status = token, status

    def answer(self, request: Request) -> Answer:
        return Answer(self.status if request.headers.get("X-Auth-Token") == self.token else 401)


@pytest.mark.parametrize("status", [204, 403, 404, 500])
def test_a_given_token_is_tried_once_and_rejected_by_401_only(status: int) -> None:
    with Store("t0ken", status) as store:
        url = f"{store.url}/v1/AUTH_a"
        authenticator = Authenticator(LoginOptions(os_auth_token="t0ken", os_storage_url=url))
        for _ in range(2):
            assert reached(authenticator.log_in()) == ("t0ken", url)
        assert [(r.method, r.path) for r in store.seen] == [("HEAD", "/v1/AUTH_a")]


def test_a_rejected_given_token_is_not_replaced_by_a_login(v1: AuthV1) -> None:
    with Store("another") as store:
        url = f"{store.url}/v1/AUTH_a"
        for more in ({}, {"auth": v1.auth_url, "user": v1.user, "key": v1.key}):
            text = failure(LoginOptions(os_auth_token="t0ken", os_storage_url=url, **more))
            assert text.startswith(f"{url}: the store refuses the token that was given (-T or OS_")
            assert "t0ken" not in text
    assert v1.logins == 0


def test_a_token_that_expires_later_is_renewed(v1: AuthV1) -> None:
    with Store("t0ken") as store:
        url = f"{store.url}/v1/AUTH_a"
        authenticator = Authenticator(old(v1, os_auth_token="t0ken", os_storage_url=url))
        assert token_of(authenticator.log_in()) == "t0ken"
        store.token = "token-1"
        assert authenticator.renew().payload == {"token": "token-1"}


def test_a_renewal_tells_whether_there_may_be_another_token(v1: AuthV1) -> None:
    """Not where the user is refused, nor for a given token; but where the service is gone."""
    with Store("t0ken") as store:
        given = LoginOptions(os_auth_token="t0ken", os_storage_url=f"{store.url}/v1/AUTH_a")
        refused = old(v1, key="another")
        gone = LoginOptions(auth="http://127.0.0.1:1/auth/v1.0", user="a:b", key="c")
        for options, kind in ((given, RejectedError), (refused, RejectedError), (gone, AuthError)):
            with pytest.raises(AuthError) as caught:
                Authenticator(options).renew()
            assert type(caught.value) is kind


def test_a_token_without_a_storage_url_is_reported(v1: AuthV1) -> None:
    authenticator = Authenticator(old(v1, os_auth_token="t0ken"))
    assert token_of(authenticator.log_in()) == "token-1"
    (note,) = authenticator.notes
    assert "(-T or OS_AUTH_TOKEN) is not used" in note


# --- TLS


@pytest.fixture
def tls_v1(certificates: Certificates) -> Iterator[AuthV1]:
    with AuthV1(tls=certificates.server_context()) as fake:
        yield fake


IN_CLEAR = "http://store.test/v1/AUTH_test"


def test_an_http_storage_url_is_rejected_at_a_renewal(
    tls_v1: AuthV1, certificates: Certificates
) -> None:
    authenticator = Authenticator(old(tls_v1, os_cacert=str(certificates.authority)))
    authenticator.log_in()
    tls_v1.storage_url = IN_CLEAR
    with pytest.raises(AuthError, match="without TLS"):
        authenticator.renew()


# --- secrets


def test_no_secret_is_in_reprs_errors_logs_or_tracebacks(
    v1: AuthV1, v2: KeystoneV2, v3: KeystoneV3, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = ("S3CRET", "token-1", "v2-token", "v3-token", v1.key, v2.key, v3.key)
    caplog.set_level(logging.DEBUG)
    texts = []
    for credentials in (old(v1), new2(v2), new3(v3)):
        authenticator = Authenticator(credentials)
        found = authenticator.log_in()
        texts += [repr(authenticator), str(authenticator), repr(found), repr(credentials)]
    for credentials in (
        old(v1, key="S3CRET"),
        old(v1, key="S3CRET", auth="http://127.0.0.1:1/"),
        new2(v2, os_password="S3CRET"),
        new3(v3, os_password="S3CRET"),
        new3(v3, os_password="", os_auth_token="S3CRET"),
        new3(v3, os_password="", os_auth_token="S3CRET\n\r"),
    ):
        try:
            Authenticator(credentials).log_in()
        except AuthError as e:
            texts += [repr(e), str(e), "".join(traceback.format_exception(e))]
    texts.append(caplog.text)
    for text in texts:
        assert not any(secret in text for secret in secrets), text


# Whatever a server answers ---------------------------------------------------------------------


class _Adapter(BoundedAdapter):
    """Of a server that says this to whatever it is asked."""

    def __init__(self, data: bytes) -> None:
        super().__init__(HttpSettings())
        self._data = data

    def exchange(
        self, endpoint: Endpoint, head: bytes, upload: Upload | None, response: Collector
    ) -> Timing:
        stream = PiecewiseStream(self._data, lambda: 65536)
        connection = Connection(stream, EndpointState(str(endpoint), 0, False))  # type: ignore[arg-type]
        return connection.request(head, upload, 0, response)


LOGINS = [
    LoginOptions(auth="http://h:5000/auth/v1.0", user="a:u", key="s3cret-k3y"),
    LoginOptions(
        os_auth_url="http://h:5000/v2.0", os_username="u", os_password="s3cret-k3y",
        os_tenant_name="t", auth_version="2.0",
    ),
    LoginOptions(
        os_auth_url="http://h:5000/v3", os_username="u", os_password="s3cret-k3y",
        os_project_name="p", auth_version="3",
    ),
]  # fmt: skip


def logged_in_or_refused(data: bytes) -> None:
    """Invariant: a token and URL that fit a request, or AuthError of one line without a secret."""
    for credentials in LOGINS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(session, "BoundedAdapter", lambda *_: _Adapter(data))
            try:
                found = Authenticator(credentials).log_in()
            except AuthError as error:
                must_be_line(error)
                assert "s3cret" not in str(error)  # noqa: PT017 - one of two fine outcomes
                continue
        assert token_of(found).isascii()
        assert token_of(found).isprintable()
        assert reached(found)[1].lower().startswith(("http://", "https://"))
        must_be_line(reached(found)[1])


def test_malformed_headers_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    logged_in_or_refused(
        b"HTTP/1.1 200 OK\r\nno header\r\nX-Auth-Token: AUTH_tk5ecret\r\n"
        b"X-Storage-Url: http://h/v1/a\r\nContent-Length: 0\r\n\r\n"
    )
    assert caplog.text == ""
