"""Options of S3."""

import re
from typing import Annotated

from msgspec import Struct

from ssbench.core.errors import UsageError
from ssbench.core.option import Option, options_of_fields
from ssbench.core.text import printable
from ssbench.storage.options import TLS_OPTIONS, check_http_url

DEFAULT_REGION = "us-east-1"
_GROUP = "S3"


#: What Amazon, and so most stores, accept.
LEGAL_BUCKETS = (
    "those of S3 have 3 to 63 lower-case letters, digits, hyphens and dots, and begin and end with"
    " a letter or digit"
)


def check_bucket(name: str) -> str:
    """The same name, if any store can have such a bucket: what botocore lets pass.

    :raises UsageError: none can.
    """
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,255}", name) or name in (".", ".."):
        raise UsageError(f'"{printable(name)}" is not the name of a bucket: {LEGAL_BUCKETS}')
    return name


def check_account(text: str) -> str:
    """The same account id, in the form of Amazon's.

    :raises UsageError: it has another one.
    """
    if not re.fullmatch(r"[0-9]{12}", text, re.ASCII):
        raise UsageError(f'"{printable(text)}" is not the id of an account: 12 digits')
    return text


# fmt: off
class S3Settings(Struct, frozen=True):
    """The driver's own settings, beside HttpSettings."""

    bucket: Annotated[str,  # "": a bucket for each container
        Option(("--s3-bucket",), "s3_bucket", check_bucket, group=_GROUP, metavar="BUCKET",
            help="use this bucket for everything: containers are prefixes in it [default: a bucket "
            "for each container]")] = ""
    style: Annotated[str,
        Option(("--s3-style",), "s3_style", choices=("path", "virtual"), group=_GROUP,
            metavar="STYLE", help="where the bucket's name is: path, or virtual (part of the host "
            "name) [default: path]")] = "path"
    payload: Annotated[str,
        Option(("--s3-payload",), "s3_payload", choices=("signed", "unsigned"), group=_GROUP,
            metavar="HOW", help="signed: SHA-256 of each body is part of its signature; unsigned: "
            "bodies are not signed [default: signed]")] = "signed"
    bucket_owner: Annotated[str,  # "": not sent
        Option(("--s3-bucket-owner",), "s3_bucket_owner", check_account, group=_GROUP,
            metavar="ACCOUNT", help="account id that the buckets must belong to: the store refuses "
            "requests for those of others (x-amz-expected-bucket-owner)")] = ""


#: The store's options.
OPTIONS: tuple[Option, ...] = (
    Option(("--s3-endpoint",), "s3_endpoints", lambda text: check_http_url(text, "the endpoint"),
           group=_GROUP, metavar="URL", repeat=True,
           variables=("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
           help="the endpoint; may be repeated: each request uses one (--url-choice) "
           "[default: Amazon's in the region]"),
    Option(("--s3-region",), "s3_region", group=_GROUP, metavar="REGION",
           variables=("AWS_REGION", "AWS_DEFAULT_REGION"),
           help="region that requests are signed for; if the store names another one, that is used "
           f"[default: {DEFAULT_REGION}]"),
    *options_of_fields(S3Settings),
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
    Option(("--sse-c-key-file",), "sse_c_key_file", group=_GROUP, metavar="FILE", file="r",
           help="have objects encrypted with the key in this file (SSE-C): 32 bytes, or their "
           "base64"),
    Option((), "sse_customer_key", group=_GROUP, metavar="KEY", secret=True,
           variables=("SSBENCH_SSE_C_KEY",), help="the same key, in base64"),
    Option(("--s3-anonymous",), "s3_anonymous", bool, group=_GROUP, help="do not sign requests"),
    *TLS_OPTIONS,
)
# fmt: on
