"""The servers that the other end-to-end tests stand on do what those rely on."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ssbench.embedded import EmbeddedSwift, SwiftOptions
from tests.e2e.commands import Account, clean_environment, is_gone, until
from tests.timing import PATIENCE_S


def upload(swift: EmbeddedSwift, token: str, path: str, size: int, more: str = "") -> socket.socket:
    """A connection on which an upload has begun: its headers are sent, its body is not."""
    connection = socket.create_connection((swift.plan.options.host, swift.port), PATIENCE_S)
    lines = f"PUT /v1/AUTH_test{path} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\n"
    connection.sendall(f"{lines}Content-Length: {size}\r\n{more}\r\n".encode())
    return connection


class TestSwift:
    def test_the_log_has_a_line_for_each_request(self, embedded_swift: EmbeddedSwift) -> None:
        client = Account(embedded_swift)
        client("PUT", "logged")
        client("PUT", "logged/a b", b"12345")
        headers = client("GET", "logged/none?x=1")[1]
        lines = [
            line.split()
            for line in embedded_swift.access_log().read_text().splitlines()
            if "/AUTH_test/logged" in line
        ]
        assert [(line[0], line[1], line[2]) for line in lines] == [
            ("PUT", "/v1/AUTH_test/logged", "201"),
            ("PUT", "/v1/AUTH_test/logged/a%20b", "201"),
            ("GET", "/v1/AUTH_test/logged/none?x=1", "404"),
        ]
        assert lines[1][4] == "5"
        assert lines[2][3] == headers["X-Trans-Id"]

    def test_a_long_body_arrives_whole_and_in_ranges(self, embedded_swift: EmbeddedSwift) -> None:
        client = Account(embedded_swift)
        body = bytes(range(256)) * 4096
        client("PUT", "ranges")
        assert client("PUT", "ranges/o", body)[0] == 201
        assert client("GET", "ranges/o")[2] == body
        assert client("GET", "ranges/o", Range="bytes=-3")[2] == b"\xfd\xfe\xff"
        status, headers, parts = client("GET", "ranges/o", Range="bytes=65-66,70-71")
        assert (status, headers.get_content_type()) == (206, "multipart/byteranges")
        assert b"AB" in parts
        assert b"FG" in parts

    def test_an_upload_that_ends_early_leaves_nothing(self, embedded_swift: EmbeddedSwift) -> None:
        client = Account(embedded_swift)
        client("PUT", "torn")
        with closing(upload(embedded_swift, client.token, "/torn/o", 1_000_000)) as connection:
            connection.sendall(bytes(300_000))
        line = "PUT /v1/AUTH_test/torn/o 499"
        until("logged", lambda: line in embedded_swift.access_log().read_text())
        assert client("GET", "torn/o")[0] == 404
        assert client("GET", "torn")[0] == 204

    def test_an_upload_can_be_refused_before_its_body(self, embedded_swift: EmbeddedSwift) -> None:
        client = Account(embedded_swift)
        client("PUT", "expect")
        client("PUT", "expect/there", b"x")
        token = client.token
        for name, status in (("there", b"412 Precondition Failed"), ("new", b"100 Continue")):
            more = "If-None-Match: *\r\nExpect: 100-continue\r\n"
            path = f"/expect/{name}"
            with closing(upload(embedded_swift, token, path, 4096, more)) as connection:
                assert connection.recv(4096).startswith(b"HTTP/1.1 " + status)

    def test_only_the_proxy_listens(self, embedded_swift: EmbeddedSwift) -> None:
        """The others ask nobody for a token."""
        for role, port in embedded_swift.plan.ports.items():
            with socket.socket() as connection:
                refused = connection.connect_ex((embedded_swift.plan.options.host, port)) != 0
            assert refused == (role != "proxy")

    def test_objects_in_memory(self, fresh_swift: Callable[..., EmbeddedSwift]) -> None:
        swift = fresh_swift(in_memory=True)
        client = Account(swift)
        client("PUT", "c")
        client("PUT", "c/o", b"in memory")
        assert client("GET", "c/o")[2] == b"in memory"
        assert not list(Path(swift.plan.node_dir).rglob("*.data"))

    def test_the_tail_of_a_body_does_not_wait(self, embedded_swift: EmbeddedSwift) -> None:
        client = Account(embedded_swift)
        client("PUT", "tails")
        client("PUT", "tails/o", bytes(40_000))

        kept = http.client.HTTPConnection(embedded_swift.plan.options.host, embedded_swift.port)

        def duration_s() -> float:
            start = time.perf_counter()
            kept.request("GET", "/v1/AUTH_test/tails/o", headers={"X-Auth-Token": client.token})
            assert len(kept.getresponse().read()) == 40_000
            return time.perf_counter() - start

        # Linux delays an acknowledgement by 40 ms, though not the first ones of a connection: with
        # a delay none is quicker, and without one the first that sees no busy machine.
        for _ in range(25):
            duration_s()
        until("a response without a delay", lambda: duration_s() < 0.035)
        kept.close()

    def test_it_can_be_started_again(self) -> None:
        swift = EmbeddedSwift()
        for _ in range(2):
            with swift:
                assert Account(swift)("PUT", "c")[0] == 201  # empty each time


PARENT = """
import json, os, sys, time
from ssbench.embedded import EmbeddedSwift, SwiftOptions
swift = EmbeddedSwift(SwiftOptions(directory=sys.argv[1])).start()
print(json.dumps([swift.plan.top, *swift.pids.values()]), flush=True)
{}
while True:
    time.sleep(0.05)  # not signal.pause: a signal that came just before it would go unheeded
"""


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], str, int]]]:
    """``parent(line)``: a process that starts a Swift, runs the line and waits for its end.

    Gives the process, the Swift's directory and its pid.
    """
    made: list[subprocess.Popen[str]] = []

    def start(line: str = "") -> tuple[subprocess.Popen[str], str, int]:
        process = subprocess.Popen(
            [sys.executable, "-c", PARENT.format(line), str(tmp_path)],
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
        made.append(process)
        assert process.stdout is not None
        top, pid, *_ = json.loads(process.stdout.readline())
        return process, top, pid

    yield start
    for process in made:
        process.kill()
        process.communicate()


Parent = Callable[..., tuple["subprocess.Popen[str]", str, int]]


class TestNothingIsLeft:
    def test_it_ends_with_an_interrupted_parent(self, parent: Parent) -> None:
        process, top, pid = parent()
        process.send_signal(signal.SIGINT)
        until("the server is gone", lambda: is_gone(pid))
        assert not os.path.exists(top)

    def test_it_dies_with_a_killed_parent_whose_fork_has_the_pipe(self, parent: Parent) -> None:
        process, top, pid = parent("fork = os.fork(); fork and print(fork, flush=True)")
        assert process.stdout is not None
        fork = int(process.stdout.readline())
        try:
            process.kill()
            until("the server is gone", lambda: is_gone(pid))
            assert not os.path.exists(top)
        finally:
            os.kill(fork, signal.SIGKILL)

    def test_the_end_of_the_starting_thread_does_not_end_it(self) -> None:
        from threading import Thread

        swift = EmbeddedSwift()
        starter = Thread(target=swift.start)
        starter.start()
        starter.join()
        try:
            assert Account(swift)("PUT", "c")[0] == 201
            assert swift.is_running()
        finally:
            swift.stop()

    def test_the_parent_removes_what_a_killed_server_left(self, tmp_path: Path) -> None:
        with EmbeddedSwift(SwiftOptions(directory=str(tmp_path))) as swift:
            os.kill(swift.pids["proxy"], signal.SIGKILL)
            until("it is not running", lambda: not swift.is_running())
        assert not list(tmp_path.iterdir())

    def test_the_next_start_removes_leftovers_of_both(self, parent: Parent, tmp_path: Path) -> None:
        process, top, pid = parent()
        os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()
        until("the server is gone", lambda: is_gone(pid))
        assert os.path.exists(top)
        with EmbeddedSwift(SwiftOptions(directory=str(tmp_path))):
            assert not os.path.exists(top)


def test_the_command_runs_until_ctrl_c() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ssbench.embedded"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(10)]
    auth_url = said[0].split()[-1]
    assert f"export ST_AUTH={auth_url}" in said
    assert "export ST_USER=test:tester" in said
    assert said[-1].startswith("Ctrl-C ends it")
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert rest == ""
    assert errors == ""
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(auth_url)
