"""What master and workers go by with each other: addresses, ports, key, time limits."""

from typing import Annotated

from msgspec import Struct

from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.option import EXECUTION, WORKERS, of_field

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
