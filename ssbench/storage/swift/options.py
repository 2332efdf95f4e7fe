"""Login to Swift: which method the given options select, and what is missing for it.

The options and their rules are those of python-swiftclient's ``swift`` command.
``ssbench.storage.swift.login`` logs in. For ``--os-cloud``, openstacksdk finds, merges and reads
clouds.yaml.
"""

import os
import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import structs

from ssbench.core.errors import UsageError
from ssbench.core.hiding import Hiding
from ssbench.core.option import Option, options_of_fields
from ssbench.core.text import first_of, printable
from ssbench.host.files import read_found, read_text
from ssbench.storage.options import (
    CACERT,
    CERT,
    INSECURE,
    KEY,
    StoreOptions,
    check_http_url,
    named,
    openstack_option,
    option_values,
    shown_url,
    variables_of,
)

#: Spellings of -V -> version.
VERSIONS = {"1": "1.0", "1.0": "1.0", "2": "2.0", "2.0": "2.0", "3": "3", "3.0": "3"}

#: Values of --os-auth-type -> version; "": the other options decide.
AUTH_TYPES = {
    "password": "",  # nosec B105 # a kind of login
    "token": "",  # nosec B105 # a kind of login
    "v1password": "1.0",
    "v2password": "2.0",
    "v2token": "2.0",
    "v3password": "3",
    "v3token": "3",
    "v3applicationcredential": "3",
}

NO_CREDENTIALS = """\
no credentials: give them in one of these ways, or try --embedded-swift
  Swift: -A, -U, -K (ST_AUTH, ST_USER, ST_KEY); OS_AUTH_URL, OS_PASSWORD, ...;
  OS_CLOUD; -T and -S (OS_AUTH_TOKEN, OS_STORAGE_URL); or another --storage"""


_V1_GROUP = "authentication, version 1 (tempauth, swauth)"
_KEYSTONE_GROUP = "authentication, Keystone"
_TOKEN_GROUP = "authentication with a token"  # nosec B105 # a title


def parse_version(text: str) -> str:
    """``1``, ``2.0``, ``v3`` -> ``1.0``, ``2.0``, ``3``.

    :raises UsageError: for any other.
    """
    try:
        return VERSIONS[text.strip().lower().removeprefix("v")]
    except KeyError:
        known = ", ".join(VERSIONS)
        raise UsageError(f"auth version {text!r} is unknown: give one of {known}") from None


def _v1(flags: str, metavar: str, variables: str, text: str, **more: Any) -> Option:
    """An option of the ``swift`` command's version 1."""
    return Option(
        tuple(flags.split()), "", group=_V1_GROUP, help=text, metavar=metavar,
        variables=tuple(variables.split()), **more,
    )  # fmt: skip


_keystone = partial(openstack_option, group=_KEYSTONE_GROUP)


class LoginOptions(Hiding, frozen=True):
    """The options of a login, from command line, environment and site; "": not given.

    Fields carry the names of swiftclient's options. No secret is in the repr.
    """

    HIDDEN = ("key", "os_password", "os_application_credential_secret", "os_auth_token")

    # fmt: off
    #: Empty: the one that the login returns.
    storage_urls: Annotated[tuple[str, ...],
        Option(("-S", "--storage-url"), "", lambda text: check_http_url(text, "the URL"),
            group="store", metavar="STORAGE_URL", repeat=True,
            help="use this storage URL instead of the one that the login returns; may be repeated: "
            "each request uses one (--url-choice)")] = ()
    auth: Annotated[str,
        _v1("-A --auth --auth-url", "AUTH_URL", "ST_AUTH",
            "authentication URL: http://host:8080/auth/v1.0")] = ""
    user: Annotated[str,
        _v1("-U --user", "USER", "ST_USER", "user name: account:user")] = ""
    key: Annotated[str,
        _v1("-K --key", "KEY", "ST_KEY",
            "the user's key; safer in the environment, where ps does not show it",
            secret=True)] = ""
    auth_version: Annotated[str,
        _v1("-V --auth-version --os-identity-api-version", "VERSION",
            "ST_AUTH_VERSION OS_AUTH_VERSION OS_IDENTITY_API_VERSION",
            "version of the login: 1.0, 2.0 or 3 [default: 1.0 if -A, -U and -K are all given; "
            "otherwise 3 if a domain is given, else 2.0]",
            type=parse_version, aliases=("--os_identity_api_version",))] = ""
    #: Its values are in the other fields.
    os_cloud: Annotated[str, structs.replace(
        _keystone("NAME",
            "log in to this cloud of clouds.yaml; requires ssbench[clouds]"),
        brief="log in to this cloud of clouds.yaml")] = ""
    os_auth_url: Annotated[str, _keystone("URL", "Keystone URL: http://host:5000/v3")] = ""
    os_auth_type: Annotated[str,
        _keystone("TYPE",
            "kind of login: password, token, v1password, v2password, v3password or "
            "v3applicationcredential")] = ""
    os_username: Annotated[str, _keystone("NAME", "user name")] = ""
    os_user_id: Annotated[str, _keystone("ID", "user ID")] = ""
    os_password: Annotated[str,
        _keystone("PASSWORD", "the user's password; safer in the environment", secret=True)] = ""
    os_user_domain_id: Annotated[str, _keystone("ID", "domain ID of the user (v3)")] = ""
    os_user_domain_name: Annotated[str, _keystone("NAME", "domain name of the user (v3)")] = ""
    os_project_id: Annotated[str, _keystone("ID", "project ID")] = ""
    os_project_name: Annotated[str, _keystone("NAME", "project name")] = ""
    os_project_domain_id: Annotated[str, _keystone("ID", "domain ID of the project (v3)")] = ""
    os_project_domain_name: Annotated[str,
        _keystone("NAME", "domain name of the project (v3)")] = ""
    os_tenant_id: Annotated[str,
        _keystone("ID", "project ID (the v2 name of --os-project-id)")] = ""
    os_tenant_name: Annotated[str,
        _keystone("NAME", "project name (the v2 name of --os-project-name)")] = ""
    os_application_credential_id: Annotated[str,
        _keystone("ID", "application credential ID, instead of a user (v3)")] = ""
    os_application_credential_name: Annotated[str,
        _keystone("NAME", "application credential by its name, with its user (v3)")] = ""
    os_application_credential_secret: Annotated[str,
        _keystone("SECRET", "application credential secret", secret=True)] = ""
    os_region_name: Annotated[str,
        _keystone("REGION", "region of the object store [default: any]")] = ""
    os_service_type: Annotated[str,
        _keystone("TYPE", "service type in the catalog [default: object-store]")] = "object-store"
    os_service_name: str = ""  #: only of clouds.yaml; "": any
    #: Of several, separated by commas, the first that exists.
    os_endpoint_type: Annotated[str,
        _keystone("TYPE",
            "public, internal or admin endpoint, or several with commas in order of preference "
            "[default: public]")] = "public"
    os_auth_token: Annotated[str,
        Option(("-T", "--token", "--auth-token", "--os-auth-token"), "", group=_TOKEN_GROUP,
            help="use this token with a storage URL, without logging in", metavar="TOKEN",
            aliases=("--os_auth_token",), variables=("OS_AUTH_TOKEN",), secret=True)] = ""
    #: Of clouds.yaml: %(project_id)s stands for the project.
    os_storage_url: Annotated[str,
        openstack_option("URL",
            "the account's URL: http://host:8080/v1/AUTH_account", group=_TOKEN_GROUP)] = ""
    os_cacert: Annotated[str, CACERT] = ""
    os_cert: Annotated[str, CERT] = ""
    os_key: Annotated[str, KEY] = ""
    insecure: Annotated[bool, INSECURE] = False
    notes: tuple[str, ...] = ()  #: what to tell the user of the file that they are from
    # fmt: on


OPTIONS = tuple(map(named, options_of_fields(LoginOptions)))


class Login(Hiding, frozen=True):
    """One way to get a token, complete.

    :param method: a key of AUTH_TYPES that names a version.
    :param url: where the token is asked for.
    :param arguments: of the method; secrets among them.
    """

    HIDDEN = ("arguments",)

    method: str
    url: str
    arguments: Mapping[str, str]


#: Method -> its mandatory arguments: any one of the names, and the option to name to the user.
_AUTH_URL = (("auth_url",), "--os-auth-url (OS_AUTH_URL)")
_USER = (("username", "user_id"), "--os-username (OS_USERNAME)")
_PASSWORD = (("password",), "--os-password (OS_PASSWORD)")
_PROJECT = (("project_name", "project_id"), "--os-project-name (OS_PROJECT_NAME)")
_TENANT = (("tenant_name", "tenant_id"), "--os-project-name (OS_PROJECT_NAME)")
_TOKEN = (("token",), "--os-auth-token (OS_AUTH_TOKEN)")
_ID, _NAME = "application_credential_id", "application_credential_name"
_SECRET = "application_credential_secret"  # nosec B105 # the name of an argument
_NEEDS: dict[str, list[tuple[tuple[str, ...], str]]] = {
    "v1password": [
        (("auth_url",), "-A/--auth (ST_AUTH)"),
        (("username",), "-U/--user (ST_USER)"),
        (("password",), "-K/--key (ST_KEY)"),
    ],
    "v2password": [_AUTH_URL, _USER, _PASSWORD, _TENANT],
    "v2token": [_AUTH_URL, _TOKEN, _TENANT],
    "v3password": [_AUTH_URL, _USER, _PASSWORD, _PROJECT],
    "v3token": [_AUTH_URL, _TOKEN, _PROJECT],
    "v3applicationcredential": [
        _AUTH_URL,
        ((_ID, _NAME), "--os-application-credential-id (OS_APPLICATION_CREDENTIAL_ID)"),
        ((_SECRET,), "--os-application-credential-secret (OS_APPLICATION_CREDENTIAL_SECRET)"),
    ],
}

#: Options that only Keystone uses, apart from domains.
_OF_KEYSTONE = (
    "os_auth_url", "os_auth_type", "os_username", "os_user_id", "os_password", "os_project_id",
    "os_project_name", "os_tenant_id", "os_tenant_name", "os_application_credential_id",
    "os_application_credential_name",
)  # fmt: skip
_USER_DOMAIN = ("user_domain_id", "user_domain_name")
_PROJECT_DOMAIN = ("project_domain_id", "project_domain_name")
#: Method -> its optional arguments.
_EXTRAS: dict[str, tuple[str, ...]] = {
    "v3password": (*_USER_DOMAIN, *_PROJECT_DOMAIN),
    "v3token": _PROJECT_DOMAIN,
    # A name is unique among those of a user.
    "v3applicationcredential": ("username", "user_id", *_USER_DOMAIN),
}


def choose_version(credentials: LoginOptions) -> str:
    """The version of authentication: ``1.0``, ``2.0`` or ``3``.

    --os-auth-type decides, then -V; with neither (or version 1), -A, -U and -K together mean
    1.0. Where one of those is missing, a domain, an application credential or an auth URL
    that ends in /v3 means 3, anything else 2.0.

    :raises UsageError: for a version or type that doesn't exist.
    """
    c = credentials
    if c.os_auth_type and c.os_auth_type not in AUTH_TYPES:
        known = ", ".join(AUTH_TYPES)
        raise UsageError(f"auth type {c.os_auth_type!r} is unknown: give one of {known}")
    version = AUTH_TYPES.get(c.os_auth_type) or (parse_version(c.auth_version or "1"))
    if version != "1.0" or c.os_auth_type == "v1password":
        return version
    if c.auth and c.user and c.key:
        return "1.0"
    # swiftclient knows only the domains; the other two can be nothing but version 3 either.
    domains = [getattr(c, f"os_{name}") for name in _USER_DOMAIN + _PROJECT_DOMAIN]
    means_3 = [
        *domains,
        c.os_application_credential_id,
        c.os_application_credential_name,
        _path_version(c.auth or c.os_auth_url) == "3",
    ]
    return "3" if any(means_3) else "2.0"


def plan_login(credentials: LoginOptions) -> Login | None:
    """How to log in; None: only a token and a storage URL were given, which need no login.

    :raises UsageError: nothing was given, something is missing, or the auth URL is invalid.
    """
    c = credentials
    if not any(_values(c, "1.0").values()) and not c.os_storage_url:
        raise UsageError(NO_CREDENTIALS)
    version = choose_version(c)
    method = _method(c, version)
    values = _values(c, version)
    missing = _missing(method, values)
    if missing and c.os_auth_token and c.os_storage_url:
        return None
    if missing:
        # A user who gives some of -A, -U, -K and nothing of Keystone's lacks the others of these.
        is_keystone = c.auth_version or any(getattr(c, name) for name in _OF_KEYSTONE)
        if (c.auth or c.user or c.key) and not is_keystone:
            missing = _missing("v1password", values)
        raise UsageError(f"credentials are incomplete: {' and '.join(missing)} missing{_hint(c)}")
    place = "-A" if c.auth else "--os-auth-url (or clouds.yaml)"
    what = f"{place}: the auth URL"
    url = _versioned(check_http_url(values.pop("auth_url"), what), version)
    wanted = {name for names, _ in _NEEDS[method] for name in names} | {*_EXTRAS.get(method, ())}
    arguments = {name: value for name, value in values.items() if value and name in wanted}
    if method == "v1password":
        _check_header(arguments["username"], "user")
        _check_header(arguments["password"], "key")
    return Login(method, url, arguments)


def _values(c: LoginOptions, version: str) -> dict[str, str]:
    """The old and the new options as one set of arguments, under keystoneauth's names."""
    username = c.user or c.os_username
    project_name = c.os_project_name or c.os_tenant_name
    project_id = c.os_project_id or c.os_tenant_id
    if version != "1.0" and ":" in username and not (project_name or project_id):
        project_name, _, username = username.partition(":")
    return {
        "auth_url": c.auth or c.os_auth_url,
        "username": username,
        "user_id": c.os_user_id,
        "password": c.key or c.os_password,
        "token": c.os_auth_token,
        "project_name": project_name,
        "project_id": project_id,
        "tenant_name": project_name,
        "tenant_id": project_id,
        _ID: c.os_application_credential_id,
        _NAME: c.os_application_credential_name,
        _SECRET: c.os_application_credential_secret,
        **_domains(c, username, project_name),
    }


def _domains(c: LoginOptions, username: str, project_name: str) -> dict[str, str]:
    """The domains; a name without one is taken to be in Keystone's ``default``.

    Keystone refuses a name without its domain, and python-openstackclient fills in the same.
    """
    given = {name: str(getattr(c, f"os_{name}")) for name in _USER_DOMAIN + _PROJECT_DOMAIN}
    if username and not any(given[name] for name in _USER_DOMAIN):
        given["user_domain_id"] = "default"
    if project_name and not any(given[name] for name in _PROJECT_DOMAIN):
        given["project_domain_id"] = "default"
    return given


def _method(c: LoginOptions, version: str) -> str:
    if AUTH_TYPES.get(c.os_auth_type):
        return c.os_auth_type
    if version == "1.0":
        return "v1password"
    number = version[0]
    has_password = bool(c.key or c.os_password)
    is_application = (
        c.os_application_credential_id
        or c.os_application_credential_name
        or c.os_application_credential_secret
    )
    if number == "3" and not has_password and is_application:
        return "v3applicationcredential"
    if c.os_auth_type == "token" or (c.os_auth_token and not has_password):
        return f"v{number}token"
    return f"v{number}password"


def _missing(method: str, values: Mapping[str, str]) -> list[str]:
    needs = _NEEDS[method]
    if method == "v3applicationcredential" and values[_NAME] and not values[_ID]:
        needs = [*needs, _USER]
    return [what for names, what in needs if not any(values[name] for name in names)]


def _check_header(value: str, what: str) -> None:
    """Version 1 sends user and key as headers, which some characters would break."""
    if not value.isprintable() or value != value.strip():
        raise UsageError(f"the {what} begins or ends with a blank, or holds a line break or such")


def _hint(c: LoginOptions) -> str:
    if c.os_storage_url and not c.os_auth_token:
        return "; or give a token with the storage URL: -T (OS_AUTH_TOKEN)"
    if c.os_auth_token and not c.os_storage_url:
        return "; or give a storage URL with the token: -S (OS_STORAGE_URL)"
    return ""


def _path_version(url: str) -> str:
    """``3`` for an auth URL that ends in /v3 or /v3.0, "" for one without a version."""
    try:
        path = urlsplit(url).path
    except ValueError:  # not a URL: check_http_url rejects it when it is used
        return ""
    last = path.rstrip("/").rpartition("/")[2]
    match = re.fullmatch(r"v(\d+(\.\d+)?)", last)
    return VERSIONS.get(match[1], match[1]) if match else ""


def _versioned(url: str, version: str) -> str:
    """Keystone's URL with its version, which users often leave out; any other as it is."""
    if version == "1.0" or _path_version(url):
        return url
    return f"{url.rstrip('/')}/v{version}"


_OLD_LOGIN = ("auth", "user", "key")
_NEW_LOGIN = ("os_auth_url", "os_username", "os_user_id", "os_application_credential_id")
_SECRETS = ("os_password", "os_application_credential_secret")
#: Options that a cloud of clouds.yaml replaces; region, endpoint type and TLS may be given, too.
_OF_CLOUD = {
    option.name for option in OPTIONS if option.group in (_V1_GROUP, _KEYSTONE_GROUP, _TOKEN_GROUP)
} - {"os_cloud", "os_region_name", "os_service_type", "os_endpoint_type"}


def login_options(options: StoreOptions) -> LoginOptions:
    """The options of a login; the command line overrides the environment.

    This also holds between login methods: see ``_ignored_variables``. The first ``-S`` becomes
    the storage URL.
    """
    given = dict(options.given)
    if given.get("storage_urls"):
        given["os_storage_url"] = given["storage_urls"][0]
    options = structs.replace(options, given=given)
    named = {name.removesuffix("_file") for name in given}
    in_environment = {
        option.name
        for option in OPTIONS
        if any(options.environ.get(variable) for variable in variables_of(option))
    }
    void = _ignored_variables(named | in_environment)
    site = {name: value for name, value in options.site.items() if name not in void}
    values = option_values(OPTIONS, structs.replace(options, site=site), _ignored_variables(named))
    cloud = values.get("os_cloud")
    if cloud:
        values = {name: value for name, value in values.items() if name not in _OF_CLOUD - named}
        region = values.get("os_region_name")
        values = {**cloud_values(cloud, options.environ, region), **values}
    values["storage_urls"] = tuple(values.get("storage_urls", ()))
    if values["storage_urls"] and "os_storage_url" not in given:
        values["os_storage_url"] = values["storage_urls"][0]
    return LoginOptions(**values)


def _ignored_variables(flags: Collection[str]) -> list[str]:
    """Fields whose variables are ignored because the command line selects another login method.

    Otherwise ST_KEY from the shell's profile would override --os-username on the command line,
    an old OS_AUTH_TOKEN would override both, and a rejected --os-auth-token would silently be
    replaced by another user's token.
    """
    if "os_cloud" in flags:
        return [*_OF_CLOUD]
    old = any(field in flags for field in _OLD_LOGIN)
    new = any(field in flags for field in _NEW_LOGIN)
    ignored: list[str] = ["os_cloud"] if old or new or "os_auth_token" in flags else []
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


#: Keys of a cloud's login; an option of Swift has the same name, after os_.
_CLOUD_AUTH = (
    "auth_url", "username", "user_id", "password", "user_domain_id", "user_domain_name",
    "project_id", "project_name", "project_domain_id", "project_domain_name", "tenant_id",
    "tenant_name", "application_credential_id", "application_credential_name",
    "application_credential_secret",
)  # fmt: skip
_CLOUD_TOKEN = {"token": "os_auth_token"}  # nosec B105 # names, not a token
_CLOUD_DEFAULT_DOMAIN = ("default_domain_id", "default_domain_name")
_CLOUD_SERVICE = "object-store"


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
        from requests import RequestException
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
    # openstacksdk passes over the others, and would read one that another user places only now.
    checked = [
        [file for file in some if os.access(file, os.R_OK)]
        for some in (files, secure_files, loader.VENDOR_FILES)
    ]
    for file in chain(*checked):
        (read_text if file in (first, secure) else read_found)(file)
    what = f"--os-cloud {name}"
    try:
        with warnings.catch_warnings():  # of features that are not used
            warnings.simplefilter("ignore")
            config = loader.OpenStackConfig(
                config_files=checked[0],
                secure_files=checked[1],
                vendor_files=checked[2],
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
            return {**_cloud_values_of(cloud, what), "notes": _cloud_notes(written, what)}
    except ConfigException as error:
        raise UsageError(f"{what}: {printable(str(error))}") from error
    except YAMLError:  # as releases for Python 3.10 raise it
        raise UsageError(_unread(what, files)) from None
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        # Their texts may show a value.
        raise UsageError(f"{what}: the cloud is malformed in clouds.yaml") from None
    except RequestException as error:  # of a profile that is a URL, as OVH's
        from ssbench.storage.http.session import reason_of  # loads slowly

        url = shown_url(str(error.request.url)) if error.request else ""
        raise UsageError(f"{what}: its profile {url}: {reason_of(error)}") from error


def _unread(what: str, files: Sequence[str]) -> str:
    """Why openstacksdk took none of the files."""
    files = list(dict.fromkeys(files))
    if present := [file for file in files if os.path.exists(file)]:
        return f"{what}: not readable, or not YAML: {', '.join(present)}"
    return f"{what}: no clouds.yaml: looked for {', '.join(files)}"


def _cloud_values_of(cloud: Any, what: str) -> dict[str, Any]:
    """The values of an openstack.config.cloud_region.CloudRegion.

    :raises UsageError: a key of the login has no option.
    :raises AttributeError, LookupError, TypeError, ValueError: the cloud is malformed.
    """
    config: Mapping[str, Any] = cloud.config
    unknown = sorted({*config["auth"]} - {*_CLOUD_AUTH, *_CLOUD_TOKEN, *_CLOUD_DEFAULT_DOMAIN})
    if unknown:
        keys = printable(first_of(unknown, 10))
        raise UsageError(f"{what}: ssbench does not support {keys} in auth of clouds.yaml")
    auth = {**config, **config["auth"]}  # a user or password may be at both places
    domain = {"domain_id": auth.get("default_domain_id")}
    domain["domain_name"] = None if domain["domain_id"] else auth.get("default_domain_name")
    for whose in ("user", "project"):
        if not any(auth.get(f"{whose}_{key}") for key in domain):
            auth |= {f"{whose}_{key}": value for key, value in domain.items()}
    interface = cloud.get_interface(_CLOUD_SERVICE)
    verify, cert = cloud.get_requests_verify_args()
    cert_path, key_path = cert if isinstance(cert, tuple) else (cert, None)
    found = {
        **{option: auth.get(key) for key, option in _CLOUD_TOKEN.items()},
        **{f"os_{key}": auth.get(key) for key in _CLOUD_AUTH},
        "os_region_name": cloud.get_region_name(_CLOUD_SERVICE),
        "os_endpoint_type": ",".join(interface) if isinstance(interface, list) else interface,
        "os_service_type": cloud.get_service_type(_CLOUD_SERVICE),
        "os_service_name": cloud.get_service_name(_CLOUD_SERVICE),
        "os_storage_url": cloud.get_endpoint(_CLOUD_SERVICE),
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


def _cloud_notes(cloud: Mapping[str, Any], what: str) -> tuple[str, ...]:
    """What YAML may have changed: 0123 without quotes is 83, and yes is True.

    :param cloud: as it was read.
    """
    places = {
        **{
            key: cloud.get(key) for key in ("region_name", "object_store_region_name", *_CLOUD_AUTH)
        },
        **{f"auth.{key}": value for key, value in cloud.get("auth", {}).items()},
    }
    changed = [key for key, value in places.items() if not isinstance(value, str | list | None)]
    if not changed:
        return ()
    keys = printable(first_of(changed, 10))
    return (
        f"{what}: YAML takes {keys} of clouds.yaml for something else than text (a number, a date,"
        " yes or no), so what is sent may not be what is written: use quotes",
    )
