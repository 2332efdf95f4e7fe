"""A small Swift in threads of this process, on a real socket: what a client sees of the real one.

Containers, objects, listings in pages, policies, bulk delete, /info, tokens. It keeps what it
was asked in ``seen``.
"""

from __future__ import annotations

import json
import re
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from tests.ports import QUEUE_SIZE

ACCOUNT = "/v1/AUTH_test"
BULK_DELETE_MAX = 1000


class Seen(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class FakeObject:
    body: bytes
    headers: dict[str, str]


@dataclass
class FakeContainer:
    policy: str
    headers: dict[str, str]
    objects: dict[str, FakeObject] = field(default_factory=dict)


class FakeSwift:
    """A context manager: listens within.

    :param token: the one that it accepts.
    :param context: makes it speak TLS.
    """

    def __init__(self, token: str = "tk", context: ssl.SSLContext | None = None) -> None:
        self.token = token
        self.seen: list[Seen] = []
        self.containers: dict[str, FakeContainer] = {}
        self.policies = ["gold", "silver"]
        self.account_headers: dict[str, str] = {}  #: of the answer to HEAD, _ for -
        self._numbers = count()

        class Handler(_Handler):
            swift = self

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        if context is not None:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.005,))
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}{ACCOUNT}"

    def methods(self) -> list[str]:
        return [seen.method for seen in self.seen]

    def next_id(self) -> str:
        return f"tx{next(self._numbers):021x}-0123456789"

    def __enter__(self) -> FakeSwift:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = QUEUE_SIZE

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client may leave when it likes


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    swift: FakeSwift

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.swift.seen.append(Seen(self.command, self.path, dict(self.headers), body))
        parts = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        if parts.path == "/info":
            self.reply(200, json.dumps(self.info()).encode())
        elif self.headers.get("X-Auth-Token") != self.swift.token:
            self.reply(401, b"who are you?")
        elif not parts.path.startswith(ACCOUNT):
            self.reply(404)
        else:
            rest = parts.path[len(ACCOUNT) :].strip("/")
            container, _, name = rest.partition("/")
            place = "object" if name else "container" if container else "account"
            method = getattr(self, f"{self.command}_{place}", None)
            if method is None:
                self.reply(405)
            else:
                method(body, query, unquote(container), unquote(name))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("X-Trans-Id", self.swift.next_id())
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def info(self) -> dict[str, Any]:
        return {
            "swift": {
                "max_file_size": 5368709122,
                "max_object_name_length": 1024,
                "max_container_name_length": 256,
                "container_listing_limit": 10000,
                "policies": [{"name": name, "aliases": name} for name in self.swift.policies],
            },
            "bulk_delete": {"max_deletes_per_request": BULK_DELETE_MAX},
        }

    def GET_account(self, body: bytes, query: dict[str, str], *_: str) -> None:
        rows = [
            {
                "name": name,
                "count": len(container.objects),
                "bytes": sum(len(found.body) for found in container.objects.values()),
            }
            for name, container in sorted(self.swift.containers.items())
            if name.startswith(query.get("prefix", ""))
        ]
        self.reply(200, json.dumps(_page(rows, query)).encode())

    def HEAD_account(self, body: bytes, query: dict[str, str], *_: str) -> None:
        containers = self.swift.containers.values()
        used = sum(len(each.body) for found in containers for each in found.objects.values())
        self.reply(204, X_Account_Bytes_Used=str(used), **self.swift.account_headers)

    def POST_account(self, body: bytes, query: dict[str, str], *_: str) -> None:
        deleted = missing = 0
        errors = []
        for line in body.decode("ascii").splitlines():
            container, _, name = unquote(line).partition("/")
            found = self.swift.containers.get(container)
            if re.search("stubborn", name):
                errors.append([f"/{line}", "403 Forbidden"])
            elif found is None or found.objects.pop(name, None) is None:
                missing += 1
            else:
                deleted += 1
        answer = {
            "Number Deleted": deleted,
            "Number Not Found": missing,
            "Response Status": "400 Bad Request" if errors else "200 OK",
            "Errors": errors,
        }
        self.reply(200, json.dumps(answer).encode())

    def PUT_container(self, body: bytes, query: dict[str, str], name: str, _: str) -> None:
        policy = self.headers.get("X-Storage-Policy", self.swift.policies[0])
        there = self.swift.containers.get(name)
        if policy not in self.swift.policies:
            self.reply(400)
        elif there is not None:
            fits = "X-Storage-Policy" not in self.headers or there.policy == policy
            if fits:
                there.headers.update(self.headers)
            self.reply(202 if fits else 409)
        else:
            self.swift.containers[name] = FakeContainer(policy, dict(self.headers))
            self.reply(201)

    def HEAD_container(self, body: bytes, query: dict[str, str], name: str, _: str) -> None:
        there = self.swift.containers.get(name)
        if there is None:
            self.reply(404)
        else:
            marker = there.headers.get("X-Container-Meta-Ssbench")
            self.reply(
                204,
                X_Storage_Policy=there.policy,
                X_Container_Object_Count=str(len(there.objects)),
                **({"X_Container_Meta_Ssbench": marker} if marker else {}),
            )

    def GET_container(self, body: bytes, query: dict[str, str], name: str, _: str) -> None:
        there = self.swift.containers.get(name)
        if there is None:
            self.reply(404)
        else:
            objects = sorted(there.objects.items())
            prefix, end = query.get("prefix", ""), query.get("delimiter", "")
            rows = {}
            for each, found in objects:
                at = each.find(end, len(prefix)) if end else -1
                entry = each[: at + len(end)] if at >= 0 else each
                if each.startswith(prefix):
                    rows[entry] = {"name": entry, "bytes": len(found.body)}
            page = _page([*rows.values()], query)
            if query.get("format") == "plain":
                lines = "".join(row["name"] + "\n" for row in page).encode()
                self.reply(200 if lines else 204, lines, Content_Type="text/plain; charset=utf-8")
            else:
                self.reply(200, json.dumps(page).encode())

    def DELETE_container(self, body: bytes, query: dict[str, str], name: str, _: str) -> None:
        there = self.swift.containers.get(name)
        if there is not None and not there.objects:
            del self.swift.containers[name]
        self.reply(404 if there is None else 409 if there.objects else 204)

    def PUT_object(self, body: bytes, query: dict[str, str], container: str, name: str) -> None:
        there = self.swift.containers.get(container)
        if there is not None and "X-Copy-From" in self.headers:
            of, _, copied = unquote(self.headers["X-Copy-From"]).lstrip("/").partition("/")
            source = self.swift.containers[of].objects.get(copied)
            there, body = (there, source.body) if source else (None, b"")
        if there is None:
            self.reply(404)
        else:
            there.objects[name] = FakeObject(body, dict(self.headers))
            self.reply(201, Etag=etag_of(body))

    def GET_object(self, body: bytes, query: dict[str, str], container: str, name: str) -> None:
        there = self.swift.containers.get(container)
        found = there.objects.get(name) if there else None
        if found is None:
            self.reply(404, b"no such object")
            return
        extra = {k: v for k, v in found.headers.items() if k.startswith("X-Object-Meta-")}
        if "X-Delete-After" in found.headers:
            extra["X_Delete_At"] = "9999999999"
        part, status = found.body, 200
        if "Range" in self.headers:
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            part, status = part[first : last + 1], 206
            extra["Content_Range"] = f"bytes {first}-{last}/{len(found.body)}"
        self.reply(status, part, Etag=etag_of(found.body), **extra)

    HEAD_object = GET_object

    def POST_object(self, body: bytes, query: dict[str, str], container: str, name: str) -> None:
        there = self.swift.containers.get(container)
        found = there.objects.get(name) if there else None
        if found is None:
            self.reply(404)
        else:
            found.headers = dict(self.headers)
            self.reply(202)

    def DELETE_object(self, body: bytes, query: dict[str, str], container: str, name: str) -> None:
        there = self.swift.containers.get(container)
        gone = there is not None and there.objects.pop(name, None) is not None
        self.reply(204 if gone else 404)

    def log_message(self, *args: object) -> None:
        pass


def etag_of(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()


def _page(rows: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
    after = [row for row in rows if row["name"] > query.get("marker", "")]
    return after[: int(query.get("limit", "10000"))]
