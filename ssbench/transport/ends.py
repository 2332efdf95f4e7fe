"""The sockets of the master (jobs and control states out, messages in), and those of a worker."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from secrets import token_bytes

import zmq

from ssbench.core.errors import MessageError
from ssbench.core.messages import (
    MAX_WORKER_MESSAGE_BYTES,
    SECRET_BYTES,
    Hello,
    Message,
    NetworkCheck,
    NetworkResult,
    announced,
    decode,
    encode,
    is_sealed,
)
from ssbench.transport.authenticator import (
    ConnectionMonitor,
    PendingPeers,
    RejectedMessages,
    ZapAuthenticator,
)
from ssbench.transport.key import NO_KEY_FILE, CurveKey, HostKey, is_of_host
from ssbench.transport.sockets import (
    CONTROL_HWM,
    LINGER_MS,
    PortInUseError,
    Ports,
    TransportError,
    bind_address,
    drop_stalled_peers,
    endpoint,
    limit_buffers,
    make_context,
    make_socket,
    resolve,
    translate_socket_errors,
)

#: Messages in a pipe. With one, each waits for ZeroMQ's own thread: 15 µs a message instead of 2.
_LONGEST_PIPE, _SHORTEST_PIPE, _JOBS_IN_PIPE = 16, 2, 64
#: Sizes of a message, and of the receive buffer, of a peer that only sends a handshake (300 bytes
#: with a key) and a subscription.
_QUIET_BYTES, _QUIET_BUFFER_BYTES = 512, 4096
#: Messages, and bytes, of one poll: large messages of one peer must not delay jobs and heartbeats.
RECEIVED_AT_ONCE, BYTES_AT_ONCE = 256, 1 << 20
#: Of a message that is decoded before its seal is checked, and of one that no present worker sent;
#: and of a hello. (A list of 65,536 numbers takes 4 ms to decode, and 0.6 ms to check.)
_UNCHECKED_BYTES, _HELLO_BYTES = 512, 1 << 16


def pipe_length(jobs_a_message: int) -> int:
    """How many messages a pipe may hold, so that it holds few jobs."""
    return max(_SHORTEST_PIPE, min(_LONGEST_PIPE, _JOBS_IN_PIPE // max(jobs_a_message, 1)))


class MasterTransport:
    """The master's sockets. A context manager.

    :param bind_ip: None: all interfaces with a key, loopback without one.
    :param pipe: ``pipe_length`` of the next run.
    :raises TransportError: if a port can't be bound, or no socket is left.
    """

    @translate_socket_errors()
    def __init__(
        self,
        bind_ip: str | None,
        ports: Ports,
        key: CurveKey | None,
        *,
        pipe: int = _SHORTEST_PIPE,
    ) -> None:
        self.pipe = pipe
        self.key = key
        self.ip = bind_address(bind_ip, has_key=key is not None)
        self._rejected = RejectedMessages("results")
        self._context = make_context()
        self._authenticator = ZapAuthenticator(self._context, key)
        try:
            self._work, self._work_peers = self._bind(zmq.PUSH, ports.work)
            self._results, _ = self._bind(zmq.PULL, ports.results)
            self._control, _ = self._bind(zmq.PUB, ports.control)
        except BaseException:
            self._stop()
            raise
        self.ports = Ports(*map(_port_of, (self._work, self._results, self._control)))
        self._authenticator.begin(self.ports)
        self._poller = zmq.Poller()
        self._poller.register(self._results, zmq.POLLIN)
        self._poller.register(self._work, zmq.POLLOUT)

    def _bind(self, kind: int, port: int) -> tuple[zmq.Socket[bytes], PendingPeers]:
        sock = make_socket(self._context, kind, self.ip)
        if kind == zmq.PUSH:
            limit_buffers(sock, self.pipe)
        if kind == zmq.PUB:
            drop_stalled_peers(sock)
            sock.set_hwm(CONTROL_HWM)
            sock.setsockopt(zmq.LINGER, LINGER_MS)
        sock.setsockopt(
            zmq.MAXMSGSIZE, MAX_WORKER_MESSAGE_BYTES if kind == zmq.PULL else _QUIET_BYTES
        )
        if kind != zmq.PULL:
            sock.setsockopt(zmq.RCVBUF, _QUIET_BUFFER_BYTES)
        peers = self._authenticator.lock(sock, receives_only=kind != zmq.PULL)
        place = endpoint(self.ip, port or "*")
        try:
            sock.bind(place)
        except zmq.ZMQError as error:
            in_use = error.errno == zmq.EADDRINUSE
            raise (PortInUseError if in_use else TransportError)(
                f"{place}: can't listen there: {zmq.strerror(error.errno or 0)}"
                f"{'; is another ssbench-master running?' if in_use else ''} (--zmq-bind-ip,"
                " --zmq-work-port, --zmq-results-port, --zmq-control-port)"
            ) from error
        return sock, peers

    @property
    def work_connections(self) -> int:
        """How many connections the work port has: ``send_jobs`` may send to each of them.

        A worker's message that it closed its socket may arrive before ZeroMQ notices that.
        """
        return self._work_peers.count

    @property
    def has_key(self) -> bool:
        return self.key is not None

    @property
    def key_hint(self) -> str:
        """How workers find the key."""
        if self.has_key_of_host:
            return "as this user, without a --zmq-key-file"
        return "with the same --zmq-key-file" if self.key else f"with --zmq-key-file {NO_KEY_FILE}"

    @property
    def has_key_of_host(self) -> bool:
        """Whether only workers of our user on this host find the key."""
        return isinstance(self.key, HostKey)

    @property
    def is_loopback(self) -> bool:
        """Whether only this host can reach it."""
        return ip_address(self.ip).is_loopback

    def send_jobs(self, data: bytes) -> bool:
        """Send to a worker whose pipe is not full; False if all are."""
        try:
            self._work.send(data, zmq.NOBLOCK, copy=True)
        except zmq.Again:
            return False
        return True

    def send_control_state(self, message: Message) -> None:
        """Broadcast to all workers; a worker that misses it gets the next one."""
        self._control.send(encode(message))

    def receive(
        self, timeout_s: float, secrets: Mapping[int, bytes], *, or_writable: bool = False
    ) -> Iterator[Message]:
        """Messages from workers; waits for the first one up to the timeout.

        :param secrets: of the workers, by incarnation. A message of one of these must have its
            seal, a hello that of its own secret; messages of others are the caller's to judge.
        :param or_writable: also return as soon as a worker's pipe is not full.
        """
        if or_writable:
            self._poller.poll(int(max(timeout_s, 0) * 1000))
            timeout_s = 0
        data = self._next_result(int(timeout_s * 1000))
        left, bytes_left = RECEIVED_AT_ONCE, BYTES_AT_ONCE
        while data is not None:
            try:
                yield _sealed_message(data, secrets)
            except MessageError as error:
                self._rejected.add(error)
            left -= 1
            bytes_left -= len(data)
            data = self._next_result() if left and bytes_left > 0 else None

    def _next_result(self, wait_ms: int = 0) -> bytes | None:
        """The next message; None if none arrives within that time."""
        if wait_ms > 0:  # cheaper than to try, to poll and to try again
            self._results.setsockopt(zmq.RCVTIMEO, wait_ms)
        try:
            return self._results.recv(0 if wait_ms > 0 else zmq.NOBLOCK)
        except zmq.Again:
            return None

    @property
    def rejected(self) -> int:
        """How many messages were malformed, or of another protocol."""
        return self._rejected.count

    def rejected_peers(self, *, last: bool = False) -> list[str]:
        """New lines about peers without the right key, and about workers of another protocol.

        :param last: no later call follows: includes peers whose address is unknown.
        """
        return [*self._rejected.workers(), *self._authenticator.rejected_peers(last=last)]

    def _stop(self) -> None:
        self._authenticator.close()
        self._context.destroy()

    def __enter__(self) -> MasterTransport:
        return self

    def __exit__(self, *exc: object) -> None:
        # destroy() without a linger keeps each socket's own: the last control state is sent.
        self._stop()


def _port_of(sock: zmq.Socket[bytes]) -> int:
    return int(sock.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])


def _sealed_message(data: bytes, secrets: Mapping[int, bytes]) -> Message:
    if len(data) > _UNCHECKED_BYTES:
        _check_sender(data, secrets)
    message = decode(data)
    if type(message) is Hello:
        secret: bytes | None = message.secret
    else:
        secret = secrets.get(getattr(message, "incarnation", 0))
    if secret is not None and not is_sealed(data, secret):
        raise MessageError(f"one of type {type(message).__name__} that its worker has not sealed")
    return message


def _check_sender(data: bytes, secrets: Mapping[int, bytes]) -> None:
    """That a present worker has sent and sealed a long message, before it is decoded.

    :raises MessageError: if not; a hello only has to be short.
    """
    kind, incarnation = announced(data)
    if kind is None:
        return
    if kind is Hello:
        if len(data) > _HELLO_BYTES:
            raise MessageError(f"a Hello of {len(data)} bytes; at most {_HELLO_BYTES} are read")
        return
    secret = secrets.get(incarnation)
    if secret is None:
        raise MessageError(
            f"a {kind.__name__} of {len(data)} bytes of a worker that is not present"
        )
    if not is_sealed(data, secret):
        raise MessageError(f"a {kind.__name__} that its worker has not sealed")


class WorkerTransport:
    """A worker's sockets. Those of ``control`` belong to one thread, the others to another one:
    ZeroMQ's sockets must not be shared.

    :raises TransportError: if the master's host has no address, or no socket is left; also by the
        methods that open sockets.
    """

    @translate_socket_errors()
    def __init__(self, host: str, ports: Ports, key: CurveKey | None) -> None:
        self._ip = resolve(host)
        self._ports = ports
        self._key = key
        self.secret = token_bytes(SECRET_BYTES)  #: of this worker, for its hello
        self._context = make_context()
        self._work: zmq.Socket[bytes] | None = None
        self._results = self._make(zmq.PUSH)
        self._results.setsockopt(zmq.LINGER, LINGER_MS)
        self._monitor = self._monitored(self._results, ports.results)

    def _make(self, kind: int, pipe: int = 0) -> zmq.Socket[bytes]:
        sock = make_socket(self._context, kind, self._ip)
        if kind == zmq.PULL:
            limit_buffers(sock, pipe)
        else:
            drop_stalled_peers(sock)
        if kind == zmq.SUB:
            sock.set_hwm(CONTROL_HWM)
            sock.setsockopt(zmq.SUBSCRIBE, b"")
        if self._key:
            sock.setsockopt(zmq.CURVE_SERVERKEY, self._key.server_public.encode())
            sock.setsockopt(zmq.CURVE_PUBLICKEY, self._key.client_public.encode())
            sock.setsockopt(zmq.CURVE_SECRETKEY, self._key.client_secret.encode())
        return sock

    def _monitored(self, sock: zmq.Socket[bytes], port: int) -> ConnectionMonitor:
        place = endpoint(self._ip, port)
        return ConnectionMonitor(self._context, sock, place, has_key=self._key is not None)

    @translate_socket_errors()
    def control(self) -> Control:
        """The sockets of the thread that receives control states and sends heartbeats."""
        states, heartbeats = self._make(zmq.SUB), self._make(zmq.PUSH)
        return Control(
            states,
            heartbeats,
            self.secret,
            (
                self._monitored(states, self._ports.control),
                self._monitored(heartbeats, self._ports.results),
            ),
        )

    @translate_socket_errors()
    def open_work(self, pipe: int) -> int:
        """Open the work socket, if it is closed, with at most ``pipe`` messages waiting in it;
        returns the file descriptor to watch."""
        if self._work is None:
            self._work = self._make(zmq.PULL, max(pipe, 1))
            self._work.connect(endpoint(self._ip, self._ports.work))
        else:
            self._work.set_hwm(max(pipe, 1))
        return int(self._work.getsockopt(zmq.FD))

    def close_work(self) -> None:
        """Close the work socket; messages in it are dropped."""
        if self._work is not None:
            self._work.close(0)
            self._work = None

    def receive(self) -> bytes | None:
        """The next message with jobs; None if there is none now."""
        if self._work is None:
            return None
        try:
            return self._work.recv(zmq.NOBLOCK)
        except zmq.Again:
            return None

    def send(self, message: Message) -> bool:
        """Send to the master; False if it does not take the message now."""
        try:
            self._results.send(encode(message, self.secret), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def check_network(self, check: NetworkCheck) -> NetworkResult:
        """Measure a connection, in any thread; may take as long as the check says.

        :raises NetworkError: as ``network.measure``.
        """
        from ssbench.transport.network import measure  # few runs need it

        return measure(
            (check.host or self._ip, check.port),
            None if check.host and is_of_host(self._key) else self._key,  # servers don't have it
            seconds=check.seconds,
            size_bytes=check.size_bytes,
            connect_timeout_s=check.connect_timeout_s,
        )

    def rejection(self) -> str:
        """Why the master rejects this worker, once; "" if there is nothing new.

        To be called several times a second: it also reconnects if keys did not match.
        """
        self._monitor.poll(time.monotonic())
        return self._monitor.rejection()

    def close(self) -> None:
        """Close all sockets; the last messages are still sent if the master takes them."""
        self.close_work()
        self._monitor.close()
        self._results.close()
        self._context.term()


class Control:
    """A worker's control and heartbeat sockets, for one thread."""

    def __init__(
        self,
        states: zmq.Socket[bytes],
        heartbeats: zmq.Socket[bytes],
        secret: bytes,
        monitors: tuple[ConnectionMonitor, ...] = (),
    ) -> None:
        self._states = states
        self._heartbeats = heartbeats
        self._secret = secret
        self._monitors = monitors
        self._rejected = RejectedMessages("control")

    def receive(self, timeout_s: float) -> Message | None:
        """The newest control state that has arrived; None after the timeout."""
        for monitor in self._monitors:
            monitor.poll(time.monotonic())
        if not self._states.poll(int(timeout_s * 1000)):
            return None
        newest = None
        while True:
            try:
                newest = self._states.recv(zmq.NOBLOCK)
            except zmq.Again:
                break
        try:
            return decode(newest) if newest is not None else None
        except MessageError as error:
            self._rejected.add(error)
            return None

    def send(self, message: Message) -> bool:
        """Send to the master; False if it does not take the message now."""
        try:
            self._heartbeats.send(encode(message, self._secret), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """Close both; by the thread that used them."""
        for monitor in self._monitors:
            monitor.close()
        self._states.close(0)
        self._heartbeats.close(0)
