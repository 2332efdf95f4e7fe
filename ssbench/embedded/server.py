"""The child: real Swift servers on eventlet, on sockets that the parent bound.

``python -m ssbench.embedded.server ROLE=FD ...`` reads the plan, one line of JSON, from stdin,
and serves those roles until stdin ends, which it does when the parent has died, however it died.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ssbench.embedded import workdir
from ssbench.embedded.plan import POLICIES, Plan, conf_files, etc_dir

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

PR_SET_PDEATHSIG = 1

#: Connections that are served at once, per role. A kept connection takes a place even while it
#: is idle, so this is above any number of users that one such server is of use for.
MAX_CLIENTS = 4096

#: A bound for the cache's memory; it holds one small entry for each account and container.
CACHE_ENTRIES = 50_000


def main(arguments: list[str]) -> None:
    """Serve until the parent is gone or SIGTERM comes; then remove the plan's directory."""
    descriptors = {role: int(fd) for role, _, fd in (word.partition("=") for word in arguments)}
    plan = Plan.from_json(read_line(0))
    end_with_parent(plan)
    allow_many_files()
    write_tree(plan, descriptors)
    serve(plan, descriptors)


def read_line(fd: int) -> str:
    """Up to the newline and no byte further: the rest of stdin is the life line."""
    line = bytearray()
    while (byte := os.read(fd, 1)) not in (b"", b"\n"):
        line += byte
    return line.decode()


def end_with_parent(plan: Plan) -> None:
    """From now on the process ends, and its directory with it, when the parent is gone."""

    def end(*_: object) -> None:
        workdir.remove(plan.top)
        os._exit(0)

    # eventlet replaces these in their modules, so the ones of the system are taken now; the
    # thread is a real one, that a busy or stuck event loop can't hold up.
    read = os.read

    def watch() -> None:
        while read(0, 4096):
            pass
        end()

    parent = os.getppid()

    def if_orphaned(*_: object) -> None:
        # The signal also comes when only the thread that started us has ended.
        if os.getppid() != parent:
            end()

    threading.Thread(target=watch, daemon=True).start()
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, if_orphaned)
    # The pipe's other end outlives the parent where a process that the parent forked still
    # holds it; this signal comes all the same.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGUSR1, 0, 0, 0)


def allow_many_files() -> None:
    """As many descriptors as the system grants: each connection takes three on its way through."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def write_tree(plan: Plan, roles: Iterable[str]) -> None:
    """The configs and rings of these roles, and the device's directory."""
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
            builder.add_dev({**device, "ip": plan.host, "port": plan.ports[role]})
            builder.rebalance(seed="ssbench")
            builder.get_ring().save(f"{etc}/{ring}.ring.gz")


def serve(plan: Plan, descriptors: Mapping[str, int]) -> None:
    """Run the WSGI apps of these roles in this process; doesn't return."""
    import eventlet
    import eventlet.hubs
    from swift.common import utils

    # Before anything imports storage_policy, or the policies of swift.conf don't exist.
    utils.set_swift_dir(etc_dir(plan, next(iter(descriptors))))
    eventlet.hubs.use_hub(utils.get_hub())
    utils.monkey_patch()
    # A role ends by its fault alone; the first to do so ends the process, and says why.
    ended = eventlet.Queue()
    for role, fd in descriptors.items():
        eventlet.spawn(serve_role, plan, role, fd).link(ended.put)
    ended.get().wait()


def serve_role(plan: Plan, role: str, fd: int) -> None:
    import eventlet.wsgi
    from swift.common.http_protocol import SwiftHttpProtocol
    from swift.common.utils import NullLogger, readconf
    from swift.common.utils.logs import get_swift_logger
    from swift.common.wsgi import loadapp

    conf_file = f"{etc_dir(plan, role)}/{role}-server.conf"
    name = f"{role}-server"
    # Opens no /dev/log, which a container may lack; warnings go to our stderr instead.
    get_swift_logger(readconf(conf_file, defaults={}), name, log_to_console=True, log_route="wsgi")
    app: App = loadapp(conf_file, global_conf={"log_name": name})
    if role == "proxy":
        app = access_logged(cached(app, Cache(time.monotonic)), plan.access_log)
    eventlet.wsgi.server(
        listener(plan, role, fd),
        app,
        NullLogger(),
        custom_pool=eventlet.GreenPool(MAX_CLIENTS),
        protocol=SwiftHttpProtocol,
        socket_timeout=60,
        capitalize_response_headers=False,  # S3 clients insist on "ETag"
    )


def listener(plan: Plan, role: str, fd: int) -> Any:
    """The green listening socket of a role; TLS for the proxy, where the plan has it."""
    from eventlet.green import ssl
    from eventlet.greenio import GreenSocket

    plain = GreenSocket(socket.socket(fileno=fd))
    # As Swift's own set-up of its socket has it: without it, the body's tail waits 40 ms for the
    # acknowledgement of what went before. Accepted sockets inherit it.
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.listen(MAX_CLIENTS)
    if role != "proxy" or not plan.tls_cert:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(plan.tls_cert, plan.tls_key or None)
    return context.wrap_socket(plain, server_side=True)


class Cache:
    """What Swift uses of memcached. Without one it is two to three times slower.

    Bounded: when it is full, the entries that were set longest ago go.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: dict[str, tuple[float, Any]] = {}  # key -> (expires, value)

    def get(self, key: str, *_: object, **__: object) -> Any:
        expires, value = self._entries.get(key, (0.0, None))
        return value if expires > self._clock() else None

    def set(self, key: str, value: Any, *_: object, time: float = 0, **__: object) -> None:
        # Memcached gives back text, and Swift relies on that.
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
    """The app with the cache in each request's environment, as the cache middleware does it."""

    def call(env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        env["swift.cache"] = cache
        return app(env, start_response)

    return call


def access_logged(app: App, path: str) -> App:
    """The app with a line in the file for each request; see ``access_line``.

    The line is there before the client sees a byte of the answer, so that a client may look.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def call(env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # Swift's middlewares rewrite these on the way.
        method, raw_path, query = (env.get(k, "") for k in ("REQUEST_METHOD", *PATH_KEYS))
        sent = env.get("CONTENT_LENGTH") or "0"

        def start(status: str, headers: list[tuple[str, str]], *rest: object) -> Any:
            line = access_line(method, raw_path, query, status, headers, sent)
            os.write(fd, line.encode("utf-8", "surrogateescape"))
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
    """METHOD PATH[?QUERY] STATUS TRANSACTION BYTES; "-" for what isn't known.

    BYTES are those of the answer's body, or of the request's where that has one.
    """
    found = {name.lower(): value for name, value in headers}
    size = sent if sent not in ("", "0") else found.get("content-length", "-")
    path = raw_path + (f"?{query}" if query else "")
    return f"{method} {path} {status[:3]} {found.get('x-trans-id', '-')} {size}\n"


if __name__ == "__main__":
    main(sys.argv[1:])
