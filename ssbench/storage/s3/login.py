"""Access to S3: the credentials provider, which keeps the secret key in the master.

Workers get what ``s3sign.issue`` derives from it: a key for a day and a region.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from urllib.parse import urlsplit

import requests
from msgspec.structs import asdict

from ssbench.core.errors import AuthError, StorageError, UsageError
from ssbench.core.hiding import Secrets
from ssbench.core.settings import Credentials
from ssbench.storage.base import Access
from ssbench.storage.http.addresses import parse_storage_url
from ssbench.storage.http.session import BoundedSession, check_not_redirected, reason_of
from ssbench.storage.options import (
    INSECURE_NOTE,
    StoreOptions,
    check_http_url,
    http_settings,
    option_values,
)
from ssbench.storage.s3.bodies import (
    BUCKETS_ROOT,
    REJECTED,
    Xml,
    check_buckets,
    check_listing,
    error_of,
)
from ssbench.storage.s3.client import S3Settings, explained, place_of
from ssbench.storage.s3.options import DEFAULT_REGION, OPTIONS, read_keys, read_profile
from ssbench.storage.s3.sign import AwsKeys, Signer, issue

_BUCKETS_MAX = 100_000  #: in one response
_HINTS = {
    "InvalidAccessKeyId": "is it another store's access key?",
    "XAdminUserNotFound": "is the access key right?",  # of versitygw
    "SignatureDoesNotMatch": "is the secret key right?",
    "ExpiredToken": "get new keys and a session token, and put them where the old ones were",
}


class S3Login:
    """Implements ``ssbench.storage.base.CredentialsProvider``. Thread-safe.

    :raises UsageError: keys are missing or incomplete, or an option is invalid; nothing was sent.
    """

    def __init__(self, options: StoreOptions, *, clock: Callable[[], float] = time.time) -> None:
        self._options = options
        self._clock = clock
        self._serials = count(1)
        self._lock = threading.Lock()
        values = option_values(OPTIONS, options)
        profile = read_profile(options, values)
        self._use(read_keys(options, values))
        #: The one that was given, until the store names the bucket's.
        self._region = values.get("s3_region") or profile.region or DEFAULT_REGION
        endpoint = profile.endpoint or f"https://s3.{self._region}.amazonaws.com"
        urls = values.get("s3_endpoints") or (check_http_url(endpoint, "the endpoint"),)
        of_environment = options.environ.get("AWS_CA_BUNDLE", "")
        cacert = values.get("os_cacert") or of_environment or profile.cacert
        self._http = http_settings(urls, {**values, "os_cacert": cacert})
        self._session = partial(BoundedSession, self._http, cacert, options.timeouts_s)
        self._own = S3Settings(
            values.get("s3_bucket", ""),
            values.get("s3_style") or profile.style or "path",
            values.get("s3_payload", "signed"),
        )
        self.where: str = urls[0]
        self.notes: Sequence[str] = [INSECURE_NOTE] if self._http.insecure else []

    def __repr__(self) -> str:
        return f"<S3Login {self._keys or 'anonymous'} at {self.where}>"

    def log_in(self) -> Access:
        """The settings and the first key, after one request that shows whether it is accepted.

        :raises AuthError: the store does not answer, or rejects the keys.
        :raises UsageError: there is no such bucket.
        """
        with self._lock, self._secrets.hidden():
            self._check(is_strict=True)
            settings = {**asdict(self._http), **asdict(self._own), "region": self._region}
            return Access(settings, self._credentials())

    def renew(self) -> Credentials:
        """Issue a key anew: of the present day, for the region that the store names, from what
        the environment and the shared files say now.

        :raises AuthError: the store rejects it.
        """
        with self._lock:
            try:
                values = option_values(OPTIONS, self._options)
                self._use(read_keys(self._options, values))
                with self._secrets.hidden():
                    self._check(is_strict=False)
            except UsageError as error:
                raise AuthError(str(error)) from error
            return self._credentials()

    def _use(self, keys: AwsKeys | None) -> None:
        self._keys = keys
        self._secrets = Secrets({"key": keys.secret_key, "token": keys.token} if keys else None)

    def _credentials(self) -> Credentials:
        serial = next(self._serials)
        if self._keys is None:
            return Credentials(serial, None, {"region": self._region})
        payload, expires_at = issue(self._keys, self._region, self._clock())
        return Credentials(serial, expires_at, payload)

    def _check(self, *, is_strict: bool) -> None:
        """Ask the store for a listing, and use the region that it names.

        :param is_strict: it is an error if the store doesn't answer: the first time. Later, the
            run's own requests will show it, and are retried.
        :raises AuthError, UsageError: as ``log_in``.
        """
        for _ in range(2):
            try:
                response = self._ask()
            except (requests.RequestException, OSError) as failure:
                if is_strict:
                    raise AuthError(f"{self.where}: {reason_of(failure)}") from None
                return
            headers = {name.lower(): value for name, value in response.headers.items()}
            body = response.content[:4096] if response.status_code >= 300 else b""
            error = error_of(body, self._keys.token if self._keys else "")
            region = error.region or headers.get("x-amz-bucket-region", "")
            if region in ("", self._region):
                break
            self._region = region
        if error.code == "NoSuchBucket" and is_strict and self._own.bucket:
            raise UsageError(
                f"{self.where}: there is no bucket {self._own.bucket}: create it, or leave out"
                " --s3-bucket to have one made for each container"
            )
        # Nobody may list the buckets without a key; Amazon's answer to that is a redirect.
        if self._keys or self._own.bucket:
            if not error.endpoint:
                check_not_redirected(response)
            if response.status_code == 200 and is_strict:
                self._check_answer(response.content)
        known = error.code in REJECTED or error.code in _HINTS
        if known or error.code == "RequestTimeTooSkewed" or error.endpoint:
            hint = _HINTS.get(error.code)
            text = explained(error, headers) + (f" ({hint})" if hint else "")
            raise AuthError(f"{self.where}: {text}")

    def _check_answer(self, body: bytes) -> None:
        """Whether the store does what the run will ask of it.

        :raises AuthError: it does not.
        """
        found = Xml(_BUCKETS_MAX, self._keys.token if self._keys else "")
        found.feed(memoryview(body))
        try:
            if self._lists_objects:
                check_listing(found)
            else:
                check_buckets(found)
        except StorageError as error:
            why = error.detail
            if self._own.style == "virtual" and found.root == BUCKETS_ROOT:
                why = (
                    "a request for a bucket by its host name returned a list of buckets, as if"
                    " it had named none: give --s3-style path, or the endpoint whose host names"
                    " are those of buckets"
                )
            raise AuthError(f"{self.where}: {why}") from None

    @property
    def _lists_objects(self) -> bool:
        return bool(self._own.bucket) or self._own.style == "virtual"

    def _ask(self) -> requests.Response:
        """List a bucket, or the buckets. Where buckets are host names, one that need not exist."""
        site = parse_storage_url(self.where)
        named = self._own.bucket or self._own.style == "path"
        place = place_of(site, self._own, None if named else "ssbench_login")
        query = "list-type=2&max-keys=1" if self._lists_objects else ""
        signer = Signer(self._credentials().payload)
        added = signer("GET", place.bucket_path, query, place.headers, None, self._clock())
        lines = f"{place.headers}{added.decode()}".splitlines()
        scheme = "https" if site.endpoint.tls else "http"
        netloc = urlsplit(self.where).netloc  # with its zone, unlike the Host header
        with self._session() as session:
            return session.get(
                f"{scheme}://{netloc}{place.bucket_path}{'?' if query else ''}{query}",
                headers=dict(line.split(": ", 1) for line in lines),
            )
