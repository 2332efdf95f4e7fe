"""What master and workers go by: ports, peers and time limits, the store and its credentials."""

from collections.abc import Collection, Mapping
from typing import Annotated, Any, TypeVar

from msgspec import Struct, ValidationError, convert, to_builtins
from msgspec.structs import replace

from ssbench.core import boundary, units
from ssbench.core import option as types
from ssbench.core.errors import UsageError
from ssbench.core.hiding import Hiding
from ssbench.core.model import ContentMix, InitialHeaders, SizeClass
from ssbench.core.option import EXECUTION, WORKERS, of_field
from ssbench.core.scenario.storage_keys import StorageKeys

MAX_WORKERS = 2048  #: of a master: each control state names them all


class TransportConfig(Struct, frozen=True):
    """Address, ports and key of a master's transport.

    :param address: the interface to bind; None: all interfaces with a key, loopback without one.
    :param work_port, results_port, control_port: 0: any free port.
    :param key_file: path; None: no encryption.
    :raises UsageError: equal ports.
    """

    # fmt: off
    address: Annotated[str | None,
        of_field("--zmq-bind-ip", str, WORKERS,
            "address to listen on for workers; 0.0.0.0 or :: for all interfaces [default: all "
            "with a key file, 127.0.0.1 without]", metavar="BIND_IP")] = None
    work_port: Annotated[int,
        of_field("--zmq-work-port", units.port, WORKERS, "port for jobs")] = 13579
    results_port: Annotated[int,  # the alias is the spelling of ssbench 0.3.9's master
        of_field("--zmq-results-port", units.port, WORKERS, "port for results",
            aliases=("--zmq-results_port",))] = 13580
    control_port: Annotated[int,
        of_field("--zmq-control-port", units.port, WORKERS,
            "port for the master's broadcasts to all workers")] = 13581
    key_file: Annotated[str | None,
        of_field("--zmq-key-file", str, WORKERS,
            "encrypt all traffic, and reject peers without this key; use the same file on all "
            "hosts (make-key writes one). Without it, masters and workers of one user on 127.0.0.1 "
            "share a key; none: no key", metavar="FILE", variables=("SSBENCH_KEY_FILE",),
            file="r")] = None
    # fmt: on

    def __post_init__(self) -> None:
        ports = self.work_port, self.results_port, self.control_port
        taken = [port for port in ports if port]
        if len(set(taken)) < len(taken):
            named = "--zmq-work-port {}, --zmq-results-port {}, --zmq-control-port {}"
            raise UsageError(f"{named.format(*ports)}: give three different ports")


class Limits(Struct, frozen=True, kw_only=True):
    """Time limits and amounts that a master keeps to in all phases."""

    # fmt: off
    worker_timeout_s: Annotated[float,
        of_field("--worker-timeout", units.seconds, WORKERS,
            "time without a heartbeat after which a worker is declared lost")] = 10.0
    worker_wait_s: Annotated[float,
        of_field("--worker-wait", units.seconds_or_none, WORKERS,
            "longest wait for workers")] = 30.0
    fewer_workers_ok: Annotated[bool,
        of_field("--fewer-workers-ok", bool, WORKERS,
            "run even if fewer workers connect than --expect-workers, --workers or "
            "--ssh-workers says [default: do not start, and exit with status 6]")] = False
    operation_timeout_s: Annotated[float | None,
        of_field("--operation-timeout", units.seconds, EXECUTION,
            "time limit of an operation, including retries [default: no limit]")] = None
    drain_timeout_s: Annotated[float,
        of_field("--drain-timeout", units.seconds_or_none, EXECUTION,
            "longest wait for operations in flight at the end, or after Ctrl-C")] = 30.0
    max_consecutive_errors: Annotated[int | None,
        of_field("--max-consecutive-errors", units.count, EXECUTION,
            "end the run when this many operations failed in a row; never by default",
            exclusive="errors"),
        of_field("--stop-on-error", bool, EXECUTION,
            "end the run at the first failed operation",
            const=1, exclusive="errors")] = None
    batch_size: Annotated[int | None,
        of_field("--batch-size", types.batch_size, WORKERS,
            "most jobs in one message; auto sends what is due, at most 256; 1 is what ssbench "
            "0.3.9 did", default="auto", metavar="COUNT")] = None
    # fmt: on


class WorkerSettings(Struct, frozen=True):
    """What a worker is started with.

    :param host: the host's name, for reports.
    :param cores: that this process may use; 0: unknown.
    """

    # fmt: off
    worker_id: str
    concurrency: Annotated[int,  # 0: it only sends metrics of its host
        of_field("-c --concurrency", units.count, "", "most users that this worker can run",
            exclusive="purpose", brief="most users of this worker, 64")] = 64
    retries: Annotated[int,
        of_field("--retries", units.count_or_none, "",
            "number of times to repeat a failed operation", metavar="COUNT")] = 10
    exit_with_master: Annotated[bool,
        of_field("--exit-with-master", bool, "master",
            "exit when the master is gone or its run is over, instead of waiting for the next run; "
            "the status is 1 if work was cut short, or if no master comes in 10 minutes, else 0",
            brief="exit when the run is over")] = False
    # fmt: on
    host: str = ""
    pid: int = 0
    version: str = ""
    cores: int = 0


T = TypeVar("T")

#: How the storage URL of a request is chosen.
URL_CHOICES = ("random", "round-robin", "least-busy")
LISTED_MAX = 200_000_000  #: hours of requests; memory is that of a page


class Credentials(Hiding, frozen=True):
    """Access to a store, as workers may hold it: a token, a signing key, never the password.

    Only the driver and its credentials provider know what the payload is.
    """

    HIDDEN = ("payload",)

    serial: int = 0  #: grows with each renewal
    expires_at: float | None = None  #: Unix time; None: not known
    payload: Mapping[str, Any] = {}  #: secret
    #: Numbers of identities (as of StorageError) whose credentials the store rejects while there
    #: are no others: their operations fail without a wait for a renewal.
    rejected: tuple[int, ...] = ()


class StorageSettings(Hiding, StorageKeys, frozen=True):
    """Settings of one run for any store. Only ``credentials`` are secret; the repr omits them.

    ``store`` is for the driver alone: its own typed settings as a map (see ``typed``).
    """

    HIDDEN = ("credentials",)

    driver: str = "swift"  #: name of a row of storage.registry, or "package.module:Class"
    run_id: str = ""
    worker_id: str = ""  #: for the store's logs; each worker fills it in
    sizes: tuple[SizeClass, ...] = ()
    placement: str | None = None  #: of containers (Swift: the storage policy); None: the default
    delete_after_s: int | None = None
    # fmt: off
    connect_timeout_s: Annotated[float,
        of_field("--connect-timeout", units.seconds, "store",
            "longest wait for a connection")] = 10.0
    network_timeout_s: Annotated[float,
        of_field("--network-timeout", units.seconds, "store",
            "idle timeout of a connection")] = 20.0
    listed_max: Annotated[int,
        of_field("--max-listed", units.count, "store",
            "entries of a container's or the account's listing; one with more is taken to be "
            "endless")] = LISTED_MAX
    url_choice: Annotated[str,
        of_field("--url-choice", str, "store",
            "which of several storage URLs a request goes to: any, each in turn, or the one with "
            "the fewest connections of the worker in use", choices=URL_CHOICES)] = URL_CHOICES[0]
    # fmt: on
    compressible: bool = False  #: bodies of one repeated letter, as in ssbench 0.3.9
    mix: ContentMix | None = None  #: bodies that compress in part; None: random bytes
    verify: bool = False  #: check the content of reads
    #: Further request headers: an operation's number, and lines, each with its CRLF.
    headers: tuple[tuple[int, str], ...] = ()
    initial_headers: InitialHeaders = InitialHeaders()
    bandwidth: int = 0  #: bytes/s of all users of the run phase together; 0: any number
    source_addresses: tuple[str, ...] = ()  #: to connect from, in turn; each worker fills it in
    knows_versions: bool = False  #: uploads report the ids of their versions
    names: Mapping[str, Any] = {}  #: as core.naming.NAMINGS; {}: by run
    #: Of real files, as storage.directory.FileContents; {}: synthetic (core.content).
    contents: Mapping[str, Any] = {}
    store: Mapping[str, Any] = {}
    #: Those that are valid, the newest last. Before the last but one expire, the last arrive: a
    #: driver that signs by time needs both.
    credentials: tuple[Credentials, ...] = ()

    @property
    def url_count(self) -> int:
        """How many addresses ``Timing.url`` can be an index of: the store's ``urls``, if any."""
        return len(self.store.get("urls", ())) or 1

    @property
    def exact_names(self) -> bool:
        """Whether names are those that the user or another client gave: a driver must not map them
        to others, as it may do with names that we make."""
        return self.names.get("kind") in ("listed", "numbered")

    def with_exact_names(self) -> "StorageSettings":
        """The same, to list what the user or another client named."""
        return replace(self, names={"kind": "listed"})

    @property
    def newest(self) -> Credentials:
        return self.credentials[-1] if self.credentials else Credentials()

    def to_map(self) -> dict[str, Any]:
        """A map that msgpack can encode, secrets included: only for messages."""
        values: dict[str, Any] = to_builtins(self, builtin_types=(bytes,), enc_hook=int)
        return values

    @classmethod
    def from_map(cls, values: Mapping[str, Any]) -> "StorageSettings":
        """The inverse of ``to_map``; unknown keys are ignored.

        :raises MessageError: for a malformed map.
        """
        found: StorageSettings = boundary.typed(convert, values, "settings", type=cls)
        return found


def newest_credentials(values: Mapping[str, Any]) -> Credentials | None:
    """The newest credentials in a map of settings; None if there are none, or malformed ones."""
    try:
        return convert(values.get("credentials", ())[-1:], tuple[Credentials])[0]
    except (ValidationError, TypeError):
        return None


def typed(kind: type[T], values: Mapping[str, Any]) -> T:
    """A struct of this kind from a map off the wire: unknown keys are ignored, lists are tuples.

    The settings of a driver outside this repository may also be a dataclass.

    :raises TypeError: a value without a default is missing.
    """
    known: Collection[str] = (
        kind.__struct_fields__ if issubclass(kind, Struct) else kind.__dataclass_fields__  # type: ignore[attr-defined]
    )
    given = {name: value for name, value in dict(values).items() if name in known}
    return kind(**{n: tuple(v) if isinstance(v, list) else v for n, v in given.items()})
