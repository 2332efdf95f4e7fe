"""What botocore makes of a profile: where the store is, and the keys.

It runs in a child process (``ssbench.host.confined``): botocore asks services (STS, SSO, the
metadata of a container or an instance), whose responses it reads without a limit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, convert
from msgspec.json import encode

from ssbench.core.hiding import Hiding
from ssbench.core.text import printable

#: What the texts of botocore's errors may have from others: a program, or a service.
_QUOTED = {"error", "error_msg"}
_CODE_SHOWN = 80  #: characters of a service's error code


class Question(Struct, frozen=True):
    """What to look up."""

    name: str  #: of the profile
    named: str  #: the same if the command line names it; "": it does not
    files: Mapping[str, str]  #: paths of the configuration and of the credentials
    region: str  #: that was given; "": none
    default_region: str
    endpoint: str  #: that was given; "": none
    place: bool  #: find the store
    keys: bool  #: find the keys


class Findings(Hiding, frozen=True):
    """What there is; "": nothing."""

    HIDDEN = ("keys",)

    error: str = ""  #: instead of the rest
    region: str = ""
    endpoint: str = ""
    style: str = ""
    cacert: str = ""
    ignores_endpoints: bool = False
    accelerates: bool = False
    keys: tuple[str, str, str] = ("", "", "")  #: key ID, secret key and session token


def answer(argument: str) -> bytes:
    """Findings for a Question, both as JSON."""
    question = Question(**json.loads(argument))
    try:
        # Services may give numbers, or half of a surrogate pair, for text.
        return encode(convert(_find(question), Findings))
    except Exception as error:  # noqa: BLE001  # botocore lets any pass that a response causes
        return encode(Findings(printable(_explained(error, question.name))))


def _find(question: Question) -> dict[str, Any]:
    """The values of Findings; those that services gave may have any type."""
    from botocore.session import Session  # loads slowly

    given = {**question.files, "profile": question.name}
    if question.name == "default":
        del given["profile"]  # botocore takes one that was given to exist
    # Each: key of the profile, variable, default, conversion.
    variables: dict[str, Any] = {key: (None, None, path, None) for key, path in given.items()}
    variables |= {key: (key, None, None, None) for key in ("region", "ca_bundle")}
    session = Session(variables, profile=question.named or None)
    found = _place(session, question) if question.place else {}
    if question.keys and (credentials := session.get_credentials()):
        found["keys"] = [each or "" for each in credentials.get_frozen_credentials()[:3]]
    return found


def _place(session: Any, question: Question) -> dict[str, Any]:
    from botocore.utils import is_valid_ipv4_endpoint_url, is_valid_ipv6_endpoint_url

    region = question.region or session.get_config_variable("region") or question.default_region
    client = session.create_client(
        "s3", region, endpoint_url=question.endpoint or None, verify=False,
        aws_access_key_id="-", aws_secret_access_key="-",  # nosec B106 # it signs nothing
    )  # fmt: skip
    options = client.meta.config.s3 or {}
    endpoint = client.meta.endpoint_url
    is_address = is_valid_ipv4_endpoint_url(endpoint) or is_valid_ipv6_endpoint_url(endpoint)
    is_virtual = options.get("addressing_style") == "virtual" and not is_address
    return {
        "region": client.meta.region_name,
        "endpoint": endpoint,
        "style": "virtual" if is_virtual else "",
        "cacert": session.get_config_variable("ca_bundle") or "",
        "ignores_endpoints": bool(session.get_config_variable("ignore_configured_endpoint_urls")),
        "accelerates": bool(options.get("use_accelerate_endpoint")),
    }


def _explained(error: Exception, name: str) -> str:
    from botocore.exceptions import ConfigParseError, ProfileNotFound

    if isinstance(error, ProfileNotFound):
        return f"profile {name} is in neither of the shared AWS files (~/.aws)"
    if isinstance(error, ConfigParseError):
        return f"{error.kwargs['path']}: not a file of AWS profiles"
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return f"profile {name}: {_own_words(error)}"


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
