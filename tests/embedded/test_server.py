"""The parts of the child that need no Swift; tests/e2e/test_servers.py runs all of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from ssbench.embedded import server
from ssbench.embedded.server import Cache, access_line, access_logged, cached, read_line


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_read_line_stops_at_the_newline() -> None:
    reader, writer = os.pipe()
    os.write(writer, b'{"a": 1}\nrest')
    assert read_line(reader) == '{"a": 1}'
    assert os.read(reader, 10) == b"rest"
    os.close(writer)
    assert read_line(reader) == ""
    os.close(reader)


class TestCache:
    def test_returns_text_for_bytes_and_other_values_unchanged(self) -> None:
        cache = Cache(Clock())
        cache.set_multi({"a": b"x", "b": {"c": 1}})
        assert cache.get_multi(["a", "b", "missing"]) == ["x", {"c": 1}, None]

    def test_expired_entries_are_missing(self) -> None:
        clock = Clock()
        cache = Cache(clock)
        cache.set("a", 1, time=10)
        cache.set("b", 2)
        clock.now = 10
        assert cache.get("a") is None
        assert cache.get("b") == 2

    def test_counters_do_not_go_below_zero(self) -> None:
        cache = Cache(Clock())
        assert cache.incr("n") == 1
        assert cache.incr("n", delta=4) == 5
        assert cache.decr("n", delta=2) == 3
        assert cache.decr("n", delta=9) == 0

    def test_deleted_entries_are_missing(self) -> None:
        cache = Cache(Clock())
        cache.set("a", 1)
        cache.delete("a")
        cache.delete("a")
        assert cache.get("a") is None

    def test_drops_the_oldest_when_full(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(server, "CACHE_ENTRIES", 2)
        cache = Cache(Clock())
        for name in "abab":
            cache.set(name, name)
        cache.set("c", "c")
        assert cache.get_multi("abc") == [None, "b", "c"]


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


def test_the_line_of_an_upload_has_the_bytes_sent() -> None:
    headers = [("content-length", "0"), ("x-trans-id", "tx2")]
    assert access_line("PUT", "/o", "", "201 Created", headers, "4096") == "PUT /o 201 tx2 4096\n"


def test_unknown_values_are_dashes() -> None:
    assert access_line("GET", "/", "", "500 Error", [], "0") == "GET / 500 - -\n"


def test_the_cache_is_in_the_wsgi_environment() -> None:
    cache = Cache(Clock())
    env: dict[str, Any] = {}
    cached(app, cache)(env, lambda *_: None)
    assert env["swift.cache"] is cache
