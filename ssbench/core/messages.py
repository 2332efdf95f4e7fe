"""The messages between master and workers, as values and as bytes.

On the wire a message is one msgpack array: ``[PROTOCOL, type, field, ...]``. Input is
untrusted: ``decode`` returns a message whose fields have the right types, or MessageError.

All workers see each other's incarnations in control states. So that each speaks only for itself, a
worker's message ends with a seal: a keyed BLAKE2b of all that precedes it. The key is a secret that
the worker draws when it starts and gives to the master in its hello, and nowhere else.

========= ============================ =========================================================
type      direction, channel           says
========= ============================ =========================================================
hello     worker -> master, results    a worker introduces itself, or repeats it
heartbeat worker -> master, results    answers a control state
ready     worker -> master, results    connected for this phase, or stopped in it, or its work
                                       socket was opened or closed
ack       worker -> master, results    the worker has these batches
results   worker -> master, results    completed operations
returned  worker -> master, results    jobs that were not started
expired   worker -> master, results    the store rejected the token of this serial
host      worker -> master, results    metrics of the host and process, per second
profiled  worker -> master, results    where it spent CPU time in the run phase
addresses worker -> master, results    which addresses of the store its results number
network   worker -> master, results    a check of the network has ended
leaving   worker -> master, results    the worker will exit: it only returns jobs from now on
bye       worker -> master, results    the worker exits (sent after all its results)
jobs      master -> worker, work       a batch of jobs
control   master -> worker, control    the control state: all a worker must know; sent once
                                       a second and at changes
========= ============================ =========================================================

History: protocol 1 (ssbench 1.0, before its release); 2: heartbeat, ack and control were called
pulse, took and beat; columns have names: a hello and a control state carry schemas, and each batch
the number of its own; jobs are msgpack within the message, a row each; a control state may ask for
profiles, or for a check of the network; 3: workers seal their messages; 4: settings have a mix of
content, and name the kind of a distribution of sizes.

In every protocol a hello begins with the seven fields that it has in protocol 1, so that a master
can name a worker of another version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from hmac import compare_digest
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from msgspec import Meta, Raw
from msgspec.msgpack import Decoder, Encoder

from ssbench.core import unpacking
from ssbench.core.boundary import typed
from ssbench.core.columns import JOB_SCHEMAS, RESULT_SCHEMAS, Schemas
from ssbench.core.cpu_profile import MAX_STACKS
from ssbench.core.errors import MessageError, ProtocolError
from ssbench.core.model import MAX_ADDRESSES
from ssbench.core.text import MAX_DURATION_S, MAX_KEY, printable

PROTOCOL = 4
SECRET_BYTES = 16  #: of a worker
#: Of a control state, with all its workers; and of a worker's message. The latter take turns at the
#: master, which reads and hashes all of one before it knows whether its worker has sealed it: 100
#: of 2 MB a second left so few turns for heartbeats that workers were lost.
MAX_MESSAGE_BYTES, MAX_WORKER_MESSAGE_BYTES = 8 << 20, 512 << 10
#: Of the results in a message, beside which it has at most MAX_NUMBERS acknowledgements.
MAX_RESULT_BYTES = 256 << 10
MAX_TEXT = 4096  #: characters in a reason, or a run's id
MAX_NAME = 200  #: of a worker's name, host or version
MAX_FIGURES = 4096  #: of one machine; each core is one
MAX_PEERS = 1 << 15  #: workers in a control state
_MAX_SHOWN = 100  #: characters of a text from a worker of another protocol
MAX_ROUND_TRIPS, MAX_INTERVALS = 1000, 1 << 13  #: of one check of the network
MAX_NUMBERS = 1 << 14  #: of batches or jobs in one message
MAX_MOVING = 64  #: of a heartbeat's objects that take long
#: Of a clock, so that the difference of two is still 64 bits. Three need ``in_clock_range``.
MAX_CLOCK_NS = 1 << 62
#: Of counts and measurements, so that their sums stay finite and exact enough.
MAX_NUMBER = 1e18

# What ``decode`` accepts in a field.
Natural = Annotated[int, Meta(ge=0)]
Clock = Annotated[int, Meta(gt=-MAX_CLOCK_NS, lt=MAX_CLOCK_NS)]
Duration = Annotated[int, Meta(ge=0, lt=MAX_CLOCK_NS)]
Number = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]
Seconds = Annotated[float, Meta(ge=0, le=MAX_DURATION_S)]  #: what an option can be
Numbers = Annotated[Sequence[Natural], Meta(max_length=MAX_NUMBERS)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Name = Annotated[str, Meta(max_length=MAX_NAME)]
FigureName = Annotated[str, Meta(max_length=64)]
Secret = Annotated[bytes, Meta(min_length=SECRET_BYTES, max_length=SECRET_BYTES)]
StackText = Annotated[str, Meta(max_length=MAX_KEY)]


class Hello(NamedTuple):
    """Introduces a worker. Repeated once a second until a control state lists its incarnation."""

    incarnation: Natural  #: 64 random bits; new each time that the master dropped the worker
    previous: Natural  #: the incarnation that this one replaces, 0 for none
    worker_id: Name
    concurrency: Natural
    host: Name
    pid: Natural
    version: Name
    #: Of the batches in its results, which name them by their index here.
    schemas: Schemas = RESULT_SCHEMAS
    cores: Natural = 0  #: that its process may use; 0: not reported
    secret: Secret = bytes(SECRET_BYTES)  #: the key of its seals; the same in all its incarnations

    def __repr__(self) -> str:
        return f"<Hello of {self.worker_id}, {self.incarnation}>"


class Heartbeat(NamedTuple):
    """The heartbeat; one per control state."""

    incarnation: Natural
    answered_serial: Natural  #: serial of the control state that it answers
    worker_ns: Clock  #: the worker's monotonic clock when this was sent
    hold_ns: Duration  #: time from the arrival of the control state to this message
    hub_idle_ns: Duration  #: time since the worker's event loop last ran
    busy: Natural  #: users with an operation in flight
    queued: Natural  #: jobs not yet started
    wall_ns: Clock = 0  #: the worker's wall clock at ``worker_ns``, since 1970; 0: unknown
    #: Objects whose upload takes long, by number -> bytes sent so far.
    moving: Annotated[Mapping[Natural, Natural], Meta(max_length=MAX_MOVING)] = {}


class Ready(NamedTuple):
    """Storage is open and connected for this phase. With ``stopped``: no jobs are queued, and none
    will be started (sent after the returned jobs)."""

    incarnation: Natural
    run: Text
    phase: Natural
    stopped: bool
    #: The phase's start on the worker's clock, the origin of its offsets. None: unknown.
    origin_ns: Clock | None = None
    #: The work socket is open. A worker without users opens none, and closes it when the control
    #: state is ``closing``; either way it sends another Ready.
    receiving: bool = True


class Host(NamedTuple):
    """Metrics of a worker and its host. core.stats.host_metrics defines their names."""

    incarnation: Natural
    at_ns: Clock  #: the worker's clock at the end of the second
    boot_id: Name  #: the same for all processes on a host; "" if unknown
    figures: Annotated[Mapping[FigureName, Number], Meta(max_length=MAX_FIGURES)]


class Profiled(NamedTuple):
    """A worker's CpuProfile of the run phase; sent at its end, if a control state asked for it."""

    incarnation: Natural
    run: Text
    stacks: Annotated[Mapping[StackText, Duration], Meta(max_length=MAX_STACKS)]
    samples: Natural
    overhead_ns: Duration


class Addresses(NamedTuple):
    """The addresses of the store that a worker's results of a phase number, from 1; sent before the
    first of these, and whenever there are more."""

    incarnation: Natural
    run: Text
    phase: Natural
    names: Annotated[Sequence[Name], Meta(max_length=MAX_ADDRESSES)]


class NetworkCheck(NamedTuple):
    """Part of a control state: a worker is to measure its connection to a listening side."""

    number: Natural  #: of the check; each is made once
    incarnation: Natural  #: the worker
    host: Name  #: to connect to; "": the master's, as the worker knows it
    port: Natural
    seconds: Seconds  #: of each direction
    size_bytes: Natural  #: to send in each direction instead; 0: no such limit
    connect_timeout_s: Seconds


class NetworkInterval(NamedTuple):
    """What arrived in a second of a transfer, or in its last part."""

    seconds: Number
    size_bytes: Natural
    round_trip_s: Number | None = None  #: by the sender's TCP, at the end; None: unknown


class NetworkResult(NamedTuple):
    """A measured connection, as seen from the side that made it."""

    round_trips_s: Annotated[Sequence[Number], Meta(max_length=MAX_ROUND_TRIPS)]  #: while idle
    sent: Annotated[Sequence[NetworkInterval], Meta(max_length=MAX_INTERVALS)]
    received: Annotated[Sequence[NetworkInterval], Meta(max_length=MAX_INTERVALS)]


class Network(NamedTuple):
    """The result of a NetworkCheck, or why there is none."""

    incarnation: Natural
    number: Natural
    result: NetworkResult | None
    fault: Text = ""


class Ack(NamedTuple):
    """Acknowledges batches: the worker holds them from now on."""

    incarnation: Natural
    run: Text
    batches: Numbers


class Results(NamedTuple):
    """Completed operations. ``packed`` is columns.pack_results in msgpack: it is stored as sent."""

    incarnation: Natural
    run: Text
    phase: Natural
    acked: Numbers  #: batches that the worker holds since its last message, as in Ack
    packed: bytes
    schema: Natural = 0  #: index into the schemas of the worker's hello


class Returned(NamedTuple):
    """Jobs, by number, that this worker has not started and will not."""

    incarnation: Natural
    run: Text
    numbers: Numbers


class Expired(NamedTuple):
    """The store answered 401 to the token of this serial."""

    incarnation: Natural
    token_serial: Natural


class Leaving(NamedTuple):
    """The worker was told to exit while it receives jobs. It starts none of them; it returns those
    that still arrive, until a control state is ``closing`` and gives it no users."""

    incarnation: Natural


class Bye(NamedTuple):
    """The worker exits."""

    incarnation: Natural
    reason: Text


class Jobs(NamedTuple):
    """A batch of jobs, packed by ``pack``."""

    run: Text
    phase: Natural
    batch: Natural  #: 63 random bits, which only the worker that gets it learns
    sent_ns: Clock  #: the master's monotonic clock: workers return batches that arrive too old
    packed: bytes
    schema: Natural = 0  #: index into the control state's job_schemas


class ControlState(NamedTuple):
    """The state of the run that workers must know. Always complete: messages may get lost."""

    master: Natural  #: 64 random bits; another number is another master, with another clock
    serial: Natural
    master_ns: Clock  #: the master's monotonic clock when this was sent
    run: Text  #: "" without a run
    phase: Natural
    start_ns: Clock  #: the phase's start on the master's clock
    #: incarnation -> (users, clock offset: worker's minus master's ns, None while unknown)
    workers: Annotated[Mapping[Natural, tuple[Natural, Clock | None]], Meta(max_length=MAX_PEERS)]
    #: incarnation -> the reason why the master refuses it
    refused: Annotated[Mapping[Natural, Text], Meta(max_length=MAX_PEERS)]
    settings: Mapping[str, Any]  #: StorageSettings.to_map(), {} without a run
    timeout_s: Seconds  #: --worker-timeout
    operation_timeout_s: Seconds  #: 0: none
    pipe: Natural  #: messages with jobs that may wait unread at a worker
    #: The master has no more jobs: return those that no idle user can take. Without a run: goodbye.
    ending: bool
    stopping: bool  #: start no more operations: return all queued jobs
    quit: bool  #: exit
    think_min_s: Seconds = 0.0  #: pause of a user after each operation, uniform: minimum
    think_max_s: Seconds = 0.0  #: maximum
    #: incarnation -> its users by group; {} if the run has no groups of users
    groups: Annotated[Mapping[Natural, Sequence[Natural]], Meta(max_length=MAX_PEERS)] = {}
    job_schemas: Schemas = JOB_SCHEMAS  #: of the batches of jobs
    closing: bool = False  #: no jobs are on their way: workers without users close their sockets
    profile: bool = False  #: sample where the workers spend CPU time in this phase
    network: NetworkCheck | None = None  #: to be made now

    def __repr__(self) -> str:
        """Without the settings, which hold credentials."""
        return f"<ControlState {self.serial} of {self.master}: run {self.run!r}, {self.phase}>"

    @property
    def is_goodbye(self) -> bool:
        """Whether the master's run, or series of runs, is over."""
        return self.ending and not self.run


#: Most frequent first, because ``decode`` tries them in this order.
Message = (
    Results
    | Jobs
    | Ack
    | Heartbeat
    | Host
    | ControlState
    | Hello
    | Ready
    | Returned
    | Expired
    | Leaving
    | Bye
    | Profiled
    | Addresses
    | Network
)


def in_clock_range(time_ns: int) -> int | None:
    """A time computed from clocks of other hosts; None if it is out of the range of messages, which
    means that a clock is wrong."""
    return time_ns if -MAX_CLOCK_NS < time_ns < MAX_CLOCK_NS else None


def unpack(data: bytes) -> Any:
    """Plain data from msgpack: see core.unpacking.

    :raises MessageError: if it is none, or would unfold into much more than a message holds.
    """
    try:
        return unpacking.unpack(data, _MAX_LENGTH, _MAX_ITEMS)
    except unpacking.FAULTS as error:
        raise MessageError(f"not msgpack: {type(error).__name__}") from error


#: Items of one array or map, and of all in plain data: a byte may unfold into 64 of memory.
_MAX_LENGTH = 1 << 17
_MAX_ITEMS = 1 << 18
_HELLO_WIDTH = 7  #: fields of a hello in every protocol
_SEAL = b"\xc4\x08"  #: msgpack's announcement of the 8 bytes of a seal
_SEAL_BYTES = 8
_NATURALS = {b"\xcc": 1, b"\xcd": 2, b"\xce": 4, b"\xcf": 8}  #: msgpack's heads: bytes that follow
_SETTINGS = ControlState._fields.index("settings")
_encoder = Encoder(enc_hook=int)  # an Operation is an int
#: Plain data as msgpack: jobs, and the packed results, inside a message.
pack: Callable[[Any], bytes] = _encoder.encode


class _Form:
    """A type of message on the wire.

    Protocol and type stand in the same array as the fields, so that each protocol can read the
    beginning of any other's messages. ``start`` is what all messages of the type begin with,
    ``head`` what an array of the fields alone begins with. ``sealed``: a worker's, with a seal as
    the last item.
    """

    def __init__(self, name: str, kind: type[Message]) -> None:
        self.name = name
        self.sealed = "incarnation" in kind._fields
        count = len(kind._fields)
        self.head = _encoder.encode([None] * count)[:-count]
        width = 2 + count + self.sealed
        array = _encoder.encode([None] * width)[:-width]
        self.start = array + _encoder.encode(PROTOCOL) + _encoder.encode(name)
        self._kind = kind

    @cached_property
    def decoder(self) -> Decoder[Any]:
        """Made when it is first needed: a process receives half of the types at most."""
        fields: Any = self._kind
        if fields is ControlState:  # settings hold anything: they are unpacked within bounds
            types = {**get_type_hints(fields, include_extras=True), "settings": Raw}
            fields = tuple[tuple(types.values())]  # type: ignore[misc]
        return Decoder(fields)


_FORMS: dict[type[Message], _Form] = {
    kind: _Form("control" if kind is ControlState else kind.__name__.lower(), kind)
    for kind in get_args(Message)
}


def encode(message: Message, secret: bytes = b"") -> bytes:
    """The message as bytes.

    :param secret: of the worker whose message it is, for the seal.
    """
    form = _FORMS[type(message)]
    data = form.start + _encoder.encode(message)[len(form.head) :]
    if not form.sealed:
        return data
    return data + _SEAL + blake2b(data, digest_size=_SEAL_BYTES, key=secret).digest()


def is_sealed(data: bytes, secret: bytes) -> bool:
    """Whether the bytes of a worker's message, which ``decode`` accepts, are sealed with this
    secret."""
    signed = memoryview(data)[: -len(_SEAL) - _SEAL_BYTES]
    seal = blake2b(signed, digest_size=_SEAL_BYTES, key=secret).digest()
    return compare_digest(data[-_SEAL_BYTES:], seal)


def announced(data: bytes) -> tuple[type[Message] | None, int]:
    """The type of a worker's message and the incarnation that it names, without a look at the rest;
    None and 0 if it has none."""
    for kind, form in _FORMS.items():
        if form.sealed and data.startswith(form.start):
            at = len(form.start)
            size = _NATURALS.get(data[at : at + 1], 0)
            number = data[at + 1 : at + 1 + size] or data[at : at + 1]
            return kind, int.from_bytes(number, "big")
    return None, 0


def decode(data: bytes) -> Message:
    """The message of ``encode``; its seal is not checked.

    :raises MessageError: for anything else, another protocol version included.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageError(f"a message of {len(data)} bytes; at most {MAX_MESSAGE_BYTES} are read")
    for form in _FORMS.values():
        if data.startswith(form.start):
            break
    else:
        raise _unknown(data)
    end = len(data)
    if form.sealed:
        end -= len(_SEAL) + _SEAL_BYTES
        if data[end : end + len(_SEAL)] != _SEAL:
            raise MessageError(f"{form.name}: no seal")
    message: Any = typed(form.decoder.decode, form.head + data[len(form.start) : end], form.name)
    if form.name == "control":
        settings = unpack(bytes(message[_SETTINGS]))
        if type(settings) is not dict:
            raise MessageError("control: settings that are no map")
        return ControlState._make([*message[:_SETTINGS], settings, *message[_SETTINGS + 1 :]])
    return message  # type: ignore[no-any-return]


def _unknown(data: bytes) -> MessageError:
    """Why the bytes are no message of this protocol; names the sender of another one's hello."""
    try:
        fields = unpack(data)
    except MessageError as error:
        return error
    if type(fields) is not list or len(fields) < 2:
        return MessageError("not an ssbench message")
    protocol = fields[0] if type(fields[0]) is int else None
    if protocol == PROTOCOL:
        return MessageError("a message of unknown type or length")
    text = (
        f"protocol {'of another kind' if protocol is None else protocol};"
        f" this ssbench speaks {PROTOCOL}"
    )
    if protocol is None or fields[1] != "hello" or len(fields) < 2 + _HELLO_WIDTH:
        return ProtocolError(text, protocol)
    hello = Hello(*fields[2 : 2 + _HELLO_WIDTH])
    names = hello.worker_id, hello.host, hello.version
    if type(hello.pid) is not int or not all(
        type(name) is str and len(name) <= MAX_TEXT for name in names
    ):
        return ProtocolError(text, protocol)
    worker_id, host, release = (printable(name[:_MAX_SHOWN]) for name in names)
    sender = f"{worker_id} ({host}, pid {hello.pid})"
    return ProtocolError(text, protocol, sender=sender, release=release)
