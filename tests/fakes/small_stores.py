"""Servers that keep the names of what is in a store, in a set of paths, and no content.

Each is called with a request, and gives the response: see ``answered_store``.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from tests.fakes.answered_store import Request, response
from tests.fakes.scripted_server import ok


class Buckets:
    """A server of buckets and objects by path, without their content.

    :param faults: method and path -> the status of the response, once.
    """

    def __init__(self, *paths: str, **faults: int) -> None:
        self.paths = {*paths}
        self.faults = {name.replace("_", " /", 1): status for name, status in faults.items()}
        #: Part of a request's target -> the response, in place of what follows from the paths.
        self.said = {"uploads=": response(501)}

    def __call__(self, request: Request) -> bytes:
        method, path = request.method, request.target.partition("?")[0]
        fault = self.faults.pop(f"{method} {path}", 0)
        if fault:
            return response(fault, "<Error><Code>Fault</Code></Error>" if method != "HEAD" else "")
        for part, said in self.said.items():
            if part in request.target:
                return said
        if method == "PUT":
            self.paths.add(path)
        elif method == "GET" and path in self.paths:
            names = [each.removeprefix(f"{path}/") for each in self.paths if f"{path}/" in each]
            keys = "".join(
                f"<Contents><Key>{name}</Key><Size>1</Size></Contents>" for name in names
            )
            return ok(f"<ListBucketResult>{keys}</ListBucketResult>".encode())
        elif path not in self.paths:
            return response(
                404, "<Error><Code>NoSuchKey</Code></Error>" if method != "HEAD" else ""
            )
        elif method == "DELETE":
            self.paths.discard(path)
            return b"HTTP/1.1 204 X\r\n\r\n"
        return ok()


class Tree:
    """A WebDAV server on a set of paths; those of folders end with a slash.

    :param lists_dots: whether listings have names that begin with a dot.
    :param quota: what collections report as available; "": nothing.
    """

    def __init__(self, *paths: str, lists_dots: bool = True, quota: str = "") -> None:
        self.lists_dots = lists_dots
        self.quota = f"<D:quota-available-bytes xmlns:D='DAV:'>{quota}</D:quota-available-bytes>"
        self.failures = 0  #: how many of the next PUTs fail
        self.paths = {"/dav/"}
        for path in paths:
            parts = path.split("/")
            self.paths |= {f"/dav/{'/'.join(parts[:depth])}/" for depth in range(1, len(parts))}
            self.paths.add(f"/dav/{path}")

    def __call__(self, request: Request) -> bytes:
        method, path = request.method, unquote(request.target)
        if method == "PUT" and self.failures:
            self.failures -= 1
            return response(503)
        if method in ("PUT", "MKCOL"):
            is_new = path not in self.paths
            self.paths.add(path)
            return response(201 if is_new or method == "PUT" else 405)
        if path not in self.paths:
            return response(404)
        if method == "DELETE":
            self.paths = {each for each in self.paths if not each.startswith(path)}
            return response(204)
        if method != "PROPFIND":
            return response(200)
        inside = (each for each in self.paths if each.startswith(path))
        found = [each for each in inside if not each[len(path) :].rstrip("/").count("/")]
        if not self.lists_dots:
            found = [each for each in found if not each[len(path) :].startswith(".")]
        responses = "".join(
            f"<response><href>{quote(each)}</href><propstat><prop><resourcetype>"
            f"{'<collection/>' * each.endswith('/')}</resourcetype>"
            f"<getcontentlength>7</getcontentlength>{self.quota}</prop>"
            "<status>HTTP/1.1 200 OK</status></propstat></response>"
            for each in found
        )
        return response(207, f'<multistatus xmlns="DAV:">{responses}</multistatus>'.encode())
