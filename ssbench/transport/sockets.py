"""What the sockets of master and workers have in common: addresses, options, errors.

ZeroMQ's own thread is woken for nearly every message. If it took the core of the thread that is
sending or receiving, it would carry one message at a time. With batch scheduling it waits until
that thread pauses, or another core is free, and carries several: a third less CPU time for no-op
operations on two busy cores (docs/explanation/performance.rst).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import NamedTuple

import zmq

from ssbench.core.errors import SsbenchError
from ssbench.core.messages import MAX_MESSAGE_BYTES

CONTROL_HWM = 16
LINGER_MS = 2000  #: how long the last messages may take to be sent
#: Connections that may wait to be accepted. All workers connect at once when a master starts. 256
#: were more than ZeroMQ's default of 100, and the others retry a second later at the earliest.
BACKLOG = 1024
#: Short pipes for jobs: jobs in the buffers of a worker that does not read can't be recalled.
#: (With these, a stopped worker takes about 250 batches of one job, 60 bytes each.)
_WORK_BUFFER_BYTES = 4096
_DEAD_MS = 10_000


LOOPBACK = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # nosec B104 # only with a key, or where the user says so


class TransportError(SsbenchError):
    """No socket: an address in use, a host without an address, too many open files."""


class PortInUseError(TransportError):
    """Another process listens on a port of the master."""


class Ports(NamedTuple):
    work: int = 13579
    results: int = 13580
    control: int = 13581


def resolve(host: str) -> str:
    """The IP address of a host; IPv4 if it has both kinds.

    :raises TransportError: for a name without an address.
    """
    with suppress(ValueError):  # not an address itself; getaddrinfo loads modules that take 3 ms
        return str(ip_address(host))
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = (getattr(error, "strerror", None) or str(error)).lower()
        raise TransportError(f"{host}: no address is known for this host ({why})") from error
    families = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return str(families[0][4][0])


def bind_address(host: str | None, *, has_key: bool) -> str:
    """The IP address to listen at; None: all interfaces with a key, loopback without one."""
    return resolve(host) if host else EVERYWHERE if has_key else LOOPBACK


def endpoint(ip: str, port: int | str) -> str:
    return f"tcp://[{ip}]:{port}" if ":" in ip else f"tcp://{ip}:{port}"


@contextmanager
def batch_scheduling() -> Iterator[None]:
    """Threads started within run under SCHED_BATCH for all their life; this one does within.

    A thread inherits the policy of the one that starts it. libzmq has an option for the same, but
    aborts the process if the system does not permit it.
    """
    # Another policy was chosen by the user.
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        yield
        return
    with suppress(OSError):  # not permitted: it is only slower
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def make_context() -> zmq.Context[zmq.Socket[bytes]]:
    """A context whose own thread is scheduled as batch."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with batch_scheduling():
        context.socket(zmq.PAIR).close()  # the first socket starts the thread
    return context


def make_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, ip: str) -> zmq.Socket[bytes]:
    """A socket that waits neither when it closes, nor for a peer that is gone."""
    sock = context.socket(kind)
    sock.setsockopt(zmq.IPV6, int(":" in ip))
    sock.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    sock.setsockopt(zmq.LINGER, 0)
    _detect_dead_peers(sock)
    sock.setsockopt(zmq.RECONNECT_IVL, 100)
    sock.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
    sock.setsockopt(zmq.BACKLOG, BACKLOG)
    if kind in (zmq.PUSH, zmq.PULL):
        sock.setsockopt(zmq.IMMEDIATE, 1)  # nothing is queued for a peer that is not connected
    return sock


def _detect_dead_peers(sock: zmq.Socket[bytes]) -> None:
    """Drop a peer behind a dead link, and reconnect as soon as the link is back.

    By TCP keepalives, not by ZeroMQ's heartbeats: those drop a busy peer that reads nothing, and
    abort the process when its full connection breaks (libzmq 4.3.5: issue 4364).
    """
    sock.setsockopt(zmq.TCP_KEEPALIVE, 1)
    for option in (zmq.TCP_KEEPALIVE_IDLE, zmq.TCP_KEEPALIVE_INTVL, zmq.TCP_KEEPALIVE_CNT):
        sock.setsockopt(option, 3)  # seconds, seconds and times
    sock.setsockopt(zmq.CONNECT_TIMEOUT, 3000)


def drop_stalled_peers(sock: zmq.Socket[bytes]) -> None:
    """Drop peers that do not read this socket promptly. Not for the job socket: jobs may wait."""
    sock.setsockopt(zmq.TCP_MAXRT, _DEAD_MS)


def limit_buffers(sock: zmq.Socket[bytes], pipe: int) -> None:
    """Let few messages with jobs wait here, whatever their size."""
    sock.set_hwm(pipe)
    sock.setsockopt(zmq.SNDBUF, _WORK_BUFFER_BYTES)
    sock.setsockopt(zmq.RCVBUF, _WORK_BUFFER_BYTES)


@contextmanager
def translate_socket_errors() -> Iterator[None]:
    """TransportError for ZeroMQ's errors."""
    try:
        yield
    except zmq.ZMQError as error:
        reason = zmq.strerror(error.errno or 0)
        raise TransportError(f"no socket is left: {reason} (see ulimit -n)") from error
