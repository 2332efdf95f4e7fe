"""A store that is slow, away for a while, or refuses for ever; and kept connections."""

from __future__ import annotations

import re

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.core.model import ErrorKind
from tests.e2e.commands import Commands, until
from tests.e2e.faults.hostile import (
    MEMORY_MAX_MB,
    Bench,
    Fault,
    failures,
    judged,
    login_at,
    options_for,
    survives,
    watch,
)
from tests.e2e.faults.matrix import Row
from tests.fakes.hostile_swift import HostileSwift
from tests.fakes.relay import Relay, refused
from tests.fakes.server_behaviours import CHUNKED, OK, START, dripping, keep, leave, reset, saying

K = ErrorKind
READS = {"crud_profile": [0, 1, 0, 0]}
USERS = 4
#: 80 operations a second at most.
LASTING = {**READS, "operation_count": 400, "think_time": 0.05, "user_count": USERS}
#: Pieces of responses that pass before a gate holds them: until users read.
SOME = 100
TOO_SLOW = "took too long"
WELL = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
UNAVAILABLE = b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno"
UNAUTHORIZED = b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno"


@pytest.mark.fault("store: slow-loris, a byte a second, with --operation-timeout")
def test_answers_in_single_bytes(commands: Commands, row: Row) -> None:
    faults = {
        "length": Fault(dripping(START, b"x", 1), K.OPERATION_TIMEOUT, TOO_SLOW, 200),
        "chunks": Fault(dripping(CHUNKED, b"1\r\nx\r\n", 1), K.OPERATION_TIMEOUT, TOO_SLOW, 200),
        "close": Fault(dripping(OK + b"\r\n", b"x", 1), K.OPERATION_TIMEOUT, TOO_SLOW, 200),
        "well": None,
    }
    with HostileSwift({name: fault and fault.behaviour for name, fault in faults.items()}) as swift:
        options = ["--operation-timeout", "3", "--network-timeout", "2"]
        survives(commands, row, swift, faults, *options, operation_count=16, user_count=16)


@pytest.mark.fault("store: 401 for ever")
def test_a_token_that_is_always_rejected(bench: Bench, row: Row) -> None:
    faults = {"401": Fault(saying(UNAUTHORIZED, then=keep), K.UNAUTHORIZED, "returned 401", 401)}
    with HostileSwift({"401": faults["401"].behaviour}) as swift:
        # All at once: a master that is asked again and again waits longer each time.
        ended = bench.run(swift, **READS, operation_count=12, user_count=12).fine(1)
        account = row.accounted(ended.stats)
        assert (account.done, account.failed) == (0, 12)
        assert failures(ended, faults) == {faults["401"].sign: 12}
        # Each operation begins anew three times, with a new token.
        assert swift.struck["401"] == 12 * 4
        assert ended.stats.total().renewals == 12 * 3
        assert "unauthorized" in ended.out
    row.saw(f"12 unauthorized, each after 3 fresh tokens; {ended.took_s:.0f} s")


@pytest.mark.fault("store: 503 to {refusals} requests of each user, then well")
@pytest.mark.parametrize("refusals", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_an_outage_within_the_retries(refusals: int, commands: Commands, row: Row) -> None:
    path = commands.scenario(**{**LASTING, "operation_count": None})
    with HostileSwift({"503": saying(UNAVAILABLE, then=keep)}) as swift:
        swift.armed = False
        options = [*options_for(swift), "--retries", "25", "-r", "600"]
        started = commands.start_run("-f", path, *options, workers=1)
        until("reads", lambda: "GET" in swift.methods())
        swift.armed = True
        until("refusals", lambda: swift.struck["503"] >= refusals * USERS)
        swift.armed = False
        row.strike()
        reads = swift.methods().count("GET")
        until("reads again", lambda: swift.methods().count("GET") > reads)
        row.recovered()
        started.interrupt()
        ended = started.wait().fine(ExitStatus.INTERRUPTED)
    assert row.accounted(ended.stats).failed == 0
    assert ended.counted()[2] == swift.struck["503"] > 0
    row.saw(f"no operation failed; {swift.struck['503']} retries")


@pytest.mark.fault("store: killed in the middle of a run, and not back")
def test_a_server_that_is_killed(commands: Commands, row: Row) -> None:
    path = commands.scenario(**LASTING)
    with HostileSwift({}) as swift, Relay(swift.port) as gate:
        url = swift.url.replace(str(swift.port), str(gate.port))
        options = [*options_for(swift), "--network-timeout", "60", "-S", url]
        gate.hold(after=SOME)
        started = commands.start_run("-f", path, *options, workers=1)
        until("an operation of each user is in flight", lambda: gate.held >= USERS)
        gate.shut()
        ended, peaks = watch(started)
    assert max(peaks) < MEMORY_MAX_MB
    account = row.accounted(ended.stats)
    judged(ended, account)
    assert account.done > 20
    refused = ended.stats.errors[K.CONNECT, 0]
    others = account.failed - refused.count
    assert "connection refused" in refused.example.detail
    assert others <= USERS, "more than what was in flight"
    row.saw(f"{refused.count} connect, {others} in flight failed; {ended.took_s:.0f} s")


@pytest.mark.fault("store: killed in the middle of a run, and back")
def test_a_server_that_comes_back(commands: Commands, row: Row) -> None:
    path = commands.scenario(**LASTING)
    with HostileSwift({}) as swift, Relay(swift.port) as gate:
        url = swift.url.replace(str(swift.port), str(gate.port))
        options = [
            *options_for(swift), "--network-timeout", "60", "--retries", "10", "-S", url,
        ]  # fmt: skip
        gate.hold(after=SOME)
        started = commands.start_run("-f", path, *options, workers=1)
        until("an operation of each user is in flight", lambda: gate.held >= USERS)
        gate.shut()
        away = refused()
        until("attempts to connect are refused", lambda: refused() >= away + 2 * USERS)
        reads = swift.methods().count("GET")
        gate.reopen()
        row.strike()
        until("reads again", lambda: swift.methods().count("GET") > reads)
        row.recovered()
        ended, _ = watch(started)
        ended.fine()
    account = row.accounted(ended.stats)
    assert (account.done, account.failed) == (400, 0)
    assert ended.counted()[2] > 0
    row.saw(f"no operation failed; {ended.counted()[2]} retries")


IN_SERVICE = {"closed": leave, "well": None, "reset": reset, "well too": None}


@pytest.mark.fault("store: connections are closed, or reset, instead of an answer")
def test_requests_broken_in_flight(bench: Bench, row: Row) -> None:
    with HostileSwift(IN_SERVICE) as swift:
        ended = bench.run(swift, **READS, operation_count=40, user_count=1).fine()
    account = row.accounted(ended.stats)
    assert account.done + account.failed == 40
    error = ended.stats.errors[K.DISCONNECTED, 0]
    # Where the host stood still for a second, the connection counts as closed while it was idle.
    assert error.count == account.failed == swift.strikes_in_all - ended.stats.total().reconnects
    assert re.search(rf"^ +{error.count}  disconnected +- ", ended.out, re.MULTILINE)
    row.saw(f"{error.count} disconnected: each request that was broken")


@pytest.mark.fault(
    "store: connections are closed, or reset, instead of an answer, with --retries 3"
)
def test_each_broken_request_is_counted(commands: Commands, row: Row) -> None:
    path = commands.scenario(**READS, operation_count=40, user_count=4, run_seconds=None)
    with HostileSwift(IN_SERVICE) as swift:
        options = [*login_at(swift), "--retries", 3]
        ended = commands.run("-f", path, *options, workers=1).fine()
    account = row.accounted(ended.stats)
    total = ended.stats.total()
    assert total.retries
    assert swift.strikes_in_all == account.failed + total.retries + total.reconnects
    row.saw(f"{total.retries} retries, {account.failed} disconnected: all that was broken")


@pytest.mark.fault("store: unrequested bytes after a response")
def test_bytes_after_a_response(bench: Bench, row: Row) -> None:
    # The next request on that connection meets them: one failure for each.
    behaviours = {"garbage": saying(WELL, b"and more\r\n\r\n", then=keep), "well": None}
    with HostileSwift(behaviours) as swift:
        sizes = [{"name": "tiny", "size_min": 2, "size_max": 2}]
        ended = bench.run(swift, **READS, operation_count=40, user_count=1, sizes=sizes).fine()
        account = row.accounted(ended.stats)
        # That request may take the turn of one on a sound connection.
        assert 10 <= account.failed <= swift.struck["garbage"]
    # They may come with the response: it has its status, and is too long.
    errors = ended.stats.errors.items()
    count = sum(error.count for (kind, _), error in errors if kind == K.PROTOCOL)
    assert count == account.failed
    row.saw(f"{count} protocol: the request that came next, and its connection")
