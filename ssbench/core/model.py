"""The types of a run: SizeClass, Stage, Job, Timing, Result, Phase, ErrorKind.

Rows that exist once per operation are NamedTuples; everything else is a frozen struct.
Times are whole nanoseconds on a monotonic clock, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from msgspec import Struct

from ssbench.core.distributions import Distribution
from ssbench.core.picks import UNIFORM, Pick

Profile = tuple[tuple[int, float], ...]

SECOND_NS = 1_000_000_000
#: Bytes between the numbers that make each block of a ContentMix another one. Stores look for
#: duplicates in blocks of at least this size.
STAMPED = 4096
MAX_CONTENT_BLOCK = 128 << 10  #: bytes of a block of a ContentMix
NONE_NS = -1  #: no such time, in a column of nanoseconds
UNCERTAIN_NS = -2  #: such a time, but it is unknown: the response was read late
UNKNOWN_SIZE = -1  #: of a Job's object, or of a size class in a damaged header


class WorkerExit(NamedTuple):
    """A worker process that has ended."""

    worker_id: str
    pid: int
    reason: str  #: its exit status or signal, and the end of its log; one printable line
    status: int = 1  #: its exit status; -N: signal N killed it


class Phase(IntEnum):
    """The parts of a run in which workers have jobs. The numbers are on the wire and on disk."""

    IDLE = 0
    POPULATE = 1
    RUN = 2
    CLEANUP = 3


class ErrorKind(IntEnum):
    """Why an operation failed. The numbers are on the wire and in stat files: append only."""

    NONE = 0
    STATUS = 1  #: the response has a status that means failure
    CONNECT = 2  #: no connection: refused, unreachable
    CONNECT_TIMEOUT = 3
    NETWORK_TIMEOUT = 4  #: an open connection was silent for too long
    OPERATION_TIMEOUT = 5  #: the whole operation took longer than --operation-timeout
    RESET = 6  #: the connection broke, or was closed, in the middle of a response
    PROTOCOL = 7  #: the response is not valid HTTP
    TLS = 8
    NAME_LOOKUP = 9
    TRUNCATED = 10  #: fewer body bytes than announced
    CORRUPT = 11  #: wrong content
    STALE = 12  #: an older version's content
    UNAUTHORIZED = 13  #: the store rejected the credentials
    INTERNAL = 14  #: a defect of ssbench
    OVERLONG = 15  #: more body bytes than the object, or any response, can have
    DISCONNECTED = 16  #: the connection ended after the request, before any byte of a response
    #: Our own host had no descriptor, port or memory left for the request.
    LOAD_GENERATOR = 17
    NO_SPACE = 18  #: the store is full, or a quota is used up
    ACCESS_DENIED = 19  #: these credentials, or this user, may not do that
    IO = 20  #: the store's device or file system failed
    SOURCE_FILE = 21  #: the file to be sent is missing, unreadable or was changed
    WRONG_LENGTH = 22  #: a whole response that is shorter or longer than what was read
    IMPOSSIBLE = 23  #: the driver gave figures that no operation can have
    #: A conditional write was refused, because another client was first: counted apart from errors.
    LOST_RACE = 24
    CHANGED = 25  #: another version took the object's place while its parts were read

    @property
    def label(self) -> str:
        """The kind as a report says it: ``network timeout``."""
        return self.name.lower().replace("_", " ")


_ERROR_KINDS = frozenset(ErrorKind)


def error_label(kind: int) -> str:
    """``network timeout``; a number that a later version may know is ``error 99``."""
    if kind < 0:
        return "all others"
    return ErrorKind(kind).label if kind in _ERROR_KINDS else f"error {kind}"


class SizeClass(Struct, frozen=True):
    """A class of objects of similar size, with its share of the initial objects.

    :param profile: (operation's number, its share of the class's operations), by number. Shares
        are above 0 and add up to 1; empty for a class that no operation falls to.
    :param distribution: of the sizes, from size_min to size_max; None: uniform.
    """

    name: str
    size_min: int
    size_max: int
    profile: Profile
    initial_files: int
    distribution: Distribution | None = None
    pick: Pick = UNIFORM


class ContentMix(Struct, frozen=True):
    """How much of the content of objects a store can save.

    In blocks of fixed sizes, powers of two: those in which a store compresses, and those in which
    it looks for duplicates. Both count from the start of an object.
    """

    compressible: float = 0.0  #: of each ``compressible_block``, the share that is zeros
    compressible_block: int = 4096  #: bytes
    duplicate: float = 0.0  #: the share of blocks that are the same as one of another object
    duplicate_block: int = 4096  #: bytes

    def __post_init__(self) -> None:
        """:raises ValueError: a share or a block that no scenario has."""
        shares = 0 <= self.compressible <= 1 and 0 <= self.duplicate <= 1
        blocks = (self.compressible_block, 512), (self.duplicate_block, STAMPED)
        if not shares or any(
            not least <= size <= MAX_CONTENT_BLOCK or size & (size - 1) for size, least in blocks
        ):
            raise ValueError("shares from 0 to 1, of blocks of a power of two")


class LargeObject(Struct, frozen=True):
    """How objects above a size are stored: in parts, which the store joins."""

    above: int  #: bytes; objects of this size and below are stored as one
    segment: int  #: bytes of a part; the last one may have fewer
    kind: str = ""  #: one of the store's ways; "": its usual one
    parallel: int = 4  #: parts of one object that are uploaded at once

    def count(self, size: int) -> int:
        """How many parts an object has; 0: it is stored as one."""
        return -(-size // self.segment) if size > self.above else 0


class LargeRead(Struct, frozen=True):
    """How READs of objects above a size get them: in ranges, several at once."""

    segment: int  #: bytes of a part; the last one may have fewer
    above: int  #: bytes; objects of this size and below are read by one request
    parallel: int = 4  #: parts of one object that are read at once


class ObjectLock(Struct, frozen=True):
    """How long what a run uploads can't be deleted."""

    seconds: int  #: from its upload
    mode: str = "governance"  #: or "compliance": nobody can end it earlier


class InitialHeaders(Struct, frozen=True):
    """Further headers with which initial objects are uploaded."""

    lines: str = ""  #: each with its CRLF; those of all operations are not among them
    mark: str = ""  #: of all that they are uploaded with, in the objects' metadata; "": none


class Group(Struct, frozen=True):
    """Users with operations and credit of their own."""

    name: str
    users: int
    profile: Profile = ()  #: for all its size classes; (): that of each class
    rate: float | None = None  #: as of a stage
    users_to: int | None = None  #: the same
    rate_to: float | None = None
    sizes: tuple[tuple[int, float], ...] = ()  #: index and weight of its classes; (): by objects
    pick: Pick | None = None  #: None: that of each class

    def users_at(self, share: float) -> int:
        """How many they are when this share of the stage is over."""
        return ramped_users(self.users, self.users_to, share)


class Stage(Struct, frozen=True):
    """A part of a run under one load; None is for the scenario's own value.

    A ramp goes from ``users`` to ``users_to``, or from ``rate`` to ``rate_to``, in a straight line.
    """

    seconds: float  #: infinite: its number of operations ends it
    users: int | None = None  #: at most so many operations at once
    rate: float | None = None  #: operations a second that fall due; None: a closed loop
    warmup: float = 0.0  #: seconds of its beginning that don't count
    name: str = ""
    users_to: int | None = None  #: at the end; None: as at the beginning
    rate_to: float | None = None
    operation_count: int | None = None  #: ends it; None: time does
    epochs: int | None = None  #: so often each object that exists has its turn, which ends it
    #: Whether it begins when all operations before have ended, and the wait counts for nothing.
    barrier: bool = False
    profile: Profile = ()  #: (): the scenario's
    sizes: tuple[tuple[int, float], ...] = ()  #: as of a group
    pick: Pick | None = None
    groups: tuple[Group, ...] = ()  #: of its users
    first_group: int = 0  #: of these, among all groups of the run

    @property
    def is_apart(self) -> bool:
        """Whether it has operations or an end of its own: it shares none with other stages."""
        ends_itself = self.operation_count is not None or self.epochs is not None
        return ends_itself or bool(self.profile or self.sizes or self.pick or self.groups)

    def users_at(self, at_s: float) -> int:
        """How many there are to be, so long after its beginning."""
        share = at_s / self.seconds
        if self.groups:
            return sum(group.users_at(share) for group in self.groups)
        return ramped_users(self.users or 0, self.users_to, share)

    @property
    def most_users(self) -> int:
        """At any time."""
        of = self.groups or (self,)
        return sum(max(each.users or 0, each.users_to or 0) for each in of)

    @property
    def ends(self) -> tuple[int | None, float | None]:
        """Users and rate at the end of a ramp, of all groups; None of what is no ramp."""
        of = self.groups or (self,)
        users = sum(each.users_to or each.users or 0 for each in of)
        rate = sum(each.rate_to or each.rate or 0.0 for each in of)
        return (
            users if any(each.users_to is not None for each in of) else None,
            rate if any(each.rate_to is not None for each in of) else None,
        )

    @property
    def is_ramp_of_users(self) -> bool:
        """Whether the number of users changes within it."""
        groups = any(group.users_to is not None for group in self.groups)
        return groups or self.users_to is not None

    def rate_at(self, at_s: float) -> float | None:
        """Operations a second that fall due, so long after its beginning; of all groups."""
        rates = [(each.rate, each.rate_to) for each in self.groups or (self,)]
        if not all(rate for rate, _to in rates):
            return None
        share = min(max(at_s / self.seconds, 0.0), 1.0)
        return sum(rate if to is None else rate + (to - rate) * share for rate, to in rates if rate)


def ramped_users(users: int, users_to: int | None, share: float) -> int:
    """On a straight line from one to the other: each number lasts as long."""
    if users_to is None:
        return users
    step = 1 if users_to > users else -1
    return users + step * int(min(max(share, 0.0), 1.0 - 1e-9) * (abs(users_to - users) + 1))


class Job(NamedTuple):
    """One operation to be done. Never holds a secret.

    An object is (size class, number); its name, container and content follow from that
    (``ssbench.core.naming``, ``ssbench.core.content``).
    """

    number: int  #: unique within the run, from 1
    operation: int  #: number of a row of core.operations
    size_class: int  #: index into the scenario's sizes
    object: int  #: from 0 within the class; below initial_files for the initial objects
    version: int  #: of the object's content: to be written, or (READ) expected
    size: int  #: bytes to be written, or (READ) expected; UNKNOWN_SIZE
    due_ns: int = NONE_NS  #: offset from the phase's start; NONE_NS: at once
    #: Numbers of further objects of the same size class that the operation reserves: the
    #: destination of a COPY, the rest of the list of a bulk delete.
    others: tuple[int, ...] = ()
    arguments: tuple[int | bytes, ...] = ()  #: of the operation's row, in the row's order
    group: int = 0  #: index into the scenario's groups of users


def identity_of_group(group: Any, count: int) -> Any:
    """Which of ``count`` identities a group of users of a divided load is of; of arrays, too."""
    return group % count


def crowd_of_group(group: Any, count: int) -> Any:
    """Which of the scenario's groups it is a part of."""
    return group // count


class Failure(NamedTuple):
    """What a failed job's workload must know."""

    status: int = 0  #: of the last response; 0: there was none
    unknown: bool = False  #: the store may have applied the operation nevertheless
    #: HTTP status of each of the job's objects, 0 if unknown; empty: all failed alike.
    statuses: Sequence[int] = ()


MAX_IDENTITIES = 1000  #: of a run
MAX_ADDRESSES = 4096  #: of the store, that a worker numbers; further ones are not told apart


class Timing(NamedTuple):
    """What a driver reports of one attempt that got a response. Times are of perf_counter_ns.

    A negative one is the latest that it can have been, negated: the response was read late.
    """

    headers_ns: int  #: the response's headers were complete; may be negative
    #: First byte of its body; equals headers_ns if the body is empty. May be negative.
    first_byte_ns: int
    last_byte_ns: int  #: the response was complete
    bytes_moved: int  #: body bytes of the object, sent or received
    status: int  #: HTTP status, or its equivalent
    transaction_id: bytes = b""
    url: int = 0  #: index of the storage URL used
    reconnects: int = 0  #: requests repeated at once, because their kept connection was closed
    items: int = 0  #: entries listed, or objects handled; not part of bytes_moved
    #: HTTP status of each object: first the job's ``object``, then ``others``. Empty: all have
    #: ``status``.
    statuses: tuple[int, ...] = ()
    pages: int = 0  #: of a whole listing, an empty last one included
    address: int = 0  #: number of the address that was asked, from 1; 0: the only one of its name
    #: As of ``core.part_times.summary``; (): the operation has no parts.
    parts: tuple[int, ...] = ()
    part_id: bytes = b""  #: transaction id of the slowest part
    #: Of the version that an upload made, or found; b"": the settings do not ask for it.
    version_id: bytes = b""


class Result(NamedTuple):
    """One finished operation, failed or not. Durations count from ``start_ns``.

    The order of the fields is the order of the columns on the wire and on disk.
    """

    number: int
    operation: int
    size_class: int
    object: int
    due_ns: int  #: offset from the phase's start, NONE_NS in a closed loop
    start_ns: int  #: offset from the phase's start, when the first attempt began
    headers_ns: int  #: duration, NONE_NS without a response, UNCERTAIN_NS if it was read late
    first_byte_ns: int  #: the same; NONE_NS where no body is received, too
    last_byte_ns: int  #: duration of the whole operation, retries included; failed ones too
    bytes_moved: int
    retries: int  #: attempts after a failed one
    not_found_retries: int  #: attempts after a 404 (not among retries)
    rate_limited: int  #: responses that asked to slow down (498, 429, 503 SlowDown)
    reconnects: int
    renewals: int  #: times that the operation was started again with a new token
    url: int
    status: int  #: of the last response, 0 without one
    error: int  #: an ErrorKind
    unknown: int  #: 1 if it is unknown whether a mutation happened
    transaction_id: bytes = b""
    detail: str = ""  #: of an error
    items: int = 0  #: entries listed, or objects handled; not part of bytes_moved
    others: tuple[int, ...] = ()  #: as in the job
    #: HTTP status of each object: first ``object``, then ``others``. Empty: ``status`` and
    #: ``error`` say it of all of them.
    statuses: tuple[int, ...] = ()
    group: int = 0  #: as in the job
    #: From the first start to ``start_ns``, of an operation that was restarted with a new token.
    renewed_ns: int = 0
    pages: int = 0  #: of a whole listing
    address: int = 0  #: as in Timing; the worker's AddressRecord names it
    parts: tuple[int, ...] = ()  #: as of a Timing
    part_id: bytes = b""
    version_id: bytes = b""  #: the same


#: How many of Result's fields are whole numbers that every batch has; an id and a text follow.
RESULT_NUMBERS = Result._fields.index("transaction_id")
