"""Authentication options and environment variables, the same as python-swiftclient's ``swift``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ssbench.core.option import Option

if TYPE_CHECKING:
    from ssbench.core.credentials import Credentials


def auth_version(text: str) -> str:
    """``1.0``, ``2.0`` or ``3``, from any of their spellings."""
    from ssbench.core.credentials import parse_version  # lazy: workers do not need it

    return parse_version(text)


def _os(name: str, metavar: str, group: str, text: str, *, secret: bool = False) -> Option:
    """An option whose flag and variable are derived from its name: --os-x, --os_x and OS_X."""
    field = f"os_{name}"
    return Option(
        (f"--os-{name.replace('_', '-')}",),
        field,
        group=group,
        help=text,
        secret=secret,
        metavar=metavar,
        aliases=(f"--{field}",),
        variables=(field.upper(),),
    )


_V1 = "authentication, version 1 (tempauth, swauth)"
_KEYSTONE = "authentication, Keystone"
_TOKEN = "authentication with a token"  # nosec B105 # a title
_TLS = "TLS"

#: Options that say who logs in, and how certificates are checked; names are Credentials' fields.
AUTH_OPTIONS: tuple[Option, ...] = (
    Option(
        ("-A", "--auth", "--auth-url"),
        "auth",
        str,
        None,
        _V1,
        "authentication URL: http://host:8080/auth/v1.0",
        metavar="AUTH_URL",
        variables=("ST_AUTH",),
    ),
    Option(
        ("-U", "--user"),
        "user",
        str,
        None,
        _V1,
        "user name: account:user",
        metavar="USER",
        variables=("ST_USER",),
    ),
    Option(
        ("-K", "--key"),
        "key",
        str,
        None,
        _V1,
        "the user's key; safer in the environment, where ps does not show it",
        metavar="KEY",
        variables=("ST_KEY",),
        secret=True,
    ),
    Option(
        ("-V", "--auth-version", "--os-identity-api-version"),
        "auth_version",
        auth_version,
        None,
        _V1,
        "1.0, 2.0 or 3 [default: 1.0 if -A, -U and -K are all given; otherwise 3 if a domain is "
        "given, else 2.0]",
        metavar="VERSION",
        variables=("ST_AUTH_VERSION", "OS_AUTH_VERSION", "OS_IDENTITY_API_VERSION"),
        aliases=("--os_identity_api_version",),
    ),
    _os("auth_url", "URL", _KEYSTONE, "Keystone URL: http://host:5000/v3"),
    _os(
        "auth_type",
        "TYPE",
        _KEYSTONE,
        "password, token, v1password, v2password, v3password or v3applicationcredential",
    ),
    _os("username", "NAME", _KEYSTONE, "user name"),
    _os("user_id", "ID", _KEYSTONE, "user ID"),
    _os(
        "password",
        "PASSWORD",
        _KEYSTONE,
        "the user's password; safer in the environment",
        secret=True,
    ),
    _os("user_domain_id", "ID", _KEYSTONE, "domain ID of the user (v3)"),
    _os("user_domain_name", "NAME", _KEYSTONE, "domain name of the user (v3)"),
    _os("project_id", "ID", _KEYSTONE, "project ID"),
    _os("project_name", "NAME", _KEYSTONE, "project name"),
    _os("project_domain_id", "ID", _KEYSTONE, "domain ID of the project (v3)"),
    _os("project_domain_name", "NAME", _KEYSTONE, "domain name of the project (v3)"),
    _os("tenant_id", "ID", _KEYSTONE, "project ID (the v2 name of --os-project-id)"),
    _os("tenant_name", "NAME", _KEYSTONE, "project name (the v2 name of --os-project-name)"),
    _os(
        "application_credential_id",
        "ID",
        _KEYSTONE,
        "application credential ID, instead of a user (v3)",
    ),
    _os(
        "application_credential_secret",
        "SECRET",
        _KEYSTONE,
        "application credential secret",
        secret=True,
    ),
    _os("region_name", "REGION", _KEYSTONE, "region of the object store [default: any]"),
    _os("service_type", "TYPE", _KEYSTONE, "service type in the catalog [default: object-store]"),
    _os("endpoint_type", "TYPE", _KEYSTONE, "public, internal or admin endpoint [default: public]"),
    Option(
        ("-T", "--token", "--auth-token", "--os-auth-token"),
        "os_auth_token",
        str,
        None,
        _TOKEN,
        "use this token with a storage URL, without logging in",
        metavar="TOKEN",
        variables=("OS_AUTH_TOKEN",),
        aliases=("--os_auth_token",),
        secret=True,
    ),
    _os("storage_url", "URL", _TOKEN, "the account's URL: http://host:8080/v1/AUTH_account"),
    _os("cacert", "FILE", _TLS, "CA certificates to trust [default: the system's]"),
    _os("cert", "FILE", _TLS, "client certificate (PEM)"),
    _os("key", "FILE", _TLS, "key of the client certificate, if it is in a file of its own"),
    Option(
        ("--insecure",),
        "insecure",
        bool,
        None,
        _TLS,
        "do not verify certificates; for tests only",
        variables=("SWIFTCLIENT_INSECURE",),
    ),
)

#: Values that mean true in SWIFTCLIENT_INSECURE, as in swiftclient.
_TRUE = ("true", "1", "yes", "on", "t", "y")

_OLD_LOGIN = ("auth", "user", "key")
_NEW_LOGIN = ("os_auth_url", "os_username", "os_user_id", "os_application_credential_id")
_SECRETS = ("os_password", "os_application_credential_secret")


def credentials_from(ns: argparse.Namespace, environ: Mapping[str, str]) -> Credentials:
    """Credentials from the command line and the environment; the command line overrides.

    This also holds between login methods: see ``_ignored_variables``. The first ``-S`` becomes
    the storage URL.
    """
    from ssbench.core.credentials import Credentials  # lazy: runs without a store do not need it

    options = [option for option in AUTH_OPTIONS if option.type is not bool]
    flags = {o.name: getattr(ns, o.name) for o in options if getattr(ns, o.name) is not None}
    if ns.storage_urls:
        flags["os_storage_url"] = ns.storage_urls[0]
    ignored = _ignored_variables(flags)
    variables = {
        o.name: value for o in options if o.name not in ignored and (value := _of(o, environ))
    }
    insecure = ns.insecure
    if insecure is None:
        insecure = environ.get("SWIFTCLIENT_INSECURE", "").strip().lower() in _TRUE
    return Credentials(
        **{**variables, **flags},
        insecure=insecure,
        connect_timeout_s=ns.connect_timeout,
        network_timeout_s=ns.network_timeout,
    )


def given_on_command_line(ns: argparse.Namespace) -> bool:
    """True if any flag gives credentials or a storage URL."""
    fields = (*_OLD_LOGIN, *_NEW_LOGIN, "os_auth_token", "os_storage_url")
    return bool(ns.storage_urls) or any(getattr(ns, field) is not None for field in fields)


def _of(option: Option, environ: Mapping[str, str]) -> str:
    return next((environ[name] for name in option.variables if environ.get(name)), "")


def _ignored_variables(flags: Mapping[str, str]) -> list[str]:
    """Fields whose variables are ignored because the command line selects another login method.

    Otherwise ST_KEY from the shell's profile would override --os-username on the command line,
    an old OS_AUTH_TOKEN would override both, and a rejected --os-auth-token would silently be
    replaced by another user's token.
    """
    old = any(field in flags for field in _OLD_LOGIN)
    new = any(field in flags for field in _NEW_LOGIN)
    ignored: list[str] = []
    if new and not old:
        ignored += _OLD_LOGIN
    if old or new:
        ignored.append("os_auth_token")
    elif "os_auth_token" in flags and not any(field in flags for field in _SECRETS):
        ignored += [*_OLD_LOGIN, *_NEW_LOGIN, *_SECRETS]
        if "os_storage_url" not in flags:  # Keystone can exchange it for a project-scoped token
            ignored.remove("os_auth_url")
    if all(field in flags for field in _OLD_LOGIN):
        ignored.append("os_auth_type")
    return ignored
