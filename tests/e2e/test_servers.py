"""The servers that the other end-to-end tests stand on do what those rely on."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ssbench.core.errors import SsbenchError
from ssbench.embedded import EmbeddedSwift, SwiftOptions
from ssbench.host.process import child_environment
from tests.servers.certificates import Certificates
from tests.servers.four_process import FourProcessSwift
from tests.timing import PATIENCE_S


class Client:
    """Requests to one account, by the standard library alone."""

    def __init__(self, swift: EmbeddedSwift, authority: Path | None = None) -> None:
        self._context = ssl.create_default_context(cafile=authority) if authority else None
        headers = {"X-Auth-User": swift.user, "X-Auth-Key": swift.key}
        status, answer, _ = self._send("GET", swift.auth_url, None, headers)
        assert status == 200
        self._url = answer["X-Storage-Url"]
        self.token = answer["X-Auth-Token"]

    def __call__(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, Any, bytes]:
        """(status, headers, body); header names with _ for -."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._send(method, self._url + path, body, {"X-Auth-Token": self.token, **given})

    def _send(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, Any, bytes]:
        request = urllib.request.Request(url, method=method, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as e:
            with e:
                return e.code, e.headers, e.read()


def upload(swift: EmbeddedSwift, token: str, path: str, size: int, more: str = "") -> socket.socket:
    """A connection on which an upload has begun: its headers are sent, its body is not."""
    connection = socket.create_connection((swift.plan.options.host, swift.port), PATIENCE_S)
    lines = f"PUT /v1/AUTH_test{path} HTTP/1.1\r\nHost: x\r\nX-Auth-Token: {token}\r\n"
    connection.sendall(f"{lines}Content-Length: {size}\r\n{more}\r\n".encode())
    return connection


def until(what: str, true: Callable[[], object]) -> None:
    """Wait for it, not for a time."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """No such process, or one that only waits for its parent to notice."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


class TestSwift:
    def test_objects_are_created_and_deleted(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        assert client("PUT", "/come-and-go")[0] == 201
        assert client("PUT", "/come-and-go/o", b"hello")[0] == 201
        assert client("GET", "/come-and-go/o")[2] == b"hello"
        assert client("DELETE", "/come-and-go/o")[0] == 204
        assert client("GET", "/come-and-go/o")[0] == 404

    def test_info_lists_the_capabilities(self, embedded_swift: EmbeddedSwift) -> None:
        with urllib.request.urlopen(f"{embedded_swift.base_url}/info") as answer:
            info = json.load(answer)
        assert [policy["name"] for policy in info["swift"]["policies"]] == ["gold", "silver"]
        assert {"tempauth", "s3api", "slo", "bulk_delete", "tempurl"} <= set(info)

    def test_containers_take_a_policy(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        assert client("PUT", "/in-silver", X_Storage_Policy="silver")[0] == 201
        assert client("PUT", "/in-gold")[0] == 201
        assert client("HEAD", "/in-silver")[1]["X-Storage-Policy"] == "silver"
        assert client("HEAD", "/in-gold")[1]["X-Storage-Policy"] == "gold"
        assert client("PUT", "/in-lead", X_Storage_Policy="lead")[0] == 400

    def test_bulk_delete(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        client("PUT", "/bulk")
        client("PUT", "/bulk/o", b"x")
        names = b"bulk/o\nbulk\n"
        kinds = {"Content_Type": "text/plain", "Accept": "application/json"}
        body = client("POST", "?bulk-delete", names, **kinds)[2]
        assert json.loads(body)["Number Deleted"] == 2

    def test_server_side_copy(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        client("PUT", "/copies")
        client("PUT", "/copies/a", b"the same")
        assert client("COPY", "/copies/a", Destination="copies/b")[0] == 201
        assert client("GET", "/copies/b")[2] == b"the same"

    def test_large_objects(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        client("PUT", "/large")
        for name in ("1", "2"):
            client("PUT", f"/large/part{name}", name.encode())
        parts = [{"path": f"/large/part{name}"} for name in ("1", "2")]
        manifest = json.dumps(parts).encode()
        assert client("PUT", "/large/static?multipart-manifest=put", manifest)[0] == 201
        client("PUT", "/large/dynamic", b"", X_Object_Manifest="large/part")
        assert client("GET", "/large/static")[2] == b"12"
        assert client("GET", "/large/dynamic")[2] == b"12"

    def test_an_object_expires(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        client("PUT", "/expires")
        client("PUT", "/expires/o", b"x", X_Delete_After="1")
        until("404 once it expired", lambda: client("GET", "/expires/o")[0] == 404)

    def test_s3(self, embedded_swift: EmbeddedSwift) -> None:
        import boto3  # loads slowly
        from botocore.config import Config

        s3 = boto3.client(
            "s3",
            endpoint_url=embedded_swift.base_url,
            aws_access_key_id=embedded_swift.user,
            aws_secret_access_key=embedded_swift.key,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )
        s3.create_bucket(Bucket="bucket")
        s3.put_object(Bucket="bucket", Key="o", Body=b"by s3")
        assert s3.get_object(Bucket="bucket", Key="o")["Body"].read() == b"by s3"
        s3.close()

    def test_a_wrong_key_is_refused(self, embedded_swift: EmbeddedSwift) -> None:
        headers = {"X-Auth-User": embedded_swift.user, "X-Auth-Key": "wrong"}
        request = urllib.request.Request(embedded_swift.auth_url, headers=headers)
        with pytest.raises(urllib.error.HTTPError, match="401") as caught:
            urllib.request.urlopen(request)
        caught.value.close()

    def test_the_log_has_a_line_for_each_request(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        client("PUT", "/logged")
        client("PUT", "/logged/a%20b", b"12345")
        headers = client("GET", "/logged/none?x=1")[1]
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
        client = Client(embedded_swift)
        body = bytes(range(256)) * 4096
        client("PUT", "/ranges")
        assert client("PUT", "/ranges/o", body)[0] == 201
        assert client("GET", "/ranges/o")[2] == body
        assert client("GET", "/ranges/o", Range="bytes=-3")[2] == b"\xfd\xfe\xff"
        status, headers, parts = client("GET", "/ranges/o", Range="bytes=65-66,70-71")
        assert (status, headers.get_content_type()) == (206, "multipart/byteranges")
        assert b"AB" in parts
        assert b"FG" in parts

    def test_names_and_values_pass_unchanged(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        name = "/names/%C3%BC%20%3F%25/%26"
        client("PUT", "/names")
        assert client("PUT", name, b"x", X_Object_Meta_A="b  c")[0] == 201
        assert client("HEAD", name)[1]["X-Object-Meta-A"] == "b  c"
        assert client("GET", "/names?prefix=%C3%BC%20%3F%25/%26")[2].decode() == "ü ?%/&\n"

    def test_an_upload_that_ends_early_leaves_nothing(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        client("PUT", "/torn")
        with closing(upload(embedded_swift, client.token, "/torn/o", 1_000_000)) as connection:
            connection.sendall(bytes(300_000))
        line = "PUT /v1/AUTH_test/torn/o 499"
        until("logged", lambda: line in embedded_swift.access_log().read_text())
        assert client("GET", "/torn/o")[0] == 404
        assert client("GET", "/torn")[0] == 204

    def test_an_upload_can_be_refused_before_its_body(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        client("PUT", "/expect")
        client("PUT", "/expect/there", b"x")
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

    def test_a_short_token_ends(self, fresh_swift: Callable[..., EmbeddedSwift]) -> None:
        swift = fresh_swift(token_life_s=2)
        until("204 while the token is new", lambda: Client(swift)("GET", "")[0] == 204)
        client = Client(swift)
        until("401 once the token is old", lambda: client("GET", "")[0] == 401)

    def test_objects_in_memory(self, fresh_swift: Callable[..., EmbeddedSwift]) -> None:
        swift = fresh_swift(in_memory=True)
        client = Client(swift)
        client("PUT", "/c")
        client("PUT", "/c/o", b"in memory")
        assert client("GET", "/c/o")[2] == b"in memory"
        assert not list(Path(swift.plan.node_dir).rglob("*.data"))

    def test_the_tail_of_a_body_does_not_wait(self, embedded_swift: EmbeddedSwift) -> None:
        client = Client(embedded_swift)
        client("PUT", "/tails")
        client("PUT", "/tails/o", bytes(40_000))

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

    def test_without_its_object_server_it_answers_503(
        self, four_process_swift: FourProcessSwift
    ) -> None:
        client = Client(four_process_swift)
        client("PUT", "/c")
        assert client("PUT", "/c/o", b"x")[0] == 201
        four_process_swift.kill("object")
        # More often than Swift by itself would go on asking a server that fails.
        assert {client("PUT", "/c/o", b"x")[0] for _ in range(15)} == {503}
        assert client("GET", "/c/o")[0] == 503
        four_process_swift.revive("object")
        until("objects are there again", lambda: client("GET", "/c/o")[0] == 200)

    def test_it_can_be_started_again(self) -> None:
        swift = EmbeddedSwift()
        for _ in range(2):
            with swift:
                assert Client(swift)("PUT", "/c")[0] == 201  # empty each time

    def test_usage_errors_of_the_command(self, certificates: Certificates) -> None:
        with pytest.raises(SsbenchError, match=r"No such file or directory"):
            EmbeddedSwift(
                SwiftOptions(tls_cert="/no/such/cert.pem", tls_key=certificates.key)
            ).start()


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
            env=child_environment(()),
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
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    def test_it_dies_with_its_parent(self, parent: Parent, number: int) -> None:
        process, top, pid = parent()
        os.kill(process.pid, number)
        until("the server is gone", lambda: is_gone(pid))
        assert not os.path.exists(top)

    def test_a_fork_with_the_pipe_does_not_keep_it_running(self, parent: Parent) -> None:
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
            assert Client(swift)("PUT", "/c")[0] == 201
            assert swift.is_running()
        finally:
            swift.stop()

    def test_ctrl_c_is_left_to_the_parent(self, embedded_swift: EmbeddedSwift) -> None:
        assert os.getpgid(embedded_swift.pids["proxy"]) != os.getpgid(0)

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
        env=child_environment(()),
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
