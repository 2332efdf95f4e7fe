"""Several identities (tenants) of one store: users of Swift, or access keys of S3.

A file names them. The master logs each of them in; a worker opens a driver for each, with
connections and credentials of its own. Container i belongs to identity i mod n, and with it all
that is in it: the identity asks for it in the run, as in preparation and clean-up
(``core.workload.division``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from inspect import getmembers, signature
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec.structs import replace

from ssbench.core.errors import AuthError, RejectedError, SsbenchError, StorageError, UsageError
from ssbench.core.model import MAX_IDENTITIES, Job, Timing
from ssbench.core.naming import container_parts
from ssbench.core.option import Option
from ssbench.core.scenario.checks import ValidationErrors, member
from ssbench.core.scenario.syntax import read_object
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.core.text import plural, printable
from ssbench.core.units import kind, preview
from ssbench.core.workload.division import identity_of
from ssbench.host.files import read_with_mode
from ssbench.storage.base import (
    Access,
    Action,
    ContainerEntry,
    CredentialsProvider,
    OpenStore,
    StoreLimits,
    StoreState,
    check_listed,
    number_of,
)
from ssbench.storage.options import Identity, StoreOptions, variables_of

if TYPE_CHECKING:
    from ssbench.storage.base import ObjectStore, StoreAdmin

FLAG = "--identities"
KEY = "identities"  #: in the file, in ``StorageSettings.store`` and in payloads of credentials
_LONGEST = 8192  #: characters of a value in the file, such as a session token
_LONGEST_NAME = 100  #: characters
_LOGINS = 16  #: at once


def read_identities(
    options: StoreOptions, path: str, fields: Sequence[Option], users: Collection[str]
) -> StoreOptions:
    """The same with the identities of the file.

    :param options: of a store that has some.
    :param fields: the options of the store that an identity may have.
    :param users: names of those that name the user.
    :raises UsageError: the file is not valid, or the command line names a user as well. No value is
        shown.
    """
    own = [option for option in fields if option.secret or option.name in users]
    also = [option.flags[0] for option in own if option.name in options.given]
    if also:
        raise UsageError(f"{FLAG} says who the users are: leave out {' and '.join(also)}")
    text, mode = read_with_mode(path, FLAG)
    notes: tuple[str, ...] = ()
    if mode & 0o077:
        notes = (
            f"{FLAG} {printable(path)}: others may read this file, which holds keys (mode"
            f" {mode:04o}): chmod 600 {printable(path)}",
        )
    variables = {name for option in own for name in variables_of(option)}
    names = {option.name for option in own}
    keys = {option.name.removeprefix(f"{options.driver}_"): option.name for option in fields}
    return replace(
        options,
        tenants=parse_identities(text, path, keys, users),
        tenant_notes=notes,
        environ={name: each for name, each in options.environ.items() if name not in variables},
        site={name: each for name, each in options.site.items() if name not in names},
    )


def parse_identities(
    text: bytes, path: str, keys: Mapping[str, str], users: Collection[str]
) -> tuple[Identity, ...]:
    """The identities in the text of a file: see docs/reference/authentication.rst.

    :param keys: of an entry -> options of the store; those of ``users`` name a user.
    :raises UsageError: with every error, by its place. No value is shown.
    """
    faults = ValidationErrors(f"{FLAG} {path}")
    found = read_object(text, faults, "file") or {}
    faults.raise_any()
    entries = found.get(KEY)
    if not isinstance(entries, list) or len(found) != 1:
        faults.add(KEY, "the file has to have this key and no other", "a list of identities")
    elif not 2 <= len(entries) <= MAX_IDENTITIES:
        faults.add(KEY, f"{len(entries)} in the list", f"from 2 to {MAX_IDENTITIES} identities")
    faults.raise_any()
    identities: dict[str, Identity] = {}
    for at, entry in enumerate(cast("list[object]", entries)):
        place = f"{KEY}[{at}]"
        given = _entry(entry, place, keys, faults)
        if given is None:
            continue
        who = next((given[key] for key in keys if key in given and keys[key] in users), "")
        if not who:
            names = " or ".join(key for key in keys if keys[key] in users)
            faults.add(place, "nothing says who it is", f"give it {names}")
        name = given.pop("name", who)
        if name in identities:
            faults.add(place, f"the name {preview(name)} is there twice", 'give each a "name"')
        identities[name] = Identity(name, {keys[key]: value for key, value in given.items()})
    faults.raise_any()
    return tuple(identities.values())


def _entry(
    entry: object, place: str, keys: Mapping[str, str], faults: ValidationErrors
) -> dict[str, str] | None:
    """The keys and values of an identity; None if one is not valid."""
    if not isinstance(entry, dict):
        faults.add(place, f"{kind(entry)} is no identity", 'as {"name": ..., ...}')
        return None
    given = {}
    for key, value in entry.items():
        if key not in ("name", *keys):
            faults.add(member(place, key), "no such key", f"one of name, {', '.join(keys)}")
        elif not isinstance(value, str) or not value.strip() or len(value) > _LONGEST:
            faults.add(member(place, key), "not a text", f"1 to {_LONGEST} characters in quotes")
        elif key == "name" and len(value) > _LONGEST_NAME:
            faults.add(member(place, key), "too long", f"at most {_LONGEST_NAME} characters")
        else:
            given[key] = value
    return given if len(given) == len(entry) else None


def options_of_each(options: StoreOptions) -> Iterator[tuple[str, StoreOptions]]:
    """Name and options of each identity; without any, "" and the options."""
    for each in options.tenants:
        given = {**options.given, **each.given}
        yield each.name, replace(options, given=given, identities=None, tenants=())
    if not options.tenants:
        yield "", options


class IdentitiesLogin:
    """Implements ``ssbench.storage.base.CredentialsProvider`` for all identities together.

    :param open_one: the provider of one identity.
    :raises UsageError: as of an identity's provider; the message names the identity.
    """

    def __init__(
        self, options: StoreOptions, open_one: Callable[[StoreOptions], CredentialsProvider]
    ) -> None:
        self._serials = count(1)
        self._providers: dict[str, CredentialsProvider] = {}
        for name, own in options_of_each(options):
            with _naming(name, f" (an identity's own values are in the file of {FLAG})"):
                self._providers[name] = open_one(own)
        each = [*self._providers.values()]
        notes = [note for provider in each for note in provider.notes]
        self.notes: Sequence[str] = [*dict.fromkeys([*options.tenant_notes, *notes])]
        self.where = each[0].where
        self._issued: list[Credentials] = []

    def __repr__(self) -> str:
        return f"<IdentitiesLogin of {len(self._providers)}>"

    def log_in(self) -> Access:
        """Log all of them in.

        :raises AuthError, UsageError: as of one of them, which the message names; and how many more
            there are.
        """
        found = self._each(lambda provider: provider.log_in())
        failed = [each for each in found if isinstance(each, SsbenchError)]
        if failed:
            more = len(failed) - 1
            raise type(failed[0])(
                f"{failed[0]}" + (f"; {plural(more, 'more identity')} failed" if more else "")
            )
        accesses = cast("list[Access]", found)
        self._issued = [access.credentials for access in accesses]
        own = [access.settings for access in accesses]
        urls = dict.fromkeys(url for each in own for url in each.get("urls", ()))
        settings = {
            **own[0],
            "urls": tuple(urls),
            KEY: [(name, each) for name, each in zip(self._providers, own, strict=True)],
        }
        secret = any(access.password_equivalent for access in accesses)
        return Access(settings, self._credentials(), secret)

    def renew(self) -> Credentials:
        """New credentials of all. One whose renewal fails keeps what it has: the store's answers
        to it are its errors in the report.

        :raises AuthError: all failed, and for some there may be others later.
        :raises RejectedError: there are no others for any.
        """
        found = self._each(lambda provider: provider.renew())
        failed = [each for each in found if isinstance(each, SsbenchError)]
        rejected = [at for at, each in enumerate(found, 1) if isinstance(each, RejectedError)]
        if len(failed) == len(found) and len(rejected) in (0, len(found)):
            raise (RejectedError if rejected else AuthError)(str(failed[0]))
        self._issued = [
            new if isinstance(new, Credentials) else old
            for new, old in zip(found, self._issued, strict=True)
        ]
        return replace(self._credentials(), rejected=tuple(rejected))

    def _each(self, call: Callable[[CredentialsProvider], Any]) -> list[Any]:
        """What the call returns for each, or its SsbenchError."""

        def outcome(name: str) -> Any:
            try:
                with _naming(name):
                    return call(self._providers[name])
            except SsbenchError as error:
                return error

        with ThreadPoolExecutor(_LOGINS) as pool:
            return [*pool.map(outcome, self._providers)]

    def _credentials(self) -> Credentials:
        ends = [each.expires_at for each in self._issued if each.expires_at is not None]
        payload = {KEY: [each.payload for each in self._issued]}
        return Credentials(next(self._serials), min(ends, default=None), payload)


@contextmanager
def _naming(name: str, more: str = "") -> Iterator[None]:
    """Errors within name the identity, and end with ``more``."""
    try:
        yield
    except (AuthError, UsageError) as error:
        kind_of = UsageError if isinstance(error, UsageError) else type(error)
        raise kind_of(f"identity {preview(name)}: {error}{more}") from error


def names_of(settings: StorageSettings) -> list[str]:
    """The names of the identities; [] if there is but one, without a name."""
    return [name for name, _ in settings.store.get(KEY, ())]


def settings_of_each(settings: StorageSettings) -> list[StorageSettings]:
    """What the driver of each identity is opened with."""
    return [
        replace(
            settings,
            store=own,
            credentials=tuple(_credentials_of(each, at) for each in settings.credentials),
        )
        for at, (_, own) in enumerate(settings.store[KEY])
    ]


def _credentials_of(credentials: Credentials, identity: int) -> Credentials:
    return replace(credentials, payload=credentials.payload[KEY][identity])


class _Several:
    """The stores of all identities, as one."""

    def __init__(self, settings: StorageSettings, stores: Sequence[OpenStore]) -> None:
        self._stores = stores
        self._names = names_of(settings)
        self.concurrency: Literal["greenlets", "threads"] = stores[0].concurrency

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._stores!r}>"

    @property
    def credentials_serial(self) -> int:
        return self._stores[0].credentials_serial

    def set_credentials(self, credentials: Credentials) -> None:
        for at, store in enumerate(self._stores):
            store.set_credentials(_credentials_of(credentials, at))

    def close(self) -> None:
        for store in self._stores:
            store.close()


class IdentitiesStorage(_Several):
    """Implements ``ssbench.storage.base.ObjectStore``: each operation by the driver of its
    identity."""

    def __init__(self, settings: StorageSettings, stores: Sequence[ObjectStore]) -> None:
        super().__init__(settings, stores)
        self._drivers = stores
        urls = list(settings.store.get("urls", ()))
        #: By identity: index of a URL of its own -> the index among all.
        self._urls = [
            [urls.index(url) for url in own.get("urls", ())] for _, own in settings.store[KEY]
        ]
        self.addresses: list[str] = []
        #: By identity: the numbers of its own addresses among all.
        self._address_numbers: list[list[int]] = [[] for _ in stores]
        self.actions: dict[int, Action] = {
            operation: self._action([store.actions[operation] for store in stores])
            for operation in stores[0].actions
        }

    def moving(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for store in self._drivers:
            found |= getattr(store, "moving", dict)()
        return found

    def coding(self) -> str:
        found = (getattr(store, "coding", str)() for store in self._drivers)
        return next(filter(None, found), "")

    def connect(self, count: int) -> None:
        """Each identity has its share of the users."""
        for store in self._drivers:
            store.connect(-(-count // len(self._drivers)))

    def _action(self, actions: Sequence[Action]) -> Action:
        identities = len(actions)

        def act(job: Job, deadline_ns: int) -> Timing:
            identity = identity_of(job, identities)
            try:
                timing = actions[identity](job, deadline_ns)
            except StorageError as error:
                self._place(error, identity)
                raise
            return self._placed(timing, identity)

        return act

    def _placed(self, timing: Timing, identity: int) -> Timing:
        """With URL and address as all identities together number them."""
        urls = self._urls[identity]
        if timing.url < len(urls) and urls[timing.url] != timing.url:
            timing = timing._replace(url=urls[timing.url])
        if timing.parts and urls:
            count, slowest, url, *times = timing.parts
            timing = timing._replace(parts=(count, slowest, urls[url], *times))
        if timing.address:
            timing = timing._replace(address=self._address(timing.address, identity))
        return timing

    def _place(self, error: StorageError, identity: int) -> None:
        urls = self._urls[identity]
        error.url = urls[error.url] if error.url < len(urls) else error.url
        if error.address:
            error.address = self._address(error.address, identity)
        if error.timing is not None:
            error.timing = self._placed(error.timing, identity)
        error.identity = identity + 1
        error.detail = f"identity {preview(self._names[identity])}: {error.detail}"

    def _address(self, number: int, identity: int) -> int:
        numbers = self._address_numbers[identity]
        if number > len(numbers):
            own: Sequence[str] = getattr(self._drivers[identity], "addresses", ())
            numbers += [number_of(name, self.addresses) for name in own[len(numbers) :]]
        return numbers[number - 1]


class IdentitiesAdmin(_Several):
    """Implements ``ssbench.storage.base.StoreAdmin``, and the others there that the store's admin
    implements: a container by the admin of its identity."""

    def __init__(self, settings: StorageSettings, stores: Sequence[StoreAdmin]) -> None:
        super().__init__(settings, stores)
        self._admins, self._base = stores, settings.container_base
        self._listed_max = settings.listed_max
        for name, method in getmembers(stores[0], callable):
            if not name.startswith("_") and "container" in [*signature(method).parameters][:1]:
                setattr(self, name, partial(self._by_container, name))
        if hasattr(stores[0], "state"):
            self.state = partial(self._state, stores[0])

    @staticmethod
    def _state(first: Any) -> StoreState:
        """The space of one says nothing of the others'."""
        return StoreState(None, first.state().seconds_ahead)

    def limits(self) -> StoreLimits:
        return self._admins[0].limits()

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        """Each container as its identity lists it: others may have one of the same name."""
        read = 0
        while True:
            pages = [admin.list_containers(prefix, marker, limit) for admin in self._admins]
            read += max(map(len, pages))
            check_listed(read, max(self._listed_max, limit), "the containers")
            # Behind the last entry of a page there may be more in its account.
            end = min((page[-1].name for page in pages if page), default="")
            found = [
                entry
                for at, page in enumerate(pages)
                for entry in page
                if self._identity(entry.name) == at and entry.name <= end
            ]
            if found or not end:
                return sorted(found, key=attrgetter("name"))
            marker = end

    def _by_container(self, name: str, container: str, *args: Any, **kwargs: Any) -> Any:
        identity = self._identity(container)
        try:
            return getattr(self._admins[identity], name)(container, *args, **kwargs)
        except StorageError as error:
            error.identity = identity + 1
            error.detail = f"identity {preview(self._names[identity])}: {error.detail}"
            raise

    def _identity(self, container: str) -> int:
        parts = container_parts(container, self._base)
        return parts[0] % len(self._admins) if parts else 0
