"""What the sockets of both sides have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import zmq

from ssbench.core.messages import MAX_MESSAGE_BYTES
from ssbench.transport.batch_scheduling import batch_scheduling
from ssbench.transport.ports import TransportError

CONTROL_HWM = 16
LINGER_MS = 2000  #: what was said last may take so long to go out
#: Connections that may wait to be let in. All workers come at once when a master starts; those of
#: 256 were more than ZeroMQ's 100, and who isn't let in tries again a second later at the earliest.
BACKLOG = 1024
#: Short pipes for jobs: what waits in the buffers of a worker that doesn't read is out of reach.
#: (Of batches of one job, 60 bytes each, a stopped worker swallows about 250 with these.)
_WORK_BUFFER_BYTES = 4096
_DEAD_MS = 10_000


def make_context() -> zmq.Context[zmq.Socket[bytes]]:
    """A context whose own thread gives way to ours."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with batch_scheduling():
        context.socket(zmq.PAIR).close()  # the first socket is what begins the thread
    return context


def make_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, ip: str) -> zmq.Socket[bytes]:
    """One that neither waits at its end, nor for a peer that is gone."""
    sock = context.socket(kind)
    sock.setsockopt(zmq.IPV6, int(":" in ip))
    sock.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    sock.setsockopt(zmq.LINGER, 0)
    _detect_dead_peers(sock)
    sock.setsockopt(zmq.RECONNECT_IVL, 100)
    sock.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
    sock.setsockopt(zmq.BACKLOG, BACKLOG)
    if kind in (zmq.PUSH, zmq.PULL):
        sock.setsockopt(zmq.IMMEDIATE, 1)  # nothing is queued for a peer that isn't there
    return sock


def _detect_dead_peers(sock: zmq.Socket[bytes]) -> None:
    """A peer behind a dead link is dropped, and reached anew as soon as the link is back.

    By TCP, not by ZeroMQ's heartbeats: those drop a peer that has enough to do and so reads
    nothing, and abort the process when its full connection breaks (libzmq 4.3.5: issue 4364).
    """
    sock.setsockopt(zmq.TCP_KEEPALIVE, 1)
    for option in (zmq.TCP_KEEPALIVE_IDLE, zmq.TCP_KEEPALIVE_INTVL, zmq.TCP_KEEPALIVE_CNT):
        sock.setsockopt(option, 3)  # seconds, seconds and times
    sock.setsockopt(zmq.CONNECT_TIMEOUT, 3000)


def drop_stalled_peers(sock: zmq.Socket[bytes]) -> None:
    """What is sent here is read at once, or else the link is dead. (Jobs may well have to wait.)"""
    sock.setsockopt(zmq.TCP_MAXRT, _DEAD_MS)


def limit_buffers(sock: zmq.Socket[bytes], pipe: int) -> None:
    """Let few messages with jobs wait here, whatever their size."""
    sock.set_hwm(pipe)
    sock.setsockopt(zmq.SNDBUF, _WORK_BUFFER_BYTES)
    sock.setsockopt(zmq.RCVBUF, _WORK_BUFFER_BYTES)


@contextmanager
def translate_socket_errors() -> Iterator[None]:
    """Say in a line where the system has none left."""
    try:
        yield
    except zmq.ZMQError as error:
        reason = zmq.strerror(error.errno or 0)
        raise TransportError(f"no socket is to be had: {reason} (see ulimit -n)") from error
