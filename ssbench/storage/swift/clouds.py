"""Clouds of a clouds.yaml, for ``--os-cloud``: openstacksdk finds, merges and reads the files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from ssbench.core.errors import UsageError
from ssbench.core.text import first_of, printable
from ssbench.host.user_files import read_text

#: Keys of a cloud's login; an option of Swift has the same name, after os_.
_AUTH = (
    "auth_url", "username", "user_id", "password", "user_domain_id", "user_domain_name",
    "project_id", "project_name", "project_domain_id", "project_domain_name", "tenant_id",
    "tenant_name", "application_credential_id", "application_credential_name",
    "application_credential_secret",
)  # fmt: skip
_TOKEN = {"token": "os_auth_token"}  # nosec B105 # names, not a token
_DEFAULT_DOMAIN = ("default_domain_id", "default_domain_name")
_SERVICE = "object-store"


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
        from yaml import YAMLError
    except ImportError as error:
        raise UsageError(
            "--os-cloud: openstacksdk is not installed: in ssbench's checkout, pip install "
            "'.[clouds]'"
        ) from error
    except RuntimeError as error:  # openstacksdk looks for its folders when it is imported
        raise UsageError(f"--os-cloud: {error}") from error
    first, secure = environ.get("OS_CLIENT_CONFIG_FILE"), environ.get("OS_CLIENT_SECURE_FILE")
    files = [*filter(None, [first]), *loader.CONFIG_FILES]
    secure_files = [*filter(None, [secure]), *loader.SECURE_FILES]
    for file in (*files, *secure_files, *loader.VENDOR_FILES):
        if os.access(file, os.R_OK):  # openstacksdk passes over the others
            read_text(file)
    what = f"--os-cloud {name}"
    try:
        with warnings.catch_warnings():  # of features that are not used
            warnings.simplefilter("ignore")
            config = loader.OpenStackConfig(
                config_files=files,
                secure_files=secure_files,
                load_envvars=False,
            )
            path = config.config_filename
            if path is None:  # openstacksdk passes over files that it can't read or parse
                raise UsageError(_unread(what, files))
            known = sorted({*map(str, config.get_cloud_names())} - {"defaults"})
            if name not in known:
                has = f"it has {printable(first_of(known, 10))}" if known else "it has none"
                raise UsageError(f"{what}: {path} has no such cloud; {has}")
            cloud = config.get_one(name, validate=False, region_name=region or "")
            written = config.cloud_config["clouds"][name]
            return {**_values_of(cloud, what), "notes": _notes(written, what)}
    except ConfigException as error:
        raise UsageError(f"{what}: {printable(str(error))}") from error
    except YAMLError:  # as releases for Python 3.10 raise it
        raise UsageError(_unread(what, files)) from None
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        # Their texts may show a value.
        raise UsageError(f"{what}: the cloud is malformed in clouds.yaml") from None


def _unread(what: str, files: Sequence[str]) -> str:
    """Why openstacksdk took none of the files."""
    files = list(dict.fromkeys(files))
    if present := [file for file in files if os.path.exists(file)]:
        return f"{what}: not readable, or not YAML: {', '.join(present)}"
    return f"{what}: no clouds.yaml: looked for {', '.join(files)}"


def _values_of(cloud: Any, what: str) -> dict[str, Any]:
    """The values of an openstack.config.cloud_region.CloudRegion.

    :raises UsageError: a key of the login has no option.
    :raises AttributeError, LookupError, TypeError, ValueError: the cloud is malformed.
    """
    config: Mapping[str, Any] = cloud.config
    unknown = sorted({*config["auth"]} - {*_AUTH, *_TOKEN, *_DEFAULT_DOMAIN})
    if unknown:
        keys = printable(first_of(unknown, 10))
        raise UsageError(f"{what}: ssbench does not support {keys} in auth of clouds.yaml")
    auth = {**config, **config["auth"]}  # a user or password may be at both places
    domain = {"domain_id": auth.get("default_domain_id")}
    domain["domain_name"] = None if domain["domain_id"] else auth.get("default_domain_name")
    for whose in ("user", "project"):
        if not any(auth.get(f"{whose}_{key}") for key in domain):
            auth |= {f"{whose}_{key}": value for key, value in domain.items()}
    interface = cloud.get_interface(_SERVICE)
    verify, cert = cloud.get_requests_verify_args()
    cert_path, key_path = cert if isinstance(cert, tuple) else (cert, None)
    found = {
        **{option: auth.get(key) for key, option in _TOKEN.items()},
        **{f"os_{key}": auth.get(key) for key in _AUTH},
        "os_region_name": cloud.get_region_name(_SERVICE),
        "os_endpoint_type": ",".join(interface) if isinstance(interface, list) else interface,
        "os_service_type": cloud.get_service_type(_SERVICE),
        "os_service_name": cloud.get_service_name(_SERVICE),
        "os_storage_url": cloud.get_endpoint(_SERVICE),
        "os_cacert": verify if isinstance(verify, str) else None,
        "os_cert": cert_path,
        "os_key": key_path,
    }
    if any(isinstance(value, list | dict | set) for value in found.values()):
        raise TypeError  # few bytes of YAML make a list of any length
    values: dict[str, Any] = {
        option: str(value) for option, value in found.items() if value is not None
    }
    if verify is False:
        values["insecure"] = True
    kind = str(config["auth_type"])
    if kind in ("password", "token"):
        version = str(config.get("identity_api_version") or "")
        path = urlsplit(values.get("os_auth_url", "")).path.rstrip("/")
        is_2 = version.startswith("2") or path.endswith("/v2.0")
        if kind == "password" and not auth.get("password"):  # openstacksdk's default
            if auth.get("application_credential_secret"):
                kind = "applicationcredential"
            elif auth.get("token"):
                kind = "token"
        kind = f"v{2 if is_2 else 3}{kind}"
    values["os_auth_type"] = kind
    return values


def _notes(cloud: Mapping[str, Any], what: str) -> tuple[str, ...]:
    """What YAML may have changed: 0123 without quotes is 83, and yes is True.

    :param cloud: as it was read.
    """
    places = {
        **{key: cloud.get(key) for key in ("region_name", "object_store_region_name", *_AUTH)},
        **{f"auth.{key}": value for key, value in cloud.get("auth", {}).items()},
    }
    changed = [key for key, value in places.items() if not isinstance(value, str | list | None)]
    if not changed:
        return ()
    keys = printable(first_of(changed, 10))
    return (
        f"{what}: to YAML, {keys} of clouds.yaml is not text (a number, a date, yes"
        " or no), and may not be sent as it is written: put it into quotes",
    )
