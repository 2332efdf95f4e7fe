"""Access to S3: the credentials provider, which keeps the secret key in the master.

Workers get what ``issue`` derives from it: a key for a day and a region.

The sources of keys and their order are those of the AWS command line: options, environment, then
the shared credentials and configuration files. botocore reads these files. Without it (the extra
``aws``) only plain profiles are read, and any other is an error: the load never goes to another
place than the requests of other tools.
"""

from __future__ import annotations

import os
import re
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import count
from json import dumps
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from msgspec.json import decode
from msgspec.structs import asdict, replace

from ssbench.core.errors import (
    AuthError,
    RejectedError,
    StorageError,
    UsageError,
)
from ssbench.core.hiding import Secrets
from ssbench.core.option import of_options
from ssbench.core.settings import Credentials
from ssbench.core.text import first_of, printable
from ssbench.host.confined import call_confined
from ssbench.host.files import read_bytes, read_text
from ssbench.storage.base import Access
from ssbench.storage.http.addresses import parse_storage_url
from ssbench.storage.http.session import BoundedSession, check_not_redirected, reason_of
from ssbench.storage.options import (
    INSECURE_NOTE,
    StoreOptions,
    check_http_url,
    http_settings,
    is_confidential,
    option_values,
    scheme_notes,
)
from ssbench.storage.s3.bodies import (
    BUCKETS_ROOT,
    REJECTED,
    Xml,
    check_buckets,
    check_listing,
    error_of,
    region_of,
)
from ssbench.storage.s3.by_botocore import Findings, Question
from ssbench.storage.s3.client import (
    CUSTOMER_KEY_BYTES,
    AwsKeys,
    Signer,
    explained,
    issue,
    place_of,
)
from ssbench.storage.s3.options import DEFAULT_REGION, OPTIONS, S3Settings

_BUCKETS_MAX = 100_000  #: in one response
_HINTS = {
    "InvalidAccessKeyId": "is it another store's access key?",
    "XAdminUserNotFound": "is the access key right?",  # of versitygw
    "SignatureDoesNotMatch": "is the secret key right?",
    "ExpiredToken": "get new keys and a session token, and put them where the old ones were",
}


#: Of profiles that hold no keys, but say how to get some.
_OTHER_SOURCES = (
    "role_arn", "source_profile", "credential_source", "credential_process",
    "web_identity_token_file", "sso_session", "sso_start_url", "sso_account_id", "sso_role_name",
    "sso_region", "login_session",
)  # fmt: skip
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_PLACE = ("region", "endpoint_url", "ca_bundle")
#: Variables that say where the store is, and need botocore.
_PLACE_VARIABLES = (
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT",
)  # fmt: skip
#: Keys of a profile, or what they begin with, that say neither where the store is nor who asks.
_UNUSED = ("cli_", "output", "role_session_name", "external_id", "duration_seconds", "mfa_serial",
           "sso_registration_scopes", "retry_mode", "max_attempts")  # fmt: skip
_KEYS_WITHIN_S = 120.0  #: some ask the user for a code
_KEYS_MEMORY_BYTES = 256 << 20  #: 43 MiB were measured without a response
#: configparser takes time by the square of their number.
_MANY_BLANKS = re.compile(r"[^\S\n]{200}")
_INSTALL = "in ssbench's checkout, pip install '.[aws]'"

NO_KEYS = """\
no credentials for S3: give keys in one of these ways
  AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN) in the environment
  a profile in ~/.aws/credentials (--s3-profile or AWS_PROFILE; [default] otherwise)
  --s3-anonymous, for a bucket that anyone may read and write"""


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
        profile, keys = read_access(options, values)
        self._use(keys)
        #: The one that was given, until the store names the bucket's.
        self._region = values.get("s3_region") or profile.region or DEFAULT_REGION
        endpoint = profile.endpoint or f"https://s3.{self._region}.amazonaws.com"
        urls = values.get("s3_endpoints") or (check_http_url(endpoint, "the endpoint"),)
        of_environment = options.environ.get("AWS_CA_BUNDLE", "")
        cacert = values.get("os_cacert") or of_environment or profile.cacert
        self._http = http_settings(urls, {**values, "os_cacert": cacert})
        self._session = partial(BoundedSession, self._http, options.timeouts_s)
        self._own = of_options(S3Settings, {"s3_style": profile.style or "path", **values})
        self._customer_key = read_customer_key(values, urls)
        self.where: str = urls[0]
        self.notes: Sequence[str] = [
            *scheme_notes(urls), *([INSECURE_NOTE] if self._http.insecure else []),
        ]  # fmt: skip

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
            return Access(settings, self._credentials(), bool(self._customer_key))

    def renew(self) -> Credentials:
        """Issue a new key: of the present day, for the region that the store names, from what
        the environment and the shared files say now.

        :raises AuthError: the store rejects it.
        """
        with self._lock:
            try:
                values = option_values(OPTIONS, self._options)
                self._use(read_access(self._options, values, place=False)[1])
                with self._secrets.hidden():
                    self._check(is_strict=False)
            except UsageError as error:
                raise AuthError(str(error)) from error
            return self._credentials()

    def _use(self, keys: AwsKeys | None) -> None:
        self._keys = keys
        self._secrets = Secrets({"key": keys.secret_key, "token": keys.token} if keys else None)

    def _credentials(self) -> Credentials:
        serial, expires_at = next(self._serials), None
        payload: dict[str, Any] = {"region": self._region}
        if self._keys is not None:
            payload, expires_at = issue(self._keys, self._region, self._clock())
        if self._customer_key:
            payload["customer_key"] = self._customer_key
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
            error = error_of(body)
            region = region_of(error, headers)
            # A region that repeats a secret would be in the results.
            if region in ("", self._region) or self._secrets.masked(region) != region:
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
            # What gives temporary keys may give others a little later.
            is_fixed = known and self._keys is not None and not self._keys.token
            raise (RejectedError if is_fixed else AuthError)(f"{self.where}: {text}")

    def _check_answer(self, body: bytes) -> None:
        """Whether the store does what the run will ask of it.

        :raises AuthError: it does not.
        """
        found = Xml(_BUCKETS_MAX)
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


def read_access(
    options: StoreOptions, values: Mapping[str, Any], *, place: bool = True
) -> tuple[Findings, AwsKeys | None]:
    """What the profile says of the store, and the keys; None for anonymous requests.

    :param values: of the store's options.
    :param place: False: of the store nothing.
    :raises UsageError: keys are missing or incomplete; a file is not valid, has no such profile, or
        one that is not understood.
    """
    is_anonymous = bool(values.get("s3_anonymous"))
    given = [values.get(name, "") for name in ("s3_access_key", "s3_secret_key")]
    token = values.get("s3_session_token", "")
    is_on_command_line = any(f"s3_{name}_key" in options.given for name in ("access", "secret"))
    by_name = values.get("s3_profile") and not is_on_command_line
    of_profile = not is_anonymous and bool(not any(given) or by_name)
    found = _read_profile(options, values, place=place, keys=of_profile)
    if is_anonymous:
        return found, None
    if of_profile:
        *given, token = found.keys
    if not any(given):
        raise UsageError(NO_KEYS + _missing_files(options.environ))
    if not all(given):
        missing = "access key ID" if given[1] else "secret access key"
        raise UsageError(f"credentials for S3 are incomplete: the {missing} is missing")
    if not all(map(_is_unicode, (*given, token))):
        raise UsageError("credentials for S3: what was given for a key or the token is no text")
    return found, AwsKeys(given[0], given[1], token)


def _is_unicode(text: str) -> bool:
    """Whether it has no bytes that the environment could not decode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_customer_key(values: Mapping[str, Any], urls: Sequence[str]) -> str:
    """The key of SSE-C, in base64; "" if there is none.

    :param values: of the store's options.
    :raises UsageError: it is none, or others could read it on its way. The message doesn't show it.
    """
    path, key = values.get("sse_c_key_file", ""), values.get("sse_customer_key", "").encode()
    place = f"--sse-c-key-file {path}" if path else "SSBENCH_SSE_C_KEY"
    if path:
        key = read_bytes(path, "--sse-c-key-file")
    elif not key:
        return ""
    if len(key) != CUSTOMER_KEY_BYTES:
        try:
            key = b64decode(b"".join(key.split()), validate=True)
        except ValueError:
            key = b""
    if len(key) != CUSTOMER_KEY_BYTES:
        raise UsageError(
            f"{place}: not a key for SSE-C: 32 bytes or their base64, as of openssl rand -base64 32"
        )
    for url in urls:
        if not is_confidential(url):
            raise UsageError(
                f"{url}: with SSE-C each request would send the key in clear: give an https URL, or"
                f" leave out {place}"
            )
    return b64encode(key).decode()


def _read_profile(
    options: StoreOptions, values: Mapping[str, Any], *, place: bool, keys: bool
) -> Findings:
    files = _files(options.environ)
    variables = [name for name in _PLACE_VARIABLES if options.environ.get(name)]
    is_named = variables or values.get("s3_profile")
    place = place and bool(is_named or any(map(os.path.exists, files.values())))
    if not place and not keys:
        return Findings()
    if find_spec("botocore"):
        found = _by_botocore(options, values, place=place, keys=keys)
    elif place and variables:
        raise UsageError(f"{variables[0]} needs botocore: {_INSTALL}, or unset it")
    else:
        found = _plain_profile(options, values, keys=keys)
    return replace(found, cacert=_expanded(found.cacert, options.environ))


def _files(environ: Mapping[str, str]) -> dict[str, str]:
    """Paths of the configuration and of the credentials."""
    config = environ.get("AWS_CONFIG_FILE") or "~/.aws/config"
    credentials = environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    return {
        "config_file": _expanded(config, environ),
        "credentials_file": _expanded(credentials, environ),
    }


def _profiles_text(path: str | os.PathLike[str]) -> str:
    """:raises UsageError: the file can't be read, or would take configparser minutes."""
    text = read_text(path)
    if _MANY_BLANKS.search(text):
        raise UsageError(f"{os.fspath(path)}: not a file of AWS profiles: 200 blanks in a row")
    return text


def _missing_files(environ: Mapping[str, str]) -> str:
    """A line for each variable that names a file which is not there."""
    variables = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    paths = zip(variables, _files(environ).values(), strict=True)
    return "".join(
        f"\n{variable} names {path}, which does not exist"
        for variable, path in paths
        if environ.get(variable) and not os.path.exists(path)
    )


def _expanded(path: str, environ: Mapping[str, str]) -> str:
    if path.startswith("~/") and environ.get("HOME"):
        path = f"{environ['HOME']}{path[1:]}"
    return os.path.expanduser(os.path.expandvars(path))


def _name(options: StoreOptions, values: Mapping[str, Any]) -> str:
    environ = options.environ
    of_environment = environ.get("AWS_DEFAULT_PROFILE") or environ.get("AWS_PROFILE")
    return values.get("s3_profile") or of_environment or "default"


# With botocore


def _by_botocore(
    options: StoreOptions, values: Mapping[str, Any], *, place: bool, keys: bool
) -> Findings:
    """:raises UsageError: as ``read_access``; or what gives the keys fails, or takes too long."""
    files, name = _files(options.environ), _name(options, values)
    for path in filter(os.path.exists, files.values()):
        _profiles_text(path)  # botocore would wait for a FIFO, and take a folder for a missing file
    given = values.get("s3_endpoints")
    question = Question(
        name=name,
        named=values.get("s3_profile") or "",
        files=files,
        region=values.get("s3_region") or "",
        default_region=DEFAULT_REGION,
        endpoint=given[0] if given else "",
        place=place,
        keys=keys,
    )
    asked = dumps(asdict(question)), tuple(options.environ.items())
    try:
        answer = _ask_botocore(*asked) if keys else _place_of(*asked, _stamps(files))
    except TimeoutError:
        raise UsageError(
            f"profile {name}: no keys within {_KEYS_WITHIN_S:g} s: does what gives them (a role,"
            " SSO, a program, the instance's metadata) respond?"
        ) from None
    except ChildProcessError:
        raise UsageError(
            f"profile {name}: what gives its keys gave none that are valid, or more than"
            f" {_KEYS_MEMORY_BYTES >> 20} MiB"
        ) from None
    found = decode(answer, type=Findings)
    if found.error:
        raise UsageError(found.error)
    is_given = {"s3_endpoints"} & (options.given.keys() | options.site.keys())
    if found.ignores_endpoints and given and not is_given:
        raise UsageError(
            "ignore_configured_endpoint_urls, of the environment or the profile, ignores the"
            " endpoint of the environment: unset one of them, or give --s3-endpoint"
        )
    if found.accelerates:
        raise UsageError(f"profile {name}: ssbench does not support use_accelerate_endpoint")
    return found


def _ask_botocore(question: str, environ: Sequence[tuple[str, str]]) -> bytes:
    return call_confined(
        "ssbench.storage.s3.by_botocore:answer", question, dict(environ), _KEYS_WITHIN_S,
        _KEYS_MEMORY_BYTES,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _place_of(
    question: str, environ: Sequence[tuple[str, str]], stamps: Sequence[tuple[int, int]]
) -> bytes:
    """The same without keys, once for all identities."""
    return _ask_botocore(question, environ)


def _stamps(files: Mapping[str, str]) -> tuple[tuple[int, int], ...]:
    """Which versions of the files these are."""
    found = [os.stat(path) for path in files.values() if os.path.exists(path)]
    return tuple((each.st_mtime_ns, each.st_size) for each in found)


# Without it


def _plain_profile(options: StoreOptions, values: Mapping[str, Any], *, keys: bool) -> Findings:
    """The values of a profile: of the credentials file, then of the configuration file.

    :raises UsageError: a file is not valid, or has no such profile, or more than a plain one.
    """
    from configparser import Error as ConfigError
    from configparser import RawConfigParser

    name = _name(options, values)
    found: dict[str, str] = {}
    is_found = name == "default"
    for path, section in zip(
        map(Path, _files(options.environ).values()),
        (name if name == "default" else f"profile {name}", name),
        strict=True,
    ):
        parser = RawConfigParser(strict=False)
        try:
            if path.exists():
                parser.read_string(_profiles_text(path))
        except ConfigError:  # its message quotes lines, which may hold a secret
            raise UsageError(f"{path}: not a file of AWS profiles") from None
        if parser.has_section(section):
            is_found = True
            found.update(parser.items(section))
    if not is_found:
        raise UsageError(f"profile {name} is in neither of the shared AWS files (~/.aws)")
    known = (*_KEYS, *_PLACE, *_OTHER_SOURCES)
    more = sorted(key for key in found if key not in known and not key.startswith(_UNUSED))
    if more:
        shown = printable(first_of(more, 10))
        raise UsageError(f"profile {name} has {shown}, which needs botocore: {_INSTALL}")
    other = next((key for key in _OTHER_SOURCES if key in found), "")
    if keys and other and not any(key in found for key in _KEYS):
        raise UsageError(
            f"profile {name} has {other} and no keys: install botocore ({_INSTALL}), or put keys"
            f' into the environment, with eval "$(aws configure export-credentials --profile {name}'
            ' --format env)"'
        )
    own = (found.get(key, "") for key in _KEYS)
    region, endpoint, cacert = (found.get(key, "") for key in _PLACE)
    return Findings("", region, endpoint, "", cacert, keys=(next(own), next(own), next(own)))
