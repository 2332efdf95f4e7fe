"""A small Swift in threads of this process, on a real socket: what a client sees of the real one.

Containers, objects, listings in pages, policies, bulk delete, /info, tokens. It keeps what it
was asked in ``seen``.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from hashlib import md5
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.loopback_http import Answer, LoopbackServer, Request

ACCOUNT = "/v1/AUTH_test"
BULK_DELETE_MAX = 1000
Query = dict[str, str]


@dataclass
class FakeObject:
    body: bytes
    headers: dict[str, str]


@dataclass
class FakeContainer:
    policy: str
    headers: dict[str, str]
    objects: dict[str, FakeObject] = field(default_factory=dict)


class FakeSwift(LoopbackServer):
    """A context manager: listens within. It gives its token to everyone, at ``auth_url``.

    :param token: the one that it accepts.
    :param context: makes it speak TLS.
    """

    def __init__(self, token: str = "tk", context: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=context)
        self.auth_url = f"{self.url}/auth/v1.0"
        self.url += ACCOUNT
        self.token = token
        self.containers: dict[str, FakeContainer] = {}
        self.policies = ["gold", "silver"]
        self.account_headers: dict[str, str] = {}  #: of the answer to HEAD
        self._numbers = count()

    def methods(self) -> list[str]:
        return [seen.method for seen in self.seen]

    def answer(self, request: Request) -> Answer:
        answer = self._answer(request)
        headers = {**answer.headers, "X-Trans-Id": f"tx{next(self._numbers):021x}-0123456789"}
        return answer._replace(headers=headers)

    def _answer(self, request: Request) -> Answer:
        parts = urlsplit(request.path)
        query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
        if parts.path == "/info":
            return Answer.of(200, self.info())
        if parts.path == "/auth/v1.0":
            return Answer(200, {"X-Storage-Url": self.url, "X-Auth-Token": self.token})
        if request.headers.get("X-Auth-Token") != self.token:
            return Answer(401, {}, b"who are you?")
        if not parts.path.startswith(ACCOUNT):
            return Answer(404)
        container, _, name = parts.path[len(ACCOUNT) :].strip("/").partition("/")
        place = "object" if name else "container" if container else "account"
        method = getattr(self, f"{request.method}_{place}", None)
        if method is None:
            return Answer(405)
        answer: Answer = method(request, query, unquote(container), unquote(name))
        return answer

    def info(self) -> dict[str, Any]:
        return {
            "swift": {
                "max_file_size": 5368709122,
                "max_object_name_length": 1024,
                "max_container_name_length": 256,
                "container_listing_limit": 10000,
                "policies": [{"name": name, "aliases": name} for name in self.policies],
            },
            "bulk_delete": {"max_deletes_per_request": BULK_DELETE_MAX},
        }

    def GET_account(self, request: Request, query: Query, *_: str) -> Answer:
        rows = [
            {
                "name": name,
                "count": len(container.objects),
                "bytes": sum(len(found.body) for found in container.objects.values()),
            }
            for name, container in sorted(self.containers.items())
            if name.startswith(query.get("prefix", ""))
        ]
        return Answer.of(200, _page(rows, query))

    def HEAD_account(self, request: Request, query: Query, *_: str) -> Answer:
        containers = self.containers.values()
        used = sum(len(each.body) for found in containers for each in found.objects.values())
        return Answer(204, {"X-Account-Bytes-Used": str(used), **self.account_headers})

    def POST_account(self, request: Request, query: Query, *_: str) -> Answer:
        deleted = missing = 0
        errors = []
        for line in request.body.decode("ascii").splitlines():
            container, _, name = unquote(line).partition("/")
            found = self.containers.get(container)
            if re.search("stubborn", name):
                errors.append([f"/{line}", "403 Forbidden"])
            elif found is None or found.objects.pop(name, None) is None:
                missing += 1
            else:
                deleted += 1
        outcome = {
            "Number Deleted": deleted,
            "Number Not Found": missing,
            "Response Status": "400 Bad Request" if errors else "200 OK",
            "Errors": errors,
        }
        return Answer.of(200, outcome)

    def PUT_container(self, request: Request, query: Query, name: str, _: str) -> Answer:
        policy = request.headers.get("X-Storage-Policy", self.policies[0])
        there = self.containers.get(name)
        if policy not in self.policies:
            return Answer(400)
        if there is None:
            self.containers[name] = FakeContainer(policy, dict(request.headers))
            return Answer(201)
        if "X-Storage-Policy" in request.headers and there.policy != policy:
            return Answer(409)
        there.headers.update(request.headers)
        return Answer(202)

    def HEAD_container(self, request: Request, query: Query, name: str, _: str) -> Answer:
        there = self.containers.get(name)
        if there is None:
            return Answer(404)
        headers = {
            "X-Storage-Policy": there.policy,
            "X-Container-Object-Count": str(len(there.objects)),
        }
        marker = there.headers.get("X-Container-Meta-Ssbench")
        return Answer(204, {**headers, "X-Container-Meta-Ssbench": marker} if marker else headers)

    def GET_container(self, request: Request, query: Query, name: str, _: str) -> Answer:
        there = self.containers.get(name)
        if there is None:
            return Answer(404)
        prefix, end = query.get("prefix", ""), query.get("delimiter", "")
        rows = {}
        for each, found in sorted(there.objects.items()):
            at = each.find(end, len(prefix)) if end else -1
            entry = each[: at + len(end)] if at >= 0 else each
            if each.startswith(prefix):
                rows[entry] = {"name": entry, "bytes": len(found.body)}
        page = _page([*rows.values()], query)
        if query.get("format") != "plain":
            return Answer.of(200, page)
        lines = "".join(row["name"] + "\n" for row in page).encode()
        return Answer(200 if lines else 204, {"Content-Type": "text/plain; charset=utf-8"}, lines)

    def DELETE_container(self, request: Request, query: Query, name: str, _: str) -> Answer:
        there = self.containers.get(name)
        if there is not None and not there.objects:
            del self.containers[name]
        return Answer(404 if there is None else 409 if there.objects else 204)

    def PUT_object(self, request: Request, query: Query, container: str, name: str) -> Answer:
        there, body = self.containers.get(container), request.body
        if there is not None and "X-Copy-From" in request.headers:
            of, _, copied = unquote(request.headers["X-Copy-From"]).lstrip("/").partition("/")
            source = self.containers[of].objects.get(copied)
            there, body = (there, source.body) if source else (None, b"")
        if there is None:
            return Answer(404)
        there.objects[name] = FakeObject(body, dict(request.headers))
        return Answer(201, {"Etag": etag_of(body)})

    def GET_object(self, request: Request, query: Query, container: str, name: str) -> Answer:
        there = self.containers.get(container)
        found = there.objects.get(name) if there else None
        if found is None:
            return Answer(404, {}, b"no such object")
        headers = {k: v for k, v in found.headers.items() if k.startswith("X-Object-Meta-")}
        headers["Etag"] = etag_of(found.body)
        if "X-Delete-After" in found.headers:
            headers["X-Delete-At"] = "9999999999"
        if "Range" not in request.headers:
            return Answer(200, headers, found.body)
        first, last = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
        headers["Content-Range"] = f"bytes {first}-{last}/{len(found.body)}"
        return Answer(206, headers, found.body[first : last + 1])

    HEAD_object = GET_object

    def POST_object(self, request: Request, query: Query, container: str, name: str) -> Answer:
        there = self.containers.get(container)
        found = there.objects.get(name) if there else None
        if found is None:
            return Answer(404)
        found.headers = dict(request.headers)
        return Answer(202)

    def DELETE_object(self, request: Request, query: Query, container: str, name: str) -> Answer:
        there = self.containers.get(container)
        gone = there is not None and there.objects.pop(name, None) is not None
        return Answer(204 if gone else 404)


def etag_of(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()


def _page(rows: list[dict[str, Any]], query: Query) -> list[dict[str, Any]]:
    after = [row for row in rows if row["name"] > query.get("marker", "")]
    return after[: int(query.get("limit", "10000"))]
