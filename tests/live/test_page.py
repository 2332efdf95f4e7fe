"""The page of --web, over HTTP and in a browser."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from msgspec.structs import replace

from ssbench.cli.options import web_address
from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.live import OperationProgress, WorkerProgress
from ssbench.core.model import Phase
from ssbench.core.records import EventRecord
from ssbench.live import web
from ssbench.live.watch import Watch
from ssbench.live.web import LivePage
from ssbench.runner.stop import Stop
from tests.e2e.commands import until
from tests.live.test_terminal import BUSY
from tests.report.runs import header
from tests.servers.browser import browser

HOSTILE = "<script>document.title = 'stolen'</script>"


class Served:
    """A page, and requests to it."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.stop = Stop()
        self.page = LivePage((host, 0), self.stop)
        self.watch = Watch()
        self.watch.add(self.page)
        self.watch.start_phase(Phase.RUN)
        self.url = urlsplit(self.page.url)
        self.host = f"{host}:{self.url.port}"

    def ask(self, path: str, method: str = "GET", **headers: str) -> HTTPResponse:
        connection = HTTPConnection("127.0.0.1", self.url.port or 0, timeout=60)
        _, _, token = self.url.query.partition("=")
        cookie = f"theme=dark; ssbench-{self.url.port}={token}"
        headers = {"Host": self.host, "Cookie": cookie, **headers}
        connection.request(method, path, headers=headers)
        return connection.getresponse()

    def status(self, path: str, method: str = "GET", **headers: str) -> int:
        with self.ask(path, method, **headers) as response:
            return response.status

    def states(self, path: str = "/events") -> Iterator[Any]:
        """What the page is told, one after another."""
        with self.ask(path) as response:
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])


@pytest.fixture
def served() -> Iterator[Served]:
    found = Served()
    yield found
    found.page.stop_serving()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("8080", ("127.0.0.1", 8080)),
        ("0.0.0.0", ("0.0.0.0", 0)),
        ("[::1]:8080", ("::1", 8080)),
        ("[::1]", ("::1", 0)),
    ],
)
def test_an_address_may_lack_its_host_or_port(text: str, address: tuple[str, int]) -> None:
    assert web_address(text) == address


@pytest.mark.parametrize("text", ["", "bench-1:80", "127.0.0.1:65536", "127.0.0.1:x", "-1"])
def test_other_addresses_are_rejected(text: str) -> None:
    if text:
        with pytest.raises(UsageError, match=r"give PORT .* or ADDR:PORT"):
            web_address(text)
    else:
        assert web_address(text) == ("127.0.0.1", 0)


def test_a_taken_port_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SsbenchError, match=f"--web 127.0.0.1:{port}: can't listen there"):
            LivePage(("127.0.0.1", port), Stop())


def test_a_page_is_told_the_state_of_the_run(served: Served) -> None:
    served.watch.start_phase(Phase.RUN)
    served.watch.message("worker 4 is \x1blost")
    served.watch.update(BUSY)
    states = served.states()
    state = next(states)
    assert state["title"] == "Benchmark run"
    assert state["messages"] == ["worker 4 is \\x1blost"]
    progress = state["progress"]
    assert (progress["done"], progress["late"], progress["errors"]) == (1000, 1920, 12)
    assert [*progress["operations"]] == ["CREATE", "READ"]
    assert [row["state"] for row in progress["workers_seen"]] == ["gone", "running", "running"]
    assert progress["figures"][-1][:3] == [
        "Errors", "12 (1.2 %): 10 network timeout, 2 status 503", "error"
    ]  # fmt: skip
    served.watch.wait_for("Waiting for 3 operations")
    served.watch.end_phase()
    served.page.finish("<p>report</p>")
    state = next(each for each in states if each["ended"])
    assert (state["waiting"], state["report"]) == ("Waiting for 3 operations", True)
    with served.ask("/report") as response:
        assert response.read() == b"<p>report</p>"


def test_of_many_identities_the_page_has_those_that_need_attention(served: Served) -> None:
    names = [f"t{at}" for at in range(60)] + [HOSTILE]
    found = {at: OperationProgress(10, 0, float(at)) for at in range(60)}
    served.watch.describe_run(header(store={"identities": names}, scenario={"sizes": []}))
    served.watch.update(replace(BUSY, identities={**found, 60: OperationProgress(1, 2)}))
    progress = next(served.states())["progress"]
    heads, first, second, *_, last = progress["identity_rows"]
    assert heads == ["identity", "done", "per s", "errors"]
    assert first == [HOSTILE, "1", "0", "2"]
    assert second == ["t0", "10", "0", "0"]
    assert last == ["and 11 more", "", "", "0"]
    assert len(progress["identity_rows"]) == 52
    assert progress["identities"]["t59"] == {"count": 10, "errors": 0, "operations_per_s": 59.0}


def test_no_browser_keeps_a_page_or_tells_its_address(served: Served) -> None:
    served.page.finish("<p>report</p>")
    html = "text/html; charset=utf-8"
    for path, kind in (("/", html), ("/report", html), ("/events", "text/event-stream")):
        with served.ask(path) as response:
            assert response.headers["Content-Type"] == kind
            assert response.headers["Cache-Control"] == "no-store"
            assert response.headers["Referrer-Policy"] == "no-referrer"
            assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_there_is_no_report_before_the_end(served: Served) -> None:
    assert served.status("/report") == 404
    assert served.status("/else") == 404
    assert served.status("/stop") == 404
    assert served.status("/else", "POST", Origin=f"http://{served.host}") == 404


def test_a_request_with_another_host_is_rejected(served: Served) -> None:
    port = served.url.port
    for path in ("/", "/events", "/report"):
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.2:1", "", "["):
            assert served.status(path, Host=host) == 403, (path, host)
    for host in ("localhost", "127.0.0.1:1", "LOCALHOST:9999"):
        assert served.status("/", Host=host) == 200, "a forwarded port may have another number"


def test_only_the_page_itself_stops_the_run_and_once(served: Served) -> None:
    assert served.status("/stop", "POST") == 403
    assert served.status("/stop", "POST", Origin="http://evil.example") == 403
    assert served.status("/stop", "POST", Origin="null") == 403
    assert not served.stop.requested
    reasons: list[str] = []
    served.stop.listen(reasons.append)
    for _ in range(2):
        assert served.status("/stop", "POST", Origin=f"http://{served.host}") == 204
    assert reasons == ["stopped on the web page"], "a second call would end the run at once"


def test_only_the_page_itself_marks_the_run(served: Served) -> None:
    assert served.status("/mark?text=x", "POST") == 403
    assert served.status("/mark?text=x", "POST", Origin="http://evil.example") == 403
    found: list[EventRecord] = []
    over = threading.Event()

    def take() -> None:
        while not over.wait(0.001):
            found.extend(served.stop.marks())

    thread = threading.Thread(target=take)
    thread.start()
    origin = f"http://{served.host}"
    assert served.status("/mark?text=node%203%20down", "POST", Origin=origin) == 204
    assert served.status("/mark", "POST", Origin=origin) == 404
    over.set()
    thread.join()
    assert [(each.text, each.who) for each in found] == [("node 3 down", "page")]
    assert not served.stop.requested


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_the_token_of_the_printed_url_is_needed_and_then_its_cookie(address: str) -> None:
    served = Served(address)
    query = served.url.query
    assert query.startswith("token=")
    assert len(query) > 20
    assert query not in repr(served.page)
    served.host = f"127.0.0.1:{served.url.port}"
    origin = f"http://{served.host}"
    for cookie in ("", "ssbench=x", f"ssbench-{served.url.port}=", f"ssbench-{served.url.port}=x"):
        for path in ("/", "/events", "/report"):
            assert served.status(path, Cookie=cookie) == 403
            assert served.status(f"{path}?token=", Cookie=cookie) == 403
            assert served.status(f"{path}?{query}x", Cookie=cookie) == 403
        assert served.status("/stop", "POST", Origin=origin, Cookie=cookie) == 403
    assert served.status(f"/?{query}", Host=f"evil.example:{served.url.port}") == 403
    with served.ask(f"/?{query}", Cookie="") as first:
        assert first.status == 200
        cookie, *attributes = (first.getheader("Set-Cookie") or "").split("; ")
        assert {*attributes} == {"Path=/", "HttpOnly", "SameSite=Strict"}
    assert served.status("/", Cookie=cookie) == 200
    assert served.status("/stop", "POST", Origin=origin, Cookie=cookie) == 204
    served.page.stop_serving()


def test_a_page_for_other_hosts_has_any_name_of_this_host() -> None:
    served = Served("0.0.0.0")
    short = socket.gethostname().partition(".")[0]
    for name in (short, f"{short}.example.com:80", "192.0.2.1", "[2001:db8::1]:8080"):
        assert served.status("/", Host=name) == 200
    served.page.stop_serving()


@pytest.mark.program("ipv6")
def test_loopback_of_ipv6_has_only_its_own_name() -> None:
    page = LivePage(("::1", 0), Stop())
    url = urlsplit(page.url)
    try:
        assert url.hostname == "::1"
        found = {}
        for host in (url.netloc, "localhost:1", "127.0.0.1", "[::2]", "evil.example"):
            connection = HTTPConnection("::1", url.port or 0, timeout=60)
            connection.request("GET", f"/?{url.query}", headers={"Host": host})
            with connection.getresponse() as response:
                found[host] = response.status
    finally:
        page.stop_serving()
    assert [*found.values()] == [200, 200, 403, 403, 403]


def test_no_more_than_64_kib_of_a_request_are_held(served: Served) -> None:
    start = b"GET / HTTP/1.0\r\na: "
    with socket.create_connection(("127.0.0.1", served.url.port or 0), timeout=20) as client:
        # All that is read, and not yet complete: what is unread at the end resets a connection.
        lines = start + (b"x" * 40_000 + b"\r\nb: ") + b"x" * (1 << 16)
        client.sendall(lines[: (1 << 16) + 1])
        assert client.makefile("rb").readline().split()[1] == b"431"


@pytest.mark.parametrize(
    "request_", [b"GET //[ HTTP/1.0", b"GET /%ff?token=%ff%00 HTTP/1.0", b"\xff", b"GET", b""]
)
def test_malformed_requests_leave_no_traceback(
    served: Served, request_: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", served.url.port or 0), timeout=20) as client:
        client.sendall(request_ + b"\r\nHost: 127.0.0.1\r\n\r\n")
        while client.recv(4096):
            pass
    assert served.status("/") == 200
    assert capfd.readouterr() == ("", "")


def test_the_number_of_connections_is_bounded(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web.QuietHandler, "timeout", None)
    address = "127.0.0.1", served.url.port or 0
    with ExitStack() as opened:
        idle = [opened.enter_context(socket.create_connection(address, 20)) for _ in range(66)]
        assert [each.recv(1) for each in idle[64:]] == [b"", b""], "closed at once"
        idle[63].sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert idle[63].recv(12) == b"HTTP/1.0 403"
    until("an answer", lambda: answers(served))


def answers(served: Served) -> bool:
    try:
        return served.status("/") == 200
    except OSError:
        return False


def test_the_number_of_open_streams_is_bounded(served: Served) -> None:
    streams = [served.ask("/events") for _ in range(16)]
    assert {stream.status for stream in streams} == {200}
    assert served.status("/events") == 503
    assert served.status("/") == 200
    for stream in streams:
        stream.close()


def test_a_page_that_is_opened_is_told_the_state_at_once(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "_PING_S", 3600.0)
    served.watch.update(BUSY)
    assert next(served.states())["progress"]["done"] == 1000


def test_a_page_is_told_nothing_while_nothing_changes(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.url.port or 0), timeout=20) as client:
        client.sendall(
            f"GET /events?{served.url.query} HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode()
        )
        received = b""
        while b"data: " not in received or not received.endswith(b"\n\n"):
            received += client.recv(65536)
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(20)
        served.page.finish("")
        assert client.recv(65536)


def test_a_browser_shows_hostile_texts_as_text_and_stops_the_run(
    served: Served, tmp_path: Path
) -> None:
    page, watch = served.page, served.watch
    watch.start_run(3, "users 8")
    watch.start_phase(Phase.RUN, title=f"Run {HOSTILE}")
    watch.message(HOSTILE)
    for at_s in (0.0, 1e12):  # before what the chart shows, and now
        watch.mark(EventRecord(at_s, "node 3 down", "page"))
    watch.update(replace(BUSY, workers_seen=[WorkerProgress(HOSTILE, "running", 1, 0, None)]))
    with browser(tmp_path) as chromium:
        chromium.driver.get(page.url)
        until("a table", lambda: chromium.run("return document.querySelectorAll('tr').length") == 5)
        text = chromium.run("return document.body.innerText")
        assert text.count(HOSTILE) == 3
        assert "(3: users 8)" in text
        line = "return document.querySelector('#rates path').getAttribute('d')"
        assert chromium.run(line) == "M600.0 0V80"
        assert "119/s of 120/s due" in text
        assert "12 (1.2 %): 10 network timeout, 2 status 503" in text
        assert chromium.run("return document.title") == "ssbench"
        for width in (400, 1000):
            chromium.driver.set_window_size(width, 900)
            wide = "return document.documentElement.scrollWidth - innerWidth"
            assert chromium.run(wide) <= 0
        ask = "window.confirm = () => { window.asked = 1 + (window.asked || 0); return %s; };"
        click = "document.getElementById('stop').click(); return window.asked"
        assert chromium.run(f"{ask % 'false'} {click}") == 1
        assert not served.stop.requested
        assert chromium.run(f"{ask % 'true'} {click}") == 2
        until("a stop", lambda: served.stop.requested)
        watch.start_phase(Phase.CLEANUP)
        watch.update(replace(BUSY, done=77_777, history=()))
        watch.end_phase()
        page.finish("<title>A report</title>", [("Throughput", "119.0 operations/s")])
        until("a link", lambda: not chromium.run("return document.getElementById('report').hidden"))
        text = chromium.run("return document.body.innerText")
        assert ("119.0 operations/s" in text, "77,777" in text) == (True, False)
        chromium.run("document.querySelector('#report a').click()")
        until("the report", lambda: chromium.driver.title == "A report")
        assert [each for each in chromium.errors() if "favicon" not in each] == []
