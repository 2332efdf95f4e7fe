"""Digest access authentication (RFC 7616, and RFC 2069's form without qop). Pure.

The master knows the password, and makes HA1 of it: the hash of user, realm and password. Workers
get HA1 and sign requests with it. HA1 is as good as the password, but for one realm only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import quote

from ssbench.core.hiding import Hiding

#: Name of an algorithm, in capitals and without "-SESS" -> its hash.
HASHES: Mapping[str, Callable[..., Any]] = {
    "MD5": partial(hashlib.md5, usedforsecurity=False),
    "SHA-256": hashlib.sha256,
}
_SESSION = "-SESS"
_TOKEN = r"[\w!#$%&'*+.^`|~-]+"  # nosec B105 # RFC 9110, 5.6.2
_PARAMETER = re.compile(rf'({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))')
_SCHEME = re.compile(rf"({_TOKEN})(?=[ \t]+{_TOKEN}[ \t]*=|[ \t]*(?:,|$))")
_SEPARATOR = re.compile(r"[ \t,]*")


class Challenge(NamedTuple):
    """One way that a server offers to authenticate."""

    scheme: str  #: in lower case
    parameters: dict[str, str]  #: names in lower case


def parse_challenges(header: str) -> list[Challenge]:
    """The challenges of a WWW-Authenticate header, or of several joined by commas.

    What is behind a part that is malformed is ignored.

    :param header: decoded as Latin-1, as HTTP clients do. Realms are UTF-8, and HA1 is a hash of
        their bytes.
    """
    with suppress(UnicodeError):
        header = header.encode("latin-1").decode()
    found: list[Challenge] = []
    at = 0
    while True:
        separator = _SEPARATOR.match(header, at)
        at = separator.end() if separator else at
        parameter = _PARAMETER.match(header, at)
        if parameter is not None and found:
            name, quoted, token = parameter.groups()
            value = token if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            found[-1].parameters.setdefault(name.lower(), value)
            at = parameter.end()
            continue
        scheme = _SCHEME.match(header, at)
        if scheme is None:
            return found
        found.append(Challenge(scheme[1].lower(), {}))
        at = scheme.end()


class DigestChallenge(NamedTuple):
    """A challenge by digest that we can answer."""

    realm: str
    nonce: str
    algorithm: str  #: as the server spells it; "": not given, which means MD5
    opaque: str | None
    has_qop: bool  #: qop "auth" is offered; False: the form of RFC 2069
    stale: bool  #: the credentials are right, but the nonce has expired
    userhash: bool

    @property
    def hash_name(self) -> str:
        """A key of ``HASHES``."""
        return self.algorithm.upper().removesuffix(_SESSION) or "MD5"

    @property
    def is_session(self) -> bool:
        """The key is made of HA1, nonce and cnonce."""
        return self.algorithm.upper().endswith(_SESSION)


def digest_challenge(header: str) -> DigestChallenge | None:
    """The first challenge in a WWW-Authenticate header that ``DigestSigner`` can answer."""
    for scheme, given in parse_challenges(header):
        if scheme != "digest" or "realm" not in given or not given.get("nonce"):
            continue
        qops = [qop.strip().lower() for qop in given.get("qop", "").split(",")]
        challenge = DigestChallenge(
            given["realm"],
            given["nonce"],
            given.get("algorithm", ""),
            given.get("opaque"),
            "auth" in qops,
            given.get("stale", "").lower() == "true",
            given.get("userhash", "").lower() == "true",
        )
        # A session's key needs the cnonce, which is sent only with qop.
        is_old_form = qops == [""] and not challenge.is_session
        if challenge.hash_name in HASHES and (challenge.has_qop or is_old_form):
            return challenge
    return None


class DigestCredentials(Hiding, frozen=True):
    """A user's access to one realm. ``ha1`` is as good as the password there."""

    HIDDEN = ("user", "ha1")

    user: str
    realm: str
    hash_name: str  #: a key of HASHES
    ha1: str

    def __repr__(self) -> str:
        return f"<DigestCredentials for {self.realm!r}>"

    def answer(self, challenge: DigestChallenge) -> bool:
        """Whether they can answer this challenge: HA1 holds for one realm and algorithm."""
        return (self.realm, self.hash_name) == (challenge.realm, challenge.hash_name)


def digest_credentials(challenge: DigestChallenge, user: str, password: str) -> DigestCredentials:
    """The credentials of a user in the challenge's realm."""
    ha1 = _hexdigest(challenge.hash_name, f"{user}:{challenge.realm}:{password}")
    return DigestCredentials(user, challenge.realm, challenge.hash_name, ha1)


class DigestSigner:
    """Makes the Authorization header of requests under one nonce, and counts them.

    One request costs two hashes of short strings: all that requests have in common is hashed once.

    :param cnonce: random text of the client's.
    """

    def __init__(
        self, credentials: DigestCredentials, challenge: DigestChallenge, cnonce: str
    ) -> None:
        name = challenge.hash_name
        ha1 = credentials.ha1
        if challenge.is_session:
            ha1 = _hexdigest(name, f"{ha1}:{challenge.nonce}:{cnonce}")
        self._blank = HASHES[name]()
        self._begun = HASHES[name](f"{ha1}:{challenge.nonce}:".encode())
        self._has_qop = challenge.has_qop
        self._cnonce = cnonce
        self._count = count(1)
        parts = [
            _user_parameter(credentials, challenge),
            f'realm="{_escaped(challenge.realm)}"',
            f'nonce="{_escaped(challenge.nonce)}"',
        ]
        if challenge.algorithm:
            parts.append(f"algorithm={challenge.algorithm}")
        if challenge.opaque is not None:
            parts.append(f'opaque="{_escaped(challenge.opaque)}"')
        if challenge.userhash:
            parts.append("userhash=true")
        if challenge.has_qop:
            parts.append(f'qop=auth, cnonce="{cnonce}"')
        self._start = f'Authorization: Digest {", ".join(parts)}, uri="'

    def __repr__(self) -> str:
        return "<DigestSigner>"

    def header(self, method: str, target: str) -> bytes:
        """The header line of the next request.

        :param target: path and query, as in the request line.
        """
        request = self._blank.copy()
        request.update(f"{method}:{target}".encode())
        response = self._begun.copy()
        if not self._has_qop:
            response.update(request.hexdigest().encode())
            return f'{self._start}{target}", response="{response.hexdigest()}"\r\n'.encode()
        number = f"{next(self._count):08x}"
        response.update(f"{number}:{self._cnonce}:auth:{request.hexdigest()}".encode())
        return (
            f'{self._start}{target}", nc={number}, response="{response.hexdigest()}"\r\n'.encode()
        )


def _user_parameter(credentials: DigestCredentials, challenge: DigestChallenge) -> str:
    """The user's name: hashed if the server asks for that, else encoded if it isn't ASCII."""
    user = credentials.user
    if challenge.userhash:
        return f'username="{_hexdigest(challenge.hash_name, f"{user}:{challenge.realm}")}"'
    if user.isascii() and user.isprintable():
        return f'username="{_escaped(user)}"'
    return f"username*=UTF-8''{quote(user, safe='')}"


def _hexdigest(hash_name: str, text: str) -> str:
    digest: str = HASHES[hash_name](text.encode()).hexdigest()
    return digest


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
