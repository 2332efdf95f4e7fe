"""The child: real Swift servers on eventlet, on sockets that the parent bound.

``python -m ssbench.embedded.server ROLE=FD ...`` reads the plan, one line of JSON, from stdin,
and serves those roles until stdin ends, which also happens when the parent dies.
"""

from __future__ import annotations

import ctypes
import inspect
import io
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ssbench.embedded.plan import POLICIES, Plan, conf_files, etc_dir, remove_workdir
from ssbench.host.files import OutputFile
from ssbench.host.process import allow_many_connections

if TYPE_CHECKING:
    from ssbench.embedded.direct import App

PR_SET_PDEATHSIG = 1

#: Connections served at once, per role. Idle connections count, so this is above the number of
#: users that one such server can serve.
MAX_CLIENTS = 4096

#: Bounds the cache, which holds a small entry for each account and container.
CACHE_ENTRIES = 50_000


def main(arguments: list[str]) -> None:
    """Serve until the parent ends or SIGTERM arrives; then remove the plan's directory."""
    descriptors = {role: int(fd) for role, _, fd in (word.partition("=") for word in arguments)}
    plan = Plan.from_json(read_line(0))
    end_with_parent(plan)
    allow_many_connections()
    # Importing eventlet's own resolver of names would take a third of the start; libc's will do.
    os.environ["EVENTLET_NO_GREENDNS"] = "yes"
    # Where it can be imported, eventlet does that, and never needs it here: ssl serves https.
    sys.modules["OpenSSL"] = None  # type: ignore[assignment]
    write_tree(plan, descriptors)
    serve(plan, descriptors)


def read_line(fd: int) -> str:
    """Read up to the newline and no further: the end of stdin is the signal to end."""
    line = bytearray()
    while (byte := os.read(fd, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def end_with_parent(plan: Plan) -> None:
    """End this process, and remove its directory, when the parent ends."""

    def end(*_: object) -> None:
        remove_workdir(plan.top)
        os._exit(0)

    # Keep the real os.read and start a real thread, before eventlet replaces both: a busy or
    # stuck event loop must not delay this.
    read = os.read

    def watch() -> None:
        while read(0, 4096):
            pass
        end()

    parent = os.getppid()

    def if_orphaned(*_: object) -> None:
        # The signal also arrives when only the thread that started us ends.
        if os.getppid() != parent:
            end()

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, if_orphaned)
    # If another child of the parent inherited the pipe, it stays open after the parent's end.
    # The kernel sends this signal in any case.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGUSR1, 0, 0, 0)


def write_tree(plan: Plan, roles: Iterable[str]) -> None:
    """Write the configuration and rings of these roles, and make the device's directory."""
    from swift.common.ring import RingBuilder

    os.makedirs(f"{plan.node_dir}/d1", exist_ok=True)
    files = conf_files(plan)
    rings = {"account": "account", "container": "container"}
    rings |= {"object" + (f"-{i}" if i else ""): "object" for i in range(len(POLICIES))}
    for etc in (etc_dir(plan, role) for role in roles):
        os.makedirs(etc, mode=0o700, exist_ok=True)
        for name, text in files.items():
            with open(f"{etc}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        for ring, role in rings.items():
            builder = RingBuilder(2, 1, 0)  # 4 partitions, 1 replica
            device = {"region": 1, "zone": 1, "device": "d1", "weight": 1.0}
            builder.add_dev({**device, "ip": plan.options.host, "port": plan.ports[role]})
            builder.rebalance(seed="ssbench")
            builder.get_ring().save(f"{etc}/{ring}.ring.gz")


def serve(plan: Plan, descriptors: Mapping[str, int]) -> None:
    """Run the WSGI apps of these roles in this process; does not return.

    Only the last of them listens. It and the others call each other without sockets.
    """
    import eventlet.hubs
    import eventlet.wsgi
    from swift.common import utils

    # Before anything imports storage_policy, or the policies of swift.conf don't exist.
    utils.set_swift_dir(etc_dir(plan, next(iter(descriptors))))
    eventlet.hubs.use_hub(utils.get_hub())
    utils.monkey_patch()
    from swift.common.http_protocol import SwiftHttpProtocol

    from ssbench.embedded.direct import connect_directly

    apps = {plan.ports[role]: load(plan, role) for role in descriptors}
    connect_directly(apps)
    remember_methods()
    if plan.options.in_memory:
        read_on_their_own()
    role, fd = list(descriptors.items())[-1]
    eventlet.wsgi.server(
        listener(plan, role, fd),
        apps[plan.ports[role]],
        utils.NullLogger(),
        custom_pool=eventlet.GreenPool(MAX_CLIENTS),
        protocol=SwiftHttpProtocol,
        socket_timeout=60,
        capitalize_response_headers=False,  # S3 clients insist on "ETag"
    )


def load(plan: Plan, role: str) -> App:
    from swift.common.utils import readconf
    from swift.common.utils.logs import get_swift_logger
    from swift.common.wsgi import loadapp

    conf_file = f"{etc_dir(plan, role)}/{role}-server.conf"
    name = f"{role}-server"
    # Opens no /dev/log, which a container may lack; warnings go to our stderr instead.
    get_swift_logger(readconf(conf_file, defaults={}), name, log_to_console=True, log_route="wsgi")
    app: App = loadapp(conf_file, global_conf={"log_name": name})
    if role == "proxy":
        app = access_logged(cached(app, Cache(time.monotonic)), plan.access_log)
    return app


def read_on_their_own() -> None:
    """Give each reader of an object in memory a position of its own; Swift's readers share one."""
    from swift.obj.mem_diskfile import InMemoryFileSystem

    shared = InMemoryFileSystem.get_object

    def get_object(files: Any, name: str) -> tuple[io.BytesIO | None, dict[str, Any] | None]:
        file, metadata = shared(files, name)
        return file and io.BytesIO(file.getvalue()), metadata  # which copies nothing

    InMemoryFileSystem.get_object = get_object


def remember_methods() -> None:
    """Look for the methods of a proxy's controller once per class.

    Swift does it for each request, which was a tenth of the CPU of a small GET.
    """
    from swift.proxy.controllers import base

    known: dict[type, list[tuple[str, Any]]] = {}

    def members(controller: object, **_: object) -> list[tuple[str, Any]]:
        kind = type(controller)
        if kind not in known:
            known[kind] = inspect.getmembers(kind, inspect.isfunction)
        return known[kind]

    base.inspect = SimpleNamespace(getmembers=members, ismethod=inspect.ismethod)


def listener(plan: Plan, role: str, fd: int) -> Any:
    """The green listening socket of a role; with TLS if it is the proxy and so planned."""
    from eventlet.green import ssl
    from eventlet.greenio import GreenSocket

    plain = GreenSocket(socket.socket(fileno=fd))
    # As Swift itself does: otherwise the last bytes of a body wait 40 ms for an acknowledgement.
    # Accepted sockets inherit it.
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.listen(MAX_CLIENTS)
    if role != "proxy" or not plan.options.tls_cert:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(plan.options.tls_cert, plan.options.tls_key or None)
    return context.wrap_socket(plain, server_side=True)


class Cache:
    """The part of memcached's interface that Swift uses; without it, Swift is 2 to 3 times slower.

    When it is full, it drops the oldest entries.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[float, Any]] = {}  # key -> (expires, value)

    def get(self, key: str, *_: object, **__: object) -> Any:
        expires, value = self._entries.get(key, (0.0, None))
        return value if expires > self._clock() else None

    def set(self, key: str, value: Any, *_: object, time: float = 0, **__: object) -> None:
        # Swift relies on memcached returning text.
        self._entries.pop(key, None)
        self._entries[key] = (
            self._clock() + time if time else float("inf"),
            value.decode() if isinstance(value, bytes) else value,
        )
        while len(self._entries) > CACHE_ENTRIES:
            del self._entries[next(iter(self._entries))]

    def incr(self, key: str, delta: int = 1, time: float = 0, **_: object) -> int:
        total = max(0, int(self.get(key) or 0) + delta)
        self.set(key, total, time=time)
        return total

    def decr(self, key: str, delta: int = 1, time: float = 0, **_: object) -> int:
        return self.incr(key, -delta, time)

    def delete(self, key: str, *_: object, **__: object) -> None:
        self._entries.pop(key, None)

    def set_multi(self, values: Mapping[str, Any], *_: object, time: float = 0, **__: Any) -> None:
        for key, value in values.items():
            self.set(key, value, time=time)

    def get_multi(self, keys: Iterable[str], *_: object, **__: object) -> list[Any]:
        return [self.get(key) for key in keys]


def cached(app: App, cache: Cache) -> App:
    """Wrap the app: put the cache into each request's environment, like the cache middleware."""

    def call(env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        env["swift.cache"] = cache
        return app(env, start_response)

    return call


def access_logged(app: App, path: str) -> App:
    """Wrap the app: write an ``access_line`` per request, before the client gets any response."""
    file = OutputFile(path, os.O_APPEND, 0o600)

    def call(env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # Swift's middlewares change these.
        method, raw_path, query = (env.get(k, "") for k in ("REQUEST_METHOD", *PATH_KEYS))
        sent = env.get("CONTENT_LENGTH") or "0"

        def start(status: str, headers: list[tuple[str, str]], *rest: object) -> Any:
            line = access_line(method, raw_path, query, status, headers, sent)
            os.write(file.descriptor, line.encode("utf-8", "surrogateescape"))
            return start_response(status, headers, *rest)

        return app(env, start)

    return call


PATH_KEYS = ("RAW_PATH_INFO", "QUERY_STRING")


def access_line(
    method: str,
    raw_path: str,
    query: str,
    status: str,
    headers: Iterable[tuple[str, str]],
    sent: str,
) -> str:
    """METHOD PATH[?QUERY] STATUS TRANSACTION BYTES; "-" for unknown values.

    BYTES is the length of the request's body, or of the response's if the request has none.
    """
    found = {name.lower(): value for name, value in headers}
    size = sent if sent not in ("", "0") else found.get("content-length", "-")
    path = raw_path + (f"?{query}" if query else "")
    return f"{method} {path} {status[:3]} {found.get('x-trans-id', '-')} {size}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
