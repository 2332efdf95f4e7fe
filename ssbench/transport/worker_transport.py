"""A worker's sockets: jobs and control states in, its messages out."""

from __future__ import annotations

import time
from secrets import token_bytes

import zmq

from ssbench.core.errors import MessageError
from ssbench.core.messages import (
    SECRET_BYTES,
    Message,
    NetworkCheck,
    NetworkResult,
    decode,
    encode,
)
from ssbench.transport.authenticator import ConnectionMonitor, RejectedMessages
from ssbench.transport.key import CurveKey, is_of_host
from ssbench.transport.sockets import (
    CONTROL_HWM,
    LINGER_MS,
    Ports,
    drop_stalled_peers,
    endpoint,
    limit_buffers,
    make_context,
    make_socket,
    resolve,
    translate_socket_errors,
)


class Sender:
    """Sends a worker's messages, sealed.

    :param sock: where the master takes them.
    """

    def __init__(self, sock: zmq.Socket[bytes], secret: bytes) -> None:
        self._out = sock
        self.secret = secret  #: of this worker, for its hello

    def send(self, message: Message) -> bool:
        """Send to the master; False if it does not take the message now."""
        try:
            self._out.send(encode(message, self.secret), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True


class WorkerTransport(Sender):
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
        self._context = make_context()
        self._work: zmq.Socket[bytes] | None = None
        super().__init__(self._make(zmq.PUSH), token_bytes(SECRET_BYTES))
        self._out.setsockopt(zmq.LINGER, LINGER_MS)
        self._monitor = self._monitored(self._out, ports.results)

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
        self._out.close()
        self._context.term()


class Control(Sender):
    """A worker's control and heartbeat sockets, for one thread."""

    def __init__(
        self,
        states: zmq.Socket[bytes],
        heartbeats: zmq.Socket[bytes],
        secret: bytes,
        monitors: tuple[ConnectionMonitor, ...] = (),
    ) -> None:
        super().__init__(heartbeats, secret)
        self._states = states
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

    def close(self) -> None:
        """Close both; by the thread that used them."""
        for monitor in self._monitors:
            monitor.close()
        self._states.close(0)
        self._out.close(0)
