"""A small S3 in memory whose responses can be made to fail. It checks the scope of signatures, and
no signature itself: real servers do that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from hashlib import md5
from urllib.parse import parse_qs, unquote, urlsplit

from tests.fakes.loopback_http import Answer, LoopbackServer, Request

#: The response to a request for an object, in place of the right one.
Fault = Callable[[Request, Answer], Answer]


def refusal(status: int, code: str, more: str = "") -> Answer:
    """An error as S3 sends it."""
    return Answer(
        status, {"Content-Type": "application/xml"},
        f"<Error><Code>{code}</Code><Message>{code}.</Message>{more}</Error>".encode(),
    )  # fmt: skip


class S3Store(LoopbackServer):
    """One bucket, ``bench``, in path style; ``region`` is where it is.

    :param fault: asked for the response to each request for an object.
    """

    environment = {
        "AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_REGION": "us-east-1",
    }  # fmt: skip

    def __init__(self, fault: Fault = lambda request, answer: answer) -> None:
        super().__init__()
        self.region = "us-east-1"
        self.fault = fault
        self._objects: dict[str, tuple[bytes, dict[str, str]]] = {}
        self._lock = threading.Lock()

    @property
    def options(self) -> list[str]:
        """Of ssbench-master."""
        return ["--storage", "s3", "--s3-endpoint", self.url, "--s3-bucket", "bench"]

    def answer(self, request: Request) -> Answer:
        url = urlsplit(request.path)
        key = unquote(url.path).removeprefix("/bench").lstrip("/")
        with self._lock:
            if f"/{self.region}/s3/aws4_request" not in request.headers["Authorization"]:
                region = f"<Region>{self.region}</Region>"
                return refusal(400, "AuthorizationHeaderMalformed", region)
            query = parse_qs(url.query, keep_blank_values=True)
            if "uploads" in query:
                return refusal(501, "NotImplemented")
            if not key:
                return self._list(query)
            return self.fault(request, self._serve(request, key))

    def _serve(self, request: Request, key: str) -> Answer:
        if request.method == "PUT":
            meta = {
                name.lower(): value
                for name, value in request.headers.items()
                if name.lower().startswith("x-amz-meta-")
            }
            self._objects[key] = request.body, meta
            return Answer(200, {"ETag": f'"{md5(request.body).hexdigest()}"'})
        if key not in self._objects:
            return Answer(204) if request.method == "DELETE" else refusal(404, "NoSuchKey")
        if request.method == "DELETE":
            del self._objects[key]
            return Answer(204)
        body, meta = self._objects[key]
        return Answer(200, {**meta, "ETag": f'"{md5(body).hexdigest()}"'}, body)

    def _list(self, query: dict[str, list[str]]) -> Answer:
        (prefix,) = query.get("prefix", [""])
        keys = sorted(key for key in self._objects if key.startswith(prefix))
        entries = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
        return Answer(200, {}, f"<ListBucketResult>{entries}</ListBucketResult>".encode())
