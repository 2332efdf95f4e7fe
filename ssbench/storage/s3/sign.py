"""AWS Signature Version 4 for S3, from the derived key of a day. Pure.

The specification: "Authenticating Requests: Using the Authorization Header (AWS Signature Version
4)" in the Amazon S3 API Reference. ``issue`` derives the keys in the master, which keeps the
secret; ``Signer`` signs with them in the workers.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from ssbench.core.errors import UsageError

EMPTY_SHA256 = sha256(b"").hexdigest()
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
_ALGORITHM = "AWS4-HMAC-SHA256"
_DAY_S = 86_400
_BLOCK = 64  #: bytes of a SHA-256 block
_MAX_TEMPLATES = 256
#: The key of the next day is issued with that of the present one from so long before midnight on:
#: longer than a renewal takes, and than clocks may differ.
_OVERLAP_S = 15 * 60


class AwsKeys(NamedTuple):
    """An identity of AWS, which only the master has."""

    access_key: str
    secret_key: str
    token: str  #: of a session; "": none

    def __repr__(self) -> str:
        return f"<AwsKeys {self.access_key}>"


def issue(keys: AwsKeys, region: str, now: float) -> tuple[dict[str, Any], float]:
    """The payload of credentials, and when they expire (Unix time).

    They hold the key of the present UTC day, and near its end that of the next one too. The
    secret can't be computed from them.

    :param now: Unix time.
    """
    days = {
        _date(at): _day_key(keys.secret_key, _date(at), region) for at in (now, now + _OVERLAP_S)
    }
    payload = {
        "access_key": keys.access_key, "token": keys.token, "region": region, "days": days,
    }  # fmt: skip
    return payload, (now + _OVERLAP_S) // _DAY_S * _DAY_S + _DAY_S


def _date(at: float) -> str:
    return time.strftime("%Y%m%d", time.gmtime(at))


def _day_key(secret_key: str, date: str, region: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


class _Template(NamedTuple):
    """What the requests with the same signed headers share within a second."""

    before: str  #: canonical headers up to the value of x-amz-content-sha256
    after: str  #: the other canonical headers, and the names of all
    lines: str  #: header lines to send, up to the value of the signature


class Signer:
    """Signs requests: ``ssbench.storage.http.pool.Sign``. Without credentials it signs nothing.

    Whatever does not change from request to request is computed once: per second the date and the
    scope, per set of header lines their canonical form, per day the two states of the HMAC.
    """

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.use(payload)

    def __repr__(self) -> str:
        return f"<Signer for {self._access_key or 'anonymous'}, {self.region}>"

    def use(self, payload: Mapping[str, Any]) -> None:
        """Use these credentials (see ``issue``) for all further requests.

        :raises UsageError: they can't be sent in a header.
        """
        self._access_key = str(payload.get("access_key", ""))
        self.token = str(payload.get("token", ""))  #: of the session; "": none
        for text in (self._access_key, self.token):
            if not (text.isascii() and (text.isprintable() or not text)):
                raise UsageError(
                    "the access key or the session token has characters that can't be sent in a"
                    " header"
                )
        self.region = str(payload.get("region", ""))
        #: Date -> the states of SHA-256 after the inner and the outer padded key.
        self._days = {
            str(date): tuple(
                sha256(bytes(byte ^ pad for byte in bytes(key).ljust(_BLOCK, b"\0")))
                for pad in (0x36, 0x5C)
            )
            for date, key in payload.get("days", {}).items()
        }
        self._second = -1
        self._templates: dict[str, _Template] = {}

    def __call__(
        self,
        method: str,
        path: str,
        query: str,
        headers: str,
        payload_hash: str | None,
        wall_time: float,
    ) -> bytes:
        """The header lines to add.

        :param query: in canonical form: sorted, quoted, every name with "=".
        :param headers: all lines to be signed.
        :param payload_hash: SHA-256 of the body in hexadecimal, or UNSIGNED_PAYLOAD; None: no body.
        :param wall_time: Unix time.
        """
        if not self._days:
            return b""
        if int(wall_time) != self._second:
            self._begin_second(int(wall_time))
        template = self._templates.get(headers) or self._add_template(headers)
        before, after, lines = template
        body = payload_hash or EMPTY_SHA256
        canonical = f"{method}\n{path}\n{query}\n{before}{body}{after}{body}"
        digest = sha256(canonical.encode()).hexdigest()
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(f"{self._to_sign}{digest}".encode())
        outer.update(inner.digest())
        return f"x-amz-content-sha256: {body}{lines}{outer.hexdigest()}\r\n".encode()

    def _begin_second(self, second: int) -> None:
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        date = moment[:8]
        if date not in self._days:
            # Our clock differs from the master's: stores accept 15 minutes. The nearest moment of
            # the days that there are keys for.
            if date > max(self._days):
                date = max(self._days)
                moment = f"{date}T235959Z"
            else:
                date = min(self._days)
                moment = f"{date}T000000Z"
        self._second = second
        self._date_line = moment
        self._scope = f"{date}/{self.region}/s3/aws4_request"
        self._to_sign = f"{_ALGORITHM}\n{moment}\n{self._scope}\n"
        self._inner, self._outer = self._days[date]
        self._templates.clear()

    def _add_template(self, headers: str) -> _Template:
        values = {"x-amz-content-sha256": "", "x-amz-date": self._date_line}
        if self.token:
            values["x-amz-security-token"] = self.token
        lines = "".join(f"\r\n{name}: {value}" for name, value in values.items() if value)
        for line in headers.split("\r\n")[:-1]:
            name, _, value = line.partition(":")
            values[name.strip().lower()] = " ".join(value.split())
        names = sorted(values)
        at = names.index("x-amz-content-sha256")
        before = "".join(f"{name}:{values[name]}\n" for name in names[:at])
        after = "".join(f"{name}:{values[name]}\n" for name in names[at + 1 :])
        signed = ";".join(names)
        template = _Template(
            f"{before}x-amz-content-sha256:",
            f"\n{after}\n{signed}\n",
            f"{lines}\r\nAuthorization: {_ALGORITHM} Credential={self._access_key}/{self._scope},"
            f"SignedHeaders={signed},Signature=",
        )
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
        self._templates[headers] = template
        return template
