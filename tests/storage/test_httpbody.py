"""How long a body may be, in whatever form it comes."""

from __future__ import annotations

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind
from ssbench.storage.httpbody import Collector
from tests.fakes.scripted_server import answering, ok
from tests.fakes.served_pool import CHUNKED, HEAD, START, endless, serving


def test_a_body_without_end_is_given_up_by_a_collector() -> None:
    for start, part in [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 1000),
        (CHUNKED, b"64\r\n%b\r\n" % (b"x" * 100)),
    ]:
        with serving(endless(start, part)) as (_, pool), pytest.raises(StorageError) as caught:
            pool.request(HEAD, None, 0, Collector(100_000))
        assert caught.value.kind is ErrorKind.OVERLONG
        assert "more than 100000 bytes" in caught.value.detail


@pytest.mark.parametrize("longest", [0, 2_000_000])
@pytest.mark.parametrize(
    ("start", "part"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 60_000),
        (CHUNKED, b"ea60\r\n" + b"x" * 60_000 + b"\r\n"),
        (CHUNKED + b"fffffffffffffff\r\n", b"x" * 60_000),
        (START.replace(b"100", b"999999999999999999"), b""),
    ],
)
def test_no_body_is_longer_than_the_object_that_was_asked_for(
    start: bytes, part: bytes, longest: int
) -> None:
    with serving(endless(start, part)) as (_, pool), pytest.raises(StorageError) as caught:
        pool.request(HEAD, None, 0, None, longest)
    assert caught.value.kind is ErrorKind.OVERLONG
    assert f"more than {longest or 1048576} bytes" in caught.value.detail


def test_objects_and_the_pages_of_errors_may_be_long() -> None:
    page, large = ok(b"x" * 1_048_576), ok(b"x" * 2_000_000)
    with serving(answering(page, large)) as (_, pool):
        assert pool.request(HEAD, None, 0, None, 10).bytes_moved == 1_048_576
        assert pool.request(HEAD, None, 0, None, 2_000_000).bytes_moved == 2_000_000
