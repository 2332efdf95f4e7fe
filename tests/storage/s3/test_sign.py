"""Signatures of S3: botocore recomputes them."""

from __future__ import annotations

import calendar
import time
from hashlib import sha256
from unittest.mock import patch
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st

from ssbench.storage.s3.client import UNSIGNED_PAYLOAD, AwsKeys, Signer, issue

KEYS = AwsKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "")
NOW = calendar.timegm((2013, 5, 24, 0, 0, 0))
HOST = "Host: examplebucket.s3.amazonaws.com\r\n"


def signer(keys: AwsKeys = KEYS, region: str = "us-east-1", now: float = NOW) -> Signer:
    return Signer(issue(keys, region, now)[0])


def headers_of(lines: bytes) -> dict[str, str]:
    pairs = (line.partition(": ") for line in lines.decode().split("\r\n")[:-1])
    return {name.lower(): value for name, _, value in pairs}


def recomputed(
    keys: AwsKeys, region: str, method: str, url: str, headers: dict[str, str], now: float
) -> str:
    """The Authorization header that botocore gives to the same request."""
    from botocore.auth import S3SigV4Auth  # loads slowly
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = AWSRequest(method=method, url=url, headers=headers)
    request.context["timestamp"] = headers["x-amz-date"]
    moment = time.gmtime(now)
    with patch("botocore.auth.get_current_datetime") as clock:
        clock.return_value.strftime.side_effect = lambda form: time.strftime(form, moment)
        credentials = Credentials(keys.access_key, keys.secret_key, keys.token or None)
        auth = S3SigV4Auth(credentials, "s3", region)
        auth.payload = lambda request: headers["x-amz-content-sha256"]  # type: ignore[method-assign]
        auth.add_auth(request)
    return str(request.headers["Authorization"])


@given(
    name=st.text(max_size=20),
    prefix=st.text(max_size=10),
    version=st.integers(0, 99),
    payload=st.one_of(st.none(), st.just(UNSIGNED_PAYLOAD), st.binary(max_size=9)),
    token=st.sampled_from(["", "session/token+=="]),
    region=st.sampled_from(["us-east-1", "eu-central-1"]),
    now=st.integers(0, 2**32),
)
def test_botocore_signs_alike(
    name: str, prefix: str, version: int, payload: bytes | str | None, token: str, region: str,
    now: int,
) -> None:  # fmt: skip
    keys = KEYS._replace(token=token)
    path, query = f"/bucket/{quote(name, safe='')}", f"prefix={quote(prefix, safe='')}"
    own = {"Host": "h.example:8080", "x-amz-meta-ssbench-version": str(version)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in own.items())
    body = sha256(payload).hexdigest() if isinstance(payload, bytes) else payload
    added = headers_of(signer(keys, region, now)("PUT", path, query, lines, body, now + 0.7))
    authorization = added.pop("authorization")
    url = f"http://h.example:8080{path}?{query}"
    expected = recomputed(keys, region, "PUT", url, {**own, **added}, now)
    assert authorization.replace(",", ", ") == expected


def test_the_key_of_the_next_day_is_there_before_midnight() -> None:
    midnight = NOW + 86_400
    payload, expires_at = issue(KEYS, "us-east-1", midnight - 60)
    assert sorted(payload["days"]) == ["20130524", "20130525"]
    assert expires_at == midnight + 86_400
    both = Signer(payload)
    for now, date in ((midnight - 0.5, "20130524"), (midnight, "20130525")):
        sent = both("GET", "/", "", HOST, None, now)
        assert sent == signer(now=now)("GET", "/", "", HOST, None, now)
        assert f"/{date}/us-east-1/s3/aws4_request,".encode() in sent


def test_a_clock_beyond_the_day_of_the_key_stays_in_it() -> None:
    ahead = headers_of(signer()("GET", "/", "", HOST, None, NOW + 86_400 + 5))
    assert ahead["x-amz-date"] == "20130524T235959Z"
    behind = headers_of(signer()("GET", "/", "", HOST, None, NOW - 5))
    assert behind["x-amz-date"] == "20130524T000000Z"


def test_no_secret_is_shown_or_issued() -> None:
    keys = KEYS._replace(token="t0ken")
    payload, _ = issue(keys, "us-east-1", NOW)
    shown = f"{keys!r} {Signer(payload)!r}"
    assert keys.secret_key not in f"{payload} {shown}"
    assert "t0ken" not in shown
    assert payload["days"]["20130524"].hex() not in shown
