"""Options of the transport for masters and workers, and those of kill-workers and make-key."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from ssbench.cli import option_types as types
from ssbench.core.errors import UsageError

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


def add_master_sockets(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--zmq-bind-ip",
        metavar="BIND_IP",
        help="address to listen on for workers; 0.0.0.0 or :: for all interfaces [default: all "
        "with a key file, 127.0.0.1 without]",
    )
    add_ports(group)


def add_ports(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--zmq-work-port", type=types.port, default=WORK_PORT, metavar="PORT", help="port for jobs")
    add(
        "--zmq-results-port",
        type=types.port,
        default=RESULTS_PORT,
        metavar="PORT",
        help="port for results",
    )
    # The spelling of ssbench 0.3.9's master.
    add(
        "--zmq-results_port",
        type=types.port,
        dest="zmq_results_port",
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )
    add(
        "--zmq-control-port",
        type=types.port,
        default=CONTROL_PORT,
        metavar="PORT",
        help="port for the master's broadcasts to all workers",
    )
    add("--zmq-key-file", metavar="FILE",
        help="encrypt all traffic, and reject peers without this key; use the same file on all "
        "hosts (make-key writes one) [env SSBENCH_KEY_FILE]")  # fmt: skip


def add_kill_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--worker-wait",
        type=types.seconds_or_none,
        default=30.0,
        metavar="SECONDS",
        help="longest wait for workers to connect and to exit",
    )
    add_master_sockets(parser.add_argument_group("workers"))


def add_make_key(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key_file", metavar="FILE", help="a file that does not exist yet")


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
