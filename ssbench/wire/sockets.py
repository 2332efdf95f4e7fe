"""Messages over ZeroMQ: three sockets of the master, and the workers' ends of them.

========= =================================== ==================
channel   pattern                             default port
========= =================================== ==================
work      master PUSH -> worker PULL          13579
results   worker PUSH -> master PULL          13580
control   master PUB -> worker SUB            13581
========= =================================== ==================

The master binds, workers connect. Sockets are plain ones, never zmq.green: a worker watches their
file descriptors with its own event loop, the master polls.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import zmq

from ssbench.core.errors import MessageError, SsbenchError
from ssbench.core.messages import MAX_MESSAGE_BYTES, Message, decode, encode
from ssbench.wire.doorkeeper import Doorbell, Doorkeeper
from ssbench.wire.key import Key
from ssbench.wire.refusals import Refusals
from ssbench.wire.yielding import yielding

#: Short pipes for jobs: what waits in the buffers of a worker that doesn't read is out of reach.
#: (Of batches of one job, 60 bytes each, a stopped worker swallows about 250 with these.)
_WORK_BUFFER_BYTES = 4096
#: Messages in a pipe. With one, each waits for ZeroMQ's own thread: 15 µs a message instead of 2.
_LONGEST_PIPE, _SHORTEST_PIPE, _JOBS_IN_PIPE = 16, 2, 64
_BEAT_HWM = 16
#: Connections that may wait to be let in. All workers come at once when a master starts; those of
#: 256 were more than ZeroMQ's 100, and who isn't let in tries again a second later at the earliest.
BACKLOG = 1024
RECEIVED_AT_ONCE = 256  #: messages, until the master sees to its other duties
_LINGER_MS = 2000
_DEAD_MS = 10_000


class WireError(SsbenchError):
    """A socket that can't be had: an address in use, a host without a name."""


@dataclass(frozen=True)
class Ports:
    """The master's three ports."""

    work: int = 13579
    results: int = 13580
    control: int = 13581


def resolve(host: str) -> str:
    """The IP address of a host; names that have both kinds give IPv4.

    :raises WireError: for a name without an address.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise WireError(f"{host}: no address is known for this host ({error})") from error
    families = sorted(found, key=lambda entry: entry[0] != socket.AF_INET)
    return str(families[0][4][0])


def _make_context() -> zmq.Context[zmq.Socket[bytes]]:
    """A context whose own thread gives way to ours."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with yielding():
        context.socket(zmq.PAIR).close()  # the first socket is what begins the thread
    return context


def _endpoint(ip: str, port: int | str) -> str:
    return f"tcp://[{ip}]:{port}" if ":" in ip else f"tcp://{ip}:{port}"


def _make_socket(context: zmq.Context[zmq.Socket[bytes]], kind: int, ip: str) -> zmq.Socket[bytes]:
    sock = context.socket(kind)
    sock.setsockopt(zmq.IPV6, int(":" in ip))
    sock.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    sock.setsockopt(zmq.LINGER, 0)
    _notice_dead_links(sock)
    sock.setsockopt(zmq.RECONNECT_IVL, 100)
    sock.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
    sock.setsockopt(zmq.BACKLOG, BACKLOG)
    if kind in (zmq.PUSH, zmq.PULL):
        sock.setsockopt(zmq.IMMEDIATE, 1)  # nothing is queued for a peer that isn't there
    return sock


def _notice_dead_links(sock: zmq.Socket[bytes]) -> None:
    """A peer behind a dead link is dropped, and reached anew as soon as the link is back.

    By TCP, not by ZeroMQ's heartbeats: those drop a peer that has enough to do and so reads
    nothing, and abort the process when its full connection breaks (libzmq 4.3.5: issue 4364).
    """
    sock.setsockopt(zmq.TCP_KEEPALIVE, 1)
    for option in (zmq.TCP_KEEPALIVE_IDLE, zmq.TCP_KEEPALIVE_INTVL, zmq.TCP_KEEPALIVE_CNT):
        sock.setsockopt(option, 3)  # seconds, seconds and times
    sock.setsockopt(zmq.CONNECT_TIMEOUT, 3000)


def _expect_a_reader(sock: zmq.Socket[bytes]) -> None:
    """What is sent here is read at once, or else the link is dead. (Jobs may well have to wait.)"""
    sock.setsockopt(zmq.TCP_MAXRT, _DEAD_MS)


def pipe_length(jobs_a_message: int) -> int:
    """How many messages a pipe may hold, so that it holds few jobs."""
    return max(_SHORTEST_PIPE, min(_LONGEST_PIPE, _JOBS_IN_PIPE // max(jobs_a_message, 1)))


def _shorten(sock: zmq.Socket[bytes], pipe: int) -> None:
    sock.set_hwm(pipe)
    sock.setsockopt(zmq.SNDBUF, _WORK_BUFFER_BYTES)
    sock.setsockopt(zmq.RCVBUF, _WORK_BUFFER_BYTES)


@contextmanager
def _sockets_needed() -> Iterator[None]:
    """Say in a line where the system has none left."""
    try:
        yield
    except zmq.ZMQError as error:
        reason = zmq.strerror(error.errno or 0)
        raise WireError(f"no socket is to be had: {reason} (see ulimit -n)") from error


class MasterWire:
    """The master's ends. A context manager.

    :param bind_ip: None: every interface where there is a key, loopback without one.
    :param pipe: ``pipe_length`` of the run to come.
    :raises WireError: where a port can't be bound, or no socket is to be had.
    """

    @_sockets_needed()
    def __init__(
        self,
        bind_ip: str | None,
        ports: Ports,
        key: Key | None,
        *,
        pipe: int = _SHORTEST_PIPE,
    ) -> None:
        self.pipe = pipe
        self.key_words = "with the same --zmq-key-file" if key else "without a --zmq-key-file"
        everywhere = "0.0.0.0"  # nosec B104 # where CURVE keeps strangers out
        self.ip = resolve(bind_ip) if bind_ip else (everywhere if key else "127.0.0.1")
        self._refusals = Refusals("results")
        self._context = _make_context()
        self._doorkeeper = Doorkeeper(self._context, key)
        try:
            self._work = self._bind(zmq.PUSH, ports.work)
            self._results = self._bind(zmq.PULL, ports.results)
            self._control = self._bind(zmq.PUB, ports.control)
        except BaseException:
            self._stop()
            raise
        self.ports = Ports(*map(_port_of, (self._work, self._results, self._control)))
        self._doorkeeper.begin((self.ports.work, self.ports.results, self.ports.control))
        self._poller = zmq.Poller()
        self._poller.register(self._results, zmq.POLLIN)

    def _bind(self, kind: int, port: int) -> zmq.Socket[bytes]:
        sock = _make_socket(self._context, kind, self.ip)
        if kind == zmq.PUSH:
            _shorten(sock, self.pipe)
        if kind == zmq.PUB:
            _expect_a_reader(sock)
            sock.set_hwm(_BEAT_HWM)
            sock.setsockopt(zmq.LINGER, _LINGER_MS)
        self._doorkeeper.lock(sock)
        endpoint = _endpoint(self.ip, port or "*")
        try:
            sock.bind(endpoint)
        except zmq.ZMQError as error:
            in_use = error.errno == zmq.EADDRINUSE
            raise WireError(
                f"{endpoint}: can't listen there: {zmq.strerror(error.errno or 0)}"
                f"{'; is another ssbench-master running?' if in_use else ''} (--zmq-bind-ip,"
                " --zmq-work-port, --zmq-results-port, --zmq-control-port)"
            ) from error
        return sock

    def send_jobs(self, data: bytes) -> bool:
        """Give a message to a worker whose pipe has room; False where none has."""
        try:
            self._work.send(data, zmq.NOBLOCK, copy=True)
        except zmq.Again:
            return False
        return True

    def send_beat(self, message: Message) -> None:
        """Tell all workers; whom it doesn't reach will hear the next one."""
        self._control.send(encode(message))

    def receive(self, timeout_s: float, *, or_room: bool = False) -> Iterator[Message]:
        """Messages from workers: waits for the first up to the time-out.

        :param or_room: also return as soon as a worker has room for jobs.
        """
        data = self._next_result()
        if data is None and self._wait(timeout_s, or_room=or_room):
            data = self._next_result()
        left = RECEIVED_AT_ONCE
        while data is not None:
            try:
                yield decode(data)
            except MessageError as error:
                self._refusals.tell(error)
            left -= 1
            data = self._next_result() if left else None

    def _next_result(self) -> bytes | None:
        try:
            return self._results.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def _wait(self, timeout_s: float, *, or_room: bool) -> bool:
        """Until there is something; False where a signal came instead."""
        self._poller.register(self._work, zmq.POLLOUT if or_room else 0)
        try:
            self._poller.poll(int(max(timeout_s, 0) * 1000))
        except zmq.ZMQError as error:
            if error.errno != zmq.EINTR:  # type: ignore[attr-defined]
                raise
            return False
        return True

    @property
    def refused(self) -> int:
        """How many messages were none of ours."""
        return self._refusals.count

    def strangers(self, *, last: bool = False) -> list[str]:
        """Lines about those who knocked without the right key; each address is told once.

        :param last: there will be no later call: tell also of those whose address was missed.
        """
        return self._doorkeeper.strangers(last=last)

    def _stop(self) -> None:
        self._doorkeeper.close()
        self._context.destroy()

    def __enter__(self) -> MasterWire:
        return self

    def __exit__(self, *exc: object) -> None:
        # destroy() without a linger of its own keeps each socket's: the last beat goes out.
        self._stop()


def _port_of(sock: zmq.Socket[bytes]) -> int:
    return int(sock.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])


class WorkerWire:
    """A worker's ends. The control socket and the pulses' belong to one thread, the rest to
    another: ZeroMQ's sockets must not be shared.

    :raises WireError: where the master's host has no address, or no socket is to be had; the
        methods that open sockets raise it, too.
    """

    @_sockets_needed()
    def __init__(self, host: str, ports: Ports, key: Key | None) -> None:
        self._ip = resolve(host)
        self._ports = ports
        self._key = key
        self._context = _make_context()
        self._work: zmq.Socket[bytes] | None = None
        self._results = self._make(zmq.PUSH)
        self._results.setsockopt(zmq.LINGER, _LINGER_MS)
        self._doorbell = self._ring(self._results, ports.results)

    def _make(self, kind: int, pipe: int = 0) -> zmq.Socket[bytes]:
        sock = _make_socket(self._context, kind, self._ip)
        if kind == zmq.PULL:
            _shorten(sock, pipe)
        else:
            _expect_a_reader(sock)
        if kind == zmq.SUB:
            sock.set_hwm(_BEAT_HWM)
            sock.setsockopt(zmq.SUBSCRIBE, b"")
        if self._key:
            sock.setsockopt(zmq.CURVE_SERVERKEY, self._key.server_public.encode())
            sock.setsockopt(zmq.CURVE_PUBLICKEY, self._key.client_public.encode())
            sock.setsockopt(zmq.CURVE_SECRETKEY, self._key.client_secret.encode())
        return sock

    def _ring(self, sock: zmq.Socket[bytes], port: int) -> Doorbell:
        endpoint = _endpoint(self._ip, port)
        return Doorbell(self._context, sock, endpoint, has_key=self._key is not None)

    @_sockets_needed()
    def control(self) -> Control:
        """The ends for the thread that listens to beats and answers them."""
        beats, pulses = self._make(zmq.SUB), self._make(zmq.PUSH)
        return Control(
            beats,
            pulses,
            (self._ring(beats, self._ports.control), self._ring(pulses, self._ports.results)),
        )

    @_sockets_needed()
    def open_work(self, pipe: int) -> int:
        """Begin to take jobs, with at most ``pipe`` messages waiting; gives the file descriptor
        to watch."""
        if self._work is None:
            self._work = self._make(zmq.PULL, max(pipe, 1))
            self._work.connect(_endpoint(self._ip, self._ports.work))
        return int(self._work.getsockopt(zmq.FD))

    def close_work(self) -> None:
        """Take no more jobs; what was on its way here is lost to us."""
        if self._work is not None:
            self._work.close(0)
            self._work = None

    def receive(self) -> bytes | None:
        """The next message with jobs; None for none now."""
        if self._work is None:
            return None
        try:
            return self._work.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def send(self, message: Message) -> bool:
        """Send to the master; False where nobody takes it."""
        try:
            self._results.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def refusal(self) -> str:
        """Why the master doesn't let us in, in words and once; "" where there is nothing to tell.

        To be asked now and then: it also tries again, where keys didn't fit.
        """
        self._doorbell.tend(time.monotonic())
        return self._doorbell.refusal()

    def close(self) -> None:
        """Close all ends; what was sent last still goes out if somebody takes it."""
        self.close_work()
        self._doorbell.close()
        self._results.close()
        self._context.term()


class Control:
    """A worker's control and pulse sockets, for one thread."""

    def __init__(
        self,
        beats: zmq.Socket[bytes],
        pulses: zmq.Socket[bytes],
        doorbells: tuple[Doorbell, ...] = (),
    ) -> None:
        self._beats = beats
        self._pulses = pulses
        self._doorbells = doorbells
        self._refusals = Refusals("control")

    def receive(self, timeout_s: float) -> Message | None:
        """The newest beat that has arrived; None after the time-out."""
        for doorbell in self._doorbells:
            doorbell.tend(time.monotonic())
        if not self._beats.poll(int(timeout_s * 1000)):
            return None
        newest = None
        while True:
            try:
                newest = self._beats.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
        try:
            return decode(newest) if newest is not None else None
        except MessageError as error:
            self._refusals.tell(error)
            return None

    def send(self, message: Message) -> bool:
        """Send to the master; False where nobody takes it."""
        try:
            self._pulses.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """Close both; by the thread that used them."""
        for doorbell in self._doorbells:
            doorbell.close()
        self._beats.close(0)
        self._pulses.close(0)
