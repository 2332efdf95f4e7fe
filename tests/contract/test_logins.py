"""The login of each store over HTTP: services that do not answer, TLS, proxies."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ssbench.core.errors import AuthError, UsageError
from ssbench.core.settings import StorageSettings
from ssbench.storage.base import CredentialsProvider
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import open_provider
from tests.contract.stores import OVER_HTTP
from tests.fakes.loopback_http import Answer, LoopbackServer, Request
from tests.servers.certificates import Certificates

MULTISTATUS = b'<multistatus xmlns="DAV:"><response><href>/dav/</href></response></multistatus>'
BUCKETS = b"<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>"


class Service(LoopbackServer):
    """Lets everybody log in to any of the stores."""

    def answer(self, request: Request) -> Answer:
        if request.path.startswith("/auth"):
            return Answer(200, {"X-Storage-Url": f"{self.url}/v1/a", "X-Auth-Token": "t"})
        if request.method == "PROPFIND":
            return Answer(207, {}, MULTISTATUS)
        return Answer(200, {}, BUCKETS)


def login(name: str, url: str, network_timeout_s: float = 20.0, **more: Any) -> CredentialsProvider:
    http = OVER_HTTP[name]
    options: Mapping[str, Any] = {
        option: [f"{url}{text}"] if option in ("s3_endpoints", "urls") else
        f"{url}{text}" if option == "auth" else text
        for option, text in http.login.items()
    }  # fmt: skip
    settings = StorageSettings(network_timeout_s=network_timeout_s)
    return open_provider(StoreOptions(name, {**options, **more}, http.environ, settings))


def failure(name: str, url: str, **more: Any) -> str:
    """The one line of a failed login, behind the address."""
    provider = login(name, url, **more)
    with pytest.raises(AuthError) as caught:
        provider.log_in()
    where, said = provider.where, str(caught.value)
    assert said.startswith(f"{where}: ")
    assert "\n" not in said
    return said.removeprefix(f"{where}: ")


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_service_that_does_not_answer_is_told_in_one_line(name: str) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        assert failure(name, url) == (
            "connection refused: nothing listens there: is the port right, and does the service"
            " run?"
        )
        mute.listen()
        text = failure(name, url, network_timeout_s=0.05)
        assert text.startswith("no response within --network-timeout: is the service")
    assert "the connection broke" not in failure(name, "http://nobody.invalid")


@pytest.mark.parametrize("name", OVER_HTTP)
def test_no_proxy_of_the_environment_is_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with Service() as service:
        login(name, service.url).log_in()
        assert "TLS failed" in failure(name, service.url.replace("http:", "https:"))


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_server_must_have_a_trusted_certificate(name: str, certificates: Certificates) -> None:
    with Service(tls=certificates.server_context()) as service:
        text = failure(name, service.url)
        assert "its certificate is not trusted" in text
        assert "give its CA with --os-cacert" in text
        assert service.seen == [], "no key is sent"
        trusting = login(name, service.url, os_cacert=str(certificates.authority))
        assert trusting.log_in().settings["cacert_pem"] == certificates.authority.read_text()
        assert list(trusting.notes) == []
        careless = login(name, service.url, insecure=True)
        careless.log_in()
        careless.renew()
        (note,) = careless.notes
        assert note.startswith("--insecure: certificates are not verified")


@pytest.mark.parametrize("name", OVER_HTTP)
def test_a_client_certificate_is_sent(
    name: str, certificates: Certificates, tmp_path: Path
) -> None:
    trusting = {"os_cacert": str(certificates.authority)}
    mine = {"os_cert": str(certificates.certificate), "os_key": str(certificates.key)}
    with Service(tls=certificates.server_context(asks_client=True)) as service:
        login(name, service.url, **trusting, **mine).log_in()
        failure(name, service.url, **trusting)
        path = tmp_path / "none.pem"
        for option in ("os_cacert", "os_cert", "os_key"):
            flag = option.replace("_", "-")
            with pytest.raises(UsageError, match=f"--{flag} {path}: can't be read: No such file"):
                login(name, service.url, **{option: str(path)})
