"""Options of S3, and where its keys come from.

The sources and their order are those of the AWS command line: options, environment, then the
shared credentials and configuration files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssbench.core.errors import UsageError
from ssbench.core.option import Option
from ssbench.storage.options import TLS_OPTIONS, StoreOptions, check_http_url

if TYPE_CHECKING:
    from ssbench.storage.s3sign import AwsKeys

DEFAULT_REGION = "us-east-1"
_GROUP = "S3"
#: Of profiles that hold no keys, but say how to get some.
_OTHER_SOURCES = ("role_arn", "sso_session", "sso_start_url", "credential_process")

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


def read_keys(
    options: StoreOptions, values: Mapping[str, Any]
) -> tuple[AwsKeys | None, Mapping[str, str]]:
    """The keys, None for anonymous requests, and the values of the profile.

    :param values: of the store's options.
    :raises UsageError: keys are missing or incomplete.
    """
    environ, named = options.environ, values.get("s3_profile", "")
    profile = named or environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    found = _profile(profile, environ, must_exist=profile != "default")
    if values.get("s3_anonymous"):
        return None, found
    given = [values.get(name, "") for name in ("s3_access_key", "s3_secret_key")]
    token = values.get("s3_session_token", "")
    is_on_command_line = any(f"s3_{name}_key" in options.given for name in ("access", "secret"))
    if not any(given) or (named and not is_on_command_line):
        given = [found.get(f"aws_{name}", "") for name in ("access_key_id", "secret_access_key")]
        token = found.get("aws_session_token", "")
        other = next((name for name in _OTHER_SOURCES if name in found), "")
        if not any(given) and other:
            raise UsageError(
                f"profile {profile} has {other} and no keys: put keys into the environment, with"
                f' eval "$(aws configure export-credentials --profile {profile} --format env)"'
            )
    if not any(given):
        raise UsageError(NO_KEYS)
    if not all(given):
        missing = "access key ID" if given[1] else "secret access key"
        raise UsageError(f"credentials for S3 are incomplete: the {missing} is missing")
    from ssbench.storage.s3sign import AwsKeys  # not to show the options

    return AwsKeys(given[0], given[1], token), found


def _profile(name: str, environ: Mapping[str, str], *, must_exist: bool) -> dict[str, str]:
    """The values of a profile: of the credentials file, then of the configuration file.

    :raises UsageError: a file is not valid, or has no such profile.
    """
    from configparser import Error as ConfigError
    from configparser import RawConfigParser

    home = Path(environ.get("HOME", "/nonexistent")) / ".aws"
    values: dict[str, str] = {}
    is_found = False
    for variable, default, section in (
        ("AWS_CONFIG_FILE", "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", name),
    ):
        path = Path(environ.get(variable) or home / default)
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
            values.update(parser.items(section))
    if must_exist and not is_found:
        raise UsageError(f"profile {name} is in neither of the shared AWS files (~/.aws)")
    return values
