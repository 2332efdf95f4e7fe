"""The messages between master and workers, as values and as bytes.

On the wire a message is one msgpack array: ``[PROTOCOL, type, field, ...]``. Input is
untrusted: ``decode`` returns a message whose fields have the right types, or MessageError.

========= ============================ =========================================================
type      direction, channel           says
========= ============================ =========================================================
hello     worker -> master, results    a worker introduces itself, or repeats it
heartbeat worker -> master, results    answers a control state
ready     worker -> master, results    connected for this phase, or stopped in it
ack       worker -> master, results    the worker has these batches
results   worker -> master, results    completed operations
returned  worker -> master, results    jobs that were not started
expired   worker -> master, results    the store rejected the token of this serial
host      worker -> master, results    metrics of the host and process, per second
bye       worker -> master, results    the worker exits (sent after all its results)
jobs      master -> worker, work       a batch of jobs
control   master -> worker, control    the control state: all a worker must know; sent once
                                       a second and at changes
========= ============================ =========================================================

History: protocol 1 (ssbench 1.0, before its release); 2: no map has other keys than text, so
a heartbeat's live counts, a control state's workers and refused, and details of results are
arrays; heartbeat, ack and control were called pulse, took and beat; columns have names: a hello
and a control state carry schemas, and each batch the number of its own.

In every protocol a hello begins with the seven fields that it has in protocol 1, so that a master
can name a worker of another version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import msgpack

from ssbench.core import unpacking
from ssbench.core.columns import JOB_SCHEMAS, MAX_SCHEMAS, RESULT_SCHEMAS, Schema, read_schema
from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.text import printable

PROTOCOL = 2
#: A worker sends 256 results at once, 50 bytes each but for texts of errors.
MAX_MESSAGE_BYTES = 8 << 20
MAX_TEXT = 4096  #: characters in a reason, or a run's id
MAX_NAME_BYTES = 200  #: of a worker's name, host or version, in UTF-8
MAX_FIGURES = 4096  #: of one machine; each core is one
_MAX_NAME = 64
_MAX_SHOWN = 100  #: characters of a text from a worker of another protocol
#: Of a heartbeat's live counts: core.live's buckets have 17 bits; latencies are in a few hundred.
MAX_BUCKETS, MAX_BUCKET = 4096, 1 << 17
#: Of a clock, so that the difference of two is still 64 bits. Three need ``in_clock_range``.
MAX_CLOCK_NS = 1 << 62
#: Of counts and measurements, so that their sums stay finite and exact enough.
MAX_NUMBER = 1e18


class Hello(NamedTuple):
    """Introduces a worker. Repeated once a second until a control state lists its incarnation."""

    incarnation: int  #: 64 random bits; new each time that the master dropped the worker
    previous: int  #: the incarnation that this one replaces, 0 for none
    worker_id: str
    concurrency: int
    host: str
    pid: int
    version: str
    #: Of the batches in its results, which name them by their index here.
    schemas: Sequence[Schema] = RESULT_SCHEMAS


class Heartbeat(NamedTuple):
    """The heartbeat; one per control state."""

    incarnation: int
    answered_serial: int  #: serial of the control state that it answers
    worker_ns: int  #: the worker's monotonic clock when this was sent
    hold_ns: int  #: time from the arrival of the control state to this message
    hub_idle_ns: int  #: time since the worker's event loop last ran
    busy: int  #: users with an operation in flight
    queued: int  #: jobs not yet started
    live: Mapping[int, int]  #: core.live.buckets of latencies since the last heartbeat
    wall_ns: int = 0  #: the worker's wall clock at ``worker_ns``, since 1970; 0: unknown


class Ready(NamedTuple):
    """Storage is open and connected for this phase. With ``stopped``: no jobs are queued, and none
    will be started (sent after the returned jobs)."""

    incarnation: int
    run: str
    phase: int
    stopped: bool
    #: The phase's start on the worker's clock, the origin of its offsets. None: unknown.
    origin_ns: int | None = None


class Host(NamedTuple):
    """Metrics of a worker and its host. core.stats.host_metrics defines their names."""

    incarnation: int
    at_ns: int  #: the worker's clock at the end of the second
    boot_id: str  #: the same for all processes on a host; "" if unknown
    figures: Mapping[str, float]


class Ack(NamedTuple):
    """Acknowledges batches: the worker holds them from now on."""

    incarnation: int
    run: str
    batches: Sequence[int]


class Results(NamedTuple):
    """Completed operations. ``packed`` is columns.pack_results in msgpack: it is stored as sent."""

    incarnation: int
    run: str
    phase: int
    acked: Sequence[int]  #: batches that the worker holds since its last message, as in Ack
    packed: bytes
    schema: int = 0  #: index into the schemas of the worker's hello


class Returned(NamedTuple):
    """Jobs, by number, that this worker has not started and will not."""

    incarnation: int
    run: str
    numbers: Sequence[int]


class Expired(NamedTuple):
    """The store answered 401 to the token of this serial."""

    incarnation: int
    token_serial: int


class Bye(NamedTuple):
    """The worker exits."""

    incarnation: int
    reason: str


class Jobs(NamedTuple):
    """A batch of jobs, packed by columns.pack_jobs."""

    run: str
    phase: int
    batch: int
    sent_ns: int  #: the master's monotonic clock: workers return batches that arrive too old
    packed: Sequence[Any]
    schema: int = 0  #: index into the control state's job_schemas


class ControlState(NamedTuple):
    """The state of the run that workers must know. Always complete: messages may get lost."""

    master: int  #: 64 random bits; another number is another master, with another clock
    serial: int
    master_ns: int  #: the master's monotonic clock when this was sent
    run: str  #: "" without a run
    phase: int
    start_ns: int  #: the phase's start on the master's clock
    #: incarnation -> (users, clock offset: worker's minus master's ns, None while unknown)
    workers: Mapping[int, tuple[int, int | None]]
    refused: Mapping[int, str]  #: incarnation -> the reason why the master refuses it
    settings: Mapping[str, Any]  #: StorageSettings.to_map(), {} without a run
    timeout_s: float  #: --worker-timeout
    operation_timeout_s: float  #: 0: none
    pipe: int  #: messages with jobs that may wait unread at a worker
    live: bool  #: heartbeats carry latency counts
    ending: bool  #: the master has no more jobs: return those that no idle user can take
    stopping: bool  #: start no more operations: return all queued jobs
    quit: bool  #: exit
    think_min_s: float = 0.0  #: pause of a user after each operation, uniform: minimum
    think_max_s: float = 0.0  #: maximum
    #: incarnation -> its users by group; {} if the run has no groups of users
    groups: Mapping[int, Sequence[int]] = {}
    job_schemas: Sequence[Schema] = JOB_SCHEMAS  #: of the batches of jobs

    @property
    def is_goodbye(self) -> bool:
        """Whether the master's run is over: no phase, and no worker has users."""
        return not self.run and not any(users for users, _ in self.workers.values())


Message = (
    Hello
    | Heartbeat
    | Ready
    | Host
    | Ack
    | Results
    | Returned
    | Expired
    | Bye
    | Jobs
    | ControlState
)


Check = Callable[[Any], bool]


def in_clock_range(time_ns: int) -> int | None:
    """A time computed from clocks of other hosts; None if it is out of the range of messages, which
    means that a clock is wrong."""
    return time_ns if -MAX_CLOCK_NS < time_ns < MAX_CLOCK_NS else None


def _int(value: Any) -> bool:
    return type(value) is int


def _clock(value: Any) -> bool:
    return type(value) is int and -MAX_CLOCK_NS < value < MAX_CLOCK_NS


def _span_ns(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_CLOCK_NS


def _clock_or_none(value: Any) -> bool:
    return value is None or _clock(value)


def _natural(value: Any) -> bool:
    return type(value) is int and value >= 0


def _text(value: Any) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT


def _name(value: Any) -> bool:
    return type(value) is str and len(value.encode()) <= MAX_NAME_BYTES


def _number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= MAX_NUMBER


def _flag(value: Any) -> bool:
    return type(value) is bool


def _naturals(value: Any) -> bool:
    return type(value) is list and all(map(_natural, value))


def _rows(value: Any, *checks: Check) -> bool:
    """A list of lists that have a value for each check."""
    return type(value) is list and all(
        type(row) is list
        and len(row) == len(checks)
        and all(check(item) for check, item in zip(checks, row, strict=True))
        for row in value
    )


def _counts(value: Any) -> bool:
    return _rows(value, _bucket, _natural) and len(value) <= MAX_BUCKETS


def _bucket(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_BUCKET


def _shares(value: Any) -> bool:
    return _rows(value, _natural, _natural, _clock_or_none)


def _groups(value: Any) -> bool:
    return _rows(value, _natural, _naturals)


def _reasons(value: Any) -> bool:
    return _rows(value, _natural, _text)


def _settings(value: Any) -> bool:
    return type(value) is dict and all(map(_text, value))


def _figures(value: Any) -> bool:
    return (
        type(value) is dict
        and len(value) <= MAX_FIGURES
        and all(type(key) is str and len(key) <= _MAX_NAME for key in value)
        and all(map(_number, value.values()))
    )


def _schemas(value: Any) -> bool:
    if type(value) is not list or len(value) > MAX_SCHEMAS:
        return False
    try:
        for schema in value:
            read_schema(schema)
    except MessageError:
        return False
    return True


def _list(value: Any) -> bool:
    return type(value) is list


def _bytes(value: Any) -> bool:
    return type(value) is bytes


_WITH_MAPS = (Heartbeat, ControlState)
_HELLO_WIDTH = 7  #: fields of a hello in every protocol
_LIVE, _WORKERS = Heartbeat._fields.index("live"), ControlState._fields.index("workers")


def _heartbeat(*values: Any) -> Heartbeat:
    return Heartbeat._make([*values[:_LIVE], dict(values[_LIVE]), *values[_LIVE + 1 :]])


def _hello(*values: Any) -> Hello:
    return Hello._make([*values[:-1], tuple(map(read_schema, values[-1]))])


def _control_state(*values: Any) -> ControlState:
    shares, reasons = values[_WORKERS : _WORKERS + 2]
    workers = {incarnation: (users, offset_ns) for incarnation, users, offset_ns in shares}
    *rest, groups, schemas = values[_WORKERS + 2 :]
    job_schemas = tuple(map(read_schema, schemas))
    return ControlState._make(
        [*values[:_WORKERS], workers, dict(reasons), *rest, dict(groups), job_schemas]
    )


#: type on the wire -> what makes the message, and what each of its fields must be
_FORMS: dict[str, tuple[Callable[..., Message], tuple[Check, ...]]] = {
    "hello": (_hello, (_natural, _natural, _name, _natural, _name, _natural, _name, _schemas)),
    "heartbeat": (
        _heartbeat,
        (_natural, _natural, _clock, _span_ns, _span_ns, _natural, _natural, _counts, _clock),
    ),
    "ready": (Ready, (_natural, _text, _natural, _flag, _clock_or_none)),
    "host": (Host, (_natural, _clock, _name, _figures)),
    "ack": (Ack, (_natural, _text, _naturals)),
    "results": (Results, (_natural, _text, _natural, _naturals, _bytes, _natural)),
    "returned": (Returned, (_natural, _text, _naturals)),
    "expired": (Expired, (_natural, _natural)),
    "bye": (Bye, (_natural, _text)),
    "jobs": (Jobs, (_text, _natural, _natural, _clock, _list, _natural)),
    "control": (
        _control_state,
        (
            _natural, _natural, _clock, _text, _natural, _clock, _shares, _reasons, _settings,
            _number, _number, _natural, _flag, _flag, _flag, _flag,
            _number, _number, _groups, _schemas,
        ),
    ),
}  # fmt: skip

_TYPE_OF: dict[type[Message], str] = {kind: kind.__name__.lower() for kind in get_args(Message)}
_TYPE_OF[ControlState] = "control"

#: Items of one array or map, and of all in a message: a byte may unfold into 64 of memory.
_MAX_LENGTH = 1 << 17
_MAX_ITEMS = 1 << 18

_pack = msgpack.Packer(use_bin_type=True).pack


def encode(message: Message) -> bytes:
    """The message as bytes."""
    kind = type(message)
    fields: Sequence[Any] = message
    if kind in _WITH_MAPS:
        fields = _maps_as_lists(message)
    packed: bytes = _pack([PROTOCOL, _TYPE_OF[kind], *fields])
    return packed


def _maps_as_lists(message: Message) -> Sequence[Any]:
    """The fields, maps whose keys aren't text as lists of rows."""
    if isinstance(message, Heartbeat):
        return message._replace(live=list(message.live.items()))  # type: ignore[arg-type]
    assert isinstance(message, ControlState)  # nosec B101 # for the type checker
    shares = [(incarnation, *share) for incarnation, share in message.workers.items()]
    refused = list(message.refused.items())
    groups = list(message.groups.items())
    return message._replace(workers=shares, refused=refused, groups=groups)  # type: ignore[arg-type]


def decode(data: bytes) -> Message:
    """The message of ``encode``.

    :raises MessageError: for anything else, another protocol version included.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageError(f"a message of {len(data)} bytes; at most {MAX_MESSAGE_BYTES} are read")
    fields = unpack(data)
    if type(fields) is not list or len(fields) < 2:
        raise MessageError("not an ssbench message")
    if fields[0] != PROTOCOL or type(fields[0]) is not int:
        raise _other_protocol(fields)
    form = _FORMS.get(fields[1]) if type(fields[1]) is str else None
    if form is None:
        raise MessageError("a message of unknown type")
    make, checks = form
    values = fields[2:]
    if len(values) != len(checks):
        raise MessageError(f"{fields[1]}: {len(values)} fields for {len(checks)}")
    for check, value in zip(checks, values, strict=True):
        if not check(value):
            raise MessageError(f"{fields[1]}: a field that is not {check.__name__.strip('_')}")
    return make(*values)


def _other_protocol(fields: list[Any]) -> ProtocolError:
    """The error for a message of another protocol, which names the sender of a hello."""
    protocol = fields[0] if _int(fields[0]) else None
    text = (
        f"protocol {'of another kind' if protocol is None else protocol};"
        f" this ssbench speaks {PROTOCOL}"
    )
    if protocol is None or fields[1] != "hello" or len(fields) < 2 + _HELLO_WIDTH:
        return ProtocolError(text, protocol)
    hello = Hello(*fields[2 : 2 + _HELLO_WIDTH])
    if not (all(map(_text, (hello.worker_id, hello.host, hello.version))) and _int(hello.pid)):
        return ProtocolError(text, protocol)
    worker_id, host, release = (
        printable(value[:_MAX_SHOWN]) for value in (hello.worker_id, hello.host, hello.version)
    )
    sender = f"{worker_id} ({host}, pid {hello.pid})"
    return ProtocolError(text, protocol, sender=sender, release=release)


def pack(value: Any) -> bytes:
    """Plain data as msgpack (the packed results inside a message)."""
    packed: bytes = _pack(value)
    return packed


def unpack(data: bytes) -> Any:
    """Plain data from msgpack: see core.unpacking.

    :raises MessageError: where it is none, or would unfold into much more than a message holds.
    """
    try:
        return unpacking.unpack(data, _MAX_LENGTH, _MAX_ITEMS)
    except unpacking.FAULTS as error:
        raise MessageError(f"not msgpack: {type(error).__name__}") from error
