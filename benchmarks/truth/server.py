"""A small Swift with known delays, which logs when each byte was received and sent.

    python -m benchmarks.truth.server CASE --log FILE

It prints its storage URL, and ends when its standard input does; the log is written then. One
thread, one epoll, one timerfd. What a request's body was is kept, so that a READ gives it back.
"""

from __future__ import annotations

import argparse
import gc
import re
import select
import socket
import sys
from collections.abc import Sequence
from hashlib import md5
from heapq import heappop, heappush
from itertools import pairwise
from pathlib import Path
from random import Random
from struct import Struct
from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple

from benchmarks.truth.cases import CASES, SECOND, Case
from benchmarks.truth.lies import LIES, Stored
from benchmarks.truth.log import Entry, write_log
from ssbench.worker.timer import Timerfd

ACCOUNT = "/v1/AUTH_truth"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_META = re.compile(rb"\r\n(x-object-meta-[^\r]+)", re.IGNORECASE)
_TO_RECEIVE = 1 << 18
_SO_TIMESTAMPNS = 35  #: socket(7); Python has no name for it
_TIMESPEC = Struct("qq")
_NOTES = socket.CMSG_SPACE(_TIMESPEC.size)
_AGAIN_NS = 200_000  #: before what a full socket didn't take is tried once more
_REASONS = {
    200: "OK", 201: "Created", 204: "No Content", 404: "Not Found", 503: "Service Unavailable",
}  # fmt: skip


class Answer(NamedTuple):
    """A response."""

    status: int
    body: bytes = b""
    headers: str = ""
    length: int | None = None  #: what Content-Length says where it isn't the body's (HEAD)


class Connection:
    """A client's connection, with one request at a time."""

    __slots__ = ("buffer", "got_ns", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""
        self.got_ns = 0


class Outgoing:
    """A response that is being sent, in one or more parts."""

    __slots__ = ("breaks", "connection", "entry", "first_ns", "parts")

    def __init__(
        self, connection: Connection, parts: list[bytes], entry: list[Any], *, breaks: bool
    ) -> None:
        self.breaks = breaks  # the connection ends behind them
        self.connection = connection
        self.parts = parts
        self.entry = entry
        self.first_ns = 0


class TruthServer:
    """Listens on loopback."""

    def __init__(self, case: Case, seed: int = 1) -> None:
        self.log: list[Entry] = []
        self._case, self._rng = case, Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listener.setblocking(False)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}{ACCOUNT}"
        self._timer = Timerfd()
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._due: list[tuple[int, int, Outgoing]] = []
        self._set_ns = 0
        self._wall_ns = 0  # the wall clock less ours
        self._number = self._order = 0
        self._containers: dict[str, str] = {}
        self._objects: dict[str, Stored] = {}
        self._newest: dict[str, Stored] = {}  # two, to have another one for each
        self._origin_ns = perf_counter_ns()
        self._free_ns = 0  # when the newest response about an object leaves

    def serve(self, until_fd: int) -> None:
        """Serve until this descriptor is readable."""
        listener_fd, timer_fd = self._listener.fileno(), self._timer.fd
        for fd in (listener_fd, timer_fd, until_fd):
            self._epoll.register(fd, select.EPOLLIN)
        while True:
            events = self._epoll.poll()
            # What epoll tells of had come by now, however long the reading of the others takes.
            now = perf_counter_ns()
            self._wall_ns = time_ns() - now
            for fd, _ in events:
                connection = self._connections.get(fd)
                if connection is not None:
                    self._hear(connection, now)
                elif fd == listener_fd:
                    self._accept()
                elif fd == timer_fd:
                    self._timer.expired()
                    self._set_ns = 0
                elif fd == until_fd:
                    return
                if self._due:
                    self._send_due()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            self._connections[sock.fileno()] = Connection(sock)
            self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _hear(self, connection: Connection, now: int) -> None:
        try:
            data, notes, _, _ = connection.sock.recvmsg(_TO_RECEIVE, _NOTES)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            del self._connections[connection.sock.fileno()]
            connection.sock.close()
            return
        if connection.buffer:
            data = connection.buffer + data
        else:
            connection.got_ns = self._arrived_ns(notes, now)
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            connection.buffer = data
            return
        head = data[:end]
        found = _LENGTH.search(head)
        body = data[end:]
        if found and len(body) < int(found[1]):
            connection.buffer = data
            return
        connection.buffer = b""
        self._take(connection, head, body)

    def _arrived_ns(self, notes: list[tuple[int, int, bytes]], now: int) -> int:
        """When the kernel received the bytes, by our clock."""
        for level, kind, stamp in notes:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, ns = _TIMESPEC.unpack(stamp)
                arrived: int = seconds * SECOND + ns - self._wall_ns
                return min(arrived, now)
        return now

    def _take(self, connection: Connection, head: bytes, body: bytes) -> None:
        """Respond to a complete request, or schedule the response."""
        method, target, _ = head[: head.index(b"\r\n")].decode("ascii").split(" ")
        got_ns = connection.got_ns
        target = target.partition("?")[0]
        is_object = target.count("/") >= 4
        case = self._case if is_object else CASES["swift"]
        plan = case.plan(got_ns, self._origin_ns, self._rng, self._free_ns)
        self._free_ns = plan.head_ns if is_object else self._free_ns
        # What is made anew, and what is cleaned away, never fails: a run begins and ends as any.
        fails = plan.fails and method in ("GET", "PUT") and target in self._objects
        lies = plan.lies and method == "GET"
        answer = Answer(503) if fails else self._answer(method, target, head, body, lies)
        breaks = lies and case.lie == "break" and len(answer.body) > 1
        if breaks:
            answer = Answer(
                answer.status, answer.body[: len(answer.body) // 2], answer.headers,
                length=len(answer.body),
            )  # fmt: skip
        self._number += 1
        transaction = f"tx{self._number:021x}-0123456789"
        length = len(answer.body) if answer.length is None else answer.length
        text = (
            f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Length: {length}\r\n"
            f"{answer.headers}X-Trans-Id: {transaction}\r\n\r\n"
        ).encode("ascii")
        parts: list[bytes] = [text + answer.body]
        times: Sequence[int] = (plan.head_ns,)
        if plan.rest_ns > plan.head_ns and len(answer.body) > case.pieces:
            times, ends = zip(*case.portions(plan, len(answer.body)), strict=True)
            parts = [answer.body[a:b] for a, b in pairwise((0, *ends))]
            parts[0] = text + parts[0]
        entry = [
            transaction, method, target, answer.status, got_ns, 0, 0, len(body), len(answer.body),
            int(lies and not fails),
        ]  # fmt: skip
        outgoing = Outgoing(connection, parts, entry, breaks=breaks)
        for at_ns in times:
            self._put_off(at_ns, outgoing)

    def _answer(self, method: str, target: str, head: bytes, body: bytes, lies: bool) -> Answer:
        if target.count("/") < 4:
            return self._answer_errand(method, target)
        if method == "PUT":
            meta = "".join(f"{line.decode('ascii')}\r\n" for line in _META.findall(head))
            etag = md5(body, usedforsecurity=False).hexdigest()
            self._objects[target] = self._newest[target] = Stored(body, etag, meta)
            if len(self._newest) > 2:
                del self._newest[next(iter(self._newest))]
            return Answer(201, headers=f"Etag: {etag}\r\n")
        if method == "DELETE":
            return Answer(204 if self._objects.pop(target, None) else 404)
        stored = self._objects.get(target)
        if stored is None:
            return Answer(404)
        if lies:
            other = next(found for name, found in self._newest.items() if name != target)
            stored = LIES[self._case.lie](stored, other)
        headers = f"Etag: {stored.etag}\r\n{stored.meta}"
        if method == "HEAD":
            return Answer(200, headers=headers, length=len(stored.body))
        return Answer(200, stored.body, headers)

    def _answer_errand(self, method: str, target: str) -> Answer:
        """Requests for containers, for the account, and for /info."""
        if target == "/info":
            return Answer(200, b'{"swift": {}}')
        if method == "PUT":
            self._containers[target] = "X-Container-Meta-Ssbench: yes\r\n"
            return Answer(201)
        if method == "HEAD":
            mark = self._containers.get(target)
            return Answer(404) if mark is None else Answer(204, headers=mark)
        return Answer(200, b"[]")

    def _put_off(self, at_ns: int, outgoing: Outgoing) -> None:
        self._order += 1  # so that no two are equal
        heappush(self._due, (at_ns, self._order, outgoing))

    def _send_due(self) -> None:
        due = self._due
        while due and due[0][0] <= perf_counter_ns():
            self._send(heappop(due)[2])
        if due and due[0][0] != self._set_ns:
            self._set_ns = due[0][0]
            self._timer.set(self._set_ns)

    def _send(self, outgoing: Outgoing) -> None:
        """Send the next part; the last one is logged."""
        part, sock = outgoing.parts[0], outgoing.connection.sock
        try:
            count = sock.send(part)
        except BlockingIOError:
            count = 0
        except OSError:
            return  # the client has gone
        now = perf_counter_ns()
        if count < len(part):
            outgoing.parts[0] = part[count:]
            self._put_off(now + _AGAIN_NS, outgoing)
            return
        outgoing.first_ns = outgoing.first_ns or now
        del outgoing.parts[0]
        if not outgoing.parts:
            entry = outgoing.entry
            entry[5:7] = outgoing.first_ns, now
            self.log.append(Entry._make(entry))
            if outgoing.breaks:
                del self._connections[sock.fileno()]
                sock.close()


def main() -> int:
    """Serve; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--log", type=Path, required=True, help="where the log is written")
    chosen = parser.parse_args()
    gc.disable()  # a pause of the collector would be a delay that nobody planned
    server = TruthServer(CASES[chosen.case])
    print(server.url, flush=True)
    server.serve(sys.stdin.fileno())
    write_log(chosen.log, server.log)
    return 0


if __name__ == "__main__":
    sys.exit(main())
