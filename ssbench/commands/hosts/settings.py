"""The options of check-network: light, so that help and completions need no ZeroMQ."""

from collections.abc import Sequence
from typing import Annotated

from ssbench.cli.options import MASTER_SOCKETS, of_run, without
from ssbench.cli.worker_options import NETWORK_SERVER_PORT
from ssbench.core import option as types
from ssbench.core import units
from ssbench.core.option import WORKERS, of_field, options_of_fields
from ssbench.core.settings import Limits, TransportConfig


class NetworkConfig(Limits, frozen=True, kw_only=True):
    """What check-network measures."""

    # fmt: off
    transport: TransportConfig
    #: Host and port of each listening side.
    servers: Annotated[Sequence[tuple[str, int]],
        of_field("", types.address(NETWORK_SERVER_PORT), "",
            "host where ssbench-worker --network-server runs, such as the store's; port 13583 "
            "unless given", metavar="HOST[:PORT]", repeat=True, default=None,
            brief="where the network server runs")] = ()
    seconds: Annotated[float,
        of_field("--time", units.seconds, "", "length of each transfer",
            exclusive="length", brief="length of each transfer, 5")] = 5.0
    #: 0: as much as goes in that time.
    size_bytes: Annotated[int,
        of_field("--bytes", units.size, "",
            "size of each transfer instead, such as 1G, which is 1 GiB", metavar="SIZE",
            exclusive="length", brief="size of each transfer instead, as in 1G")] = 0
    connect_timeout_s: Annotated[float,
        of_field("--connect-timeout", units.seconds, "", "longest wait for a connection")] = 10.0
    #: Of the master's own listening side.
    port: Annotated[int,
        of_field("--network-port", units.port, WORKERS,
            "port of this host that workers connect to, to measure")] = 13582
    #: None: those that join until no more do.
    expect_workers: Annotated[int | None,
        of_run("expect_workers",
            help="number of workers to wait for [default: until no more connect for 2 s]",
            brief="workers to wait for")] = None
    # fmt: on


_OF_RUNS = (
    "fewer_workers_ok", "operation_timeout_s", "drain_timeout_s", "max_consecutive_errors",
    "batch_size",
)  # fmt: skip
CHECK_NETWORK = (*without(options_of_fields(NetworkConfig), *_OF_RUNS), *MASTER_SOCKETS)
