from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from ssbench.core.errors import UsageError
from ssbench.core.settings import StorageSettings
from ssbench.storage.dial import Endpoint
from ssbench.storage.options import HttpSettings, http_settings
from ssbench.storage.sites import (
    StorageUrl,
    client_context,
    open_pools,
    parse_storage_url,
)
from tests.servers.certificates import Certificates


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("http://h/v1/AUTH_a", StorageUrl(Endpoint("h", 80, False), "h", "/v1/AUTH_a/")),
        ("https://h/v1/AUTH_a/", StorageUrl(Endpoint("h", 443, True), "h", "/v1/AUTH_a/")),
        ("http://h:81/v1/a b", StorageUrl(Endpoint("h", 81, False), "h:81", "/v1/a%20b/")),
        ("http://h/v1/AUTH_%20", StorageUrl(Endpoint("h", 80, False), "h", "/v1/AUTH_%20/")),
        (
            "http://[::1]:8080/v1/a",
            StorageUrl(Endpoint("::1", 8080, False), "[::1]:8080", "/v1/a/"),
        ),
        (
            "http://[fe80::1%25lo]:81/a",
            StorageUrl(Endpoint("fe80::1%lo", 81, False), "[fe80::1]:81", "/a/"),
        ),
        (
            "http://[fe80::1%lo]/a",
            StorageUrl(Endpoint("fe80::1%lo", 80, False), "[fe80::1]", "/a/"),
        ),
    ],
)
def test_a_storage_url_is_parsed(url: str, site: StorageUrl) -> None:
    assert parse_storage_url(url) == site


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("swift.example.com/v1/a", "expected the form https://"),
        ("ftp://h/v1/a", "expected the form https://"),
        ("http:///v1/a", "expected the form https://"),
        ("http://h:port/v1/a", "h:port"),
        ("http://h:99999/v1/a", "h:99999"),
        ("http://[::1/v1/a", "Invalid IPv6"),
    ],
)
def test_invalid_storage_urls_are_rejected(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_storage_url(url)


def test_a_password_in_a_url_is_rejected_and_not_shown() -> None:
    with pytest.raises(UsageError, match="storage URL of h: it must not contain a user") as caught:
        parse_storage_url("http://me:secret@h/v1/a")
    assert "secret" not in str(caught.value)


def test_each_url_has_a_pool() -> None:
    sites = [parse_storage_url("http://h1/v1/a"), parse_storage_url("https://h2/v1/a")]
    pools = open_pools(HttpSettings(), StorageSettings(), sites)
    assert [repr(pool) for pool in pools] == [
        "<ConnectionPool to h1:80, 0 open, 0 idle>",
        "<ConnectionPool to h2:443, 0 open, 0 idle>",
    ]
    for pool in pools:
        pool.close()


# TLS


def test_servers_are_verified_by_default() -> None:
    context = client_context(HttpSettings())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert client_context(HttpSettings(insecure=True)).verify_mode is ssl.CERT_NONE


def test_an_invalid_ca_bundle_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="can't be used"):
        client_context(HttpSettings(cacert_pem="no certificate"))


def test_a_client_certificate_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "absent.pem")
    with pytest.raises(UsageError, match=r"absent\.pem can't be used: .*No such file"):
        client_context(HttpSettings(cert_path=path))


def test_an_encrypted_key_is_rejected_without_asking_for_its_passphrase(
    certificates: Certificates, tmp_path: Path
) -> None:
    key = serialization.load_pem_private_key(certificates.key.read_bytes(), None)
    path = tmp_path / "key.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"s3cret"),
        )
    )
    with pytest.raises(UsageError, match="the private key is encrypted"):
        client_context(
            HttpSettings(cert_path=str(certificates.certificate), cert_key_path=str(path))
        )
    with pytest.raises(UsageError, match=f"^--os-key {path}: the private key is encrypted"):
        http_settings((), {"os_cert": str(certificates.certificate), "os_key": str(path)})
