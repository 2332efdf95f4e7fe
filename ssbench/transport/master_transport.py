"""The master's sockets: jobs and control states out, the workers' messages in."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from ipaddress import ip_address

import zmq

from ssbench.core.errors import MessageError
from ssbench.core.messages import (
    MAX_WORKER_MESSAGE_BYTES,
    Hello,
    Message,
    announced,
    decode,
    encode,
    is_sealed,
)
from ssbench.transport.authenticator import (
    MAX_PEER_BYTES,
    MAX_UNREAD_BYTES,
    UNEXPECTED_DATA,
    PendingPeers,
    RejectedMessages,
    RejectedPeer,
    ZapAuthenticator,
)
from ssbench.transport.key import NO_KEY_FILE, CurveKey, HostKey
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
    translate_socket_errors,
)
from ssbench.transport.unsealed import (
    BYTES_PER_UNIT,
    UNITS_PER_HELLO,
    UNITS_PER_MESSAGE,
    UnsealedMessages,
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
#: Messages of a connection that wait in ZeroMQ's memory; the next ones wait at the worker.
_RESULTS_HWM = 16


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
        self._unsealed = UnsealedMessages(_RESULTS_HWM, self._disconnected)
        self._context = make_context()
        self._authenticator = ZapAuthenticator(self._context, key)
        try:
            self._work, self._work_peers = self._bind(zmq.PUSH, ports.work)
            self._results, self._senders = self._bind(zmq.PULL, ports.results)
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
        if kind == zmq.PULL:
            sock.set_hwm(_RESULTS_HWM)
        if kind == zmq.PUB:
            drop_stalled_peers(sock)
            sock.set_hwm(CONTROL_HWM)
            sock.setsockopt(zmq.LINGER, LINGER_MS)
        sock.setsockopt(
            zmq.MAXMSGSIZE, MAX_WORKER_MESSAGE_BYTES if kind == zmq.PULL else _QUIET_BYTES
        )
        if kind != zmq.PULL:
            sock.setsockopt(zmq.RCVBUF, _QUIET_BUFFER_BYTES)
        peers = self._authenticator.lock(
            sock, MAX_UNREAD_BYTES if kind == zmq.PULL else MAX_PEER_BYTES
        )
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
    ) -> Iterator[tuple[Message, int]]:
        """Messages from workers, with the bytes of each; waits for the first one up to the timeout.

        :param secrets: of the workers, by incarnation. A message of one of these must have its
            seal, a hello that of its own secret; messages of others are the caller's to judge.
        :param or_writable: also return as soon as a worker's pipe is not full.
        """
        if or_writable:
            self._poller.poll(int(max(timeout_s, 0) * 1000))
            timeout_s = 0
        wait_ms, flags = int(timeout_s * 1000), int(zmq.NOBLOCK)
        if wait_ms > 0:  # cheaper than to try, to poll and to try again
            self._results.setsockopt(zmq.RCVTIMEO, wait_ms)
            flags = 0
        left, bytes_left = RECEIVED_AT_ONCE, BYTES_AT_ONCE
        while left and bytes_left > 0:
            try:
                frame = self._results.recv(flags, copy=False)
            except zmq.Again:
                break
            data = frame.bytes
            self._senders.read(int(frame.get("__fd")), len(data))
            try:
                yield self._message(frame, data, secrets), len(data)
            except MessageError as error:
                self._rejected.add(error)
            left -= 1
            bytes_left -= len(data)
            flags = int(zmq.NOBLOCK)

    def _message(self, frame: zmq.Frame, data: bytes, secrets: Mapping[int, bytes]) -> Message:
        """The message, paid by its connection unless a present worker sealed it; a long one is paid
        before that is known, as finding it out costs most.

        :raises MessageError: also if the connection can't pay.
        """
        due = UNITS_PER_MESSAGE + len(data) // BYTES_PER_UNIT
        paid = due if len(data) > _UNCHECKED_BYTES else 0
        if paid:
            self._pay(frame, paid)
        try:
            if paid:
                _check_sender(data, secrets)
            message = decode(data)
            known = secret = secrets.get(getattr(message, "incarnation", 0))
            if type(message) is Hello:
                secret = message.secret
            if secret is not None and not is_sealed(data, secret):
                name = type(message).__name__
                raise MessageError(f"one of type {name} that its worker has not sealed")
            if known is not None and known == secret:
                due = 0
            elif type(message) is Hello:
                due += UNITS_PER_HELLO
        finally:
            if due != paid:
                self._pay(frame, due - paid)
        return message

    def _pay(self, frame: zmq.Frame, units: int) -> None:
        if not self._unsealed.pays(frame, units, time.monotonic()):
            raise MessageError(
                f"one of {len(frame)} bytes, of a connection with too many that no worker sealed"
            )

    def _disconnected(self, address: str) -> None:
        self._authenticator.reject(RejectedPeer(address, self.ports.results, UNEXPECTED_DATA))

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
        self._unsealed.close()
        self._authenticator.close()
        self._context.destroy()

    def __enter__(self) -> MasterTransport:
        return self

    def __exit__(self, *exc: object) -> None:
        # destroy() without a linger keeps each socket's own: the last control state is sent.
        self._stop()


def _port_of(sock: zmq.Socket[bytes]) -> int:
    return int(sock.getsockopt_string(zmq.LAST_ENDPOINT).rpartition(":")[2])


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
