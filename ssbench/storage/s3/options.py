"""Options of S3, and what the environment and the shared AWS files say beside them.

The sources and their order are those of the AWS command line: options, environment, then the
shared credentials and configuration files. botocore reads these files. Without it (the extra
``aws``) only plain profiles are read, and any other is an error: the load never goes to another
place than the requests of other tools.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ssbench.core.errors import UsageError, outcome_of
from ssbench.core.option import Option
from ssbench.storage.options import TLS_OPTIONS, StoreOptions, check_http_url

if TYPE_CHECKING:
    from ssbench.storage.s3.sign import AwsKeys

DEFAULT_REGION = "us-east-1"
_GROUP = "S3"
#: Of profiles that hold no keys, but say how to get some.
_OTHER_SOURCES = (
    "role_arn", "source_profile", "credential_source", "credential_process",
    "web_identity_token_file", "sso_session", "sso_start_url", "sso_account_id", "sso_role_name",
    "sso_region", "login_session",
)  # fmt: skip
_KEYS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
_PLACE = ("region", "endpoint_url", "ca_bundle")
#: Keys of a profile, or what they begin with, that say neither where the store is nor who asks.
_UNUSED = ("cli_", "output", "role_session_name", "external_id", "duration_seconds", "mfa_serial",
           "sso_registration_scopes", "retry_mode", "max_attempts")  # fmt: skip
_KEYS_WITHIN_S = 120.0  #: some ask the user for a code
_INSTALL = "in ssbench's checkout, pip install '.[aws]'"

NO_KEYS = """\
no credentials for S3: give keys in one of these ways
  AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN) in the environment
  a profile in ~/.aws/credentials (--s3-profile or AWS_PROFILE; [default] otherwise)
  --s3-anonymous, for a bucket that anyone may read and write"""


def _bucket(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", text):
        raise UsageError(f"{text!r} is not the name of a bucket")
    return text


# fmt: off
#: The store's options.
OPTIONS: tuple[Option, ...] = (
    Option(("--s3-endpoint",), "s3_endpoints", lambda text: check_http_url(text, "the endpoint"),
           group=_GROUP, metavar="URL", repeat=True,
           variables=("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
           help="the endpoint; may be repeated: each request uses one at random "
           "[default: Amazon's in the region]"),
    Option(("--s3-region",), "s3_region", group=_GROUP, metavar="REGION",
           variables=("AWS_REGION", "AWS_DEFAULT_REGION"),
           help="region that requests are signed for; if the store names another one, that is used "
           f"[default: {DEFAULT_REGION}]"),
    Option(("--s3-bucket",), "s3_bucket", _bucket, group=_GROUP, metavar="BUCKET",
           help="use this bucket for everything: containers are prefixes in it [default: a bucket "
           "for each container]"),
    Option(("--s3-style",), "s3_style", choices=("path", "virtual"), group=_GROUP,
           metavar="STYLE", help="where the bucket's name is: path, or virtual (part of the host "
           "name) [default: path]"),
    Option(("--s3-payload",), "s3_payload", choices=("signed", "unsigned"), group=_GROUP,
           metavar="HOW", help="signed: SHA-256 of each body is part of its signature; unsigned: "
           "bodies are not signed [default: signed]"),
    Option(("--s3-profile",), "s3_profile", group=_GROUP, metavar="NAME",
           help="profile of the shared AWS files; its keys are used instead of the environment's "
           "[default: AWS_PROFILE, or default]"),
    Option(("--s3-access-key",), "s3_access_key", group=_GROUP, metavar="ID",
           variables=("AWS_ACCESS_KEY_ID",), help="access key ID"),
    Option(("--s3-secret-key",), "s3_secret_key", group=_GROUP, metavar="SECRET", secret=True,
           variables=("AWS_SECRET_ACCESS_KEY",),
           help="secret access key; safer in the environment, where ps does not show it"),
    Option(("--s3-session-token",), "s3_session_token", group=_GROUP, metavar="TOKEN", secret=True,
           variables=("AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN"),
           help="session token of temporary keys"),
    Option(("--s3-anonymous",), "s3_anonymous", bool, group=_GROUP, help="do not sign requests"),
    *TLS_OPTIONS,
)
# fmt: on


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
    from ssbench.storage.s3.sign import AwsKeys  # not to show the options

    return AwsKeys(given[0], given[1], token)


def read_profile(options: StoreOptions, values: Mapping[str, Any]) -> S3Profile:
    """Where the profile has its store.

    :raises UsageError: a file is not valid, has no such profile, or one that is not understood.
    """
    files = _files(options.environ)
    if not any(map(os.path.exists, files.values())) and not values.get("s3_profile"):
        return S3Profile()
    session = _session(options, values)
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
    answer: SimpleQueue[Callable[[], Any]] = SimpleQueue()
    Thread(target=lambda: answer.put(outcome_of(ask)), daemon=True).start()
    try:
        return answer.get(timeout=_KEYS_WITHIN_S)()
    except Empty:
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


def _missing_files(environ: Mapping[str, str]) -> str:
    """A line for each variable that names a file which is not there."""
    variables = ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE")
    paths = zip(variables, _files(environ).values(), strict=True)
    return "".join(
        f"\n{variable} names {path}, which does not exist or is no file"
        for variable, path in paths
        if environ.get(variable) and (not os.path.exists(path) or os.path.isdir(path))
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
    given = {**_files(options.environ), "profile": _name(options, values)}
    if given["profile"] == "default":
        del given["profile"]  # botocore takes one that was given to exist
    # Each: key of the profile, variable, default, conversion.
    variables: dict[str, Any] = {key: (None, None, path, None) for key, path in given.items()}
    variables |= {key: (key, None, None, None) for key in ("region", "ca_bundle")}
    return Session(variables, profile=named or None)


class _Errors:
    """Translates the errors of botocore. Their texts may quote what a program printed."""

    def __init__(self, options: StoreOptions, values: Mapping[str, Any]) -> None:
        self._name = _name(options, values)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            ConfigParseError,
            ProfileNotFound,
        )

        if isinstance(error, ProfileNotFound):
            raise UsageError(
                f"profile {self._name} is in neither of the shared AWS files (~/.aws)"
            ) from None
        if isinstance(error, ConfigParseError):
            raise UsageError(f"{error.kwargs['path']}: not a file of AWS profiles") from None
        if isinstance(error, OSError) and error.filename:
            raise UsageError(f"{error.filename}: {error.strerror}") from None
        if isinstance(error, BotoCoreError | ClientError | ValueError):
            own = getattr(error, "kwargs", {}).get("provider") == "custom-process"
            text = "credential_process failed" if own else str(error)
            raise UsageError(f"profile {self._name}: {text}") from None


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
                parser.read_string(path.read_text())
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            # Not the parser's message: it quotes lines, which may hold a secret.
            reason = error.strerror if isinstance(error, OSError) else "not a file of AWS profiles"
            raise UsageError(f"{path}: {reason}") from None
        if parser.has_section(section):
            is_found = True
            found.update(parser.items(section))
    if not is_found:
        raise UsageError(f"profile {name} is in neither of the shared AWS files (~/.aws)")
    known = (*_KEYS, *_PLACE, *_OTHER_SOURCES)
    more = sorted(key for key in found if key not in known and not key.startswith(_UNUSED))
    if more:
        raise UsageError(f"profile {name} has {', '.join(more)}, which needs botocore: {_INSTALL}")
    return found
