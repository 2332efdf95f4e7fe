from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from ssbench.core.errors import StorageError, UsageError
from ssbench.storage.http.addresses import (
    MOST_REMARKS,
    Endpoint,
    Remarks,
    StorageUrl,
    parse_storage_url,
    quoted_name,
)
from ssbench.storage.options import HttpSettings, client_context, http_settings
from tests.servers.certificates import Certificates, make_certificates


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


# TLS


def test_servers_are_verified_by_default() -> None:
    context = client_context(HttpSettings())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert client_context(HttpSettings(insecure=True)).verify_mode is ssl.CERT_NONE


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_what_can_not_be_used_is_named_before_anything_is_sent(
    certificates: Certificates, tmp_path: Path
) -> None:
    cert, key = map(str, (certificates.certificate, certificates.key))
    other = str(make_certificates(tmp_path).key)
    encrypted = serialization.load_pem_private_key(certificates.key.read_bytes(), None)
    locked = written(
        tmp_path / "locked.pem",
        encrypted.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"s3cret"),
        ).decode(),
    )
    garbage, empty = written(tmp_path / "garbage", "garbage"), written(tmp_path / "empty", "")
    pair = f"client certificate {cert} and"
    for values, says in (
        ({"os_cacert": garbage}, f"--os-cacert {garbage}: has no certificates in PEM form"),
        ({"os_cacert": empty}, f"--os-cacert {empty}: has no certificates in PEM form"),
        ({"os_cert": empty}, f"client certificate {empty} can't be used: expected a c"),
        ({"os_cert": cert}, f"client certificate {cert} can't be used: expected a cert"),
        ({"os_cert": cert, "os_key": garbage}, f"{pair} {garbage} can't be used: expected"),
        ({"os_cert": cert, "os_key": other}, f"{pair} {other} can't be used: the key does not"),
        ({"os_cert": cert, "os_key": locked}, f"{pair} {locked} can't be used: the private key is"
         " encrypted, and ssbench asks for no passphrase"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=f"^{says}"):
            http_settings((), values)
    assert http_settings((), {"os_cert": cert, "os_key": key}).cert_path == cert


def test_a_client_certificate_that_another_host_lacks_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "absent.pem")
    with pytest.raises(UsageError, match=r"absent\.pem can't be used: No such file"):
        client_context(HttpSettings(cert_path=path))


def test_a_key_log_that_can_not_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "absent" / "keys"))
    with pytest.raises(UsageError, match=r"^SSLKEYLOGFILE .*/absent/keys: No such file"):
        client_context(HttpSettings())


@pytest.mark.parametrize("name", ["", ".", "..", "../a", "a/..", "a/../b", "a/./b", "/."])
def test_no_path_is_made_of_no_name_or_of_one_that_a_server_could_resolve(name: str) -> None:
    """It would be that of another object, or of the container."""
    with pytest.raises(StorageError, match=r"^not sent: "):
        quoted_name(name)


def test_a_name_is_quoted_but_for_what_is_safe() -> None:
    assert quoted_name("a/.b/...?#%", safe="/") == "a/.b/...%3F%23%25"


def test_remarks_are_few_whatever_addresses_a_name_has() -> None:
    remarks = Remarks()
    for number in range(2 * MOST_REMARKS):
        remarks.say(f"10.0.0.{number}:80, an address of h: connection refused")
        remarks.say("each line once")
    assert remarks.lines.count("each line once") == 1
    assert len(remarks.lines) == MOST_REMARKS
