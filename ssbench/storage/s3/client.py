"""Requests to S3 at one or more endpoints: their signature, checksums of what is uploaded, where
containers are, errors.

The signature is AWS Signature Version 4: "Authenticating Requests: Using the Authorization Header
(AWS Signature Version 4)" in the Amazon S3 API Reference. ``issue`` derives the keys of a day in
the master, which keeps the secret; ``Signer`` signs with them in the workers.

Checksums are sent as the AWS SDKs send them: before the content, in a header, or behind it, as a
trailer in aws-chunked coding. "Checking object integrity" in the Amazon S3 User Guide has the
headers, "Signature calculations for the authorization header: including trailing headers (chunked
upload)" in the API Reference the coding. The content is one chunk, as the SDK for Go sends it. It
is not part of the signature then.
"""

from __future__ import annotations

import hmac
import re
import time
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import md5, sha256
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote

import gevent

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.settings import Credentials, StorageSettings, typed
from ssbench.core.text import printable
from ssbench.storage.base import OpenUpload
from ssbench.storage.http.addresses import StorageUrl, quoted_name
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.response import Collector, seconds_ahead
from ssbench.storage.http.store import HttpClient
from ssbench.storage.http.verify import HASH_SLICE, Sum, sum_of
from ssbench.storage.options import HttpSettings
from ssbench.storage.s3.bodies import (
    REJECTED,
    S3Error,
    Xml,
    bucket_of,
    delete_failures,
    delete_request,
    error_of,
    is_truncated,
    malformed,
    name_in,
    region_of,
    time_of,
)
from ssbench.storage.s3.options import LEGAL_BUCKETS, S3Settings, check_bucket

EMPTY_SHA256 = sha256(b"").hexdigest()
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
_ALGORITHM = "AWS4-HMAC-SHA256"
_DAY_S = 86_400
_BLOCK = 64  #: bytes of a SHA-256 block
_MAX_TEMPLATES = 256
#: The key of the next day is issued with that of the present one from so long before midnight on:
#: longer than a renewal takes, and than clocks may differ.
_OVERLAP_S = 15 * 60


class AwsKeys(NamedTuple):
    """An identity of AWS, which only the master has."""

    access_key: str
    secret_key: str
    token: str  #: of a session; "": none

    def __repr__(self) -> str:
        return f"<AwsKeys {self.access_key}>"


def issue(keys: AwsKeys, region: str, now: float) -> tuple[dict[str, Any], float]:
    """The payload of credentials, and when they expire (Unix time).

    They hold the key of the present UTC day, and near its end that of the next one too. The
    secret can't be computed from them.

    :param now: Unix time.
    """
    days = {
        _date(at): _day_key(keys.secret_key, _date(at), region) for at in (now, now + _OVERLAP_S)
    }
    payload = {
        "access_key": keys.access_key, "token": keys.token, "region": region, "days": days,
    }  # fmt: skip
    return payload, (now + _OVERLAP_S) // _DAY_S * _DAY_S + _DAY_S


def _date(at: float) -> str:
    return time.strftime("%Y%m%d", time.gmtime(at))


def _day_key(secret_key: str, date: str, region: str) -> bytes:
    key = f"AWS4{secret_key}".encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


class _Template(NamedTuple):
    """What the requests with the same signed headers share within a second."""

    before: str  #: canonical headers up to the value of x-amz-content-sha256
    after: str  #: the other canonical headers, and the names of all
    lines: str  #: header lines to send, up to the value of the signature


class Signer:
    """Signs requests. Without credentials it signs nothing.

    Whatever does not change from request to request is computed once: per second the date and the
    scope, per set of header lines their canonical form, per day the two states of the HMAC.
    """

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self.use(payload)

    def __repr__(self) -> str:
        return f"<Signer for {self._access_key or 'anonymous'}, {self.region}>"

    def use(self, payload: Mapping[str, Any]) -> None:
        """Use these credentials (see ``issue``) for all further requests.

        :raises UsageError: they can't be sent in a header.
        """
        self._access_key = str(payload.get("access_key", ""))
        self.token = str(payload.get("token", ""))  #: of the session; "": none
        for text in (self._access_key, self.token):
            if not (text.isascii() and (text.isprintable() or not text)):
                raise UsageError(
                    "the access key or the session token has characters that can't be sent in a"
                    " header"
                )
        self.region = str(payload.get("region", ""))
        #: Date -> the states of SHA-256 after the inner and the outer padded key.
        self._days = {
            str(date): tuple(
                sha256(bytes(byte ^ pad for byte in bytes(key).ljust(_BLOCK, b"\0")))
                for pad in (0x36, 0x5C)
            )
            for date, key in payload.get("days", {}).items()
        }
        self._second = -1
        self._templates: dict[str, _Template] = {}

    def __call__(
        self,
        method: str,
        path: str,
        query: str,
        headers: str,
        payload_hash: str | None,
        wall_time: float,
    ) -> bytes:
        """The header lines to add.

        :param query: in canonical form: sorted, quoted, every name with "=".
        :param headers: all lines to be signed.
        :param payload_hash: SHA-256 of the body in hexadecimal, or UNSIGNED_PAYLOAD; None: no body.
        :param wall_time: Unix time.
        """
        if not self._days:
            return b""
        if int(wall_time) != self._second:
            self._begin_second(int(wall_time))
        template = self._templates.get(headers) or self._add_template(headers)
        before, after, lines = template
        body = payload_hash or EMPTY_SHA256
        canonical = f"{method}\n{path}\n{query}\n{before}{body}{after}{body}"
        digest = sha256(canonical.encode()).hexdigest()
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(f"{self._to_sign}{digest}".encode())
        outer.update(inner.digest())
        return f"x-amz-content-sha256: {body}{lines}{outer.hexdigest()}\r\n".encode()

    def _begin_second(self, second: int) -> None:
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        date = moment[:8]
        if date not in self._days:
            # Our clock differs from the master's: stores accept 15 minutes. The nearest moment of
            # the days that there are keys for.
            if date > max(self._days):
                date = max(self._days)
                moment = f"{date}T235959Z"
            else:
                date = min(self._days)
                moment = f"{date}T000000Z"
        self._second = second
        self._date_line = moment
        self._scope = f"{date}/{self.region}/s3/aws4_request"
        self._to_sign = f"{_ALGORITHM}\n{moment}\n{self._scope}\n"
        self._inner, self._outer = self._days[date]
        self._templates.clear()

    def _add_template(self, headers: str) -> _Template:
        values = {"x-amz-content-sha256": "", "x-amz-date": self._date_line}
        if self.token:
            values["x-amz-security-token"] = self.token
        lines = "".join(f"\r\n{name}: {value}" for name, value in values.items() if value)
        for line in headers.split("\r\n")[:-1]:
            name, _, value = line.partition(":")
            values[name.strip().lower()] = " ".join(value.split())
        names = sorted(values)
        at = names.index("x-amz-content-sha256")
        before = "".join(f"{name}:{values[name]}\n" for name in names[:at])
        after = "".join(f"{name}:{values[name]}\n" for name in names[at + 1 :])
        signed = ";".join(names)
        template = _Template(
            f"{before}x-amz-content-sha256:",
            f"\n{after}\n{signed}\n",
            f"{lines}\r\nAuthorization: {_ALGORITHM} Credential={self._access_key}/{self._scope},"
            f"SignedHeaders={signed},Signature=",
        )
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
        self._templates[headers] = template
        return template


#: Line of a GET that asks for the checksum of the object.
CHECKSUM_WANTED = "x-amz-checksum-mode: ENABLED\r\n"
_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


def multipart_checksum_lines(name: str) -> str:
    """Header lines of the request that begins a multipart upload."""
    if name in ("none", "md5"):
        return ""
    # Of the others an object in parts has a checksum of the parts' checksums.
    whole = "x-amz-checksum-type: FULL_OBJECT\r\n" if name == "crc64nvme" else ""
    return f"x-amz-checksum-algorithm: {name.upper()}\r\n{whole}"


def stated_checksum(name: str, headers: Mapping[str, str]) -> bytes | None:
    """The checksum of the whole object that a response states; None: none."""
    text = headers.get(f"x-amz-checksum-{name}", "")
    if not text or "-" in text or headers.get("x-amz-checksum-type", "") == "COMPOSITE":
        return None
    try:
        return b64decode(text, validate=True)
    except Error:
        return b""  # which is no object's


class SummedUpload:
    """An upload with its checksum.

    :param name: as of values.CHECKSUMS, but "none".
    :param payload_hash: gives what the signature covers of an upload; None: nothing.
    """

    def __init__(
        self,
        upload: Upload,
        name: str,
        begin: Callable[[], Sum],
        payload_hash: Callable[[Upload], str],
        *,
        in_trailer: bool,
    ) -> None:
        self._name, self._begin = name, begin
        self.text = ""  #: the checksum, in base64; in a trailer, once it is sent
        if in_trailer:
            self.upload, self.payload_hash = self._coded(upload), _UNSIGNED_TRAILER
            self.lines = (
                f"content-encoding: aws-chunked\r\nx-amz-decoded-content-length: {upload.size}\r\n"
                f"x-amz-sdk-checksum-algorithm: {name.upper()}\r\n"
                f"x-amz-trailer: x-amz-checksum-{name}\r\n"
            )
            return
        digest = sum_of(begin, upload)
        self.upload, self.text = upload, b64encode(digest).decode()
        self.lines = f"content-md5: {self.text}\r\n" if name == "md5" else (
            f"x-amz-checksum-{name}: {self.text}\r\n"
            f"x-amz-sdk-checksum-algorithm: {name.upper()}\r\n"
        )  # fmt: skip
        # What is signed is the same sum: one is enough.
        self.payload_hash = payload_hash(upload) if name != "sha256" else digest.hex()

    @property
    def element(self) -> str:
        """The checksum in XML, of a part that was sent; "" for md5, which has no element."""
        name = f"Checksum{self._name.upper()}"
        return f"<{name}>{self.text}</{name}>" if self._name != "md5" else ""

    def _coded(self, upload: Upload) -> Upload:
        head = f"{upload.size:x}\r\n".encode() if upload.size else b""
        end = b"\r\n0\r\n" if upload.size else b"0\r\n"
        digits = b64encode(bytes(len(self._begin().digest())))
        trailer = f"x-amz-checksum-{self._name}:".encode()
        size = sum(map(len, (head, end, trailer, digits, b"\r\n\r\n"))) + upload.size

        def pieces() -> Iterator[memoryview]:
            found, summed = self._begin(), 0
            yield memoryview(head)
            for piece in chain((memoryview(upload.first),), upload.rest() if upload.rest else ()):
                found.update(piece)
                yield piece
                summed += len(piece)
                if summed >= HASH_SLICE:
                    summed = 0
                    gevent.sleep(0)
            text = b64encode(found.digest())
            self.text = text.decode()
            yield memoryview(b"".join((end, trailer, text, b"\r\n\r\n")))

        return Upload(size, b"", pieces, upload.expects, upload.one_by_one)


CUSTOMER_KEY_BYTES = 32  #: AES-256
_CUSTOMER = "server-side-encryption-customer"
#: In a response: the object is encrypted with the key that was sent (SSE-C).
ENCRYPTED_HEADER = f"x-amz-{_CUSTOMER}-algorithm"
_HOST_NAME = re.compile(r"(?!.*\.\.)[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_UPLOADS_PAGE = 1000  #: open uploads of a listing page: S3's maximum
_UPLOADS_HELD = 100_000  #: open uploads of one object


#: The account that a bucket, or that of a copy's source, must belong to: else the store refuses the
#: request, with 403.
_OWNER, _SOURCE_OWNER = "x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"


class Place(NamedTuple):
    """A container at an endpoint."""

    bucket_path: str  #: quoted: the path of its bucket
    prefix: str  #: what the keys of its objects begin with
    path: str  #: quoted: what the paths of its objects begin with
    headers: str  #: the signed header lines of all requests
    source: str  #: quoted: what x-amz-copy-source begins with


def place_of(
    site: StorageUrl, own: S3Settings, container: str | None, *, exact_names: bool = False
) -> Place:
    """Where a container is at an endpoint.

    :param container: None: what holds all containers, which is the one bucket or the service.
    :param exact_names: as of ``StorageSettings``: the container's name is the bucket's.
    :raises UsageError, StorageError: it has no legal name, or a segment ``.`` or ``..``.
    """
    bucket, prefix, quoted = own.bucket, "", ""
    if container is not None and bucket:
        prefix, quoted = f"{container}/", f"{quoted_name(container, '/')}/"
    elif container is not None:
        bucket = check_bucket(container) if exact_names else bucket_of(container)
    netloc, bucket_path, path = site.netloc, site.base, site.base
    if bucket and own.style == "virtual":
        if not _HOST_NAME.fullmatch(bucket):
            raise UsageError(
                f'--s3-style virtual: "{bucket}" can\'t be part of a host name: {LEGAL_BUCKETS}.'
                " Give --s3-style path"
            )
        netloc = f"{bucket}.{netloc}"
    elif bucket:
        bucket_path = f"{site.base}{bucket}"
        path = f"{bucket_path}/"
    headers = f"Host: {netloc}\r\n"
    if bucket and own.bucket_owner:
        headers += f"{_OWNER}: {own.bucket_owner}\r\n"
    return Place(bucket_path, prefix, f"{path}{quoted}", headers, f"/{bucket}/{quoted}")


class S3Client(HttpClient):
    """Sends signed requests.

    :param seed: of the choice among several endpoints.
    :raises UsageError: an endpoint, a bucket, the credentials or a certificate is invalid.
    """

    no_url = "no endpoint: give one with --s3-endpoint"

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        self._own = typed(S3Settings, settings.store)
        self.signer = Signer(settings.newest.payload)
        super().__init__(settings, seed, typed(HttpSettings, settings.store))
        key = str(settings.newest.payload.get("customer_key", ""))
        #: Signed header lines of requests about the content of an object, if it is encrypted with
        #: the user's key (SSE-C).
        self.encryption = _key_lines("x-amz-", key)
        #: Those about a copy's source: the same, and the account that its bucket must belong to.
        self.of_source = _key_lines("x-amz-copy-source-", key)
        if self._own.bucket_owner:
            self.of_source += f"{_SOURCE_OWNER}: {self._own.bucket_owner}\r\n"
        self._signs_payload = self._own.payload == "signed"
        worker = quote(f"{settings.run_id} {settings.worker_id}".strip(), safe=" -_")
        #: The header lines of all requests that aren't signed.
        self._agent = f"User-Agent: ssbench {worker}".rstrip() + "\r\n"

    def set_credentials(self, credentials: Credentials) -> None:
        self.signer.use(credentials.payload)
        self._serial = credentials.serial

    def place(self, container: str | None, url: int = 0) -> Place:
        """As ``place_of``, at the endpoint of this index."""
        return place_of(
            self._urls[url], self._own, container, exact_names=self._settings.exact_names
        )

    def signed_head(
        self,
        method: str,
        path: str,
        query: str,
        headers: str,
        payload_hash: str | None,
        unsigned_headers: str,
    ) -> bytes:
        """The head of a request, signed now; the first arguments are those of ``Signer``."""
        signature = self.signer(method, path, query, headers, payload_hash, time.time())
        target = f"{path}?{query}" if query else path
        head = f"{method} {target} HTTP/1.1\r\n{headers}{unsigned_headers}".encode()
        return b"%s%s\r\n" % (head, signature)

    def _payload_hash(self, upload: Upload) -> str:
        """What the signature covers of a body."""
        if not self._signs_payload:
            return UNSIGNED_PAYLOAD
        if upload.rest is None:
            return sha256(upload.first).hexdigest()
        return sum_of(sha256, upload).hex()

    def request(
        self,
        method: str,
        place: Place,
        path: str,
        query: str = "",
        headers: str = "",
        collector: Collector | None = None,
        body: Upload | bytes | None = None,
        *,
        payload_hash: str | None = None,
        deadline_ns: int | None = None,
        url: int = 0,
        missing_ok: bool = False,
    ) -> Timing:
        """Send a request; the collector gets the response.

        :param query: in canonical form (see ``Signer``).
        :param headers: signed lines, beside those of the place.
        :param payload_hash: what the signature covers of an Upload; None: as usual.
        :param body: bytes are signed even where the content of objects is not.
        :param deadline_ns: None: that of an administrative request.
        :param missing_ok: a status of 404 is no error.
        :raises StorageError: the status is not 2xx, or there was no response.
        """
        upload, others = None, self._agent
        if isinstance(body, bytes):
            upload = Upload(len(body), body)
            payload_hash = sha256(body).hexdigest()
        elif body is not None:
            upload, payload_hash = body, payload_hash or self._payload_hash(body)
        if upload is not None:
            others += f"Content-Length: {upload.size}\r\n"
        if deadline_ns is None:
            deadline_ns = self._admin_deadline_ns()
        head = partial(
            self.signed_head, method, path, query, place.headers + headers, payload_hash, others
        )
        timing = self._pools[url].request(head(), upload, deadline_ns, collector, 0, head)
        if timing.status // 100 == 2 or (missing_ok and timing.status == 404):
            return timing
        raise self.status_error(method, timing)

    def delete_keys(
        self, place: Place, keys: Sequence[str], url: int = 0, deadline_ns: int | None = None
    ) -> tuple[Timing, dict[str, int]]:
        """Delete objects of one bucket; returns key -> status of those that are left.

        An object that doesn't exist is not left.

        :raises StorageError: the request failed as a whole; PROTOCOL: the response has an error of
            another object, or of none.
        """
        body = delete_request(keys)
        response = Xml(len(keys))
        timing = self.request(
            "POST", place, place.bucket_path, "delete=", content_md5(body), response,
            body, deadline_ns=deadline_ns, url=url,
        )  # fmt: skip
        timing = timing._replace(bytes_moved=0)
        failures = delete_failures(response, timing)
        if not failures.keys() <= set(keys):
            raise malformed("errors of the keys that were requested", timing)
        return timing, failures

    def open_uploads(
        self, container: str, after: str, prefix: str = "", deadline_ns: int | None = None
    ) -> list[OpenUpload]:
        """Some open multipart uploads of objects whose names have this prefix, sorted by name, of
        names after this one, and all of each name; [] at the end, and where there is no such
        bucket.

        :raises StorageError: the listing is malformed, or repeats itself.
        """
        place, found = self.place(container), list[OpenUpload]()
        key = f"key-marker={quote(place.prefix + after, safe='')}&" if after else ""
        upload = ""
        while True:
            response = Xml(_UPLOADS_PAGE)
            query = (  # in canonical form
                f"encoding-type=url&{key}max-uploads={_UPLOADS_PAGE}"
                f"&prefix={quote(place.prefix + prefix, safe='')}&{upload}uploads="
            )
            timing = self.request(
                "GET", place, place.bucket_path, query, "", response, deadline_ns=deadline_ns,
                missing_ok=True,
            )  # fmt: skip
            if timing.status == 404:
                return []
            listing = response.check("ListMultipartUploadsResult", timing)
            page = [
                OpenUpload(
                    name_in(listing, record.get("Key", "")),
                    record.get("UploadId", ""),
                    time_of(record.get("Initiated", "")),
                )
                for record in listing.of("Upload")
            ]
            if not all(each.name.startswith(place.prefix + prefix) for each in page):
                raise malformed("a listing of the prefix that was requested", timing)
            page = [each._replace(name=each.name.removeprefix(place.prefix)) for each in page]
            if found and page and page[-1] == found[-1]:
                raise malformed("a listing that goes on after its marker", timing)
            found += page
            if len(found) > _UPLOADS_HELD:
                raise StorageError(
                    ErrorKind.OVERLONG,
                    f"{printable(found[-1].name)}: more than {_UPLOADS_HELD:,} open uploads of one"
                    " object: abort them with other tools",
                )
            if not page or not is_truncated(listing):
                return found
            # Of the last name there may be more. The next call's marker is a name alone, since an
            # id may be gone by then; so that name is left to it, unless there is no other.
            last = found[-1]
            if whole := [each for each in found if each.name != last.name]:
                return whole
            key = f"key-marker={quote(place.prefix + last.name, safe='')}&"
            upload = f"upload-id-marker={quote(last.id, safe='')}&"

    def abort_upload(
        self,
        container: str,
        upload: OpenUpload,
        headers: str = "",
        deadline_ns: int | None = None,
    ) -> bool:
        """Abort a multipart upload; False if it was not open.

        :param headers: signed lines, beside those of all requests.
        """
        place = self.place(container)
        timing = self.request(
            "DELETE", place, place.path + quoted_name(upload.name, "/"),
            f"uploadId={quote(upload.id, safe='')}", headers, deadline_ns=deadline_ns,
            missing_ok=True,
        )  # fmt: skip
        return timing.status != 404

    def status_error(self, method: str, timing: Timing) -> StorageError:
        pool = self._pools[timing.url]
        headers = pool.shared.error_headers
        error = error_of(pool.shared.error_body)
        region = region_of(error, headers)
        # A request with a wrong region may have been signed before the key for the right one came.
        # Under any other code our own region means nothing: MinIO names its region in all errors.
        is_redirected = region not in ("", self.signer.region) or (
            bool(error.region) and error.code == "AuthorizationHeaderMalformed"
        )
        # A response to HEAD has no body, and so no code: 400 is how AWS answers an expired token.
        is_rejected = error.code in REJECTED or (method == "HEAD" and timing.status == 400)
        text = explained(error, headers, region if is_redirected else "")
        hint = ""
        if timing.status == 403 and not is_rejected and (owner := self._own.bucket_owner):
            hint = f"; does the bucket belong to account {owner} (--s3-bucket-owner)?"
        return StorageError(
            ErrorKind.UNAUTHORIZED if is_redirected or is_rejected else ErrorKind.STATUS,
            f"{pool.name}: {method} returned {pool.status_text(timing.status)}"
            f"{': ' if text else ''}{text}{hint}",
            status=timing.status,
            timing=timing._replace(bytes_moved=0),
            rate_limited=error.code == "SlowDown",
        )


def content_md5(body: bytes) -> str:
    """The signed header line with the checksum of a body."""
    return f"content-md5: {b64encode(md5(body, usedforsecurity=False).digest()).decode()}\r\n"


def _key_lines(prefix: str, key: str) -> str:
    """:param key: in base64; "": none."""
    if not key:
        return ""
    checksum = b64encode(md5(b64decode(key), usedforsecurity=False).digest()).decode()
    name = f"{prefix}{_CUSTOMER}"
    return f"{name}-algorithm: AES256\r\n{name}-key: {key}\r\n{name}-key-md5: {checksum}\r\n"


def explained(error: S3Error, headers: Mapping[str, str], region: str = "") -> str:
    """The error as a user should see it: with what to do, where that is known.

    :param headers: of the response; names in lower case.
    :param region: the bucket's, if it is another one than ours.
    """
    if error.code == "RequestTimeTooSkewed":
        ahead = seconds_ahead(headers, time.time())
        differs = "differs from"
        if ahead is not None:
            differs = f"is {abs(ahead):,.0f} s {'ahead of' if ahead > 0 else 'behind'}"
        return (
            f"RequestTimeTooSkewed: this host's clock {differs} the store's, which accepts 15"
            " minutes: set it, for example with chrony"
        )
    if region:
        return f"{error.code or 'redirect'}: the bucket is in region {region}"
    if error.code == "InvalidBucketName":
        return f"{str(error).removesuffix('.')}; {LEGAL_BUCKETS}, and do not begin with xn--"
    if error.endpoint:
        return f"{error}; it is served at {error.endpoint}: give that with --s3-endpoint"
    return str(error)
