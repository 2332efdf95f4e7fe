"""A small S3 in memory whose responses can be made to fail. It checks the scope of signatures, and
no signature itself: real servers do that. It has what these lack, encryption by the user's key."""

from __future__ import annotations

import re
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import md5
from itertools import count
from typing import NamedTuple
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


class Stored(NamedTuple):
    body: bytes
    meta: dict[str, str]
    key: str = ""  #: with which it is encrypted (SSE-C), in base64


class WrongKey(Exception):
    """The status says why."""


def customer_key(request: Request, prefix: str = "x-amz-") -> str:
    """The key that a request has, in base64; "": none.

    :raises WrongKey: it is not as S3 demands.
    """
    name = f"{prefix}server-side-encryption-customer-"
    algorithm, key, checksum = (
        request.headers.get(name + each, "") for each in ("algorithm", "key", "key-MD5")
    )
    if algorithm or key or checksum:
        right = b64encode(md5(b64decode(key)).digest()).decode()
        if (algorithm, len(b64decode(key)), checksum) != ("AES256", 32, right):
            raise WrongKey(400)
    return key


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
        self.encrypts = True  #: otherwise it ignores the keys of requests
        self.objects: dict[str, Stored] = {}
        self._upload_ids = count()
        self._uploads: dict[str, dict[str, bytes]] = {}  #: parts by number, by id
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
            if "uploads" in query and request.method == "GET":
                return refusal(501, "NotImplemented")
            if not key:
                return self.listed(query)
            try:
                answer = self._serve(request, key, {name: each[0] for name, each in query.items()})
            except WrongKey as error:
                answer = refusal(error.args[0], "InvalidRequest")
            return self.fault(request, answer)

    def _serve(self, request: Request, key: str, query: dict[str, str]) -> Answer:
        customer = customer_key(request) if self.encrypts else ""
        encrypted = (
            {"x-amz-server-side-encryption-customer-algorithm": "AES256"} if customer else {}
        )
        if request.method in ("PUT", "POST"):
            return self._write(request, key, query, customer, encrypted)
        if "uploadId" in query:
            del self._uploads[query["uploadId"]]
            return Answer(204)
        if key not in self.objects:
            return Answer(204) if request.method == "DELETE" else refusal(404, "NoSuchKey")
        if request.method == "DELETE":
            del self.objects[key]
            return Answer(204)
        found = self._opened(key, customer)
        headers = {**found.meta, **encrypted, "ETag": f'"{md5(found.body).hexdigest()}"'}
        if asked := re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", "")):
            start, end = map(int, asked.groups())
            headers["Content-Range"] = f"bytes {start}-{end}/{len(found.body)}"
            return Answer(206, headers, found.body[start : end + 1])
        return Answer(200, headers, found.body)

    def _opened(self, key: str, customer: str) -> Stored:
        """:raises WrongKey: the object is encrypted with another one."""
        found = self.objects[key]
        if found.key != customer:
            raise WrongKey(403 if found.key and customer else 400)
        return found

    def _source(self, request: Request) -> bytes:
        """The content that a request sends, or copies."""
        source = request.headers.get("x-amz-copy-source", "")
        if not source:
            return request.body
        customer = customer_key(request, "x-amz-copy-source-") if self.encrypts else ""
        found = self._opened(unquote(source).removeprefix("/bench/"), customer).body
        asked = re.fullmatch(
            r"bytes=(\d+)-(\d+)", request.headers.get("x-amz-copy-source-range", "")
        )
        return found[int(asked[1]) : int(asked[2]) + 1] if asked else found

    def _write(
        self,
        request: Request,
        key: str,
        query: dict[str, str],
        customer: str,
        encrypted: dict[str, str],
    ) -> Answer:
        meta = {
            name.lower(): value
            for name, value in request.headers.items()
            if name.lower().startswith("x-amz-meta-")
        }
        if "uploads" in query:
            upload = str(next(self._upload_ids))
            self._uploads[upload] = {}
            self.objects[f"upload {upload}"] = Stored(b"", meta, customer)
            body = f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId>" + (
                "</InitiateMultipartUploadResult>"
            )
            return Answer(200, encrypted, body.encode())
        if request.method == "POST":
            begun = self.objects.pop(f"upload {query['uploadId']}")
            parts = self._uploads.pop(query["uploadId"])
            content = b"".join(parts[each] for each in sorted(parts, key=int))
            self.objects[key] = begun._replace(body=content)
            return Answer(200, encrypted, b"<CompleteMultipartUploadResult/>")
        content = self._source(request)
        etag = f'"{md5(content).hexdigest()}"'
        if "uploadId" in query:
            self._opened(f"upload {query['uploadId']}", customer)
            self._uploads[query["uploadId"]][query["partNumber"]] = content
        else:
            self.objects[key] = Stored(content, meta, customer)
        if "x-amz-copy-source" not in request.headers:
            return Answer(200, {**encrypted, "ETag": etag})
        root = "CopyPartResult" if "uploadId" in query else "CopyObjectResult"
        return Answer(200, encrypted, f"<{root}><ETag>{etag}</ETag></{root}>".encode())

    def listed(self, query: dict[str, list[str]]) -> Answer:
        """The response to a listing."""
        keys, most = self.keys_of(query), int(query.get("max-keys", ["1000"])[0])
        return self.listing(keys[:most], is_truncated=len(keys) > most)

    def keys_of(self, query: dict[str, list[str]]) -> list[str]:
        """All keys that a listing is about."""
        (prefix,), (after,) = query.get("prefix", [""]), query.get("start-after", [""])
        return sorted(key for key in self.objects if key.startswith(prefix) and key > after)

    @staticmethod
    def listing(keys: list[str], *, is_truncated: bool) -> Answer:
        """A page of these keys."""
        entries = "".join(f"<Contents><Key>{key}</Key><Size>1</Size></Contents>" for key in keys)
        more = str(is_truncated).lower()
        body = f"<ListBucketResult>{entries}<IsTruncated>{more}</IsTruncated></ListBucketResult>"
        return Answer(200, {}, body.encode())
