"""Hooks of the HTTP engine: a store that signs each attempt, and says what rejects credentials."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.operations import CREATE, READ
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.dial import Dialler, Endpoint
from ssbench.storage.http.pool import ConnectionPool, UnsignedRequest
from tests.fakes.scripted_server import Peer, ScriptedServer, ok

KEY = b"the key of the day"
REJECTED = b"HTTP/1.1 403 No\r\nX-Reason: %s\r\nContent-Length: 2\r\n\r\nno"


def signature(*parts: str) -> str:
    return hmac.new(KEY, "\n".join(parts).encode(), "sha256").hexdigest()


class SigningDriver:
    """Reads and writes ``/bucket/NUMBER``; the signature covers method, path, query and date."""

    def __init__(self, port: int) -> None:
        self.signed: list[str] = []
        self.clock_skew_s = 0
        self._pool = ConnectionPool(
            Dialler(Endpoint("127.0.0.1", port, False), 5.0),
            5.0,
            sign=self._sign,
            challenged=lambda status, headers: headers.get("x-reason") == "expired",
        )
        self.actions = {READ: self._read, CREATE: self._create}
        self.close = self._pool.close

    def _sign(
        self,
        method: str,
        path: str,
        query: str,
        headers: str,
        payload_hash: str | None,
        wall_time: float,
    ) -> bytes:
        date = str(int(wall_time) + self.clock_skew_s)
        signed = signature(method, path, query, headers, payload_hash or "", date)
        self.signed.append(signed)
        nonce = len(self.signed)
        return f"X-Date: {date}\r\nX-Signature: {signed}\r\nX-Nonce: {nonce}\r\n".encode()

    def _read(self, job: Job, deadline_ns: int) -> Timing:
        unsigned = UnsignedRequest("GET", f"/bucket/{job.object}", "part=1", "Host: s\r\n")
        return self._checked("GET", self._pool.request_signed(unsigned, None, deadline_ns))

    def _create(self, job: Job, deadline_ns: int) -> Timing:
        headers = f"Host: s\r\nContent-Length: {job.size}\r\n"
        unsigned = UnsignedRequest("PUT", f"/bucket/{job.object}", "", headers, "hash")
        upload = Upload(job.size, b"w" * job.size)
        return self._checked("PUT", self._pool.request_signed(unsigned, upload, deadline_ns))

    def _checked(self, method: str, timing: Timing) -> Timing:
        if timing.status // 100 != 2:
            raise self._pool.status_error(method, timing)
        return timing


@dataclass
class SignedStore:
    """Accepts a signature of the request and of the last minute, each nonce once."""

    nonces: list[str] = field(default_factory=list)
    drop_after: int = 0  #: close the connection after so many requests

    def __call__(self, peer: Peer) -> None:
        served = 0
        while heard := peer.hear():
            peer.say(self._response(heard.decode("latin-1")))
            served += 1
            if served == self.drop_after:
                return

    def _response(self, heard: str) -> bytes:
        lines, _, _ = heard.partition("\r\n\r\n")
        request_line, *fields = lines.split("\r\n")
        method, target, _ = request_line.split()
        path, _, query = target.partition("?")
        named = dict(line.split(": ") for line in fields)
        unsigned = "".join(f"{line}\r\n" for line in fields if not line.startswith("X-"))
        payload_hash = "hash" if method == "PUT" else ""
        date, nonce = named["X-Date"], named["X-Nonce"]
        wanted = signature(method, path, query, unsigned, payload_hash, date)
        if named["X-Signature"] != wanted or nonce in self.nonces:
            return REJECTED % b"forged"
        if abs(time.time() - int(date)) > 60:
            return REJECTED % b"expired"
        self.nonces.append(nonce)
        return ok(b"x" if method == "GET" else b"")


@contextmanager
def driver_on(store: SignedStore) -> Iterator[tuple[SigningDriver, ScriptedServer]]:
    with ScriptedServer(store) as server:
        driver = SigningDriver(server.port)
        try:
            yield driver, server
        finally:
            driver.close()


def job(operation: int, number: int = 7) -> Job:
    return Job(1, operation, 0, number, 0, 3)


def test_the_store_accepts_the_signature_of_every_request() -> None:
    store = SignedStore()
    with driver_on(store) as (driver, _):
        for number in range(3):
            assert driver.actions[CREATE](job(CREATE, number), 0).bytes_moved == 3
            assert driver.actions[READ](job(READ, number), 0).bytes_moved == 1
    assert store.nonces == [str(nonce) for nonce in range(1, 7)]


@pytest.mark.parametrize("operation", [CREATE, READ])
def test_a_request_repeated_on_a_new_connection_is_signed_anew(operation: int) -> None:
    store = SignedStore(drop_after=1)
    with driver_on(store) as (driver, server):
        driver.actions[operation](job(operation), 0)
        server.wait_closed()
        assert driver.actions[operation](job(operation), 0).reconnects == 1
        assert len(driver.signed) == 3
    assert store.nonces == ["1", "3"], "the second signature was sent to a closed connection"


def test_the_store_says_which_responses_reject_the_credentials() -> None:
    kinds: Mapping[int, ErrorKind] = {-3600: ErrorKind.UNAUTHORIZED, 0: ErrorKind.STATUS}
    store = SignedStore(nonces=["2"])
    with driver_on(store) as (driver, _):
        for skew_s, kind in kinds.items():
            driver.clock_skew_s = skew_s
            with pytest.raises(StorageError, match="GET returned 403: no") as caught:
                driver.actions[READ](job(READ), 0)
            assert (caught.value.kind, caught.value.status) == (kind, 403)
