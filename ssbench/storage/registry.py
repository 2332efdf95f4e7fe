"""The table of stores: all that the engine knows of a store is its row.

A store outside of the package is named by the place of its class, ``package.module:Class``; the
class may carry its row as ``ROW``. A new store in the package is a row here and a driver.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from msgspec import Struct, structs

from ssbench.core.errors import RejectedError, UsageError
from ssbench.core.operations import parameters_of
from ssbench.core.operations import row_of as operation_row
from ssbench.core.option import Option
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.options import StoreOptions, option_values, shown_url, variables_of

if TYPE_CHECKING:
    from ssbench.storage.base import Access, CredentialsProvider, ObjectStore, StoreAdmin


class StoreRow(Struct, frozen=True):
    """A store. Its parts are named as ``module:Name``, and imported when they are used."""

    name: str  #: for ``--storage``
    driver: str  #: an ObjectStore
    admin: str = ""  #: a StoreAdmin; "": the driver is both
    options: str = ""  #: a tuple of Options: what the user may say of the store; "": nothing
    #: A CredentialsProvider. "": secret options are the credentials, the others the settings.
    credentials: str = ""
    urls: str = ""  #: name of the option that lists addresses, for the limits of connections
    #: Names in ``StorageSettings.store`` of files and directories that workers use.
    paths: tuple[str, ...] = ()
    #: (name, value, path): of those that workers use where a setting has this value.
    paths_of_values: tuple[tuple[str, str, str], ...] = ()
    is_real: bool = True  #: moves data
    #: Keys of a scenario, and other abilities, that not every store has; this one does.
    features: tuple[str, ...] = ()
    checksums: tuple[str, ...] = ()  #: of values.CHECKSUMS: those that it can have
    has_unmarked: bool = False  #: it may have containers of ssbench 0.3.9, which set no mark
    #: Options that name a user, of which an entry of --identities has one; (): the store has no
    #: identities. Further ones that an entry may have.
    identified_by: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()


_PAGES = ("list_limit", "list_delimiter")  #: of a store whose listings have pages
#: Of ``upload``: it sends real files; it compares, or returns, their MD5.
UPLOADS, CHECKSUMS = "uploads of files", "checksums"
FREE_SPACE = "free space"  #: ``state`` of the driver may give it
_HTTP = ("headers", "populate_headers", "expect_continue", "keep_alive", "large_read")
_CERTIFICATE = ("cert_path", "cert_key_path")
_ALL = (UPLOADS, CHECKSUMS, "delete_after", "policy", "large_object", *_HTTP, *_PAGES)
_SUMS = ("crc32c", "crc64nvme", "sha256", "md5")
#: Name -> row.
ROWS = {
    row.name: row
    for row in (
        StoreRow(
            "swift",
            driver="ssbench.storage.swift.driver:SwiftStorage",
            admin="ssbench.storage.swift.admin:SwiftAdmin",
            options="ssbench.storage.swift.options:OPTIONS",
            credentials="ssbench.storage.swift.login:provider",
            urls="storage_urls",
            paths=_CERTIFICATE,
            features=(*_ALL, FREE_SPACE, "versioning"),
            checksums=("md5",),
            has_unmarked=True,
            identified_by=(
                "user",
                "os_username",
                "os_user_id",
                "os_application_credential_id",
                "os_application_credential_name",
            ),
            identity=(
                "key",
                "os_password",
                "os_application_credential_secret",
                "os_user_domain_id",
                "os_user_domain_name",
                "os_project_id",
                "os_project_name",
                "os_project_domain_id",
                "os_project_domain_name",
            ),
        ),
        StoreRow(
            "s3",
            driver="ssbench.storage.s3.driver:S3Storage",
            admin="ssbench.storage.s3.admin:S3Admin",
            options="ssbench.storage.s3.options:OPTIONS",
            credentials="ssbench.storage.s3.login:S3Login",
            urls="s3_endpoints",
            paths=_CERTIFICATE,
            features=(
                UPLOADS,
                CHECKSUMS,
                "large_object",
                "checksum_in",
                "versioning",
                "object_lock",
                *_HTTP,
                *_PAGES,
            ),
            checksums=_SUMS,
            identified_by=("s3_access_key",),
            identity=("s3_secret_key", "s3_session_token", "s3_bucket"),
        ),
        StoreRow(
            "webdav",
            driver="ssbench.storage.webdav.driver:WebdavStorage",
            admin="ssbench.storage.webdav.admin:WebdavAdmin",
            options="ssbench.storage.webdav.options:OPTIONS",
            credentials="ssbench.storage.webdav.login:WebdavLogin",
            urls="urls",
            paths=_CERTIFICATE,
            features=(UPLOADS, CHECKSUMS, FREE_SPACE, *_HTTP),
        ),
        StoreRow(
            "file",
            driver="ssbench.storage.file.driver:FileStorage",
            admin="ssbench.storage.file.admin:FileAdmin",
            options="ssbench.storage.file.login:OPTIONS",
            credentials="ssbench.storage.file.login:FileAccess",
            paths=("path",),
            paths_of_values=(("page_cache", "drop-all", "/proc/sys/vm/drop_caches"),),
            features=(UPLOADS, FREE_SPACE, *_PAGES),
        ),
        StoreRow(
            "noop",
            driver="ssbench.storage.noop:NoopStorage",
            features=(*_ALL, "checksum_in", "versioning", "object_lock"),
            checksums=_SUMS,
            is_real=False,
        ),
    )
}


def row_of(name: str, allowed: Collection[str] | None = None) -> StoreRow:
    """The row of a store. Loads the module of one outside of the package.

    :param allowed: modules that may be loaded; None: any.
    :raises UsageError: there is no such store, or its module may not or can't be loaded.
    """
    row = ROWS.get(name)
    if row is not None:
        return row
    module, colon, _ = name.partition(":")
    if not colon:
        raise UsageError(
            f'store "{name}" is unknown: one of {", ".join(ROWS)}, or your own as'
            ' "package.module:Class"'
        )
    if allowed is not None and module not in allowed:
        raise UsageError(
            f'driver "{name}" is not loaded here: start this worker with --allow-driver {module}'
            " if you trust that module"
        )
    own = getattr(load(name), "ROW", None)
    return structs.replace(own, name=name) if isinstance(own, StoreRow) else StoreRow(name, name)


def load(place: str) -> Any:
    """Import ``module:Name``.

    :raises UsageError: it can't be imported.
    """
    module, _, attribute = place.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # whatever a module outside of the package raises
        what = str(error) if isinstance(error, ImportError | AttributeError) else repr(error)
        raise UsageError(f'driver "{place}" can\'t be loaded: {what}') from error


def options_of(row: StoreRow) -> tuple[Option, ...]:
    """The store's own options."""
    return cast("tuple[Option, ...]", load(row.options)) if row.options else ()


def with_identities(options: StoreOptions) -> StoreOptions:
    """The same with the identities of its file read, if there is one.

    :raises UsageError: the store has none; or as of ``read_identities``.
    """
    if not options.identities:
        return options
    from ssbench.storage.identities import read_identities  # few runs have some

    row = row_of(options.driver)
    if not row.identified_by:
        having = " and ".join(each.name for each in ROWS.values() if each.identified_by)
        raise UsageError(
            f'--identities {options.identities}: the store "{row.name}" has no identities;'
            f" {having} have them"
        )
    fields = [each for each in options_of(row) if each.name in (*row.identified_by, *row.identity)]
    return read_identities(options, options.identities, fields, row.identified_by)


def open_provider(options: StoreOptions) -> CredentialsProvider:
    """The credentials provider of a store.

    :raises UsageError: as ``row_of``, or the options are incomplete or not valid.
    """
    row = row_of(options.driver)
    if options.tenants:
        from ssbench.storage.identities import IdentitiesLogin  # few runs have some

        return IdentitiesLogin(options, open_provider)
    if row.credentials:
        return cast("CredentialsProvider", load(row.credentials)(options))
    return GivenCredentials(options_of(row), options)


def url_count(options: StoreOptions) -> int:
    """How many addresses the user gave; at least 1."""
    row = row_of(options.driver)
    listed = [option for option in options_of(row) if option.name == row.urls]
    return len(option_values(listed, options).get(row.urls, ())) or 1


def destination_of(settings: StorageSettings) -> dict[str, Any]:
    """Where the load goes, as far as the store's settings say: ``RunHeader.store``."""
    own = settings.store
    values = {"urls": own.get("urls") or own.get(row_of(settings.driver).urls)}
    identities = own.get("identities", ())
    for key in ("region", "bucket", "path"):
        of_each = {each.get(key) for _, each in identities} or {own.get(key)}
        values[key] = of_each.pop() if len(of_each) == 1 else None  # identities have others
    values["identities"] = [name for name, _ in identities]
    return {key: _shown(value) for key, value in values.items() if value}


def _shown(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    return shown_url(str(value)) if "://" in str(value) else str(value)


def secret_variables(options: StoreOptions) -> set[str]:
    """Environment variables that log in to any store in the package, or hold a secret of this one.
    No child needs those of the package: the master reads them."""
    own = [each for each in options_of(row_of(options.driver)) if each.secret]
    of_package = [each for row in ROWS.values() for each in options_of(row)]
    return {name for each in (*own, *of_package) for name in variables_of(each)}


class GivenCredentials:
    """The provider of a store without a login: what the user gave is all there is."""

    notes: Sequence[str] = ()
    where = ""

    def __init__(self, rows: Sequence[Option], options: StoreOptions) -> None:
        from ssbench.storage.base import Access  # the table of options needs none

        values = option_values(rows, options)
        secrets = {
            each.name: values.pop(each.name) for each in rows if each.secret and each.name in values
        }
        self._access = Access(values, Credentials(1, None, secrets))

    def log_in(self) -> Access:
        return self._access

    def renew(self) -> Credentials:
        raise RejectedError("the store rejected the given credentials")


class Permissions(Struct, frozen=True):
    """What a worker lets a master use on its host. None: all.

    :param drivers: modules outside of the package that may be loaded.
    :param paths: absolute; files and directories, with all that is in them.
    :param hosts: names or addresses of stores.
    """

    drivers: Collection[str] | None = None
    paths: Collection[str] | None = None
    hosts: Collection[str] | None = None

    def check(self, row: StoreRow, settings: StorageSettings) -> None:
        """:raises UsageError: a run with these settings needs more."""
        for path in paths_of(row, settings) if self.paths is not None else ():
            real = os.path.realpath(path)
            allowed = map(os.path.realpath, self.paths or ())
            if not any(os.path.commonpath([real, each]) == each for each in allowed):
                raise UsageError(
                    f"{path} is not used here: start this worker with --allow-path {path} if"
                    " masters may read and write there"
                )
        for url in settings.store.get("urls", ()):
            self.check_host(urlsplit(url).hostname or "")

    def check_host(self, host: str) -> None:
        """:raises UsageError: no connection to this host is permitted."""
        if self.hosts is not None and _plain_host(host) not in map(_plain_host, self.hosts):
            raise UsageError(
                f"no request is sent to {host} from here: start this worker with --allow-host"
                f" {host} if it should be"
            )


def _plain_host(host: str) -> str:
    """A name or an address in one of its forms."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        return str(ip_address(bare.replace("%25", "%")))  # a zone as in parse_storage_url
    except ValueError:
        return bare.removesuffix(".").lower()


def paths_of(row: StoreRow, settings: StorageSettings) -> list[str]:
    """Files and directories that a worker with these settings uses."""
    store = settings.store
    named = [store.get(name) for name in row.paths]
    named += [path for name, value, path in row.paths_of_values if store.get(name) == value]
    return [str(path) for path in (*named, settings.contents.get("path")) if path]


def open_store(
    settings: StorageSettings, seed: int | None = None, *, permitted: Permissions | None = None
) -> ObjectStore:
    """Open the data path of the settings' store, for this thread's gevent hub.

    :param seed: of the driver's random choices (which storage URL); None: not reproducible.
    :raises UsageError: as ``row_of``, or the settings need more than is permitted, or the driver
        rejects them.
    """
    permitted = permitted or Permissions()
    row = row_of(settings.driver, permitted.drivers)
    permitted.check(row, settings)
    driver = load(row.driver)
    if settings.store.get("identities"):
        from ssbench.storage.identities import IdentitiesStorage, settings_of_each

        each = settings_of_each(settings)
        for own in each:
            permitted.check(row, own)
        stores = [driver(own, seed) for own in each]
        return cast("ObjectStore", IdentitiesStorage(settings, stores))
    return cast("ObjectStore", driver(settings, seed))


def check_capabilities(
    settings: StorageSettings, operations: Collection[int], given: Mapping[str, object]
) -> list[tuple[str, str]]:
    """What a scenario asks for that its store lacks: its key, and a line with the stores that have
    it.

    :param operations: of the scenario.
    :param given: the keys of the scenario that have a value. Those of operations count if it isn't
        the default.
    :raises UsageError: as ``open_store``.
    """
    row = row_of(settings.driver)
    supported = _operations_of(row)
    if supported is None:
        store = open_store(settings)
        supported = store.actions
        store.close()
    lines = []
    for number in sorted(set(operations) - set(supported)):
        having = [each.name for each in ROWS.values() if number in (_operations_of(each) or ())]
        name = operation_row(number).name.lower().removeprefix("operation ")
        lines.append(("operations", _lacking(row.name, f"operation {name}", having)))
    defaults = {key: each.default for key, each in parameters_of(operations).items()}
    for key in dict.fromkeys(key for each in ROWS.values() for key in each.features):
        if key in given and given[key] != defaults.get(key) and key not in row.features:
            having = [each.name for each in ROWS.values() if key in each.features]
            lines.append((key, _lacking(row.name, key, having)))
    checksum = str(given.get("checksum", "none"))
    if checksum in row.checksums:
        from ssbench.storage.http.verify import begin_of  # few runs need it

        begin_of(checksum)
    elif checksum != "none":
        having = [each.name for each in ROWS.values() if checksum in each.checksums]
        lines.append(("checksum", _lacking(row.name, f"checksum {checksum}", having)))
    return lines


def _operations_of(row: StoreRow) -> Collection[int] | None:
    """The operations that a driver's class lists; None: only an instance lists them."""
    return cast("Collection[int] | None", getattr(load(row.driver), "operations", None))


def _lacking(store: str, what: str, having: Sequence[str]) -> str:
    stores = f"stores that have it: {', '.join(having)}" if having else "no other store has it"
    return f'the store "{store}" has no {what}; {stores}'


def open_admin(settings: StorageSettings) -> StoreAdmin:
    """Open the admin of the settings' store, for this thread's gevent hub.

    :raises UsageError: as ``open_store``.
    """
    row = row_of(settings.driver)
    admin = load(row.admin or row.driver)
    if settings.store.get("identities"):
        from ssbench.storage.identities import IdentitiesAdmin, settings_of_each

        each = [admin(own, None) for own in settings_of_each(settings)]
        return cast("StoreAdmin", IdentitiesAdmin(settings, each))
    return cast("StoreAdmin", admin(settings, None))
