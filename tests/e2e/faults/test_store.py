"""A store that doesn't answer READs as it should: each such answer is an error with a name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from ssbench.core.model import ErrorKind
from tests.e2e.commands import Commands, Ended
from tests.e2e.faults.hostile import SILENT, TOO_LONG, UNFINISHED, Fault, failures, survives
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
FAULTS: dict[str, dict[str, Fault]] = {
    "reset in the middle of an answer": {
        "in the head": Fault(saying(OK[:20], then=reset), K.RESET, "reset by peer"),
        "in the body": Fault(saying(START, b"half", then=reset), K.RESET, "reset by peer", 200),
    },
    "closed, or half closed, in the middle of an answer": {
        "in the head": Fault(saying(OK[:20]), K.RESET, "closed in the headers"),
        "in the body": Fault(saying(START, b"half"), K.TRUNCATED, "4 of 1000 body", 200),
        "half closed": Fault(
            saying(START, b"halves", then=half_close), K.TRUNCATED, "6 of 1000 body", 200),
        "in a chunk": Fault(saying(CHUNKED, b"5\r\nhal"), K.TRUNCATED, "3 body bytes", 200),
    },
    "stalls": {
        "unanswered": Fault(stall, K.NETWORK_TIMEOUT, SILENT),
        "in the head": Fault(
            saying(OK, then=stall), K.NETWORK_TIMEOUT, UNFINISHED),
    },
    "stalls in the body": {
        "in the body": Fault(
            saying(START, b"half", then=stall), K.NETWORK_TIMEOUT, SILENT, 200),
    },
    "garbage instead of HTTP": {
        "TLS": Fault(saying(b"\x15\x03\x03\0\x02\r\n\r\n"), K.PROTOCOL, r"'\\x15"),
        "SSH": Fault(saying(b"SSH-2.0-OpenSSH_9\r\n\r\n"), K.PROTOCOL, "SSH-2.0"),
        "steering": Fault(
            saying(f"HTTP/1.1 {NASTY}\r\n\r\n".encode()), K.PROTOCOL, "no valid status"),
        "nothing known": Fault(
            flooding(b"", bytes(range(14, 256)) * 100), K.PROTOCOL, TOO_LONG),
    },
    "headers without end, 100 MB of them": {
        "of one line": Fault(flooding(OK + b"X: ", BLOCK, 1600), K.PROTOCOL, TOO_LONG),
        "of lines": Fault(flooding(OK, b"X-A: b\r\n" * 8000, 1600), K.PROTOCOL, TOO_LONG),
        "of an id": Fault(
            saying(OK + b"X-Trans-Id: %b\r\n\r\n" % (b"t" * 2**20)), K.PROTOCOL, TOO_LONG),
    },
    "headers that drip": {
        "drop by drop": Fault(
            dripping(OK + b"X: "), K.NETWORK_TIMEOUT, UNFINISHED),
    },
    "interim answers without end": {
        "in a flood": Fault(
            flooding(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 99), K.PROTOCOL, "interim"),
        "drop by drop": Fault(
            dripping(b"", b"HTTP/1.1 102 Wait\r\n\r\n"), K.NETWORK_TIMEOUT, UNFINISHED),
    },
    "wrong Content-Length": {
        "too long": Fault(saying(START, b"short"), K.TRUNCATED, "5 of 1000 body", 200),
        "too short": Fault(saying(START + b"x" * 1001), K.PROTOCOL, "1 bytes more", 200),
        "negative": Fault(
            saying(OK + b"Content-Length: -1000\r\n\r\n"), K.PROTOCOL, "no number: '-1000'"),
        "twice": Fault(
            saying(OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nbody"),
            K.PROTOCOL, "twice"),
        "a word": Fault(
            saying(OK + b"Content-Length: many\r\n\r\n"), K.PROTOCOL, "no number: 'many'"),
        "a petabyte": Fault(
            flooding(OK + b"Content-Length: 999999999999999999\r\n\r\n", BLOCK), K.OVERLONG,
            "a body of more", 200),
    },
    "a body after 204 and 304": {
        "204": Fault(saying(b"HTTP/1.1 204 No\r\n\r\nbodies"), K.PROTOCOL, "6 bytes more", 204),
        "304": Fault(saying(b"HTTP/1.1 304 No\r\n\r\nbody"), K.PROTOCOL, "4 bytes more", 304),
    },
    "chunks, or a body, without end": {
        "chunks": Fault(
            flooding(CHUNKED, b"10000\r\n%b\r\n" % BLOCK), K.OVERLONG, "a body of more", 200),
        "tiny chunks": Fault(flooding(CHUNKED, b"1\r\nx\r\n" * 9999), K.PROTOCOL, "few bytes", 200),
        "one chunk": Fault(
            flooding(CHUNKED + b"f" * 15 + b"\r\n", BLOCK), K.OVERLONG, "a body of more", 200),
        "until close": Fault(flooding(OK + b"\r\n", BLOCK), K.OVERLONG, "a body of more", 200),
    },
    "broken chunks": {
        "a size without end": Fault(
            flooding(CHUNKED, b"0" * 999), K.PROTOCOL, "size line is too", 200),
        "an extension": Fault(
            flooding(CHUNKED + b"1;", BLOCK), K.PROTOCOL, "size line is too", 200),
        "trailers": Fault(
            flooding(CHUNKED + b"0\r\n", b"X: y\r\n" * 999), K.PROTOCOL,
            "trailers of more than 65536 bytes", 200),
        "no size": Fault(saying(CHUNKED + b"hello\r\n"), K.PROTOCOL, "no chunk size", 200),
    },
    "a redirect": {
        "301": Fault(
            saying(
                b"HTTP/1.1 301 No\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n",
                then=keep),
            K.STATUS, "GET returned 301", 301),
    },
}  # fmt: skip
#: All of them, each with a sound answer behind those of a row.
TURNS: dict[str, Fault | None] = {
    f"{row}: {name}": fault
    for row, faults in FAULTS.items()
    for name, fault in [*faults.items(), ("well", None)]
}
USERS = 16  #: a few of them wait for timeouts


class Broken(NamedTuple):
    """A run that met each fault once."""

    ended: Ended
    struck: Counter[str]
    row: Row


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    commands, row = Commands(tmp_path_factory.mktemp("store")), Row("all")
    behaviours = {name: found.behaviour if found else None for name, found in TURNS.items()}
    with closing(commands), HostileSwift(behaviours) as swift:
        keys = {"operation_count": len(TURNS), "user_count": USERS}
        ended = survives(commands, row, swift, TURNS, **keys)
        yield Broken(ended, swift.struck, row)


def test_all_else_is_well(broken: Broken) -> None:
    sound = len(FAULTS)
    assert broken.ended.counted() == (sound, len(TURNS) - sound, 0)
    assert "\x1b" not in broken.ended.out + broken.ended.err


@pytest.mark.fault("store: {fault}")
@pytest.mark.parametrize("fault", FAULTS)
def test_an_answer_that_is_not_http(fault: str, broken: Broken, row: Row) -> None:
    told = failures(broken.ended, TURNS)
    for name, each in FAULTS[fault].items():
        assert broken.struck[f"{fault}: {name}"] == 1
        assert told[each.sign] >= 1
    row.accounts += broken.row.accounts
    counted = Counter(each.kind.label for each in FAULTS[fault].values())
    row.saw(", ".join(f"{count} {kind}" for kind, count in sorted(counted.items())))
    row.saw(broken.row.seen[0].partition("; ")[2])
