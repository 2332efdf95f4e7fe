"""S3 at one or more endpoints: where containers are, signed requests, errors."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import md5, sha256
from time import time
from typing import NamedTuple
from urllib.parse import quote

from msgspec import Struct

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind, Timing
from ssbench.core.settings import Credentials, StorageSettings, typed
from ssbench.core.text import printable
from ssbench.storage.base import OpenUpload
from ssbench.storage.http.addresses import StorageUrl, open_pools, parse_storage_url, quoted_name
from ssbench.storage.http.connection import Upload
from ssbench.storage.http.pool import UnsignedRequest
from ssbench.storage.http.response import Collector, seconds_ahead
from ssbench.storage.http.store import HttpClient
from ssbench.storage.http.verify import hash_of
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
from ssbench.storage.s3.options import LEGAL_BUCKETS, check_bucket
from ssbench.storage.s3.sign import UNSIGNED_PAYLOAD, Signer

CUSTOMER_KEY_BYTES = 32  #: AES-256
_CUSTOMER = "server-side-encryption-customer"
#: In a response: the object is encrypted with the key that was sent (SSE-C).
ENCRYPTED_HEADER = f"x-amz-{_CUSTOMER}-algorithm"
_HOST_NAME = re.compile(r"(?!.*\.\.)[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_UPLOADS_PAGE = 1000  #: open uploads of a listing page: S3's maximum
_UPLOADS_HELD = 100_000  #: open uploads of one object


class S3Settings(Struct, frozen=True):
    """The driver's own settings, beside HttpSettings."""

    bucket: str = ""  #: holds all containers, as prefixes; "": a bucket for each container
    style: str = "path"  #: or "virtual": the bucket is part of the host name
    payload: str = "signed"  #: or "unsigned": bodies aren't part of the signature


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
    return Place(
        bucket_path, prefix, f"{path}{quoted}", f"Host: {netloc}\r\n", f"/{bucket}/{quoted}"
    )


class S3Client(HttpClient):
    """Sends signed requests.

    :param seed: of the choice among several endpoints.
    :raises UsageError: an endpoint, a bucket, the credentials or a certificate is invalid.
    """

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        http = typed(HttpSettings, settings.store)
        self._own = typed(S3Settings, settings.store)
        if not http.urls:
            raise UsageError("no endpoint: give one with --s3-endpoint")
        self._sites = [parse_storage_url(url) for url in http.urls]
        self.signer = Signer(settings.newest.payload)
        signs = [self.signer] * len(self._sites)
        super().__init__(settings, seed, open_pools(http, settings, self._sites, signs))
        key = str(settings.newest.payload.get("customer_key", ""))
        #: Signed header lines of requests about the content of an object, or that of a copy's
        #: source, if it is encrypted with the user's key (SSE-C).
        self.encryption = _key_lines("x-amz-", key)
        self.source_encryption = _key_lines("x-amz-copy-source-", key)
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
            self._sites[url], self._own, container, exact_names=self._settings.exact_names
        )

    def _payload_hash(self, upload: Upload) -> str:
        """What the signature covers of a body."""
        if not self._signs_payload:
            return UNSIGNED_PAYLOAD
        if upload.rest is None:
            return sha256(upload.first).hexdigest()
        return hash_of(sha256(upload.first), upload.rest)

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
        lines = place.headers + headers
        unsigned = UnsignedRequest(method, path, query, lines, payload_hash, others)
        timing = self._pools[url].request_signed(unsigned, upload, deadline_ns, collector)
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
        checksum = b64encode(md5(body, usedforsecurity=False).digest()).decode()
        response = Xml(len(keys))
        timing = self.request(
            "POST", place, place.bucket_path, "delete=", f"Content-MD5: {checksum}\r\n", response,
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
                    name_in(listing, record.get("Key", "")).removeprefix(place.prefix),
                    record.get("UploadId", ""),
                    time_of(record.get("Initiated", "")),
                )
                for record in listing.of("Upload")
            ]
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
        headers, body = pool.error_response
        error = error_of(body)
        region = region_of(error, headers)
        # A request with a wrong region may have been signed before the key for the right one came.
        # Under any other code our own region means nothing: MinIO names its region in all errors.
        is_redirected = region not in ("", self.signer.region) or (
            bool(error.region) and error.code == "AuthorizationHeaderMalformed"
        )
        # A response to HEAD has no body, and so no code: 400 is how AWS answers an expired token.
        is_rejected = error.code in REJECTED or (method == "HEAD" and timing.status == 400)
        text = explained(error, headers, region if is_redirected else "")
        return StorageError(
            ErrorKind.UNAUTHORIZED if is_redirected or is_rejected else ErrorKind.STATUS,
            f"{pool.name}: {method} returned {pool.status_text(timing.status)}"
            f"{': ' if text else ''}{text}",
            status=timing.status,
            timing=timing._replace(bytes_moved=0),
            rate_limited=error.code == "SlowDown",
        )


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
        ahead = seconds_ahead(headers, time())
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
