"""Marks of a run from the same user's other commands: a Unix socket of each master.

Its name is in the kernel's abstract namespace, so no file is left behind: ``ssbench-UID-PID``, or
that and a random number where another user has taken this name. Both sides ask the kernel for the
other's user, and talk to no other user: anyone can use such a name.
A request and its answer are one JSON object each.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import secrets
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
from msgspec import Struct

from ssbench.core.boundary import typed
from ssbench.core.errors import MessageError

_LONGEST = 16_384  #: bytes of a request or an answer
_TIMEOUT_S, _END_S = 5.0, 0.5
_CREDENTIALS = struct.Struct("3i")  #: pid, uid, gid


class Request(Struct):
    """:param mark: text; None: only asks who answers."""

    mark: str | None = None


class Answer(Struct):
    run_id: str = ""
    scenario: str = ""
    fault: str = ""  #: why there is no mark


class Master(Struct, frozen=True):
    """A running master of this user."""

    pid: int
    run_id: str
    scenario: str


@contextmanager
def controlled(
    describe: Callable[[], tuple[str, str]], mark: Callable[[str, str], str]
) -> Iterator[None]:
    """Answers requests of this user in the block, in a thread.

    :param describe: gives the id of the run and the name of its scenario.
    :param mark: takes text and user of a mark; gives why there is none, or "".
    """
    with socket.socket(socket.AF_UNIX) as listener:
        name = f"\0ssbench-{os.getuid()}-{os.getpid()}"
        try:
            with suppress(OSError):  # another user, or another run of this process, has it
                listener.bind(name)
            if not listener.getsockname():
                listener.bind(f"{name}-{secrets.token_hex(8)}")
        except OSError:  # there are no such sockets
            yield
            return
        listener.listen()
        thread = Thread(
            target=_serve, args=(listener, describe, mark), name="ssbench-control", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(_END_S)  # it has the name until it has left the socket


def masters() -> Iterator[Master]:
    """Those of this user on this host that answer."""
    for pid, name in _sockets():
        with suppress(OSError, MessageError):
            answer = _ask(name, {})
            yield Master(pid, answer.run_id, answer.scenario)


def mark(pid: int, text: str) -> str:
    """Mark the run of a master; gives why there is no mark, or "".

    :raises OSError, MessageError: it does not answer.
    """
    failure: Exception = ConnectionRefusedError()
    for owner, name in _sockets():
        if owner == pid:
            try:
                return _ask(name, {"mark": text}).fault
            except (OSError, MessageError) as error:
                failure = error
    raise failure


def _sockets() -> list[tuple[int, str]]:
    """Process and address of each master of this user, as the names say, which anyone can use."""
    pattern = re.compile(rf" @(ssbench-{os.getuid()}-(\d+)(?:-[0-9a-f]{{16}})?)$", re.MULTILINE)
    try:
        names = Path("/proc/net/unix").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    found = dict.fromkeys(pattern.findall(names))
    return [(int(pid), f"\0{name}") for name, pid in found]


def _serve(
    listener: socket.socket,
    describe: Callable[[], tuple[str, str]],
    mark: Callable[[str, str], str],
) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # it was closed
            return
        with connection, suppress(OSError, MessageError):
            connection.settimeout(_TIMEOUT_S)
            if _user_of(connection) == os.getuid():
                request = request_of(_read(connection))
                run_id, scenario = describe()
                answer = {"run_id": run_id, "scenario": scenario}
                if request.mark is not None:
                    answer["fault"] = mark(request.mark, _user_name())
                connection.sendall(json.dumps(answer).encode())


def _ask(name: str, request: dict[str, Any]) -> Answer:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_TIMEOUT_S)
        connection.connect(name)
        if _user_of(connection) != os.getuid():
            raise MessageError("another user has the name of our master")
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        return answer_of(_read(connection))


def request_of(data: bytes) -> Request:
    """:raises MessageError: it is none."""
    request: Request = typed(msgspec.json.decode, data, "a request", type=Request)
    return request


def answer_of(data: bytes) -> Answer:
    """:raises MessageError: it is none."""
    answer: Answer = typed(msgspec.json.decode, data, "an answer", type=Answer)
    return answer


def _user_of(connection: socket.socket) -> int:
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(found)[1]
    return uid


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _read(connection: socket.socket) -> bytes:
    """What comes until the other side has sent all."""
    data = bytearray()
    while piece := connection.recv(_LONGEST):
        data += piece
        if len(data) > _LONGEST:
            raise MessageError("too long")
    return bytes(data)
