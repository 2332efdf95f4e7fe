"""Clouds of a clouds.yaml, for ``--os-cloud``: openstacksdk finds, merges and reads the files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ssbench.core.errors import UsageError

_AUTH = (
    "auth_url", "username", "user_id", "password", "user_domain_id", "user_domain_name",
    "project_id", "project_name", "project_domain_id", "project_domain_name", "tenant_id",
    "tenant_name", "application_credential_id", "application_credential_secret",
)  # fmt: skip
#: Key of a cloud -> option.
_OTHERS = {
    "token": "os_auth_token",  # nosec B105 # names, not a token
    "region_name": "os_region_name",
    "interface": "os_endpoint_type",
    "cacert": "os_cacert",
    "cert": "os_cert",
    "key": "os_key",
}
_PATHS = ("cacert", "cert", "key")


def cloud_values(name: str, environ: Mapping[str, str], region: str | None) -> dict[str, Any]:
    """The login to a cloud, as values of the options of Swift by their names.

    :param environ: OS_CLIENT_CONFIG_FILE and OS_CLIENT_SECURE_FILE name files that come first.
    :param region: one of the cloud's; None: its first.
    :raises UsageError: there is no such cloud or region, the file is malformed, or openstacksdk is
        not installed. No value of the file is shown.
    """
    try:
        from openstack.config import loader
        from openstack.exceptions import ConfigException
    except ImportError as error:
        raise UsageError(
            "--os-cloud: openstacksdk is not installed: in ssbench's checkout, pip install "
            "'.[clouds]'"
        ) from error
    first, secure = environ.get("OS_CLIENT_CONFIG_FILE"), environ.get("OS_CLIENT_SECURE_FILE")
    files = [*filter(None, [first]), *loader.CONFIG_FILES]
    what = f"--os-cloud {name}"
    try:
        with warnings.catch_warnings():  # of features that are not used
            warnings.simplefilter("ignore")
            config = loader.OpenStackConfig(
                config_files=files,
                secure_files=[*filter(None, [secure]), *loader.SECURE_FILES],
                load_envvars=False,
            )
            path = config.config_filename
            if path is None:  # openstacksdk passes over files that it can't read or parse
                files = list(dict.fromkeys(files))
                if present := [file for file in files if os.path.exists(file)]:
                    raise UsageError(f"{what}: not readable, or not YAML: {', '.join(present)}")
                raise UsageError(f"{what}: no clouds.yaml: looked for {', '.join(files)}")
            known = sorted({*map(str, config.get_cloud_names())} - {"defaults"})
            if name not in known:
                has = f"it has {', '.join(known)}" if known else "it has none"
                raise UsageError(f"{what}: {path} has no such cloud; {has}")
            cloud = config.get_one(name, validate=False, region_name=region or "")
            return _values_of(cloud.config)
    except ConfigException as error:
        raise UsageError(f"{what}: {error}") from error
    except (AttributeError, LookupError, TypeError, ValueError):
        # Their texts may show a value.
        raise UsageError(f"{what}: the cloud is malformed in clouds.yaml") from None


def _values_of(cloud: Mapping[str, Any]) -> dict[str, Any]:
    """:raises AttributeError, LookupError, TypeError, ValueError: the cloud is malformed."""
    auth = {**cloud, **cloud["auth"]}  # a user or password may be at both places
    domain = {"domain_id": auth.get("default_domain_id")}
    domain["domain_name"] = None if domain["domain_id"] else auth.get("default_domain_name")
    for whose in ("user", "project"):
        if not any(auth.get(f"{whose}_{key}") for key in domain):
            auth |= {f"{whose}_{key}": value for key, value in domain.items()}
    for key in _PATHS:
        if auth.get(key):
            auth[key] = os.path.expanduser(auth[key])
    options = {**{key: f"os_{key}" for key in _AUTH}, **_OTHERS}
    values: dict[str, Any] = {
        option: str(auth[key]) for key, option in options.items() if auth.get(key) is not None
    }
    kind = str(cloud["auth_type"])
    if kind in ("password", "token"):
        version = str(cloud.get("identity_api_version") or "")
        is_2 = version.startswith("2") or urlsplit(values.get("os_auth_url", "")).path.rstrip(
            "/"
        ).endswith("/v2.0")
        kind = f"v{2 if is_2 else 3}{kind}"
    values["os_auth_type"] = kind
    if not cloud.get("verify", True):
        values["insecure"] = True
    if override := cloud.get("object_store_endpoint_override"):
        values |= {"os_storage_url": str(override), "storage_urls": [str(override)]}
    return values
