"""Authentication options and environment variables, the same as python-swiftclient's ``swift``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ssbench.core.errors import UsageError

if TYPE_CHECKING:
    from ssbench.core.credentials import Credentials


def auth_version(text: str) -> str:
    """``1.0``, ``2.0`` or ``3``, from any of their spellings."""
    from ssbench.core.credentials import parse_version

    try:
        return parse_version(text)
    except UsageError as e:
        raise UsageError(str(e)) from e


class AuthOption(NamedTuple):
    """A field of Credentials, the flags that set it, and the environment variables behind them."""

    field: str
    flags: tuple[str, ...]
    variables: tuple[str, ...]
    metavar: str
    help: str
    type: Callable[[str], str] = str


def _os(name: str, metavar: str, help_text: str, **more: Any) -> AuthOption:
    """An option whose flag and variable are derived from its name: --os-x and OS_X."""
    field = f"os_{name}"
    return AuthOption(
        field, (f"--os-{name.replace('_', '-')}",), (field.upper(),), metavar, help_text, **more
    )


#: Group of the help -> its options.
AUTH_OPTIONS: dict[str, tuple[AuthOption, ...]] = {
    "authentication, version 1 (tempauth, swauth)": (
        AuthOption("auth", ("-A", "--auth", "--auth-url"), ("ST_AUTH",), "AUTH_URL",
                   "authentication URL: http://host:8080/auth/v1.0"),
        AuthOption("user", ("-U", "--user"), ("ST_USER",), "USER", "user name: account:user"),
        AuthOption("key", ("-K", "--key"), ("ST_KEY",), "KEY",
                   "the user's key; safer in the environment, where ps does not show it"),
        AuthOption("auth_version", ("-V", "--auth-version", "--os-identity-api-version"),
                   ("ST_AUTH_VERSION", "OS_AUTH_VERSION", "OS_IDENTITY_API_VERSION"), "VERSION",
                   "1.0, 2.0 or 3 [default: 1.0 if -A, -U and -K are all given; otherwise 3 "
                   "if a domain is given, else 2.0]", auth_version),
    ),
    "authentication, Keystone": (
        _os("auth_url", "URL", "Keystone URL: http://host:5000/v3"),
        _os("auth_type", "TYPE",
            "password, token, v1password, v2password, v3password or v3applicationcredential"),
        _os("username", "NAME", "user name"),
        _os("user_id", "ID", "user ID"),
        _os("password", "PASSWORD", "the user's password; safer in the environment"),
        _os("user_domain_id", "ID", "domain ID of the user (v3)"),
        _os("user_domain_name", "NAME", "domain name of the user (v3)"),
        _os("project_id", "ID", "project ID"),
        _os("project_name", "NAME", "project name"),
        _os("project_domain_id", "ID", "domain ID of the project (v3)"),
        _os("project_domain_name", "NAME", "domain name of the project (v3)"),
        _os("tenant_id", "ID", "project ID (the v2 name of --os-project-id)"),
        _os("tenant_name", "NAME", "project name (the v2 name of --os-project-name)"),
        _os("application_credential_id", "ID", "application credential ID, instead of a user (v3)"),
        _os("application_credential_secret", "SECRET", "application credential secret"),
        _os("region_name", "REGION", "region of the object store [default: any]"),
        _os("service_type", "TYPE", "service type in the catalog [default: object-store]"),
        _os("endpoint_type", "TYPE", "public, internal or admin endpoint [default: public]"),
    ),
    "authentication with a token": (
        AuthOption("os_auth_token", ("-T", "--token", "--auth-token", "--os-auth-token"),
                   ("OS_AUTH_TOKEN",), "TOKEN",
                   "use this token with a storage URL, without logging in"),
        _os("storage_url", "URL", "the account's URL: http://host:8080/v1/AUTH_account"),
    ),
    "TLS": (
        _os("cacert", "FILE", "CA certificates to trust [default: the system's]"),
        _os("cert", "FILE", "client certificate (PEM)"),
        _os("key", "FILE", "key of the client certificate, if it is in a file of its own"),
    ),
}  # fmt: skip

#: Fields whose values must never be shown, on a screen or in a process list.
SECRET_FIELDS = frozenset(
    {"key", "os_password", "os_application_credential_secret", "os_auth_token"}
)

#: Values that mean true in SWIFTCLIENT_INSECURE, as in swiftclient.
_TRUE = ("true", "1", "yes", "on", "t", "y")

_OLD_LOGIN = ("auth", "user", "key")
_NEW_LOGIN = ("os_auth_url", "os_username", "os_user_id", "os_application_credential_id")
_SECRETS = ("os_password", "os_application_credential_secret")


def add_auth_options(parser: argparse.ArgumentParser) -> None:
    """Add all options in groups; each --os-x is also accepted as a hidden --os_x."""
    for title, options in AUTH_OPTIONS.items():
        group = parser.add_argument_group(title)
        for option in options:
            _add(group, option)
        if title == "TLS":
            group.add_argument(
                "--insecure",
                action="store_true",
                default=None,
                help="do not verify certificates; for tests only [env SWIFTCLIENT_INSECURE]",
            )


def credentials_from(ns: argparse.Namespace, environ: Mapping[str, str]) -> Credentials:
    """Credentials from the command line and the environment; the command line overrides.

    This also holds between login methods: see ``_ignored_variables``. The first ``-S`` becomes
    the storage URL.
    """
    from ssbench.core.credentials import Credentials  # lazy: runs without a store do not need it

    options = [option for group in AUTH_OPTIONS.values() for option in group]
    flags = {o.field: getattr(ns, o.field) for o in options if getattr(ns, o.field) is not None}
    if ns.storage_urls:
        flags["os_storage_url"] = ns.storage_urls[0]
    ignored = _ignored_variables(flags)
    variables = {
        o.field: value for o in options if o.field not in ignored and (value := _of(o, environ))
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


def _add(group: argparse._ArgumentGroup, option: AuthOption) -> None:
    variables = " or ".join(option.variables)
    group.add_argument(
        *option.flags,
        dest=option.field,
        metavar=option.metavar,
        type=option.type,
        action=_LoginUser if option.field == "user" else "store",
        help=f"{option.help} [env {variables}]",
    )
    for flag in option.flags:
        if flag.startswith("--os-"):
            group.add_argument(
                "--" + flag[2:].replace("-", "_"),
                dest=option.field,
                type=option.type,
                default=argparse.SUPPRESS,
                help=argparse.SUPPRESS,
            )


class _LoginUser(argparse.Action):
    """``-U``. Rejects ``--user 20`` as ambiguous where ``--user-count`` exists."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        counts = "--user-count" in parser._option_string_actions
        if counts and option_string == "--user" and values.isdecimal():
            raise argparse.ArgumentError(
                self,
                f"{values} is ambiguous: for concurrent users give -u {values} or --user-count "
                f"{values}, for the login's user name -U {values}",
            )
        setattr(namespace, self.dest, values)


def _of(option: AuthOption, environ: Mapping[str, str]) -> str:
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
