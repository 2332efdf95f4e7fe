"""An authentication service that answers anything but a token: one line, in time."""

from __future__ import annotations

import pytest

from tests.e2e.faults.hostile import Bench
from tests.e2e.faults.matrix import Row
from tests.fakes.hostile_swift import HostileSwift, of_path
from tests.fakes.loopback_http import Behaviour
from tests.fakes.server_behaviours import (
    BLOCK,
    CHUNKED,
    OK,
    START,
    dripping,
    flooding,
    half_close,
    leave,
    reset,
    saying,
    stall,
)

LATE = "within"
FAULTS: dict[str, tuple[Behaviour, str]] = {
    "closed": (leave, "connection broke"),
    "reset": (reset, "reset"),
    "half closed": (half_close, "connection broke"),
    "garbage": (saying(b"\x15\x03\x03\0\x02\r\n\r\n"), "not HTTP"),
    "stall": (stall, LATE),
    "stall in the body": (saying(START, then=stall), LATE),
    "a body byte by byte": (dripping(START), LATE),
    "headers byte by byte": (dripping(OK + b"X: "), LATE),
    "100 MB of one header": (flooding(OK + b"X: ", BLOCK, 1600), "not HTTP"),
    "100 MB of headers": (flooding(OK, b"X: y\r\n" * 9999, 1700), "not HTTP"),
    "interim answers without end": (flooding(b"", b"HTTP/1.1 100 C\r\n\r\n" * 999), "not HTTP"),
    "a body without end": (flooding(OK + b"\r\n", BLOCK), "bytes"),
    "chunks without end": (flooding(CHUNKED, b"10000\r\n%b\r\n" % BLOCK), "bytes"),
    "a chunk size without end": (flooding(CHUNKED, b"0" * 9999), "not HTTP"),
    "trailers without end": (flooding(CHUNKED + b"0\r\n", b"X: y\r\n" * 999), "not HTTP"),
}


@pytest.mark.fault("authentication: {fault}")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_login_without_a_token_gives_one_line(fault: str, bench: Bench, row: Row) -> None:
    behaviour, words = FAULTS[fault]
    # Where a timeout is the end of it, a short one is met as surely as a long one.
    short = ["--connect-timeout", 0.5, "--network-timeout", 0.5] if words == LATE else []
    with HostileSwift({fault: behaviour}, of_path("/auth/v1.0")) as swift:
        ended = bench.run(swift, *short)
        line = ended.one_line()
        assert swift.auth_url in line
        assert words in line
        assert swift.seen == []
    row.saw(f"status 1: {line.partition(swift.auth_url)[2].strip(': ')}; {ended.took_s:.0f} s")
