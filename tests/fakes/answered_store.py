"""A driver on a server that answers as a test says, and the requests that the server received."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ssbench.core.model import SizeClass
from ssbench.core.scenario.values import crud_profile

SIZES = (SizeClass("tiny", 1, 999, crud_profile([1, 1, 1, 1]), 10),)


class Request(NamedTuple):
    """A request as a server received it."""

    method: str
    target: str  #: path and query
    head: str
    body: bytes

    @classmethod
    def of(cls, data: bytes) -> Request:
        head, _, body = data.partition(b"\r\n\r\n")
        text = head.decode("latin-1")
        method, target, _ = text.partition("\r\n")[0].split(" ")
        return cls(method, target, text, body)

    @property
    def line(self) -> str:
        """Method and target."""
        return f"{self.method} {self.target}"

    @property
    def headers(self) -> dict[str, str]:
        """Values by name in lower case."""
        lines = (each.partition(": ") for each in self.head.split("\r\n")[1:])
        return {name.lower(): value for name, _, value in lines}


Answer = bytes | Callable[[Request], bytes]


def response(status: int, body: bytes | str = b"", **headers: str) -> bytes:
    """:param headers: with _ for -."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def always(answer: bytes) -> Callable[[Request], bytes]:
    return lambda request: answer
