"""Limits on the response to a login: total time, and bytes.

requests limits only the time between two bytes, and reads a body of any size into memory. A server
that sends very slowly, or without end, would block the master forever.
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

MAX_RESPONSE = 8 * 1024 * 1024  #: bytes of a response: a catalog of thousands of endpoints
_PIECE = 65536
_LATE = "the response was not complete in time"


class BoundedAdapter(HTTPAdapter):
    """Sends a request and reads the complete response within limits.

    :param longest_s: from the first connection attempt to the response's last byte.
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
        """Send the request; returns the response with its body read.

        :raises requests.Timeout: the response wasn't complete in time.
        :raises requests.ConnectionError: the connection failed, or the data isn't HTTP.
        :raises AuthError: the body has more than MAX_RESPONSE bytes.
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
        if sockets.expired:  # http.client accepts truncated headers as complete
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
        # A duplicate, since TLS detaches the original. Shutting it down shuts the connection down.
        self._socks.append(sock.dup())
        if self.expired:
            self.shut_down()

    def shut_down(self) -> None:
        self.expired = True
        for sock in self._socks:
            with suppress(OSError):  # the peer may have closed it
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for sock in self._socks:
            sock.close()
        self._socks.clear()


def _read(response: requests.Response) -> bytes:
    """The undecoded body: we request no compression, and compressed data may be a bomb."""
    body = bytearray()
    while piece := response.raw.read(_PIECE, decode_content=False):
        body += piece
        if len(body) > MAX_RESPONSE:
            response.close()
            raise AuthError(f"{response.url}: an answer of more than {MAX_RESPONSE} bytes")
    return bytes(body)


# Defined once: classes created per login would pile up, because the garbage collector runs rarely.


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
    """Attach the registry of open sockets to a pool or connection of the classes above."""
    made.sockets = sockets
    return made


def _pool_classes(sockets: _OpenSockets) -> dict[str, Any]:
    """Factories of urllib3 pools whose connections register their sockets."""
    return {
        "http": lambda *args, **kwargs: _with_sockets(_HttpPool(*args, **kwargs), sockets),
        "https": lambda *args, **kwargs: _with_sockets(_HttpsPool(*args, **kwargs), sockets),
    }
