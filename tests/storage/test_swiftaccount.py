"""Requests to an account: what is on them, which storage URL gets them, and what is an error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from time import perf_counter_ns

import pytest

from ssbench.core.errors import StorageError, UsageError
from ssbench.core.model import ErrorKind
from ssbench.core.settings import StorageSettings
from ssbench.storage import swiftaccount as swiftaccount_module
from ssbench.storage.httpbody import Collector
from ssbench.storage.swiftaccount import Account
from tests.fakes.http_server import FakeContainer, FakeSwift
from tests.fakes.scripted_server import Peer, ScriptedServer, answering, ok
from tests.fakes.served_pool import dripping

Opener = Callable[..., Account]
SOON = 60 * 10**9


def settings(*urls: str, **changes: object) -> StorageSettings:
    values = {"storage_urls": urls, "token": "tk", "run_id": "run1"}
    return StorageSettings(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture
def swift() -> Iterator[FakeSwift]:
    with FakeSwift() as swift:
        swift.containers["c"] = FakeContainer("gold", {})
        yield swift


@pytest.fixture
def opened(swift: FakeSwift) -> Iterator[Opener]:
    """``opened(**settings)``: an account on the fake."""
    accounts = []

    def opener(*urls: str, seed: int | None = None, **changes: object) -> Account:
        accounts.append(Account(settings(*(urls or (swift.url,)), **changes), seed))
        return accounts[-1]

    yield opener
    for account in accounts:
        account.close()


def status_of(account: Account, method: str, path: str) -> int:
    """The status of its answer."""
    return account.request(method, path, Collector(9999), perf_counter_ns() + SOON).status


def test_requests_carry_run_and_worker_for_the_stores_logs(
    swift: FakeSwift, opened: Opener
) -> None:
    assert status_of(opened(worker_id="w/1" + 40 * "x"), "GET", "c") == 200
    extra = swift.seen[0].headers["X-Trans-Id-Extra"]
    assert (extra[:12], len(extra)) == ("run1-w%2F1xx", 32)


def test_the_newest_token_is_on_every_request_and_the_tails_stay_the_same_lists(
    swift: FakeSwift, opened: Opener
) -> None:
    account = opened(token_serial=4, delete_after_s=60, compressible=True)
    assert account.serial == 4
    header_suffixes, upload_header_suffixes = (
        account.header_suffixes,
        account.upload_header_suffixes,
    )
    account.set_token("newer", 5)
    status_of(account, "GET", "c")
    assert swift.seen[0].headers["X-Auth-Token"] == "newer"
    assert account.serial == 5
    assert account.header_suffixes is header_suffixes
    assert account.upload_header_suffixes is upload_header_suffixes
    (tail,), (upload,) = header_suffixes, upload_header_suffixes
    assert upload.removeprefix(tail) == (
        "Content-Type: application/octet-stream\r\nX-Object-Meta-Ssbench-Run: run1\r\n"
        "X-Delete-After: 60\r\nX-Object-Meta-Ssbench-Letters: yes\r\n"
    )
    with pytest.raises(UsageError, match="can't be sent in a header"):
        account.set_token("new\r\nX-Evil: yes", 6)
    assert (account.serial, account.header_suffixes[0]) == (5, tail)


def test_without_a_storage_url_it_says_what_would_be_right() -> None:
    with pytest.raises(UsageError, match="no storage URL: authenticate, or give one with -S"):
        Account(settings())


def test_requests_go_to_storage_urls_by_chance_the_same_with_the_same_seed(
    swift: FakeSwift, opened: Opener
) -> None:
    chosen = []
    for _ in range(2):
        account = opened(swift.url, f"{swift.url}_two", seed=7)
        swift.seen.clear()
        for _ in range(20):
            status_of(account, "GET", "c")
        chosen.append([request.path for request in swift.seen])
    assert chosen[0] == chosen[1]
    assert set(chosen[0]) == {"/v1/AUTH_test/c", "/v1/AUTH_test_two/c"}


def test_a_query_is_of_the_account_itself(swift: FakeSwift, opened: Opener) -> None:
    pieces: list[bytes] = []
    opened().listing("?format=json", lambda part: pieces.append(bytes(part)))
    assert b'"name"' in b"".join(pieces)
    assert swift.seen[0].path == "/v1/AUTH_test?format=json"


def test_what_is_asked_may_fail_and_an_errand_may_not(opened: Opener) -> None:
    account = opened()
    assert status_of(account, "GET", "c/nothing") == 404
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:\d+: GET answered 404") as caught:
        account.request_checked("GET", "c/nothing", Collector(9999))
    assert (caught.value.kind, caught.value.status) == (ErrorKind.STATUS, 404)
    assert caught.value.timing is not None
    assert caught.value.timing.bytes_moved == 0


@pytest.mark.parametrize("pieces", [1, 2, 3])
@pytest.mark.parametrize("collected", [True, False])
def test_an_error_says_what_its_body_begins_with(
    pieces: int, collected: bool, opened: Opener
) -> None:
    body = (
        b"<html>\n<h1>Too&nbsp;Large</h1> Upload exceeds quota\x1b[2J of tk_secret_0123456789\n"
        * 99
    )
    answer = b"HTTP/1.1 413 No\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    parts = [answer, b""] if pieces == 1 else [answer[:43], answer[43:]]
    if pieces == 3:
        parts = [answer[:60], answer[60:]]

    def script(peer: Peer) -> None:
        for said in (*[parts] * 2, [ok(b"")], [b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"]):
            peer.hear()
            for part in said:
                peer.say(part)
                time.sleep(0.005)

    with ScriptedServer(script) as server:
        account = opened(f"http://127.0.0.1:{server.port}/v1/a")
        account.set_token("tk_secret_0123456789", 1)
        pool = account.pools[0]

        def refused() -> str:
            if collected:
                timing = account.request("GET", "c/o", Collector(99999), 0)
            else:
                timing = pool.request(b"GET / HTTP/1.1\r\n\r\n")
            return account.status_error("GET", timing).detail.partition(": ")[2]

        for _ in range(2):  # the second one's layout isn't learned
            told = refused()
            assert told == "GET answered 413: Too Large Upload exceeds quota\\x1b[2J of ***"
        pool.request(b"GET / HTTP/1.1\r\n\r\n")
        assert refused() == "GET answered 403", "what another said is forgotten"


def test_a_body_goes_with_its_length_and_headers(swift: FakeSwift, opened: Opener) -> None:
    account = opened()
    account.request_checked("PUT", "c/o", Collector(9999), "X-Object-Meta-Own: 1\r\n", b"four")
    (seen,) = swift.seen
    assert (seen.body, seen.headers["Content-Length"]) == (b"four", "4")
    assert seen.headers["X-Object-Meta-Own"] == "1"
    assert account.delete("c/o")
    assert not account.delete("c/o"), "it is gone already"


def test_a_delete_that_fails_is_an_error() -> None:
    with (
        ScriptedServer(answering(b"HTTP/1.1 409 X\r\nContent-Length: 0\r\n\r\n")) as server,
        closing(Account(settings(url_of(server)))) as account,
    ):
        with pytest.raises(StorageError) as caught:
            account.delete("c")
        assert caught.value.status == 409


def url_of(server: ScriptedServer) -> str:
    return f"http://127.0.0.1:{server.port}/v1/AUTH_test"


def test_info_is_for_everyone_so_the_token_stays_here(swift: FakeSwift, opened: Opener) -> None:
    assert opened().info()
    (seen,) = swift.seen
    assert (seen.path, "X-Auth-Token" in seen.headers) == ("/info", False)


@pytest.mark.parametrize(
    ("answer", "info"),
    [(ok(b""), b""), (b"HTTP/1.1 404 X\r\nContent-Length: 2\r\n\r\nno", None)],
    ids=["empty", "none"],
)
def test_an_empty_info_is_not_the_same_as_none(answer: bytes, info: bytes | None) -> None:
    with (
        ScriptedServer(answering(answer)) as server,
        closing(Account(settings(url_of(server)))) as account,
    ):
        assert account.info() == info


def test_an_errand_that_drips_has_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swiftaccount_module, "_ADMIN_TIMEOUTS", 0.05)
    drips = dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", b" ")
    with (
        ScriptedServer(drips) as server,
        closing(Account(settings(url_of(server), network_timeout_s=4.0))) as account,
    ):
        for request_checked in (account.info, lambda: account.listing("c?format=json", len)):
            with pytest.raises(StorageError) as caught:
                request_checked()
            assert caught.value.kind is ErrorKind.OPERATION_TIMEOUT


def test_no_secret_is_shown(opened: Opener) -> None:
    assert "AUTH_tk0123" not in repr(opened(token="AUTH_tk0123"))
