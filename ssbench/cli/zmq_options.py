"""Options of the transport for masters and workers, and those of kill-workers and make-key."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ssbench.cli.parser import add_options
from ssbench.core import option as types
from ssbench.core.errors import UsageError
from ssbench.core.option import Option

WORK_PORT, RESULTS_PORT, CONTROL_PORT = 13579, 13580, 13581
KEY_FILE_VARIABLE = "SSBENCH_KEY_FILE"


@dataclass(frozen=True, slots=True)
class ZmqOptions:
    """Address, ports and key of the transport.

    :param address: for a master, the interface to bind; None: all interfaces with a key, loopback
        without one. For a worker, the master's host.
    :param key_file: path; None: no encryption.
    """

    address: str | None
    work_port: int
    results_port: int
    control_port: int
    key_file: str | None


PORTS_AND_KEY = (
    Option(
        ("--zmq-work-port",),
        "zmq_work_port",
        types.port,
        WORK_PORT,
        help="port for jobs",
        metavar="PORT",
    ),
    Option(
        ("--zmq-results-port",),
        "zmq_results_port",
        types.port,
        RESULTS_PORT,
        help="port for results",
        metavar="PORT",
        aliases=("--zmq-results_port",),  # the spelling of ssbench 0.3.9's master
    ),
    Option(
        ("--zmq-control-port",),
        "zmq_control_port",
        types.port,
        CONTROL_PORT,
        help="port for the master's broadcasts to all workers",
        metavar="PORT",
    ),
    Option(
        ("--zmq-key-file",),
        "zmq_key_file",
        help="encrypt all traffic, and reject peers without this key; use the same file on all "
        "hosts (make-key writes one)",
        metavar="FILE",
        variables=(KEY_FILE_VARIABLE,),
    ),
)
MASTER_SOCKETS = (
    Option(
        ("--zmq-bind-ip",),
        "zmq_bind_ip",
        help="address to listen on for workers; 0.0.0.0 or :: for all interfaces [default: all "
        "with a key file, 127.0.0.1 without]",
        metavar="BIND_IP",
    ),
    *PORTS_AND_KEY,
)
KILL_WORKERS = (
    Option(
        ("--worker-wait",),
        "worker_wait",
        types.seconds_or_none,
        30.0,
        help="longest wait for workers to connect and to exit",
        metavar="SECONDS",
    ),
    *(replace(row, group="workers") for row in MASTER_SOCKETS),
)
MAKE_KEY = (
    Option((), "key_file", help="a file that does not exist yet", metavar="FILE", required=True),
)


def add_kill_workers(parser: argparse.ArgumentParser) -> None:
    add_options(parser, KILL_WORKERS)


def add_make_key(parser: argparse.ArgumentParser) -> None:
    add_options(parser, MAKE_KEY)


def zmq_options(
    ns: argparse.Namespace, environ: Mapping[str, str], address: str | None
) -> ZmqOptions:
    """Transport options from a parsed command line and the environment.

    :raises UsageError: for equal ports, and for an empty key file name.
    """
    ports = (ns.zmq_work_port, ns.zmq_results_port, ns.zmq_control_port)
    if len(set(ports)) < len(ports):
        named = "--zmq-work-port {}, --zmq-results-port {}, --zmq-control-port {}".format(*ports)
        raise UsageError(f"{named}: give three different ports")
    if ns.zmq_key_file == "":  # an unset shell variable must not disable encryption
        raise UsageError("--zmq-key-file: the name is empty; leave it out for no key")
    key_file = ns.zmq_key_file or environ.get(KEY_FILE_VARIABLE) or None
    return ZmqOptions(address, *ports, key_file)
