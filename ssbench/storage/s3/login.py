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
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from msgspec import Struct
from msgspec.structs import asdict

from ssbench.core.errors import (
    AuthError,
    RejectedError,
    SsbenchError,
    StorageError,
    UsageError,
)
from ssbench.core.hiding import Secrets
from ssbench.core.option import of_options
from ssbench.core.settings import Credentials
from ssbench.core.text import first_of, printable
from ssbench.host.files import read_bytes, read_text
from ssbench.storage.base import Access
from ssbench.storage.http.addresses import parse_storage_url
from ssbench.storage.http.session import BoundedSession, check_not_redirected, reason_of, within
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
_CODE_SHOWN = 80  #: characters of a service's error code
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


class S3Profile(Struct, frozen=True):
    """What a profile says of the store; "": nothing."""

    region: str = ""
    endpoint: str = ""
    style: str = ""
    cacert: str = ""


def read_keys(options: StoreOptions, values: Mapping[str, Any]) -> AwsKeys | None:
    """The keys; None for anonymous requests.

    :param values: of the store's options.
    :raises UsageError: keys are missing or incomplete.
    """
    if values.get("s3_anonymous"):
        return None
    given = [values.get(name, "") for name in ("s3_access_key", "s3_secret_key")]
    token = values.get("s3_session_token", "")
    is_on_command_line = any(f"s3_{name}_key" in options.given for name in ("access", "secret"))
    if not any(given) or (values.get("s3_profile") and not is_on_command_line):
        *given, token = _profile_keys(options, values)
    if not any(given):
        raise UsageError(NO_KEYS + _missing_files(options.environ))
    if not all(given):
        missing = "access key ID" if given[1] else "secret access key"
        raise UsageError(f"credentials for S3 are incomplete: the {missing} is missing")
    if not all(isinstance(each, str) and _encodable(each) for each in (*given, token)):
        raise UsageError("credentials for S3: what was given for a key or the token is no text")
    return AwsKeys(given[0], given[1], token)


def _encodable(text: str) -> bool:
    """Whether it has no half of a surrogate pair, as JSON may have."""
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


def read_profile(options: StoreOptions, values: Mapping[str, Any]) -> S3Profile:
    """Where the profile has its store.

    :raises UsageError: a file is not valid, has no such profile, or one that is not understood.
    """
    files = _files(options.environ)
    variables = [name for name in _PLACE_VARIABLES if options.environ.get(name)]
    is_named = variables or values.get("s3_profile")
    if not is_named and not any(map(os.path.exists, files.values())):
        return S3Profile()
    session = _session(options, values)
    if session is None and variables:
        raise UsageError(f"{variables[0]} needs botocore: {_INSTALL}, or unset it")
    if session is None:
        found = _plain_profile(options, values)
        return S3Profile(
            found.get("region", ""),
            found.get("endpoint_url", ""),
            cacert=_expanded(found.get("ca_bundle", ""), options.environ),
        )
    given = values.get("s3_endpoints")
    region = values.get("s3_region")
    with _Errors(options, values):
        ignores = session.get_config_variable("ignore_configured_endpoint_urls")
        if (
            ignores
            and given
            and not {"s3_endpoints"} & (options.given.keys() | options.site.keys())
        ):
            raise UsageError(
                "ignore_configured_endpoint_urls, of the environment or the profile, ignores the"
                " endpoint of the environment: unset one of them, or give --s3-endpoint"
            )
        region = region or session.get_config_variable("region") or DEFAULT_REGION
        client = session.create_client(
            "s3", region, endpoint_url=given[0] if given else None, verify=False,
            aws_access_key_id="-", aws_secret_access_key="-",  # nosec B106 # it signs nothing
        )  # fmt: skip
        cacert = session.get_config_variable("ca_bundle") or ""
    style = client.meta.config.s3 or {}
    if style.get("use_accelerate_endpoint"):
        raise UsageError(
            f"profile {_name(options, values)}: ssbench does not support use_accelerate_endpoint"
        )
    return S3Profile(
        client.meta.region_name,
        client.meta.endpoint_url,
        "virtual" if style.get("addressing_style") == "virtual" else "",
        _expanded(cacert, options.environ),
    )


def _profile_keys(options: StoreOptions, values: Mapping[str, Any]) -> list[str]:
    """Key ID, secret key and session token; "" for each that there is not."""
    session = _session(options, values)
    if session is not None:

        def ask() -> Any:
            found = session.get_credentials()
            return found and found.get_frozen_credentials()

        with _Errors(options, values):
            frozen = _in_time(ask, _name(options, values))
        return [each or "" for each in frozen[:3]] if frozen else ["", "", ""]
    profile = _plain_profile(options, values)
    other = next((name for name in _OTHER_SOURCES if name in profile), "")
    if other and not any(name in profile for name in _KEYS):
        name = _name(options, values)
        raise UsageError(
            f"profile {name} has {other} and no keys: install botocore ({_INSTALL}), or put keys"
            f' into the environment, with eval "$(aws configure export-credentials --profile {name}'
            ' --format env)"'
        )
    return [profile.get(name, "") for name in _KEYS]


def _in_time(ask: Callable[[], Any], profile: str) -> Any:
    """What botocore gives, which limits only the time between two bytes of a service.

    :raises UsageError: it takes too long.
    """
    try:
        return within(_KEYS_WITHIN_S, ask)
    except TimeoutError:
        raise UsageError(
            f"profile {profile}: no keys within {_KEYS_WITHIN_S:g} s: does what gives them (a role,"
            " SSO, a program, the instance's metadata) respond?"
        ) from None


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


def _session(options: StoreOptions, values: Mapping[str, Any]) -> Any:
    """A botocore.session.Session; None: botocore is not installed."""
    try:
        from botocore.session import Session
    except ImportError:
        return None
    named = values.get("s3_profile")
    for path in filter(os.path.exists, _files(options.environ).values()):
        _profiles_text(path)  # botocore would wait for a FIFO, and take a folder for a missing file
    given = {**_files(options.environ), "profile": _name(options, values)}
    if given["profile"] == "default":
        del given["profile"]  # botocore takes one that was given to exist
    # Each: key of the profile, variable, default, conversion.
    variables: dict[str, Any] = {key: (None, None, path, None) for key, path in given.items()}
    variables |= {key: (key, None, None, None) for key in ("region", "ca_bundle")}
    return Session(variables, profile=named or None)


class _Errors:
    """Translates the errors of botocore."""

    def __init__(self, options: StoreOptions, values: Mapping[str, Any]) -> None:
        self._name = _name(options, values)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # botocore lets any exception pass that a malformed answer causes.
        if not isinstance(error, Exception) or isinstance(error, SsbenchError):
            return
        from botocore.exceptions import ConfigParseError, ProfileNotFound

        if isinstance(error, ProfileNotFound):
            raise UsageError(
                f"profile {self._name} is in neither of the shared AWS files (~/.aws)"
            ) from None
        if isinstance(error, ConfigParseError):
            raise UsageError(f"{error.kwargs['path']}: not a file of AWS profiles") from None
        if isinstance(error, OSError) and error.filename:
            raise UsageError(f"{error.filename}: {error.strerror}") from None
        raise UsageError(f"profile {self._name}: {_own_words(error)}") from None


#: What the texts of botocore's errors may have from others: a program, or a service.
_QUOTED = {"error", "error_msg"}


def _own_words(error: Exception) -> str:
    """What botocore says of an error, without what a program or a service has said: it may repeat
    a token that it was sent."""
    from botocore.exceptions import BotoCoreError, ClientError

    if isinstance(error, ClientError):
        code = printable(str(error.response.get("Error", {}).get("Code", "")))[:_CODE_SHOWN]
        return f"{error.operation_name} was refused ({code}): aws sts get-caller-identity says more"
    given = getattr(error, "kwargs", {})
    if given.get("provider") == "custom-process":
        return "credential_process failed"
    if isinstance(error, BotoCoreError) and not _QUOTED & given.keys():
        return printable(str(error))
    source = given.get("provider") or given.get("endpoint_url")
    whose = f" ({source})" if source else ""
    return f"what gives its keys{whose} failed, or gave none that are valid"


# Without it


def _plain_profile(options: StoreOptions, values: Mapping[str, Any]) -> dict[str, str]:
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
        keys = printable(first_of(more, 10))
        raise UsageError(f"profile {name} has {keys}, which needs botocore: {_INSTALL}")
    return found
