"""Hostile peers at the master's ports: other tools, broken ones, and attackers."""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import zmq

from ssbench.core.columns import pack_results
from ssbench.core.messages import (
    MAX_WORKER_MESSAGE_BYTES,
    PROTOCOL,
    SECRET_BYTES,
    Ack,
    Bye,
    ControlState,
    Expired,
    Hello,
    Jobs,
    Leaving,
    Ready,
    Results,
    Returned,
    decode,
    encode,
    pack,
)
from ssbench.core.model import RESULT_NUMBERS, Phase, Result
from tests.corpus import recorded
from tests.timing import PATIENCE_S

#: The first bytes of what other tools say.
OTHER_TOOLS = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: master\r\n\r\n",
    "redis": b"*1\r\n$4\r\nPING\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + random.Random(1).randbytes(157),
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "noise": random.Random(2).randbytes(5000),
    "nothing": b"",
}

_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_GIGABYTE = b"\x02" + (1 << 30).to_bytes(8, "big")


def greeting(kind: bytes) -> bytes:
    """All that a ZeroMQ socket of this kind says first (ZMTP 3.0, without a key)."""
    ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
    return _GREETING + b"\x04" + bytes([len(ready)]) + ready


def a_gigabyte_announced(kind: bytes) -> bytes:
    """A message of 1 GB, its beginning."""
    return greeting(kind) + _GIGABYTE + b"x" * 60_000


def zmtp_frame(data: bytes, *, more: bool = False) -> bytes:
    """A message as ZeroMQ sends it, to be sent behind a greeting.

    :param more: it is a part of one.
    """
    return bytes([2 | more]) + len(data).to_bytes(8, "big") + data


def subscriptions(count: int, size: int) -> bytes:
    """So many, to random topics of so many bytes, to be sent behind a greeting."""
    noise = random.Random(4)
    head = b"\x02" + (size + 1).to_bytes(8, "big") + b"\x01"
    return b"".join(head + noise.randbytes(size) for _ in range(count))


def call(port: int, said: bytes) -> socket.socket:
    """A connection that says this much, or what the other side takes before it hangs up."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    with suppress(ConnectionError):
        sock.sendall(said)
    return sock


def admitted(port: int, kind: bytes) -> socket.socket:
    """A connection of a ZeroMQ socket of this kind, which the other side has admitted."""
    sock, heard = call(port, greeting(kind)), b""
    while b"READY" not in heard:
        more = sock.recv(4096)
        assert more, "not admitted"
        heard += more
    return sock


def is_hung_up(sock: socket.socket) -> bool:
    """Whether the other side ends it, within the socket's timeout."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def nasty_frames() -> list[bytes]:
    """Frames that are none of ours, each refused and counted."""
    noise = random.Random(3)
    frames = [noise.randbytes(size) for size in (1, 60, 2000)]
    real = [data for data in recorded("frames") if type(decode(data)) is not ControlState]
    frames += [pack([PROTOCOL + 1, "bye", 1, "x"]), pack({"a": 1}), b"", pack([PROTOCOL, "boo"])]
    frames += [b"\x81\x01" * 100_000, b"\x91" * 500_000]
    frames += [b"\xdd\x00\x07\x00\x00" + b"\x90" * 0x70000, bytes(MAX_WORKER_MESSAGE_BYTES)]
    frames += [data[:-1] for data in real]
    return frames


def forged(control_state: ControlState) -> list[bytes]:
    """Messages of the right form that lie, in the run of a control state: most of them say to be of
    a worker that it lists."""
    someone, nobody = next(iter(control_state.workers)), 4711
    run, phase = control_state.run, control_state.phase
    rows = [Result(*[0] * RESULT_NUMBERS)._replace(number=10**9 + n, status=200) for n in range(3)]
    packed = pack(pack_results(rows))
    mine = pack(pack_results([rows[0]._replace(number=number) for number in (1, 2, 3)]))
    lies = [
        Results(someone, run, phase, [], packed),  # numbers that it doesn't hold
        Results(someone, run, phase, [], b"\xc1"),
        Results(nobody, run, phase, [], mine),  # another incarnation
        Results(someone, "another", phase, [], mine),
        Results(someone, run, Phase.CLEANUP, [], mine),
        Results(nobody, run, phase, [10**9], mine),
        *[Results(someone, run, phase, [], pack(pack_results([rows[0]._replace(number=number)])))
          for number in range(1, 200)],
        Ack(nobody, run, [1, 2, 3]), Ack(someone, run, list(range(100))),
        Returned(nobody, run, [1, 2, 3]), Returned(someone, run, list(range(1000))),
        Ready(nobody, run, phase, True), Ready(someone, run, phase, True),
        Bye(nobody, "gone\x1b[2J"), Bye(someone, "gone"), Leaving(someone),
        Expired(nobody, 10**9), Expired(someone, 1),
        Jobs(run, phase, 1, 0, b""), control_state,
    ]  # fmt: skip
    return [encode(lie, OWN_SECRET) for lie in lies]


#: What hostile peers seal their messages with.
OWN_SECRET = b"hostile".ljust(SECRET_BYTES, b"!")


def hello(worker_id: str, previous: int = 0) -> bytes:
    """Somebody who will never do anything."""
    who = Hello(
        815, previous, worker_id, 0, "host\x1b]0;owned\x07", 1, "\x9b31m", secret=OWN_SECRET
    )
    return encode(who, OWN_SECRET)


class Listener:
    """Receives control states, and sends anything to the results port. A context manager."""

    def __init__(self, control: int, results: int) -> None:
        self._context = zmq.Context()
        self._states = self._context.socket(zmq.SUB)
        self._states.setsockopt(zmq.SUBSCRIBE, b"")
        self._states.connect(f"tcp://127.0.0.1:{control}")
        self._results = self._context.socket(zmq.PUSH)
        self._results.setsockopt(zmq.SNDTIMEO, 10_000)
        self._results.connect(f"tcp://127.0.0.1:{results}")

    def control_state(self, fits: Callable[[ControlState], object]) -> ControlState:
        """The first control_state that fits."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            assert self._states.poll(PATIENCE_S * 1000), "no control state"
            received = decode(self._states.recv())
            if isinstance(received, ControlState) and fits(received):
                return received
        raise AssertionError("no such control state")

    @property
    def heard_nothing(self) -> bool:
        """Whether no message has come."""
        return self._states.poll(0) == 0

    def send(self, frame: bytes) -> None:
        self._results.send(frame)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *exc: object) -> None:
        self._context.destroy(0)
