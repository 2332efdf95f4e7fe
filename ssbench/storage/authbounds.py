"""A bound on what a login's answer may take: in time as a whole, and in bytes.

requests bounds the silence between two bytes only, and reads whatever comes into memory; a server
that drips, or never ends, would hold up the master for ever.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.client import HTTPException
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ReadTimeoutError

from ssbench.core.errors import AuthError

MAX_RESPONSE = 8 * 1024 * 1024  #: bytes of an answer: a catalog of thousands of endpoints
_PIECE = 65536
_LATE = "the answer was not whole in time"


class BoundedAdapter(HTTPAdapter):
    """Sends a request and reads the whole answer, or gives up.

    :param longest_s: from the first try to connect to the answer's last byte.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._sockets = _OpenSockets()
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _pool_classes(self._sockets)

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """The answer, its body read.

        :raises requests.Timeout: where it wasn't whole in time.
        :raises requests.ConnectionError: the connection broke, or what came is no HTTP.
        :raises AuthError: where it has more than LONGEST bytes.
        """
        sockets = self._sockets
        sockets.expired = False
        timer = threading.Timer(self._timeout_s, sockets.shut_down)
        timer.daemon = True
        timer.start()
        try:
            response = super().send(request, *args, **{**kwargs, "stream": True})
            response._content = _read(response)
        except (requests.RequestException, HTTPError, HTTPException, OSError) as error:
            if sockets.expired or isinstance(error, TimeoutError | ReadTimeoutError):
                raise requests.Timeout(_LATE) from error
            if isinstance(error, requests.RequestException):
                raise
            raise requests.ConnectionError(error) from error
        finally:
            timer.cancel()
        if sockets.expired:  # http.client takes headers that were cut off for whole ones
            raise requests.Timeout(_LATE)
        return response

    def close(self) -> None:
        self._sockets.close()
        super().close()


class _OpenSockets:
    """Connections, noted down before a handshake can hang; ended from another thread."""

    def __init__(self) -> None:
        self.expired = False
        self._socks: list[socket.socket] = []

    def add(self, sock: socket.socket) -> None:
        # A duplicate: TLS takes the original over. Shut, it is the connection that is shut.
        self._socks.append(sock.dup())
        if self.expired:
            self.shut_down()

    def shut_down(self) -> None:
        self.expired = True
        for sock in self._socks:
            with suppress(OSError):  # the server may have gone
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for sock in self._socks:
            sock.close()
        self._socks.clear()


def _read(response: requests.Response) -> bytes:
    """The body as it came: nothing else was asked for, and compressed bytes may be bombs."""
    body = bytearray()
    while piece := response.raw.read(_PIECE, decode_content=False):
        body += piece
        if len(body) > MAX_RESPONSE:
            response.close()
            raise AuthError(f"{response.url}: an answer of more than {MAX_RESPONSE} bytes")
    return bytes(body)


# Classes made for each login would be left for the collector, which comes by seldom.


class _HttpConnection(HTTPConnection):
    sockets: _OpenSockets

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        self.sockets.add(sock)
        return sock


class _HttpsConnection(HTTPSConnection):
    sockets: _OpenSockets

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        self.sockets.add(sock)
        return sock


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _HttpConnection
    sockets: _OpenSockets

    def _new_conn(self) -> Any:
        return _with_sockets(super()._new_conn(), self.sockets)


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _HttpsConnection
    sockets: _OpenSockets

    def _new_conn(self) -> Any:
        return _with_sockets(super()._new_conn(), self.sockets)


def _with_sockets(made: Any, sockets: _OpenSockets) -> Any:
    """A pool or connection of the classes above, told where to note connections down."""
    made.sockets = sockets
    return made


def _pool_classes(sockets: _OpenSockets) -> dict[str, Any]:
    """What makes urllib3's pools, which note down their connections."""
    return {
        "http": lambda *args, **kwargs: _with_sockets(_HttpPool(*args, **kwargs), sockets),
        "https": lambda *args, **kwargs: _with_sockets(_HttpsPool(*args, **kwargs), sockets),
    }
