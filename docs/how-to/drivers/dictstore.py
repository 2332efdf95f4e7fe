"""An object store over a dict, in a process of its own, and a driver: docs/how-to/drivers.rst.

python dictstore.py 127.0.0.1:7070     runs the store; its key is in DICTSTORE_KEY
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import socketserver
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, cast

from ssbench.core import operations as ops
from ssbench.core.bodycheck import BodyCheck, expected_content
from ssbench.core.content import source_of
from ssbench.core.errors import AuthError, StorageError, UsageError
from ssbench.core.model import ErrorKind, Job, Timing
from ssbench.core.naming import naming_of
from ssbench.core.option import Option
from ssbench.core.settings import Credentials, StorageSettings, typed
from ssbench.storage.base import (
    Access,
    Action,
    ContainerEntry,
    ContainerInfo,
    ObjectEntry,
    StoreLimits,
)
from ssbench.storage.options import StoreOptions, option_values
from ssbench.storage.registry import StoreRow

#: An operation of the store's own. Numbers below 1000 are ssbench's.
APPEND_TAG = ops.register(ops.Operation(1000, "APPEND_TAG", ops.Effect.TOUCHES))


def host_port(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(f"address {text!r}: expected HOST:PORT, as in 127.0.0.1:7070")
    return text


OPTIONS = (
    Option(
        ("--dict-address",), "address", host_port, "127.0.0.1:7070", help="HOST:PORT of the store"
    ),
    Option(("--dict-key",), "key", secret=True, variables=("DICTSTORE_KEY",), help="its key"),
)


class Login:
    """The credentials provider: exchanges the key for tokens. Only the master has the key."""

    def __init__(self, options: StoreOptions) -> None:
        values = option_values(OPTIONS, options)
        self.notes: Sequence[str] = ()
        self.where = values["address"]
        self._key = values.get("key", "")
        self._serial = 0

    def log_in(self) -> Access:
        return Access({"address": self.where}, self.renew())

    def renew(self) -> Credentials:
        try:
            with Connection(self.where) as connection:
                answer, _ = connection.ask({"do": "login", "key": self._key})
        except OSError as error:
            raise AuthError(f"{self.where}: {error.strerror}") from error
        if answer["status"] != 200:
            raise AuthError(f"{self.where}: the key was refused ({answer['status']})")
        self._serial += 1
        return Credentials(self._serial, answer["expires_at"], {"token": answer["token"]})


class DictStorage:
    """Both halves of the driver. Calls block, so users are threads."""

    ROW = StoreRow(
        "dictstore",
        driver="dictstore:DictStorage",
        options="dictstore:OPTIONS",
        credentials="dictstore:Login",
        features=("policy",),
    )
    concurrency: Literal["greenlets", "threads"] = "threads"

    def __init__(self, settings: StorageSettings, seed: int | None = None) -> None:
        self._settings = settings
        self._address = str(settings.store["address"])
        self._credentials = settings.newest
        self._naming = naming_of(settings)
        self._source = source_of(settings)
        self._idle: deque[Connection] = deque()
        self._closed = False
        self.actions: Mapping[int, Action] = {
            ops.CREATE: self._put,
            ops.UPDATE: self._put,
            ops.ENSURE: self._ensure,
            ops.READ: self._get,
            ops.HEAD: self._plain("head"),
            ops.POST: self._plain("touch"),
            ops.DELETE: self._plain("delete"),
            ops.REMOVE: self._remove,
            APPEND_TAG: self._plain("touch"),
        }

    # Both halves

    def set_credentials(self, credentials: Credentials) -> None:
        self._credentials = credentials

    @property
    def credentials_serial(self) -> int:
        return self._credentials.serial

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    # Operations

    def connect(self, count: int) -> None:
        with suppress(OSError):
            self._idle.extend(Connection(self._address) for _ in range(count - len(self._idle)))

    def _put(self, job: Job, deadline_ns: int) -> Timing:
        name = self._naming.object(job.size_class, job.object).encode()
        body = b"".join(self._source.pieces(name, job.version, job.size))
        run = self._settings.run_id
        return self._operate(job, deadline_ns, "put", body, run=run, version=job.version)[0]

    def _ensure(self, job: Job, deadline_ns: int) -> Timing:
        with suppress(StorageError):
            timing, found, _ = self._request(job, deadline_ns, "head")
            if (found["size"], found["version"]) == (job.size, 0):
                return timing
        return self._put(job, deadline_ns)

    def _get(self, job: Job, deadline_ns: int) -> Timing:
        timing, body = self._operate(job, deadline_ns, "get")
        if self._settings.verify:
            size_class = self._settings.sizes[job.size_class]
            name = self._naming.object(job.size_class, job.object)
            check = BodyCheck(self._source, expected_content(size_class, name, job))
            check.add(memoryview(body))
            fault = check.finding({})
            if fault:
                raise StorageError(fault.kind, f"{name}: {fault.text}", status=200, timing=timing)
        return timing

    def _remove(self, job: Job, deadline_ns: int) -> Timing:
        try:
            return self._operate(job, deadline_ns, "delete")[0]
        except StorageError as error:
            if error.status == 404 and error.timing:
                return error.timing
            raise

    def _plain(self, do: str) -> Action:
        return lambda job, deadline_ns: self._operate(job, deadline_ns, do)[0]

    def _operate(
        self, job: Job, deadline_ns: int, do: str, body: bytes = b"", **more: object
    ) -> tuple[Timing, bytes]:
        timing, _, received = self._request(job, deadline_ns, do, body, **more)
        return timing._replace(bytes_moved=len(body) or len(received)), received

    def _request(
        self, job: Job, deadline_ns: int, do: str, body: bytes = b"", **more: object
    ) -> tuple[Timing, dict[str, Any], bytes]:
        container = self._naming.container(job.size_class, job.object)
        name = self._naming.object(job.size_class, job.object)
        return self._ask(do, body, deadline_ns, container=container, name=name, **more)

    def _ask(
        self, do: str, body: bytes = b"", deadline_ns: int = 0, **more: object
    ) -> tuple[Timing, dict[str, Any], bytes]:
        """Send a request over an idle connection, or a new one.

        :raises StorageError: its kind says whether the engine retries, or gets new credentials.
        """
        if self._closed:
            raise StorageError(ErrorKind.RESET, "closed by us", sent=False)
        timeout_s = self._settings.network_timeout_s
        if deadline_ns:
            timeout_s = max(min(timeout_s, (deadline_ns - time.perf_counter_ns()) / 1e9), 0.001)
        request = {"do": do, "token": self._credentials.payload.get("token"), **more}
        connection: Connection | None = None
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = Connection(self._address)
            connection.socket.settimeout(timeout_s)
            answer, received = connection.ask(request, body)
        except (OSError, ValueError) as error:
            if connection is None:
                raise StorageError(
                    ErrorKind.CONNECT, f"{self._address}: {error}", sent=False
                ) from error
            connection.close()
            kind = ErrorKind.NETWORK_TIMEOUT if isinstance(error, TimeoutError) else ErrorKind.RESET
            raise StorageError(kind, f"{self._address}: {error}") from error
        self._idle.append(connection)
        first_ns, last_ns = connection.answered_ns
        timing = Timing(first_ns, first_ns, last_ns, 0, answer["status"])
        if answer["status"] >= 300:
            kind = ErrorKind.UNAUTHORIZED if answer["status"] == 401 else ErrorKind.STATUS
            detail = f"{self._address}: {do} returned {answer['status']}"
            raise StorageError(kind, detail, status=answer["status"], timing=timing)
        return timing, answer, received

    # Administration

    def limits(self) -> StoreLimits:
        return StoreLimits(
            max_object_name_length=1024, policies=("gold", "silver"), bulk_delete_max=1000
        )

    def owns(self, container: str) -> bool:
        return self.container_info(container).marked

    def container_info(self, container: str) -> ContainerInfo:
        return typed(ContainerInfo, self._ask("container", container=container)[1]["info"])

    def make_container(
        self, container: str, changing: Callable[[], None] | None = None
    ) -> ContainerInfo | None:
        try:
            found = self.container_info(container)
        except StorageError as error:
            if error.status != 404:
                raise
            found = None
        if found and self._settings.placement not in (None, found.policy):
            raise StorageError(ErrorKind.STATUS, f"it is under {found.policy}", status=409)
        if found is None or (not found.marked and not found.object_count):
            if changing:
                changing()
            self._ask("make", container=container, policy=self._settings.placement or "gold")
        return found

    def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
        listed = self._ask("containers", prefix=prefix, marker=marker, limit=limit)[1]["entries"]
        return [ContainerEntry(*entry) for entry in listed]

    def list_objects(self, container: str, marker: str, limit: int) -> list[ObjectEntry]:
        listed = self._ask("objects", container=container, marker=marker, limit=limit)[1]["entries"]
        return [ObjectEntry(*entry) for entry in listed]

    def object_run_id(self, container: str, name: str) -> str | None:
        return self._ask("head", container=container, name=name)[1]["run"] or None

    def delete_object(self, container: str, name: str) -> bool:
        return self._is_gone("delete", container=container, name=name)

    def bulk_delete(self, container: str, names: Sequence[str]) -> list[tuple[str, int]]:
        for name in names:
            self.delete_object(container, name)
        return []

    def delete_container(self, container: str) -> bool:
        return self._is_gone("drop", container=container)

    def _is_gone(self, do: str, **where: Any) -> bool:
        try:
            self._ask(do, **where)
        except StorageError as error:
            if error.status != 404:
                raise
            return False
        return True


class Connection:
    """A line of JSON and a body each way."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answered_ns = (0, 0)  #: when the line was there, and when the body was
        self._file = self.socket.makefile("rb")

    def ask(self, request: Mapping[str, object], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        line = json.dumps({**request, "length": len(body)}).encode() + b"\n"
        self.socket.sendall(line + body)
        line = self._file.readline()
        if not line:
            raise ConnectionResetError("the store closed the connection")
        first_ns = time.perf_counter_ns()
        answer = json.loads(line)
        received = self._file.read(answer["length"])
        self.answered_ns = (first_ns, time.perf_counter_ns())
        return answer, received

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


Answer = tuple[dict[str, Any], bytes]


class Store(socketserver.ThreadingTCPServer):
    """A dict of containers; a container is {"policy", "objects": {name: Stored}}.

    It is ssbench's alone, so every container is ours.
    """

    allow_reuse_address = daemon_threads = True

    def __init__(self, address: tuple[str, int], key: str, token_life_s: float) -> None:
        super().__init__(address, Handler)
        self.key, self.token_life_s = key, token_life_s
        self.expiries: dict[str, float] = {}  # of tokens
        self.containers: dict[str, dict[str, Any]] = {}
        self.lock = threading.Lock()

    def answer(self, asked: Mapping[str, Any], body: bytes) -> Answer:
        now = time.time()
        if asked["do"] == "login":
            if asked["key"] != self.key:
                return {"status": 401}, b""
            token, expires_at = secrets.token_hex(8), now + self.token_life_s
            self.expiries[token] = expires_at
            return {"status": 200, "token": token, "expires_at": expires_at}, b""
        if self.expiries.get(asked["token"], 0) < now:
            return {"status": 401}, b""
        with self.lock:
            return self.perform(asked["do"], asked, body)

    def perform(self, do: str, asked: Mapping[str, Any], body: bytes) -> Answer:
        if do == "make":
            made = {"policy": asked["policy"], "objects": {}}
            self.containers.setdefault(asked["container"], made)
            return {"status": 201}, b""
        if do == "containers":
            found = [n for n in self.containers if n.startswith(asked["prefix"])]
            return {"status": 200, "entries": page(found, asked, self.container_entry)}, b""
        container = self.containers.get(asked["container"], {})
        if not container:
            return {"status": 404}, b""
        objects = container["objects"]
        if do == "container":
            info = {"policy": container["policy"], "marked": True, "object_count": len(objects)}
            return {"status": 200, "info": info}, b""
        if do == "objects":
            return {
                "status": 200,
                "entries": page(objects, asked, lambda n: (n, objects[n].size)),
            }, b""
        if do == "drop":
            if not objects:
                del self.containers[asked["container"]]
            return {"status": 409 if objects else 204}, b""
        if do == "put":
            objects[asked["name"]] = Stored(body, len(body), asked["run"], asked["version"])
            return {"status": 201}, b""
        stored = objects.get(asked["name"])
        if stored is None:
            return {"status": 404}, b""
        if do == "delete":
            del objects[asked["name"]]
        facts = {"status": 200, **stored._asdict(), "body": None}
        return facts, stored.body if do == "get" else b""

    def container_entry(self, name: str) -> tuple[str, int, int]:
        objects = self.containers[name]["objects"].values()
        return name, len(objects), sum(stored.size for stored in objects)


class Stored(NamedTuple):
    body: bytes
    size: int
    run: str
    version: int


def page(names: Iterable[str], asked: Mapping[str, Any], entry: Callable[[str], Any]) -> list[Any]:
    after = sorted(name for name in names if name > asked["marker"])
    return [entry(name) for name in after[: asked["limit"]]]


class Handler(socketserver.StreamRequestHandler):
    """One connection: requests until it is closed."""

    disable_nagle_algorithm = True

    def handle(self) -> None:
        store = cast(Store, self.server)
        while line := self.rfile.readline():
            asked = json.loads(line)
            answer, body = store.answer(asked, self.rfile.read(asked["length"]))
            line = json.dumps({**answer, "length": len(body)}).encode() + b"\n"
            self.wfile.write(line + body)


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    life_s = float(os.environ.get("DICTSTORE_TOKEN_LIFE", "3600"))
    with Store((host, int(port)), os.environ["DICTSTORE_KEY"], life_s) as store:
        sys.stdout.write(f"{host}:{store.server_address[1]}\n")
        sys.stdout.flush()
        store.serve_forever()


if __name__ == "__main__":
    main()
