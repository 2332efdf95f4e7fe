"""Options of a store: from the command line, files and the environment to their values."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.core.hiding import Hiding
from ssbench.core.option import AssumedUrl, Option, is_loopback, of_field, with_scheme
from ssbench.core.settings import StorageSettings
from ssbench.core.text import printable
from ssbench.host.files import read_bytes, read_text

if TYPE_CHECKING:
    import ssl

    from ssbench.core.workload.division import Division

_FILE = "_file"  #: ``key_file=PATH`` names a file with the value of the secret option ``key``
_SHOWN = 200  #: characters of a URL
#: A host as of core.hostlist; an IPv6 address has colons in its brackets.
_HOST_RANGE = re.compile(r"(?:\w+://)?[\w.-]+(?:\{[^}/]*\}|\[[\d,-]+\])", re.ASCII)


class Identity(Hiding, frozen=True):
    """One of several users of a store."""

    HIDDEN = ("given",)

    name: str  #: for reports
    given: Mapping[str, Any] = {}  #: names of the store's options -> values


class StoreOptions(Hiding, frozen=True):
    """The user's options for a store. The repr shows none of their values.

    :param driver: name of a row, or ``package.module:Class``.
    :param given: on the command line: names of options -> values.
    :param site: in the site's file, likewise.
    """

    HIDDEN = ("given", "environ", "site")

    driver: str = "swift"
    given: Mapping[str, Any] = {}
    environ: Mapping[str, str] = {}
    #: How to reach any store; the login adds what the workers need of this one.
    settings: StorageSettings = StorageSettings()
    # fmt: off
    identities: Annotated[str | None,
        of_field("--identities", str, "store",
            "file with several users (Swift) or access keys (S3), in JSON or TOML: the users of "
            "the scenario are divided among them, and reports have figures of each",
            metavar="FILE", file="r")] = None
    # fmt: on
    #: Of that file, once it is read; (): the options say who asks.
    tenants: tuple[Identity, ...] = ()
    tenant_notes: tuple[str, ...] = ()  #: on that file, to show to the user
    remote_workers: bool = False  #: workers may run on other hosts than the master
    measures: bool = True  #: a run follows; otherwise notes on what it measures are left out
    site: Mapping[str, Any] = {}

    @property
    def division(self) -> "Division | None":
        """Of the load, among the identities; None: there is one."""
        if not self.tenants:
            return None
        from ssbench.core.workload.division import Division  # few runs have some

        return Division(len(self.tenants))

    @property
    def timeouts_s(self) -> tuple[float, float]:
        """Of connecting, and of a connection that is silent."""
        return self.settings.connect_timeout_s, self.settings.network_timeout_s


class HttpSettings(Struct, frozen=True):
    """The typed settings of a driver that speaks HTTP; ``StorageSettings.store`` as a map."""

    urls: tuple[str, ...] = ()  #: storage URLs; each request uses one at random
    insecure: bool = False  #: don't verify certificates
    cacert_pem: str = ""  #: text of a CA bundle, "" for the system's
    cert_path: str = ""  #: client certificate and key: paths on the worker's own host
    cert_key_path: str = ""


def variables_of(option: Option) -> tuple[str, ...]:
    """The environment variables that set an option, those of other tools first."""
    own = (f"SSBENCH_STORAGE_{option.name.upper()}",) if option.secret else ()
    return (*(option.variables or own), *option.site_variables)


def parse_storage_options(texts: Iterable[str], rows: Sequence[Option]) -> dict[str, Any]:
    """The values of ``--storage-option KEY=VALUE``, by the store's options.

    :raises UsageError: no such option, a value that is not valid, or a secret, which is not shown.
    """
    known = _by_key(rows)
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        name = key.strip().replace("-", "_")
        option, place = known.get(name), f"--storage-option {name}"
        if not equals:
            raise UsageError(f"--storage-option: expected KEY=VALUE; {_keys(rows)}")
        if option is None:
            raise UsageError(f"{place}: no such key; {_keys(rows)}")
        if option.secret:
            raise UsageError(
                f"{place}: is secret, and a command line can be read by others: set"
                f" {variables_of(option)[0]} in the environment, or name a file that holds it with"
                f" {place}{_FILE}=PATH"
            )
        converted = option.read(value, place)
        values[name] = [*values.get(name, ()), *converted] if option.repeat else converted
    return values


def given_values(given: Mapping[str, object], rows: Sequence[Option]) -> dict[str, Any]:
    """The values of options that a program gives by name: as text, or converted already.

    :raises UsageError: no such option, or a value that is not valid; a secret one is not shown.
    """
    known = _by_key(rows)
    values: dict[str, Any] = {}
    for name, value in given.items():
        option = known.get(name)
        if option is None:
            raise UsageError(f"storage_options: no such key {name!r}; {_keys(rows, secrets=True)}")
        if value is None:  # not given
            continue
        plain = str(value) if isinstance(value, PathLike) else value
        values[name] = option.read(plain, f"storage_options: {name}")
    return values


def _by_key(rows: Sequence[Option]) -> dict[str, Option]:
    """The options by name, and those that name the file of a secret one."""
    files = {f"{row.name}{_FILE}": Option((), row.name) for row in rows if row.secret}
    return {**files, **{row.name: row for row in rows}}


def _keys(rows: Sequence[Option], *, secrets: bool = False) -> str:
    names = (f"{row.name}{_FILE}" if row.secret and not secrets else row.name for row in rows)
    text = ", ".join(sorted(names))
    return f"this store has the keys {text}" if text else "this store has no options"


def option_values(
    rows: Iterable[Option], options: StoreOptions, ignored: Collection[str] = ()
) -> dict[str, Any]:
    """The values of a store's options by name, without those that nothing sets.

    The command line overrides files of secrets, these the environment, that the site's file, and
    that the defaults.

    :param ignored: names of options whose variables and values of the site are not used.
    :raises UsageError: a value that is not valid, or a file that can't be read.
    """
    values: dict[str, Any] = {}
    for option in rows:
        name, given = option.name, options.given
        value = given.get(name)
        if value is None and option.secret and f"{name}{_FILE}" in given:
            path = str(Path(given[f"{name}{_FILE}"]))  # never ""
            value = read_text(path, f"--storage-option {name}{_FILE}").rstrip("\r\n")
        if value is None and name not in ignored:
            variable = next(filter(options.environ.get, variables_of(option)), None)
            if variable is not None:
                value = option.read(options.environ[variable], variable)
        if value is None and name not in ignored:
            value = options.site.get(name)
        if value is None:
            value = option.default
        if value is not None:
            values[name] = value
    return values


def check_http_url(url: str, what: str) -> str:
    """The URL, where it is http or https, with a host and without a password inside; with a scheme,
    where that was left out.

    :raises UsageError: which shows the URL only where no password can be in it.
    """
    url = with_scheme(url)
    try:
        parts = urlsplit(url)
        well_formed = bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, well_formed = urlsplit(""), False
    if "@" in parts.netloc:
        raise UsageError(f"{what} holds a user or password: give those by their own options")
    clean = url.isprintable() and " " not in url
    is_range = _HOST_RANGE.match(url)
    if parts.scheme not in ("http", "https") or not well_formed or not clean or is_range:
        shown = repr(url) if "@" not in url else "(not shown, it holds an @)"
        right = "it should look like http://host:port/path"
        if is_range:
            right = "only --ssh-workers takes ranges of hosts: repeat the option for each URL"
        raise UsageError(f"{what} {shown} is invalid: {right}")
    return url


def is_confidential(url: str) -> bool:
    """Whether nobody else can read what is sent there: by TLS, or on this host."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def scheme_notes(urls: Iterable[str]) -> list[str]:
    """A message for each URL whose scheme was left out."""
    return [url.note for url in urls if isinstance(url, AssumedUrl)]


def shown_url(url: str) -> str:
    """A URL for messages and reports: printable, not long, and without what may be secret: user,
    password and query."""
    scheme, mark, rest = re.split("[?#]", url, maxsplit=1)[0].rpartition("://")
    netloc, slash, path = rest.partition("/")
    return printable(f"{scheme}{mark}{netloc.rpartition('@')[2]}{slash}{path}"[:_SHOWN])


def openstack_option(metavar: str, text: str, *, group: str, name: str = "", **more: Any) -> Option:
    """An option os_x: --os-x, --os_x and OS_X.

    :param name: "": that of the field; see ``named``.
    """
    found = Option((), name, group=group, help=text, metavar=metavar, **more)
    return named(found) if name else found


def named(option: Option) -> Option:
    """With flags and variable by its name, if it has none."""
    if option.flags:
        return option
    name = option.name
    return replace(
        option, flags=(f"--{name.replace('_', '-')}",), aliases=(f"--{name}",),
        variables=(name.upper(),),
    )  # fmt: skip


INSECURE_NOTE = (
    "--insecure: certificates are not verified, so anyone between ssbench and the store "
    "can read the password and the token"
)
_TLS = "TLS"
# fmt: off
#: Options of every store that speaks HTTP.
TLS_OPTIONS = CACERT, CERT, KEY, INSECURE = (
    openstack_option("FILE", "CA certificates to trust [default: the system's]", group=_TLS,
                     name="os_cacert", file="r"),
    openstack_option("FILE", "client certificate (PEM)", group=_TLS, name="os_cert", file="r"),
    openstack_option("FILE", "key of the client certificate, if it is in a file of its own",
                     group=_TLS, name="os_key", file="r", needs="os_cert"),
    Option(("--insecure",), "insecure", bool, group=_TLS,
           help="do not verify certificates; for tests only", variables=("SWIFTCLIENT_INSECURE",)),
)
# fmt: on


def http_settings(urls: Sequence[str], values: Mapping[str, Any]) -> HttpSettings:
    """Settings with the values of ``TLS_OPTIONS``.

    :raises UsageError: a file can't be read, or has no certificate or key that can be used.
    """
    for name in ("os_cert", "os_key"):
        if path := values.get(name):
            read_bytes(path, f"--{name.replace('_', '-')}")
    bundle, pem = values.get("os_cacert", ""), ""
    if bundle:
        pem = read_bundle(bundle, "--os-cacert")
    http = HttpSettings(
        tuple(map(str, urls)),
        values.get("insecure", False),
        pem,
        values.get("os_cert", ""),
        values.get("os_key", ""),
    )
    if bundle or http.cert_path:
        client_context(http)
    return http


def read_bundle(path: str, option: str) -> str:
    """The text of a file of CA certificates.

    :param option: that names it.
    :raises UsageError: it can't be read, or has none.
    """
    # PEM is ASCII, but the comments in a bundle may be in any language and encoding.
    pem = read_bytes(path, option).decode("ascii", "ignore")
    if "-----BEGIN" not in pem:
        raise UsageError(f"{option} {path}: has no certificates in PEM form")
    return pem


def client_context(http: HttpSettings) -> "ssl.SSLContext":
    """A context that verifies servers by its CA bundle or the system's, unless insecure.

    :raises UsageError: a certificate or key, or the file of SSLKEYLOGFILE, can't be used.
    """
    import ssl  # the tables of options need none

    try:
        context = ssl.create_default_context(cadata=http.cacert_pem or None)
    except (ssl.SSLError, ValueError) as error:
        raise UsageError("CA certificates can't be used: no certificates in PEM form") from error
    except OSError as error:  # Python opens it for each context
        raise UsageError(f"SSLKEYLOGFILE {error.filename}: {error.strerror}") from error
    if http.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if http.cert_path:
        try:
            context.load_cert_chain(http.cert_path, http.cert_key_path or None, _no_passphrase)
        except (OSError, UsageError) as error:
            why = str(error) if isinstance(error, UsageError) else error.strerror
            if isinstance(error, ssl.SSLError):
                why = "expected a certificate and its key in PEM form"
                if error.reason == "KEY_VALUES_MISMATCH":
                    why = "the key does not belong to the certificate"
            files = " and ".join(filter(None, [http.cert_path, http.cert_key_path]))
            raise UsageError(f"client certificate {files} can't be used: {why}") from error
    return context


def _no_passphrase() -> str:
    """OpenSSL would ask for it on the terminal."""
    raise UsageError("the private key is encrypted, and ssbench asks for no passphrase")
