"""The same faults before each store that speaks HTTP: real servers behind a proxy or a gate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.core.model import ErrorKind
from ssbench.storage.http.verify import FOREIGN_ETAGS
from tests.e2e.commands import Commands, Ended, until
from tests.e2e.faults.hostile import SILENT, Fault, failures, judged, signs
from tests.e2e.faults.matrix import Row
from tests.e2e.stores import Store, http_stores
from tests.fakes.breaking_proxy import BreakingProxy, Lie, with_body, with_etag
from tests.fakes.relay import Relay, refused
from tests.fakes.server_behaviours import OK, START, keep, reading, reset, saying, stall
from tests.timing import STALL_S

K = ErrorKind
SIZE = 300_000  #: of the uploads that are cut
USERS = 4


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Store]]:
    with http_stores() as stores:
        yield stores


@pytest.fixture(params=["swift", "s3", "webdav"])
def store(request: pytest.FixtureRequest, servers: dict[str, Store]) -> Store:
    return servers[request.param]


def all_told(ended: Ended, proxy: BreakingProxy, faults: dict[str, Fault | None]) -> str:
    """Each request that was broken is a failure of its kind, and nothing else is; says so."""
    told, struck = failures(ended, faults), signs(proxy.struck, faults)
    reconnects = ended.stats.total().reconnects
    if reconnects:  # one that was idle for long, on a host that stood still, was replaced
        told += {found.sign: reconnects for found in faults.values() if found and found.unanswered}
    assert told == struck, (told, struck)
    return ", ".join(f"{count} {sign.partition(':')[0]}" for sign, count in sorted(told.items()))


@pytest.mark.fault("{store}: READs cut in headers and body, too long, of a page, 503, silent")
def test_broken_reads_have_a_cause(store: Store, commands: Commands, row: Row) -> None:
    faults: dict[str, Fault | None] = {
        "cut in the headers": Fault(saying(OK[:20]), K.RESET, "closed in the headers"),
        "cut in the body": Fault(saying(START, b"half"), K.TRUNCATED, "4 of 1000 body", 200),
        "well": None,
        "too long": Fault(saying(START + b"x" * 1001), K.PROTOCOL, "1 bytes more", 200),
        "page": Fault(
            saying(OK + b"Content-Length: 26\r\n\r\n<html>Please log in</html>", then=keep),
            K.WRONG_LENGTH,
            "26 bytes in place of",
            200,
        ),
        "503": Fault(saying(store.unavailable, then=keep), K.STATUS, store.unavailable_words, 503),
        "silent": Fault(stall, K.NETWORK_TIMEOUT, SILENT),
        "well too": None,
    }
    behaviours = {name: fault and fault.behaviour for name, fault in faults.items()}
    with store.broken(behaviours) as proxy:
        ended = store.run(
            commands, proxy.port, "--retries", 0, "--network-timeout", STALL_S,
            crud_profile=[0, 1, 0, 0], operation_count=32,
        ).wait()  # fmt: skip
    account = row.accounted(ended.stats)
    judged(ended, account)
    assert (account.sent, account.done) == (32, 8)
    row.saw(all_told(ended, proxy, faults))


@pytest.mark.fault("{store}: READs of wrong bytes, of a wrong length, under a wrong ETag")
def test_lies_are_corruption(store: Store, commands: Commands, row: Row) -> None:
    flipped = Lie(lambda said: with_body(said, bytes([said.body[0] ^ 1]) + said.body[1:]))
    shorter = Lie(lambda said: with_body(said, said.body[:-1]))
    lies = {
        "bytes": flipped, "well": None, "length": shorter, "well too": None,
        "etag": Lie(lambda said: with_etag(said, "0" * 32)), "well, too": None,
    }  # fmt: skip
    with store.broken(lies) as proxy:
        keys = {"crud_profile": [0, 1, 0, 0], "operation_count": 24}
        ended = store.run(commands, proxy.port, "--verify", **keys).wait()
    ended.fine(ExitStatus.CORRUPTION)
    account = row.accounted(ended.stats)
    struck = proxy.struck["bytes"] + proxy.struck["length"]
    assert {key: error.count for key, error in ended.stats.errors.items()} == {
        (K.CORRUPT, 200): struck
    }
    assert account.failed == struck == 8
    assert list(ended.stats.store_notes) == [FOREIGN_ETAGS] * store.etag_is_md5
    row.saw(f"{struck} corrupt, status 4")


@pytest.mark.fault("{store}: uploads cut in the request, and stored under a wrong ETag")
def test_broken_uploads_have_a_cause(store: Store, commands: Commands, row: Row) -> None:
    cut = Fault(reading(1000, then=reset), K.DISCONNECTED, "reset by peer|broken pipe")
    faults: dict[str, Fault | None] = {"cut": cut, "well": None}
    lies = {"etag": Lie(lambda said: with_etag(said, "0" * 32)), "well too": None}
    sizes = [{"name": "tiny", "size_min": SIZE, "size_max": SIZE}]
    with BreakingProxy(store.port, {"cut": cut.behaviour, "well": None, **lies}, "PUT") as proxy:
        ended = store.run(
            commands, proxy.port, "--retries", 0, "--verify", crud_profile=[1, 0, 0, 0],
            operation_count=12, sizes=sizes, initial_files={"tiny": 1},
        ).wait()  # fmt: skip
    account = row.accounted(ended.stats)
    assert account.sent == 12
    assert list(ended.stats.store_notes) == [FOREIGN_ETAGS] * store.etag_is_md5
    row.saw(all_told(ended, proxy, faults))


@pytest.mark.fault("{store}: its server goes away, and comes back; and stays away")
def test_an_outage_is_survived(store: Store, commands: Commands, row: Row) -> None:
    with Relay(store.port) as gate:
        options = ["-r", 600, "--retries", 30]
        started = store.run(
            commands,
            gate.port,
            *options,
            crud_profile=[0, 1, 0, 0],
            operation_count=None,
            user_count=USERS,
            think_time=0.3,
        )
        until("reads", lambda: started.on_disk("READ") > 5)
        gate.hold()
        until("an operation of each user is in flight", lambda: gate.held >= USERS)
        gate.shut()
        away = refused()
        until("attempts to connect are refused", lambda: refused() >= away + 2 * USERS)
        before = started.on_disk("READ")
        row.strike()
        gate.reopen()
        until("reads again", lambda: started.on_disk("READ") > before + USERS)
        row.recovered()
        started.interrupt()
        ended = started.wait().fine(ExitStatus.INTERRUPTED)
        account = row.accounted(ended.stats)
        assert account.failed == 0
        assert ended.counted()[2] > 0
        gate.shut()
        line = store.run(commands, gate.port).wait().one_line()
    assert "connection refused" in line.lower()
    row.saw(f"no operation failed, {ended.counted()[2]} retries; then status 1, one line")


@pytest.mark.fault("{store}: the credentials expire")
def test_expired_credentials_are_renewed(store: Store, commands: Commands, row: Row) -> None:
    faults = {"expired": saying(store.expired, then=keep), **{f"well {n}": None for n in range(19)}}
    with store.broken(faults) as proxy:
        keys = {"crud_profile": [0, 1, 0, 0], "operation_count": 40}
        ended = store.run(commands, proxy.port, **keys).wait().fine()
    account = row.accounted(ended.stats)
    assert (account.done, account.failed) == (40, 0)
    renewals = ended.stats.total().renewals
    assert renewals == proxy.struck["expired"] > 0
    row.saw(f"no operation failed; {renewals} began anew with new ones")
