from __future__ import annotations

import errno
import ssl
from itertools import pairwise
from urllib.parse import urlsplit

import pytest
import requests

from ssbench.storage.authhttp import _same_host, reason_of


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        ("http://h/a", "http://h/b", True),
        ("http://h/a", "http://h:80/b", True),
        ("http://H/a", "http://h/b", True),
        ("http://h/a", "https://h/b", True),  # a step up
        ("https://h/a", "http://h/b", False),  # a step down
        ("http://h:8080/a", "https://h:8443/b", False),
        ("http://h:8080/a", "http://h:8081/b", False),
        ("http://h/a", "http://evil/b", False),
        ("http://h/a", "http://h.evil/b", False),
        ("http://h/a", "http://h@evil/b", False),
        ("http://h/a", "ftp://h/b", False),
        ("http://h/a", "http://h:99999/b", False),
        ("http://h/a", "http://[::1", False),
    ],
)
def test_redirects_that_may_be_followed(here: str, there: str, same: bool) -> None:
    assert _same_host(urlsplit(here), there) is same


def nested(*chain: BaseException) -> BaseException:
    """The first, raised from the second, raised from the third, ..."""
    for outer, inner in pairwise(chain):
        outer.__cause__ = inner
    return chain[0]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (nested(ValueError("x"), OSError(errno.ECONNREFUSED, "Connection refused")),
         "connection refused"),
        (nested(ValueError("x"), requests.ConnectTimeout()), "within --connect-timeout"),
        (nested(ValueError("x"), requests.ReadTimeout()), "within --network-timeout"),
        (nested(ValueError("x"), ssl.SSLError(1, "wrong version")), "TLS failed"),
        (requests.ConnectionError(OSError(errno.EHOSTUNREACH, "No route to host")),
         "no route to host"),
        (ValueError("secret header"), "the connection broke, or what came is not HTTP"),
    ],
)  # fmt: skip
def test_reasons_come_from_the_innermost_error(error: BaseException, reason: str) -> None:
    assert reason in reason_of(error)


def test_errors_that_go_round_in_circles_end() -> None:
    one, two = ValueError("1"), ValueError("2")
    one.__cause__, two.__cause__ = two, one
    assert reason_of(one)
