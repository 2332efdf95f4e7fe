"""A pool of the engine, on a server that does what a test says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat

import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import Timing
from ssbench.storage.http.addresses import Dialler, Endpoint
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.pool import ConnectionPool
from tests.fakes import server_behaviours as behaviours
from tests.fakes.loopback_http import Behaviour
from tests.fakes.scripted_server import Peer, Script, ScriptedServer

HEAD = b"GET /v1/a/c/o HTTP/1.1\r\nHost: x\r\n\r\n"
PUT = b"PUT /v1/a/c/o HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
START = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextmanager
def pool_on(
    port: int, network_timeout_s: float = 5.0, host: str = "127.0.0.1"
) -> Iterator[ConnectionPool]:
    pool = ConnectionPool(Dialler(Endpoint(host, port, False), 5.0), network_timeout_s)
    try:
        yield pool
    finally:
        pool.close()


@contextmanager
def serving(
    *scripts: Script, network_timeout_s: float = 5.0
) -> Iterator[tuple[ScriptedServer, ConnectionPool]]:
    with ScriptedServer(*scripts) as server, pool_on(server.port, network_timeout_s) as pool:
        yield server, pool


def ask(*scripts: Script, network_timeout_s: float = 5.0, upload: Upload | None = None) -> Timing:
    """One request to a server of such scripts."""
    with serving(*scripts, network_timeout_s=network_timeout_s) as (_, pool):
        return pool.request(HEAD if upload is None else PUT % upload.size, upload)


def failure(
    *scripts: Script, network_timeout_s: float = 5.0, upload: Upload | None = None
) -> StorageError:
    with pytest.raises(StorageError) as caught:
        ask(*scripts, network_timeout_s=network_timeout_s, upload=upload)
    assert caught.value.detail.startswith("127.0.0.1:"), "an error names its host and port"
    return caught.value


def big_upload(size: int = 20_000_000) -> Upload:
    """More than any socket buffer takes."""
    block = memoryview(bytes(100_000))
    return Upload(size, block, lambda: repeat(block, size // len(block) - 1))


def asked(behaviour: Behaviour) -> Script:
    """What a server does once it has heard a request."""

    def script(peer: Peer) -> None:
        peer.hear()
        behaviour(peer)

    return script


def saying(*parts: bytes, pause_s: float = 0.002) -> Script:
    """An answer in several segments, then the end of the connection."""
    return asked(behaviours.saying(*parts, pause_s=pause_s))


def silent_after(said: bytes) -> Script:
    return asked(behaviours.saying(said, then=behaviours.stall))


def dripping(start: bytes, drop: bytes) -> Script:
    return asked(behaviours.dripping(start, drop, every_s=0.01))


def endless(start: bytes, part: bytes) -> Script:
    """Say the part again and again, as fast as it is taken; without one, say no more."""
    return asked(behaviours.dripping(start, part, every_s=0.0 if part else 0.01))
