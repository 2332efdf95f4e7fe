"""The stores that speak HTTP, each on a real server, as a test of all of them needs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.e2e.commands import Commands, Started
from tests.fakes.breaking_proxy import BreakingProxy, Lie
from tests.fakes.loopback_http import Behaviour
from tests.servers.s3 import SwiftS3
from tests.servers.webdav import WsgiDav

INITIAL = 10  #: objects of commands.scenario
REFUSAL = b"<Error><Code>%b</Code><Message>No.</Message></Error>"


def response(status: bytes, body: bytes = b"") -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"HTTP/1.1 %b No\r\n%b\r\n\r\n%b" % (status, length, body)


@dataclass
class Store:
    """A store, and what a failing server of its kind sends."""

    name: str
    port: int
    options: Callable[[int], list[object]]  #: of ssbench-master, for the store at this port
    environment: dict[str, str] = field(default_factory=dict)
    secrets: list[str] = field(default_factory=list)
    unavailable: bytes = response(b"503")
    unavailable_words: str = "GET returned 503"
    expired: bytes = response(b"401")
    created: int = 201  #: status of an upload
    etag_is_md5: bool = True
    populates_by_get: bool = False

    def broken(self, faults: Mapping[str, Behaviour | Lie | None]) -> BreakingProxy:
        """A proxy before it that breaks READs."""
        return BreakingProxy(self.port, faults, spared=INITIAL if self.populates_by_get else 0)

    def run(
        self,
        commands: Commands,
        port: int,
        *options: object,
        workers: int = 1,
        program: bool = False,
        **keys: object,
    ) -> Started:
        """A run against the store at this port."""
        path = commands.scenario(container_base=f"{self.name}fault", **keys)
        words = ["-f", path, *options, *self.options(port)]
        return commands.start_run(
            *words, environment=self.environment, workers=workers, program=program
        )


@contextmanager
def http_stores(key: str = "testing", authentication: str = "digest") -> Iterator[dict[str, Store]]:
    """The stores by name; Swift's own interface and its s3api are of one server.

    :param key: of Swift and S3.
    :param authentication: of WebDAV.
    """
    with SwiftS3(key) as s3, WsgiDav(authentication) as dav:
        swift = s3.swift
        stores = [
            Store(
                "swift",
                swift.port,
                lambda port: [
                    "-A", swift.auth_url, "-U", swift.user,
                    "-S", swift.storage_url.replace(str(swift.port), str(port)),
                ],
                {"ST_KEY": key},
                [key],
            ),
            Store(
                "s3",
                swift.port,
                lambda port: ["--storage", "s3", "--s3-endpoint", f"http://127.0.0.1:{port}"],
                s3.environment,
                [key],
                unavailable=response(b"503", REFUSAL % b"SlowDown"),
                unavailable_words="SlowDown",
                expired=response(b"400", REFUSAL % b"ExpiredToken"),
                created=200,
            ),
            Store(
                "webdav",
                dav.port,
                lambda port: ["--storage", "webdav", "--url", f"http://127.0.0.1:{port}/dav"],
                dav.environment,
                dav.secrets,
                etag_is_md5=False,
                populates_by_get=True,
            ),
        ]  # fmt: skip
        yield {store.name: store for store in stores}
