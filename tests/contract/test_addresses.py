"""Several addresses of a name, and several URLs: each gets its share, in every store over HTTP.

The resolver is the test's own, and leads to 127.0.0.1, 127.0.0.2 and 127.0.0.3.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from time import monotonic
from typing import Any

import gevent
import pytest

from ssbench.core.errors import StorageError
from ssbench.core.model import ErrorKind, Job
from ssbench.core.operations import READ
from ssbench.core.settings import Credentials, StorageSettings
from ssbench.storage.http import addresses
from ssbench.storage.registry import open_store
from tests.contract.stores import OVER_HTTP, driver_on, scripted_driver
from tests.fakes.answered_store import SIZES, always
from tests.fakes.scripted_server import Peer, ok
from tests.ports import held_port
from tests.servers.certificates import Certificates

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
ASKED = Job(1, READ, 0, 1, 0, 50)


class Node:
    """A server at one address, which answers every request in the same way.

    :param together: with which requests wait for each other before they are answered.
    """

    def __init__(
        self,
        host: str,
        port: int = 0,
        context: ssl.SSLContext | None = None,
        together: threading.Barrier | None = None,
    ) -> None:
        self.requests = 0
        self._together = together or threading.Barrier(1)
        self.hosts: set[str] = set()  #: of Host headers
        self.names: set[str] = set()  #: of SNI
        self._context = context
        self._open: list[socket.socket] = []
        self._serving: list[threading.Thread] = []
        self._listener = socket.create_server((host, port))
        self.port: int = self._listener.getsockname()[1]
        if context is not None:
            context.sni_callback = lambda _sock, name, _context: self.names.add(name)
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._open.append(sock.dup())  # which TLS does not detach
                self._serving.append(threading.Thread(target=self._serve, args=(sock,)))
                self._serving[-1].start()

    def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError), ExitStack() as stack:
            stack.enter_context(sock)
            if self._context is not None:
                sock = stack.enter_context(self._context.wrap_socket(sock, server_side=True))
            while data := sock.recv(65536):
                self.requests += 1
                lines = data.decode().split("\r\n")
                self.hosts |= {line[6:] for line in lines if line[:6].lower() == "host: "}
                self._together.wait(20)
                sock.sendall(ok(b"x" * 50))

    def close(self) -> None:
        """End, as a process does that is killed."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(20)
        for sock in self._open:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        for thread in self._serving:
            thread.join(20)


@contextmanager
def nodes(
    monkeypatch: pytest.MonkeyPatch,
    *hosts: str,
    certificates: Certificates | None = None,
    together: int = 1,
) -> Iterator[list[Node]]:
    """One at each of these addresses; every name leads to HOSTS."""
    with ExitStack() as stack:
        found: list[Node] = []
        barrier = threading.Barrier(together)
        for host in hosts:
            context = certificates.server_context() if certificates else None
            node = Node(host, found[0].port if found else 0, context, barrier)
            found.append(node)
            stack.callback(node.close)
        rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (h, found[0].port)) for h in HOSTS]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_: rows)
        monkeypatch.setattr(addresses, "RETRY_S", 0.01)
        yield found


@contextmanager
def store_of(name: str, place: str, certificates: Certificates | None = None) -> Iterator[Any]:
    tls = certificates is not None
    own: dict[str, Any] = {"urls": [f"http{'s' * tls}://{place}/v1/a"]}
    if certificates:
        own["cacert_pem"] = certificates.authority.read_text()
    settings = StorageSettings(
        name, run_id="r", worker_id="w", sizes=SIZES, container_count=2, store=own,
        credentials=(Credentials(1, None, OVER_HTTP[name].issued),),
    )  # fmt: skip
    with closing(open_store(settings)) as store:
        yield store


def until(done: Any) -> None:
    end = monotonic() + 20
    while not done():
        assert monotonic() < end, "not in time"


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("store", OVER_HTTP)
@pytest.mark.parametrize("users", [1, 6])
def test_each_address_gets_its_share(
    users: int, store: str, tls: bool, monkeypatch: pytest.MonkeyPatch, certificates: Certificates
) -> None:
    trusted = certificates if tls else None
    with nodes(monkeypatch, *HOSTS, certificates=trusted, together=users) as found:
        place = f"localhost:{found[0].port}"
        with store_of(store, place, trusted) as driver:
            driver.connect(users)
            act = driver.actions[READ]
            workers = [gevent.spawn(lambda: [act(ASKED, 0) for _ in range(90 // users)])
                       for _ in range(users)]  # fmt: skip
            gevent.joinall(workers, raise_error=True)
            asked = Counter(timing.address for each in workers for timing in each.value)
            names = {name: asked[number] for number, name in enumerate(driver.addresses, 1)}
        assert names == {f"{host}:{found[0].port}": 30 for host in HOSTS}
        assert [node.requests for node in found] == [30, 30, 30]
        assert [node.hosts for node in found] == [{place}] * 3
        if tls:
            assert [node.names for node in found] == [{"localhost"}] * 3


@pytest.mark.parametrize("store", OVER_HTTP)
def test_a_dead_address_is_left_out_and_reported_until_it_returns(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, failed = list[str](), list[ErrorKind]()

    def ask() -> bool:
        try:
            driver.actions[READ](ASKED, 0)
        except StorageError as error:
            (notes if error.kind is ErrorKind.NONE else failed).append(error.detail)  # type: ignore[arg-type]
        gevent.sleep(0)
        return True

    with nodes(monkeypatch, *HOSTS[:2]) as (first, second):
        port = first.port
        with store_of(store, f"store.test:{port}") as driver:
            until(lambda: ask() and first.requests > 20 and second.requests > 20)
            assert notes == [
                f"127.0.0.3:{port}, an address of store.test: connection refused: it was left out,"
                " and tried again each 0.01 s"
            ]
            assert failed == []  # another address took over
            second.close()
            until(lambda: ask() and len(notes) == 2)
            assert notes[1].startswith(f"127.0.0.2:{port}, an address of store.test: ")
            assert len(failed) <= 1  # on the connection that ended
            with closing(Node("127.0.0.3", port)) as third:
                until(lambda: ask() and third.requests > 10)
            assert f"127.0.0.3:{port}, an address of store.test: it answers again" in notes


@pytest.mark.parametrize("store", OVER_HTTP)
@pytest.mark.parametrize("choice", ["round-robin", "least-busy"])
def test_of_several_urls_each_gets_its_share(choice: str, store: str) -> None:
    paths = ("/v1/a", "/v1/b", "/v1/c")
    given: Any = {"paths": paths, "url_choice": choice}
    with driver_on(store, always(ok(b"x")), **given) as (driver, heard):
        driver.connect(1)
        for _ in range(30):
            driver.actions[READ](ASKED, 0)
    assert sorted(sum(each.target.startswith(f"{path}/") for each in heard) for path in paths) == [
        10, 10, 10,
    ]  # fmt: skip


def test_a_busy_url_gets_fewer_requests() -> None:
    """``least-busy``: one that does not answer keeps its share of connections, and no more."""
    heard, free = list[str](), threading.Event()

    def script(peer: Peer) -> None:
        while data := peer.hear_whole():
            target = data.split(b" ")[1].decode()
            heard.append(target)
            if target.startswith("/slow/"):
                free.wait(20)
            peer.say(ok(b"x"))

    given: Any = {"paths": ("/slow", "/quick"), "url_choice": "least-busy"}
    with scripted_driver("swift", script, **given) as (driver, _):
        act = driver.actions[READ]
        waiting = gevent.spawn(lambda: [act(ASKED, 0) for _ in range(2)])
        until(lambda: gevent.sleep(0) or any(each.startswith("/slow/") for each in heard))
        heard.clear()
        for _ in range(20):
            act(ASKED, 0)
        assert [each for each in heard if each.startswith("/slow/")] == []
        free.set()
        waiting.get(timeout=20)


@pytest.mark.parametrize("store", OVER_HTTP)
@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Le"], ids=["nothing", "half"])
def test_an_error_without_a_response_names_its_url(store: str, said: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.hear_whole()
        peer.say(said)

    given: Any = {"paths": ("/v1/a", "/v1/b"), "url_choice": "round-robin"}
    with scripted_driver(store, script, **given) as (driver, _):
        assert urls_of_errors(driver) in ([0, 1, 0, 1], [1, 0, 1, 0])


@pytest.mark.parametrize("store", OVER_HTTP)
def test_an_error_without_a_connection_names_its_url(store: str) -> None:
    urls = [f"http://127.0.0.1:{held_port()}/v1/{path}" for path in "ab"]
    given: Any = {"own": {"urls": urls}, "url_choice": "round-robin"}
    with scripted_driver(store, lambda peer: None, **given) as (driver, _):
        assert urls_of_errors(driver) in ([0, 1, 0, 1], [1, 0, 1, 0])


@pytest.mark.parametrize("store", OVER_HTTP)
def test_an_error_names_the_address_that_was_tried(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = held_port()
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in HOSTS]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: rows)
    with store_of(store, f"store.test:{port}") as driver:
        with pytest.raises(StorageError) as raised:
            driver.actions[READ](ASKED, 0)
        assert raised.value.kind is ErrorKind.CONNECT
        assert driver.addresses[raised.value.address - 1] == f"127.0.0.3:{port}"


def urls_of_errors(driver: Any) -> list[int]:
    urls = []
    for _ in range(4):
        with pytest.raises(StorageError) as raised:
            driver.actions[READ](ASKED, 0)
        urls.append(raised.value.url)
    return urls
