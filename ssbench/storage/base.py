"""The interface of storage drivers. One contract test (tests/contract) runs against each driver.

A driver is two classes, ``ObjectStore`` and ``StoreAdmin``, or one class for both. It is
called with StorageSettings and the seed of its random choices (None: not reproducible).

A driver says whether it works with greenlets or with threads. One for greenlets belongs to one
thread and its gevent hub; many greenlets (the users) call it concurrently.
It never retries: the worker decides that. One exception: a request on a kept connection that the
server closed while it was idle is sent again over a new connection. The driver counts this in
``Timing.reconnects``, or in ``StorageError.reconnects`` if the second attempt fails too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from operator import lt, methodcaller
from typing import Any, Literal, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace

from ssbench.core import operations
from ssbench.core.errors import StorageError
from ssbench.core.model import MAX_ADDRESSES, ErrorKind, Job, Timing
from ssbench.core.naming import Naming
from ssbench.core.settings import Credentials
from ssbench.core.text import plural, printable

#: ``action(job, deadline_ns)`` performs the job. The deadline is a perf_counter_ns time (0: none).
#: Returns the Timing of the response, or raises StorageError and nothing else.
Action = Callable[[Job, int], Timing]

_T = TypeVar("_T")
Name = TypeVar("Name", str, bytes)

#: Operation -> name of the method of the drivers in this package that support it.
METHODS: Mapping[int, str] = {
    operations.CREATE: "_write",
    operations.READ: "_read",
    operations.UPDATE: "_write",
    operations.DELETE: "_delete",
    operations.HEAD: "_head",
    operations.POST: "_post",
    operations.LIST: "_list",
    operations.LIST_ALL: "_list_all",
    operations.LIST_RANDOM: "_list_all",
    operations.COPY: "_copy",
    operations.RANGE_READ: "_range_read",
    operations.BULK_DELETE: "_bulk_delete",
    operations.ENSURE: "_ensure",
    operations.REMOVE: "_remove",
    operations.PUT_TAGS: "_put_tags",
    operations.GET_TAGS: "_get_tags",
    operations.CREATE_IF_ABSENT: "_create_if_absent",
    operations.UPDATE_IF_MATCH: "_update_if_match",
    operations.READ_VERSION: "_read_version",
    operations.DELETE_VERSION: "_delete_version",
}


def methods_of(driver: type) -> dict[int, str]:
    """Those of METHODS that a driver has."""
    return {number: name for number, name in METHODS.items() if hasattr(driver, name)}


class ContainerEntry(Struct, frozen=True):
    """An entry of an account's listing."""

    name: str
    object_count: int
    bytes_used: int


class ObjectEntry(NamedTuple):
    """An entry of a container's listing."""

    name: str
    size: int  #: bytes


class OpenUpload(NamedTuple):
    """An upload of an object in parts that was neither completed nor aborted."""

    name: str  #: of the object
    id: str
    begun_at: float = 0.0  #: Unix time, by the store's clock; 0: not reported


class ContainerInfo(Struct, frozen=True):
    """Metadata of a container."""

    policy: str | None  #: its storage policy; None: not reported
    marked: bool  #: has our ownership mark: ssbench created it, or found it empty
    object_count: int | None  #: None: not reported
    #: Own metadata, by name; {} if there is none, or the store has no such thing.
    metadata: Mapping[str, str] = {}


class StoreLimits(Struct, frozen=True):
    """The limits that a store reports (Swift: /info); None for those that it doesn't report."""

    max_object_size: int | None = None
    max_object_name_length: int | None = None  #: bytes of UTF-8
    max_container_name_length: int | None = None
    listing_limit: int | None = None
    policies: Sequence[str] | None = None  #: storage policies, aliases included
    #: Ways to store large objects, as in ``large_object`` -> most parts of one.
    large_objects: Mapping[str, int] | None = None
    min_part_size: int | None = None  #: bytes of a part of a large object, unless it is the last
    bulk_delete_max: int | None = None  #: names per request; 0: there is no bulk delete
    versions: bool | None = None  #: whether containers can keep versions of objects
    versions_in_parts: bool = True  #: whether those of large objects keep their parts


class OpenStore(Protocol):
    """What data path and admin of a driver share."""

    #: How users call it: "greenlets": calls do not block the thread, they wait in gevent's hub;
    #: "threads": calls may block, and come from a thread per user.
    concurrency: Literal["greenlets", "threads"]

    def set_credentials(self, credentials: Credentials) -> None:
        """Use these for all further requests; those in flight keep what they began with.

        A driver that signs by time may go on with earlier ones until they expire.
        """

    @property
    def credentials_serial(self) -> int:
        """The serial of the newest credentials."""

    def close(self) -> None:
        """Close every connection. Operations in flight fail with ErrorKind.RESET."""


class Access(NamedTuple):
    """A login's outcome."""

    settings: Mapping[str, Any]  #: the driver's own, for ``StorageSettings.store``
    credentials: Credentials
    #: The credentials are as good as the password: off loopback, workers get them encrypted only.
    password_equivalent: bool = False


class CredentialsProvider(Protocol):
    """Logs in and renews credentials; in the master only, which keeps password and keys.

    A class or function that is called with StoreOptions; it may raise UsageError. The methods may
    block, and are called in any thread.
    """

    notes: Sequence[str]  #: messages to show to the user once
    where: str  #: the address of the login; "" if there is none

    def log_in(self) -> Access:
        """The store's settings and the first credentials.

        :raises AuthError: one line with the address and the reason.
        """

    def renew(self) -> Credentials:
        """New credentials, even if the present ones look valid; of a higher serial.

        :raises AuthError: as ``log_in``.
        """


class ObjectStore(OpenStore, Protocol):
    """The data path: operations on the benchmark's objects. Workers open it."""

    #: Operation number -> action. Operations without an entry are not supported: a run that needs
    #: one is refused. A class can list these numbers in ``operations``, so that the store need not
    #: be opened.
    actions: Mapping[int, Action]

    #: A driver may have ``moving()``: number of an object -> bytes sent so far, for uploads of
    #: files that take long. Any thread may call it.

    #: A driver may have ``coding()``: the Content-Encoding that objects came with though no request
    #: asked for it, "" if none did. An error of their length names it.

    #: A driver may have ``addresses``: one list that names the addresses of the store which its
    #: Timings number, from 1; it grows at its end (``number_of``).

    def connect(self, count: int) -> None:
        """Open up to ``count`` connections to each storage URL, so that no latency includes it.

        Raises nothing: where connecting fails, the first operation reports the failure.
        """


def number_of(address: str, numbered: list[str]) -> int:
    """The number of an address in a driver's ``addresses``, which a new one joins; 0: no more are
    told apart."""
    if address not in numbered:
        if len(numbered) == MAX_ADDRESSES:
            return 0
        numbered.append(address)
    return numbered.index(address) + 1


class StoreAdmin(OpenStore, Protocol):
    """The admin: administrative requests of master and cleanup.

    Every method may raise StorageError. "Container" means a Swift container. A name with a
    segment ``.`` or ``..`` is never sent: a server could resolve it to another path. Empty
    names are refused too, because their path is the container's.
    """

    def limits(self) -> StoreLimits:
        """Fetch the store's limits; all None if it has no such interface."""

    def owns(self, container: str) -> bool:
        """Whether the container carries our ownership mark: nothing else proves it ours.

        :raises StorageError: status 404 if the container doesn't exist.
        """

    def container_info(self, container: str) -> ContainerInfo:
        """Fetch the metadata of a container.

        :raises StorageError: status 404 if the container doesn't exist.
        """

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        """Create a container with our ownership mark and the settings' placement.

        Returns None if the container was created, else the metadata of the existing one. An
        existing empty container gets our mark; one that holds objects, or of which the store
        can't tell (``object_count`` None), is left unchanged.

        :param changing: called before each request that changes the store; its exceptions
            propagate.
        :raises StorageError: status 409 if the container exists with another policy.
        """

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        """One page of the account's listing, sorted by name, after ``marker``."""

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        """One page of a container's listing, sorted by name, after ``marker``."""

    def object_run_id(self, container: str, name: str) -> str | None:
        """The id of the run that uploaded an object; None if the object carries no run id.

        :raises StorageError: status 404 if the object doesn't exist.
        """

    def delete_object(self, container: str, name: str) -> bool:
        """True: the object was deleted; False: it didn't exist."""

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        """Delete many objects with one request; returns (name, status) of each failure.

        An object that doesn't exist is no failure.
        """

    def delete_container(self, container: str) -> bool:
        """True: the container was deleted; False: it didn't exist.

        :raises StorageError: status 409 if the container isn't empty.
        """


class Listed(NamedTuple):
    """What a job's listing is of."""

    container: str
    prefix: str
    limit: int  #: entries of a page
    delimiter: str
    wanted: str = ""  #: an entry that it must have; "": none is known


def listed_of(job: Job, naming: Naming) -> Listed:
    """What LIST, LIST_ALL and LIST_RANDOM list."""
    first, limit, end = cast("tuple[bytes | int, int, bytes]", job.arguments)
    delimiter = end.decode()
    if isinstance(first, bytes):
        return Listed(naming.containers[job.object], first.decode(), limit, delimiter)
    name = naming.object(job.size_class, job.object)
    prefix = name[: max(len(name) - first, 0)]
    at = name.find(delimiter, len(prefix)) if delimiter else -1
    wanted = name[: at + len(delimiter)] if at >= 0 else name
    container = naming.container(job.size_class, job.object)
    return Listed(container, prefix, limit, delimiter, wanted)


class Page(NamedTuple):
    """A page of a listing, which the operations LIST_ALL and LIST_RANDOM put together."""

    timing: Timing
    next: Hashable | None  #: where the next page begins; None: this was the last
    has_wanted: bool = False  #: it has the entry that the listing must have


def all_pages(page: Callable[[Any], Page], wanted: str) -> Timing:
    """The outcome of a whole listing: first byte of its first page, last byte of its last.

    :param page: fetches the page that begins at ``Page.next`` of the one before, or at None.
    :param wanted: an entry that it must have; "": none.
    :raises StorageError: of a page; PROTOCOL: the listing does not advance; STALE: it lacks the
        entry.
    """
    first: Timing | None = None
    items = pages = reconnects = 0
    at, before, is_there = None, set[int](), not wanted
    while True:
        try:
            timing, at, has_wanted = page(at)
        except StorageError as error:
            error.reconnects += reconnects
            raise
        first = first or timing
        pages, items, reconnects = pages + 1, items + timing.items, reconnects + timing.reconnects
        is_there = is_there or has_wanted
        timing = timing._replace(
            headers_ns=first.headers_ns, first_byte_ns=first.first_byte_ns, bytes_moved=0,
            items=items, pages=pages, reconnects=reconnects,
        )  # fmt: skip
        if at is None:
            break
        if hash(at) in before:
            what = f"a listing that does not advance behind page {pages}"
            raise StorageError(ErrorKind.PROTOCOL, what, status=timing.status, timing=timing)
        before.add(hash(at))
    if is_there:
        return timing
    what = f"a listing without {printable(wanted)}, which is there"
    raise StorageError(ErrorKind.STALE, what, status=timing.status, timing=timing)


def order_fault(names: Sequence[Name], prefix: Name) -> str:
    """What is wrong with the names of a listing's page, which must begin with the prefix, and
    ascend; "" if nothing is."""
    others = len(names) - sum(map(methodcaller("startswith", prefix), names))
    if others:
        return f"{plural(others, 'name')} outside of the prefix"
    return "names that are not in order, or there twice" if out_of_order(names) else ""


def out_of_order(names: Sequence[Name]) -> tuple[Name, Name] | None:
    """The first two neighbours that do not ascend by their bytes in UTF-8; None if all do. Both the
    operation LIST and administrative listings are judged by this."""
    if all(map(lt, names, names[1:])):
        return None
    return next((one, other) for one, other in pairwise(names) if not one < other)


def check_listed(read: int, most: int, what: str) -> None:
    """:raises StorageError: OVERLONG: more entries than this were read of a listing."""
    if read > most:
        raise StorageError(
            ErrorKind.OVERLONG,
            f"{what}: the listing has no end after {read:,} entries: if there are more than"
            f" {most:,}, raise --max-listed",
        )


def unless_missing(request: Callable[[str], _T], container: str) -> _T | None:
    """What a request about a container returns; None if there is no such container."""
    try:
        return request(container)
    except StorageError as error:
        if error.status != 404:
            raise
        return None


def make_marked(
    info: Callable[[str], ContainerInfo],
    make: Callable[[str, ContainerInfo | None], ContainerInfo | None],
    container: str,
    changing: Callable[[], None] | None,
    versions: VersionAdmin | None = None,
) -> ContainerInfo | None:
    """``StoreAdmin.make_container`` of a store that can mark an empty container. One with versions
    of deleted objects is not empty: a clean-up of what has our mark would delete them for good.

    :param info: ``container_info``.
    :param make: creates the container, or marks the one that was found; returns the metadata of one
        that another client has created meanwhile.
    :param versions: of a store that can keep some.
    """
    found = unless_missing(info, container)
    if found is not None and (found.marked or found.object_count != 0):
        return found
    if found is not None and versions is not None and _has_versions(versions, container):
        return replace(found, object_count=None)
    if changing is not None:
        changing()
    return make(container, found) or found


def _has_versions(admin: VersionAdmin, container: str) -> bool:
    return admin.keeps_versions(container) and bool(admin.list_versions(container, None).versions)


class StoreState(NamedTuple):
    """What a store reports of itself at this moment; None where it does not."""

    free_bytes: int | None = None  #: that this user may still store: quota, or free space
    seconds_ahead: float | None = None  #: our clock minus the store's; whole seconds over HTTP


@runtime_checkable
class StateAdmin(Protocol):
    """What the admin also has if the store reports its free space, or its clock."""

    def state(self) -> StoreState:
        """Fetch them, by one request that changes nothing."""


@runtime_checkable
class UploadAdmin(Protocol):
    """What the admin also has if uploads of objects in parts stay open until they end."""

    def open_uploads(self, container: str, after: str) -> list[OpenUpload]:
        """One page of the container's open uploads, sorted by the names of their objects, of names
        after this one; [] at the end."""

    def abort_upload(self, container: str, upload: OpenUpload) -> bool:
        """True: it was aborted; False: it was not open."""


class ListedVersion(NamedTuple):
    """An entry of a container's list of versions."""

    name: str  #: of the object
    id: str
    is_newest: bool  #: nothing replaced or deleted it
    is_marker: bool = False  #: of a deletion: it has no content


VersionMarker = tuple[str, str]  #: name and id


class VersionPage(NamedTuple):
    """A page of a list of versions."""

    versions: Sequence[ListedVersion]
    next: VersionMarker | None  #: where the next page begins; None: this was the last


class Kept(NamedTuple):
    """A version that could not be deleted."""

    version: ListedVersion
    why: str
    is_busy: bool = False  #: the store may delete it later


_VERSIONS_A_PAGE = 1000


def all_versions(
    page_at: Callable[[VersionMarker | None], VersionPage], container: str, most: int
) -> Iterator[Sequence[ListedVersion]]:
    """The pages of a listing of versions and delete markers, to its end.

    :param page_at: as ``VersionAdmin.list_versions`` of the container.
    :param most: entries of the listing.
    """
    at, read = None, 0
    while True:
        versions, at = page_at(at)
        read += max(len(versions), _VERSIONS_A_PAGE)  # whatever it holds, it cost a request
        check_listed(read, max(most, _VERSIONS_A_PAGE), f"versions of {printable(container)}")
        yield versions
        if at is None:
            return


def delete_versions(
    admin: VersionAdmin,
    container: str,
    most: int,
    is_chosen: Callable[[ListedVersion], bool] = lambda version: True,
    on_deleted: Callable[[int], object] = lambda count: None,
) -> list[Kept]:
    """Delete versions and delete markers of a container, but none of our own mark; returns those
    that are left.

    Where a version is left, so is the newest marker of its object: without it, it would be there
    again. All others are deleted as they are listed, since there may be any number of them.

    :param most: entries of the listing.
    :param on_deleted: called with numbers of versions that were deleted, also before an error.
    :raises StorageError: of the store; or status 503: it is too busy to delete one.
    """
    kept, before = list[Kept](), list[ListedVersion]()
    #: The newest marker of an object whose versions are not all deleted yet, by its name.
    newest: dict[str, ListedVersion] = {}
    names: set[str] = set()  # of those that are left

    def delete(some: list[ListedVersion]) -> list[Kept]:
        left = admin.delete_versions(container, some) if some else []
        on_deleted(len(some) - len(left))
        for version, why, is_busy in left:
            if is_busy:
                what = f"a version of {printable(version.name)} stays: {why}"
                raise StorageError(ErrorKind.STATUS, what, status=503)
        kept.extend(left)
        return left

    # A page is deleted after the next one was listed, which begins behind its last entry.
    for page in chain(all_versions(partial(admin.list_versions, container), container, most), [()]):
        for each in before:
            if each.is_marker:
                newest.setdefault(each.name, each)
        left = delete([each for each in before if each is not newest.get(each.name)])
        names |= {each.version.name for each in left}
        unfinished = page[0].name if page else ""  # further versions of it follow
        delete([each for name, each in newest.items() if name not in {*names, unfinished}])
        newest = {name: each for name, each in newest.items() if name == unfinished}
        before = [*filter(is_chosen, page)]
    return kept


def delete_all_versions(admin: VersionAdmin, container: str, most: int) -> None:
    """Delete all versions and delete markers of a container, but none of our own mark.

    :raises StorageError: the store keeps some.
    """
    kept = delete_versions(admin, container, most)
    if kept:
        version, why, _ = kept[0]
        raise StorageError(
            ErrorKind.STATUS,
            f"the store keeps {plural(len(kept), 'version')} of objects:"
            f" {printable(version.name)}: {why}",
        )


@runtime_checkable
class VersionAdmin(Protocol):
    """What the admin also has if containers can keep versions of replaced and deleted objects."""

    def keeps_versions(self, container: str) -> bool:
        """Whether the container keeps, or has kept, versions; False if the store doesn't say."""

    def list_versions(self, container: str, at: VersionMarker | None) -> VersionPage:
        """One page of the versions and delete markers of a container, by name, of an object the
        newest first; without those of our own mark.

        :param at: ``VersionPage.next`` of the page before; None: the first page.
        """

    def delete_versions(self, container: str, versions: Sequence[ListedVersion]) -> list[Kept]:
        """Delete versions for good; returns those that are left. One that is gone is not left."""


_KEPT = 16  #: containers whose listings are kept at a time


class ListingPages:
    """Pages of listings, for stores that list all names after a given one at once.

    A page would cost as much as all that follows it, so the rest of a listing is kept for its next
    page. Its methods may be called in any thread.
    """

    def __init__(self) -> None:
        #: Container -> the last name of a page, and what follows it.
        self._kept: dict[str, tuple[str, Iterator[ObjectEntry]]] = {}

    def page(
        self, objects: Iterator[ObjectEntry], container: str, marker: str, limit: int
    ) -> list[ObjectEntry]:
        """As ``StoreAdmin.list_objects``.

        :param objects: all objects after the marker, in order; begun only if none of them are kept.
        """
        last, entries = self._kept.pop(container, ("", objects))
        if not marker or marker != last:
            entries = objects
        found = list(islice(entries, limit))
        if found and len(found) == limit:
            self._kept[container] = found[-1].name, entries
            for oldest in [*self._kept][:-_KEPT]:
                self._kept.pop(oldest, None)
        return found

    def close(self) -> None:
        """Drop all that is kept."""
        self._kept.clear()


def delete_each(
    delete: Callable[[str, str], object], container: str, names: Sequence[str]
) -> list[tuple[str, int]]:
    """As ``StoreAdmin.bulk_delete``, one object after another.

    :param delete: ``delete_object`` of the store.
    :raises StorageError: one without a status, which may be worth a retry.
    """
    failures = []
    for name in names:
        try:
            delete(container, name)
        except StorageError as error:
            if not error.status:
                raise
            failures.append((name, error.status))
    return failures
