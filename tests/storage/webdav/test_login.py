"""How the master finds out a WebDAV server's authentication, and what it gives to workers."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ssbench.core.errors import AuthError, UsageError
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import open_provider
from tests.fakes.scripted_server import Peer, ScriptedServer

PASSWORD = "s3cret-of-nobody"


def found(path: str) -> bytes:
    """A multistatus of this collection."""
    body = f'<multistatus xmlns="DAV:"><response><href>{path}</href></response></multistatus>'
    head = f"HTTP/1.1 207 M\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode()


FOUND = found("/dav/")
ABSENT = b"HTTP/1.1 404 N\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
DIGEST = (
    b'HTTP/1.1 401 N\r\nWWW-Authenticate: Basic realm="b"\r\n'
    b'WWW-Authenticate: Digest realm="r", nonce="n", qop="auth", algorithm=SHA-256\r\n'
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)
BASIC = (
    b'HTTP/1.1 401 N\r\nWWW-Authenticate: Basic realm="b"\r\nContent-Length: 0\r\n'
    b"Connection: close\r\n\r\n"
)
ALLOW = (
    b"HTTP/1.1 200 N\r\nAllow: GET, put,PROPFIND\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)


def provider(*urls: str, environ: dict[str, str] | None = None, **given: str) -> Any:
    return open_provider(StoreOptions("webdav", {"urls": [*urls], **given}, environ or {}))


WHO = {"WEBDAV_USER": "u", "WEBDAV_PASSWORD": PASSWORD}


@contextmanager
def server(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Answers one request per connection; its URL, and the heads that it was sent."""
    heard: list[bytes] = []

    def script(answer: bytes) -> Callable[[Peer], None]:
        def serve(peer: Peer) -> None:
            heard.append(peer.hear())
            peer.say(answer)

        return serve

    with ScriptedServer(*map(script, answers)) as store:
        yield f"http://127.0.0.1:{store.port}/dav", heard


def test_a_server_that_asks_for_nobody_gets_no_credentials() -> None:
    with server(ABSENT, FOUND, ALLOW) as (url, heard):
        access = provider(url, environ=WHO).log_in()
    assert access.credentials.payload == {"access": [{}]}
    assert not access.password_equivalent
    assert access.settings["urls"] == (f"{url}/",)
    assert set(access.settings["methods"]) == {"GET", "PUT", "PROPFIND"}
    assert not any(b"Authorization" in head for head in heard)
    lines = [head.split(b"\r\n")[0] for head in heard]
    assert lines[0].startswith(b"PROPPATCH /dav/.ssbench-")  # of what isn't there
    assert lines[1:] == [b"PROPFIND /dav/ HTTP/1.1", b"OPTIONS /dav/ HTTP/1.1"]


@pytest.mark.parametrize(("answer", "says"), [
    (found("/"), "PROPFIND of /dav/ returned /: something in between"),
    (found("/other/dav/"), "PROPFIND of /dav/ returned /other/dav/"),
    (found("/dav/").replace(b"</href>", b"</hrex>"), "not a valid multistatus"),
])  # fmt: skip
def test_a_collection_that_has_another_path_is_refused(answer: bytes, says: str) -> None:
    with server(ABSENT, answer) as (url, _), pytest.raises(AuthError, match=re.escape(says)):
        provider(url).log_in()


def test_digest_is_preferred_and_workers_get_its_key_not_the_password() -> None:
    with server(DIGEST, FOUND, ALLOW) as (url, heard):
        access = provider(url, environ=WHO).log_in()
    (issued,) = access.credentials.payload["access"]
    assert {**issued["digest"], "ha1": ""} == {
        "user": "u", "realm": "r", "hash_name": "SHA-256", "ha1": "",
    }  # fmt: skip
    assert access.password_equivalent
    assert PASSWORD not in repr(access.settings) + repr(issued)
    assert issued["digest"]["ha1"] not in repr(access)
    assert b"nc=00000001" in heard[1]
    assert b"nc=00000002" in heard[2]


def test_basic_authentication_goes_to_no_other_host_in_clear() -> None:
    with server(BASIC, FOUND) as (url, heard):
        # The resolver knows this name of loopback; ssbench doesn't.
        elsewhere = url.replace("127.0.0.1", "127.1")
        with pytest.raises(UsageError, match="would send the password in clear: give an https URL"):
            provider(elsewhere, environ=WHO).log_in()
    assert len(heard) == 1


@pytest.mark.parametrize(
    ("answers", "environ", "says"),
    [
        ([DIGEST], {}, "asks for user and password (401): set WEBDAV_USER"),
        ([DIGEST, DIGEST], WHO, "the server rejected the user or password (401)"),
        ([ABSENT, ABSENT], {}, "there is no such collection: make it, or correct --url (404)"),
        ([ABSENT, ALLOW], {}, "PROPFIND returned 200: is it a WebDAV collection?"),
        ([b"HTTP/1.1 401 N\r\nWWW-Authenticate: Negotiate\r\nContent-Length: 0\r\n\r\n"], WHO,
         "offers no authentication that ssbench knows"),
        ([b"hello\r\n\r\n"], {}, "the connection broke, or the response is not HTTP"),
    ],
)  # fmt: skip
def test_a_server_that_rejects_us_is_told_in_one_line(
    answers: list[bytes], environ: dict[str, str], says: str
) -> None:
    with server(*answers) as (url, _), pytest.raises(AuthError) as caught:
        provider(url, environ=environ).log_in()
    assert f"{url}/: {says}" in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("before", [[], [ABSENT], [ABSENT, FOUND]])
def test_no_redirect_of_a_login_is_followed(before: list[bytes], status: int) -> None:
    # With the method of the request it could delete or change what is there.
    moved = (
        f"HTTP/1.1 {status} M\r\nLocation: /other/?token=x\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n"
    ).encode()
    after = (ABSENT, FOUND, ALLOW)
    with server(*before, moved, *after) as (url, heard), pytest.raises(AuthError) as caught:
        provider(url).log_in()
    target = url.replace("/dav", "/other/")
    assert f"{url}/: redirects to {target} ({status}), and no redirect" in str(caught.value)
    assert "give that URL" in str(caught.value)
    assert len(heard) == len(before) + 1
    assert not any(b" /other/" in head or head.startswith(b"DELETE") for head in heard)


@pytest.mark.parametrize("renews", [False, True])
def test_what_a_server_sends_back_of_the_password_is_masked(*, renews: bool) -> None:
    for text in (PASSWORD, b64encode(f"u:{PASSWORD}".encode()).decode()):
        moved = f"HTTP/1.1 302 M\r\nLocation: /{text}/\r\nContent-Length: 0\r\n\r\n".encode()
        with server(*[BASIC, FOUND, ALLOW] * renews, BASIC, moved) as (url, _):
            login = provider(url, environ=WHO)
            if renews:
                login.log_in()
            with pytest.raises(AuthError, match=r"redirects to .*\*\*\*") as caught:
                (login.renew if renews else login.log_in)()
        assert text not in str(caught.value)


@pytest.mark.parametrize("location", ["", "Location: http://[\r\n", "Location: \x1b[2J\r\n"])
def test_a_redirect_to_no_place_is_told_as_well(location: str) -> None:
    moved = f"HTTP/1.1 300 M\r\n{location}Content-Length: 0\r\n\r\n".encode()
    with server(moved) as (url, _), pytest.raises(AuthError, match="redirects to") as caught:
        provider(url).log_in()
    assert str(caught.value).isprintable()


def test_renewal_meets_the_challenge_again() -> None:
    with server(DIGEST, FOUND, ALLOW, DIGEST, FOUND, ALLOW, DIGEST, DIGEST) as (url, _):
        login = provider(url, environ=WHO)
        first = login.log_in().credentials
        second = login.renew()
        assert second.serial > first.serial
        assert second.payload == first.payload
        with pytest.raises(AuthError, match="the server rejected the user or password"):
            login.renew()


def test_credentials_that_a_login_needed_none_of_are_not_issued_later() -> None:
    with server(ABSENT, FOUND, ALLOW, DIGEST, FOUND, ALLOW) as (url, _):
        login = provider(url, environ=WHO)
        login.log_in()
        with pytest.raises(AuthError, match="asks for a user now, and did not at first"):
            login.renew()


# --- Users ----------------------------------------------------------------------------------


def netrc(place: Path, text: str) -> dict[str, str]:
    (place / ".netrc").write_text(text)
    return {"HOME": str(place)}


def asked_as(environ: dict[str, str], **given: str) -> bytes:
    """The header of the first request that knows who we are."""
    with server(BASIC, FOUND, ALLOW) as (url, heard):
        provider(url, environ=environ, **given).log_in()
    (line,) = (line for line in heard[1].split(b"\r\n") if line.startswith(b"Authorization"))
    return line


def test_users_and_passwords_of_netrc(tmp_path: Path) -> None:
    text = f"machine other login x password y\nmachine 127.0.0.1 login n password {PASSWORD}\n"
    wanted = b"Authorization: Basic " + b64encode(f"n:{PASSWORD}".encode())
    environ = netrc(tmp_path, text)
    assert asked_as(environ) == wanted
    assert asked_as({"NETRC": str(tmp_path / ".netrc")}) == wanted
    assert asked_as(environ, webdav_user="n") == wanted
    assert asked_as({**environ, **WHO}) != wanted, "the environment overrides the file"
    given = {"webdav_user": "n", "webdav_password": PASSWORD}
    assert asked_as(netrc(tmp_path, "machine 127.0.0.1 login m password x"), **given) == wanted
    assert asked_as(netrc(tmp_path, f"default login n password {PASSWORD}\n")) == wanted


@pytest.mark.parametrize(
    ("text", "given", "says"),
    [
        (f"machine 127.0.0.1 login n {PASSWORD}", {}, ".netrc: line 1 is not valid"),
        ("", {"webdav_user": "n"}, "a user, and no password: set WEBDAV_PASSWORD"),
        ("machine 127.0.0.1 login m password x", {"webdav_user": "n"}, "no password"),
        ("", {"netrc": "/no/such/file"}, "--netrc /no/such/file: can't be read: No such file"),
        ("", {"webdav_password": PASSWORD}, "a password, and no user"),
        ("", {"webdav_user": "n\n", "webdav_password": PASSWORD}, "control characters"),
        ("", {"os_cacert": "/no/such"}, "--os-cacert /no/such"),
    ],
)
def test_incomplete_users_are_refused(
    tmp_path: Path, text: str, given: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        provider("http://127.0.0.1:9/", environ=netrc(tmp_path, text), **given)
    assert says in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_of_other_servers_no_user_is_taken(tmp_path: Path) -> None:
    for text in ("", "machine other login n password p"):
        environ = netrc(tmp_path, text)
        with server(BASIC) as (url, _), pytest.raises(AuthError, match="asks for user and passw"):
            provider(url, environ=environ).log_in()


def test_a_url_is_needed() -> None:
    with pytest.raises(UsageError, match="give the URL of a collection with --url"):
        open_provider(StoreOptions("webdav"))
