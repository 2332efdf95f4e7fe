"""The parts of the child that need no Swift; tests/e2e/test_servers.py runs all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ssbench.embedded import server
from ssbench.embedded.server import Cache, access_line, access_logged, cached, read_line


def test_read_line_stops_at_the_newline() -> None:
    reader, writer = os.pipe()
    os.write(writer, b'{"a": 1}\nrest')
    assert read_line(reader) == '{"a": 1}'
    assert os.read(reader, 10) == b"rest"
    os.close(writer)
    assert read_line(reader) == ""
    os.close(reader)


def test_the_cache_is_one_of_swift_with_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    env, now_s = dict[str, Any](), [0.0]
    cached(app, Cache(lambda: now_s[0]))(env, lambda *_: None)
    cache = env["swift.cache"]
    cache.set_multi({"a": b"x", "b": {"c": 1}})
    cache.set("brief", 1, time=10)
    cache.delete("missing")
    assert cache.get_multi(["a", "b", "brief", "missing"]) == ["x", {"c": 1}, 1, None]
    cache.delete("a")
    now_s[0] = 10
    assert cache.get_multi(["a", "b", "brief"]) == [None, {"c": 1}, None]
    assert [cache.incr("n"), cache.incr("n", delta=4)] == [1, 5]
    assert [cache.decr("n", delta=2), cache.decr("n", delta=9)] == [3, 0]
    monkeypatch.setattr(server, "CACHE_ENTRIES", 2)
    for name in "ababc":
        cache.set(name, name)
    assert cache.get_multi("abc") == [None, "b", "c"], "the oldest one went"


def app(env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    env["REQUEST_METHOD"] = "REWRITTEN"
    start_response("200 OK", [("X-Trans-Id", "tx1"), ("Content-Length", "5")])
    return [b"hello"]


def test_a_request_is_logged_before_its_response_is_sent(tmp_path: Path) -> None:
    log = tmp_path / "log"
    seen: list[str] = []
    env = {"REQUEST_METHOD": "GET", "RAW_PATH_INFO": "/v1/a/c%20d", "QUERY_STRING": "x=1"}
    body = access_logged(app, str(log))(env, lambda *_: seen.append(log.read_text()))
    assert list(body) == [b"hello"]
    assert seen == ["GET /v1/a/c%20d?x=1 200 tx1 5\n"]


def test_the_log_goes_through_no_link_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ssbench.host.files._is_of_others", lambda facts: True)
    (tmp_path / "link").symlink_to(tmp_path / "log")
    with pytest.raises(PermissionError):
        access_logged(app, str(tmp_path / "link"))
    assert not (tmp_path / "log").exists()


def test_a_line_has_the_bytes_of_an_upload_and_dashes_for_what_is_not_known() -> None:
    headers = [("content-length", "0"), ("x-trans-id", "tx2")]
    assert access_line("PUT", "/o", "", "201 Created", headers, "4096") == "PUT /o 201 tx2 4096\n"
    assert access_line("GET", "/", "", "500 Error", [], "0") == "GET / 500 - -\n"
