"""A store that doesn't answer READs as it should: each such answer is an error with a name."""

from __future__ import annotations

import pytest

from ssbench.core.model import ErrorKind
from tests.e2e.commands import Commands
from tests.e2e.faults.hostile import Fault, survives
from tests.e2e.faults.matrix import Row
from tests.fakes.hostile_swift import HostileSwift
from tests.fakes.server_behaviours import (
    BLOCK,
    CHUNKED,
    OK,
    START,
    dripping,
    flooding,
    half_close,
    keep,
    reset,
    saying,
    stall,
)
from tests.fakes.terminal import NASTY

K = ErrorKind
FEW = 12  #: operations, where each failure takes a time-out
FAULTS: dict[str, dict[str, Fault | None]] = {
    "reset in the midst of an answer": {
        "in the head": Fault(saying(OK[:20], then=reset), K.RESET, "reset by peer"),
        "in the body": Fault(saying(START, b"half", then=reset), K.RESET, "reset by peer"),
        "well": None,
    },
    "closed, or half closed, in the midst of an answer": {
        "in the head": Fault(saying(OK[:20]), K.RESET, "closed in the headers"),
        "in the body": Fault(saying(START, b"half"), K.TRUNCATED, "4 of 1000 body"),
        "half closed": Fault(
            saying(START, b"halves", then=half_close), K.TRUNCATED, "6 of 1000 body"),
        "in a chunk": Fault(saying(CHUNKED, b"5\r\nhal"), K.TRUNCATED, "3 body bytes"),
        "well": None,
    },
    "stalls": {
        "unanswered": Fault(stall, K.NETWORK_TIMEOUT, "silent for 1 s"),
        "in the head": Fault(
            saying(OK, then=stall), K.NETWORK_TIMEOUT, "headers unfinished after 1 s"),
        "well": None,
    },
    "stalls in the body": {
        "in the body": Fault(
            saying(START, b"half", then=stall), K.NETWORK_TIMEOUT, "silent for 1 s"),
        "well": None,
    },
    "garbage instead of HTTP": {
        "TLS": Fault(saying(b"\x15\x03\x03\0\x02\r\n\r\n"), K.PROTOCOL, r"'\\x15"),
        "SSH": Fault(saying(b"SSH-2.0-OpenSSH_9\r\n\r\n"), K.PROTOCOL, "SSH-2.0"),
        "steering": Fault(
            saying(f"HTTP/1.1 {NASTY}\r\n\r\n".encode()), K.PROTOCOL, "no valid status"),
        "nothing known": Fault(
            flooding(b"", bytes(range(14, 256)) * 100), K.PROTOCOL, "more than 65536 bytes"),
        "well": None,
    },
    "headers without end, 100 MB of them": {
        "of one line": Fault(flooding(OK + b"X: ", BLOCK, 1600), K.PROTOCOL, "headers of more"),
        "well": None,
        "of lines": Fault(flooding(OK, b"X-A: b\r\n" * 8000, 1600), K.PROTOCOL, "headers of more"),
        "of an id": Fault(
            saying(OK + b"X-Trans-Id: %b\r\n\r\n" % (b"t" * 2**20)), K.PROTOCOL, "headers of more"),
    },
    "headers that drip": {
        "drop by drop": Fault(
            dripping(OK + b"X: "), K.NETWORK_TIMEOUT, "headers unfinished after 1 s"),
        "well": None,
    },
    "interim answers without end": {
        "in a flood": Fault(
            flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99), K.PROTOCOL, "interim"),
        "well": None,
        "drop by drop": Fault(
            dripping(b"", b"HTTP/1.1 102 Wait\r\n\r\n"), K.NETWORK_TIMEOUT, "headers unfinished"),
    },
    "wrong Content-Length": {
        "too long": Fault(saying(START, b"short"), K.TRUNCATED, "5 of 1000 body"),
        "too short": Fault(saying(START + b"x" * 1001), K.PROTOCOL, "1 bytes more"),
        "negative": Fault(saying(START.replace(b"1", b"-1")), K.PROTOCOL, "not an HTTP/1.1|-1000"),
        "well": None,
        "twice": Fault(
            saying(OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody"),
            K.PROTOCOL, "twice"),
        "a word": Fault(saying(OK + b"Content-Length: many\r\n\r\n"), K.PROTOCOL, "no number"),
        "a petabyte": Fault(
            flooding(OK + b"Content-Length: 999999999999999999\r\n\r\n", BLOCK), K.OVERLONG,
            "a body of more"),
    },
    "a body after 204 and 304": {
        "204": Fault(saying(b"HTTP/1.1 204 No\r\n\r\nbodies"), K.PROTOCOL, "6 bytes more"),
        "304": Fault(saying(b"HTTP/1.1 304 No\r\n\r\nbody"), K.PROTOCOL, "4 bytes more"),
        "well": None,
    },
    "chunks, or a body, without end": {
        "chunks": Fault(
            flooding(CHUNKED, b"10000\r\n%b\r\n" % BLOCK), K.OVERLONG, "a body of more"),
        "tiny chunks": Fault(flooding(CHUNKED, b"1\r\nx\r\n" * 9999), K.PROTOCOL, "few bytes"),
        "one chunk": Fault(
            flooding(CHUNKED + b"f" * 15 + b"\r\n", BLOCK), K.OVERLONG, "a body of more"),
        "until close": Fault(flooding(OK + b"\r\n", BLOCK), K.OVERLONG, "a body of more"),
        "well": None,
    },
    "broken chunks": {
        "a size without end": Fault(flooding(CHUNKED, b"0" * 999), K.PROTOCOL, "head is too long"),
        "an extension": Fault(flooding(CHUNKED + b"1;", BLOCK), K.PROTOCOL, "head is too long"),
        "trailers": Fault(
            flooding(CHUNKED + b"0\r\n", b"X: y\r\n" * 999), K.PROTOCOL, "trailers without end"),
        "no size": Fault(saying(CHUNKED + b"hello\r\n"), K.PROTOCOL, "no chunk size"),
        "well": None,
    },
    "a redirect": {
        "301": Fault(
            saying(
                b"HTTP/1.1 301 No\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
                then=keep),
            K.STATUS, "GET returned 301", 301),
        "well": None,
    },
}  # fmt: skip
#: Those of which the engine's own tests say nearly as much.
SLOW = ("stalls in the body", "a body after 204 and 304", "broken chunks", "headers that drip")


@pytest.mark.fault("store: {fault}")
@pytest.mark.parametrize(
    "fault",
    [name if name not in SLOW else pytest.param(name, marks=pytest.mark.slow) for name in FAULTS],
)
def test_an_answer_that_is_not_http(fault: str, commands: Commands, row: Row) -> None:
    faults = FAULTS[fault]
    count = FEW if "stalls" in fault or "drip" in fault else 40
    behaviours = {name: found.behaviour if found else None for name, found in faults.items()}
    with HostileSwift(behaviours) as swift:
        ended = survives(commands, row, swift, faults, operation_count=count)
    done, errors, _ = ended.counted()
    assert (done + errors, errors) == (count, sum(swift.struck.values()))
    assert done > 0
    assert "\x1b" not in ended.out + ended.err
