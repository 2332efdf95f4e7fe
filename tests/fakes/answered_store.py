"""A driver on a server that answers as a test says, and the requests that the server received."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from ssbench.core.model import SizeClass
from ssbench.core.scenario.values import crud_profile
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.registry import open_store
from ssbench.storage.s3.client import AwsKeys, issue
from tests.fakes.scripted_server import Peer, Script, ScriptedServer

SIZES = (SizeClass("tiny", 1, 999, crud_profile([1, 1, 1, 1]), 10),)
#: Store over HTTP -> what the master issues for it.
ISSUED: dict[str, dict[str, Any]] = {
    "swift": {"token": "tk"},
    "s3": issue(AwsKeys("AKID", "s3cret-key", ""), "us-east-1", time.time())[0],
    "webdav": {},
}


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


@contextmanager
def scripted_driver(
    name: str,
    *scripts: Script,
    kind: Callable[[StorageSettings], Any] = open_store,
    issued: Mapping[str, Any] | None = None,
    paths: Sequence[str] = ("/v1/a",),
    own: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Iterator[tuple[Any, ScriptedServer]]:
    """A half of a store's driver on a server, which serves its connections by these scripts.

    :param issued: the credentials.
    :param paths: of its addresses, all of this server.
    :param own: the store's own settings.
    :param changes: of the other settings.
    """
    with ScriptedServer(*scripts) as server:
        urls = [f"http://127.0.0.1:{server.port}{path}" for path in paths]
        values = {
            "run_id": "run1", "worker_id": "w1", "sizes": SIZES, "container_count": 2,
            "credentials": (Credentials(1, None, ISSUED[name] if issued is None else issued),),
            **changes,
        }  # fmt: skip
        settings = StorageSettings(name, store={"urls": urls, **(own or {})}, **values)
        with closing(kind(settings)) as driver:
            yield driver, server


@contextmanager
def driver_on(name: str, *answers: Answer, **given: Any) -> Iterator[tuple[Any, list[Request]]]:
    """A half of a store's driver on a server, and the requests that the server received.

    :param answers: responses to one request after another, on whatever connection; a callable
        gives those to all further requests. Then the connection ends.
    :param given: as of ``scripted_driver``.
    """
    left, heard = list(answers), list[Request]()

    def script(peer: Peer) -> None:
        while data := peer.hear_whole():
            request = Request.of(data)
            heard.append(request)
            if not left:
                return
            answer = left[0] if callable(left[0]) else left.pop(0)
            peer.say(answer(request) if callable(answer) else answer)

    with scripted_driver(name, script, **given) as (driver, _):
        yield driver, heard
