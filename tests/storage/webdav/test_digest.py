"""RFC 7616 by its own example (section 3.9.1), and by ``requests``, which implements it as well."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest
from requests.auth import HTTPDigestAuth

from ssbench.storage.webdav.digest import (
    Challenge,
    DigestChallenge,
    DigestSigner,
    digest_challenge,
    digest_credentials,
    parse_challenges,
)

USER, PASSWORD = "Mufasa", "Circle of Life"
REALM, NONCE = "http-auth@example.org", "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"
OPAQUE = "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
CNONCE = "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
#: The header of the RFC's example: two challenges.
EXAMPLE = ",\r\n ".join(
    f'Digest realm="{REALM}", qop="auth, auth-int", algorithm={name}, nonce="{NONCE}",'
    f' opaque="{OPAQUE}"'
    for name in ("SHA-256", "MD5")
).replace("\r\n ", " ")


def challenge(**changes: object) -> DigestChallenge:
    plain = DigestChallenge(REALM, NONCE, "MD5", OPAQUE, has_qop=True, stale=False, userhash=False)
    return plain._replace(**changes)  # type: ignore[arg-type]


def signer(of: DigestChallenge, user: str = USER, password: str = PASSWORD) -> DigestSigner:
    return DigestSigner(digest_credentials(of, user, password), of, CNONCE)


def parameters(header: bytes) -> dict[str, str]:
    name, _, value = header.decode().removesuffix("\r\n").partition(": ")
    assert name == "Authorization"
    ((scheme, given),) = parse_challenges(value)
    assert scheme == "digest"
    return given


@pytest.mark.parametrize(
    ("algorithm", "response"),
    [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_the_example_of_the_rfc(algorithm: str, response: str) -> None:
    of = challenge(algorithm=algorithm)
    header = signer(of).header("GET", "/dir/index.html")
    assert parameters(header) == {
        "username": USER, "realm": REALM, "nonce": NONCE, "uri": "/dir/index.html",
        "qop": "auth", "nc": "00000001", "cnonce": CNONCE, "response": response,
        "opaque": OPAQUE, "algorithm": algorithm,
    }  # fmt: skip


def test_the_name_in_the_example_with_userhash() -> None:
    """Section 3.9.2 has it for SHA-512-256; the formula is the same."""
    of = challenge(algorithm="SHA-256", realm="api@example.org", userhash=True)
    given = parameters(signer(of, "Jäsøn Doe", "Secret, or not?").header("GET", "/doe.json"))
    assert given["username"] == hashlib.sha256("Jäsøn Doe:api@example.org".encode()).hexdigest()
    assert given["userhash"] == "true"
    plain = challenge(algorithm="SHA-256", realm="api@example.org")
    named = parameters(signer(plain, "Jäsøn Doe", "Secret, or not?").header("GET", "/doe.json"))
    assert named["username*"] == "UTF-8''J%C3%A4s%C3%B8n%20Doe"  # as in the RFC
    assert "username" not in named


@pytest.mark.parametrize(
    ("algorithm", "has_qop"),
    [("MD5", True), ("MD5", False), ("MD5-SESS", True), ("SHA-256", True), ("SHA-256", False)],
)
def test_requests_gives_the_same_responses(algorithm: str, has_qop: bool) -> None:
    other = HTTPDigestAuth(USER, PASSWORD)
    other.init_per_thread_state()
    other._thread_local.chal = {  # type: ignore[attr-defined]
        "realm": REALM, "nonce": NONCE, "algorithm": algorithm, "opaque": OPAQUE,
        **({"qop": "auth"} if has_qop else {}),
    }  # fmt: skip
    built = other.build_digest_header("PUT", "http://h/a%20b?q=1")
    wanted = parameters(f"Authorization: {built}".encode())
    of = challenge(algorithm=algorithm, has_qop=has_qop)
    credentials = digest_credentials(of, USER, PASSWORD)
    cnonce = wanted.get("cnonce", "")
    found = parameters(DigestSigner(credentials, of, cnonce).header("PUT", "/a%20b?q=1"))
    assert found["response"] == wanted["response"]


@pytest.mark.parametrize(("name", "hashed"), [("MD5", hashlib.md5), ("SHA-256", hashlib.sha256)])
def test_a_session_hashes_nonce_and_cnonce_into_its_key(name: str, hashed: Any) -> None:
    def h(text: str) -> str:
        return str(hashed(text.encode()).hexdigest())

    key = h(f"{h(f'{USER}:{REALM}:{PASSWORD}')}:{NONCE}:{CNONCE}")  # section 3.4.2
    given = parameters(signer(challenge(algorithm=f"{name}-sess")).header("GET", "/x"))
    assert given["response"] == h(f"{key}:{NONCE}:00000001:{CNONCE}:auth:{h('GET:/x')}")
    assert given["algorithm"] == f"{name}-sess"


def test_the_credentials_hold_for_one_realm_and_algorithm() -> None:
    credentials = digest_credentials(challenge(), USER, PASSWORD)
    assert credentials.answer(challenge(nonce="another", stale=True, algorithm=""))
    assert not credentials.answer(challenge(realm="elsewhere"))
    assert not credentials.answer(challenge(algorithm="SHA-256"))
    assert PASSWORD not in repr(credentials)
    assert credentials.ha1 not in repr(credentials) + repr(signer(challenge()))


def test_the_first_challenge_that_can_be_answered_is_taken() -> None:
    found = digest_challenge(EXAMPLE)
    assert found == challenge(algorithm="SHA-256")
    odd = EXAMPLE.replace("SHA-256", "SHA-9000")
    assert digest_challenge(f'Negotiate, Basic realm="x", {odd}') == challenge(algorithm="MD5")
    for header in (
        "", 'Basic realm="x"', 'Digest realm="x"', 'Digest nonce="x"', "Digest",
        'Digest realm="r", nonce="n", qop="auth-int"',
        "Digest realm=r, nonce=n, algorithm=MD5-sess",
    ):  # fmt: skip
        assert digest_challenge(header) is None


def test_a_stale_nonce_and_the_old_form() -> None:
    found = digest_challenge('digest REALM="a \\"b\\"", nonce=n, Stale=TRUE')
    assert found == DigestChallenge('a "b"', "n", "", None, False, True, False)
    header = signer(found).header("GET", "/")
    assert {*parameters(header)} == {"username", "realm", "nonce", "uri", "response"}
    assert parameters(header)["realm"] == 'a "b"'


def test_challenges_of_several_schemes_are_told_apart() -> None:
    header = 'Basic realm="a, b=c", charset="UTF-8", Bearer, Digest realm=x , nonce = "y"'
    assert parse_challenges(header) == [
        Challenge("basic", {"realm": "a, b=c", "charset": "UTF-8"}),
        Challenge("bearer", {}),
        Challenge("digest", {"realm": "x", "nonce": "y"}),
    ]
    assert parse_challenges('Digest realm="unended, nonce=x')[0].parameters == {}


def test_a_realm_beyond_ascii_is_hashed_as_the_bytes_that_the_server_sent() -> None:
    realm = "Geschützt \N{CHECK MARK}"
    sent = f'Digest realm="{realm}", nonce=n'.encode().decode("latin-1")  # as HTTP clients decode
    found = digest_challenge(sent)
    assert found is not None
    assert digest_credentials(found, USER, PASSWORD).ha1 == (
        hashlib.md5(f"{USER}:{realm}:{PASSWORD}".encode()).hexdigest()
    )
    assert f'realm="{realm}"'.encode() in signer(found).header("GET", "/")


CHALLENGES = [EXAMPLE.encode(), b'Basic realm="x", charset="UTF-8"', b"Negotiate"]


def answered(data: bytes) -> None:
    """Invariant: any header is parsed, and a challenge that is taken can be answered."""
    header = data.decode("latin-1")
    for scheme, given_parameters in parse_challenges(header):
        assert re.fullmatch(r"\S+", scheme)
        assert all(name == name.lower() for name in given_parameters)
    found = digest_challenge(header)
    if found is not None:
        assert b'uri="/"' in signer(found).header("GET", "/")
