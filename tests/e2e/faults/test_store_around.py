"""A store that fails before the run, while it is filled, and while it is cleaned up."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.faults.hostile import SILENT, TOO_LONG, UNFINISHED, Bench
from tests.e2e.faults.matrix import Row
from tests.fakes.hostile_swift import (
    HostileSwift,
    of_containers,
    of_objects,
    of_path,
)
from tests.fakes.loopback_http import Behaviour
from tests.fakes.server_behaviours import (
    BLOCK,
    CHUNKED,
    OK,
    START,
    dripping,
    flooding,
    keep,
    leave,
    saying,
    stall,
)
from tests.timing import STALL_S

#: So that all wait for the same timeout.
AT_ONCE = {"user_count": 12}
#: Where it fails, and what the one line says.
BEFORE: dict[str, tuple[tuple[str, ...], Behaviour, str]] = {
    "a container's HEAD stalls": (("HEAD",), stall, SILENT),
    "a container's HEAD is closed": (("HEAD",), leave, "closed unanswered"),
    "a container's HEAD has 100 MB of headers": (
        ("HEAD",), flooding(OK + b"X: ", BLOCK, 1600), TOO_LONG),
    "a container's HEAD drips": (("HEAD",), dripping(OK + b"X: "), UNFINISHED),
    "a container's PUT stalls": (("PUT",), stall, SILENT),
    "a container's PUT is garbage": (("PUT",), saying(b"\x15\x03\r\n\r\n"), "not an HTTP/1.1"),
    "a container's PUT has a body without end": (
        ("PUT",), flooding(OK + b"\r\n", BLOCK), "a body of more than"),
}  # fmt: skip


@pytest.mark.fault("store: {fault}")
@pytest.mark.parametrize("fault", BEFORE)
def test_containers_that_cannot_be_created(fault: str, bench: Bench, row: Row) -> None:
    verbs, behaviour, words = BEFORE[fault]
    with HostileSwift({fault: behaviour}, of_containers(*verbs)) as swift:
        ended = bench.run(swift)
        line = ended.one_line()
        assert words in line
        assert not any("tiny_" in seen.path for seen in swift.seen)
    row.saw(f"status 1: {line.partition(': ')[2]}; {ended.took_s:.0f} s")


@pytest.mark.fault("store: /info {fault}")
@pytest.mark.parametrize(
    ("fault", "behaviour", "words"),
    [
        ("stalls", stall, SILENT),
        ("is garbage", saying(b"\x15\x03\r\n\r\n"), "not an HTTP/1.1"),
        ("is no JSON", saying(OK + b"Content-Length: 3\r\n\r\n[{]", then=keep), ""),
        (
            "is nested",
            saying(OK + b"Content-Length: 900000\r\n\r\n" + b"[" * 900_000, then=keep),
            "",
        ),
        ("has no end", flooding(CHUNKED, b"10000\r\n%b\r\n" % BLOCK), "a body of more than"),
    ],
)
def test_limits_that_cannot_be_fetched(
    fault: str, behaviour: Behaviour, words: str, bench: Bench, row: Row
) -> None:
    with HostileSwift({fault: behaviour}, of_path("/info")) as swift:
        ended = bench.run(swift)
    if words:
        line = ended.one_line()
        assert words in line
        row.saw(f"status 1: {line.partition(': ')[2]}")
    else:
        assert row.accounted(ended.fine().stats).done == 60
        row.saw("the store's limits are taken for unknown")


@pytest.mark.fault("store: while it is filled, each {verb} {fault}")
@pytest.mark.parametrize(
    ("verb", "fault", "behaviour", "words"),
    [
        ("HEAD", "stalls", stall, SILENT),
        (
            "HEAD",
            "has headers without end",
            flooding(OK, b"X: y\r\n" * 999),
            TOO_LONG,
        ),
        (
            "PUT",
            "is answered without end",
            flooding(OK + b"\r\n", BLOCK),
            "a body of more",
        ),
        ("PUT", "drips", dripping(OK + b"Content-Length: 99\r\n\r\n"), SILENT),
        ("PUT", "is closed", leave, "closed unanswered"),
    ],
)
def test_uploads_of_initial_objects(
    verb: str, fault: str, behaviour: Behaviour, words: str, bench: Bench, row: Row
) -> None:
    with HostileSwift({fault: behaviour}, of_objects(verb)) as swift:
        ended = bench.run(swift, **AT_ONCE).fine(1)
        assert "no initial object could be uploaded" in ended.out
        assert words in ended.out
        assert "GET" not in [seen.method for seen in swift.seen if "tiny_" in seen.path]
    row.accounted(ended.stats)
    row.saw(f"status 1, a report that says it; {ended.took_s:.0f} s")


@pytest.mark.fault("store: some uploads of initial objects fail")
def test_some_initial_objects_are_missing(bench: Bench, row: Row) -> None:
    behaviours = {"closed": saying(START, b"half"), "well": None}
    with HostileSwift(behaviours, of_objects("PUT")) as swift:
        ended = bench.run(swift, crud_profile=[0, 1, 0, 0])
        assert swift.struck["closed"] == 5
    account = row.accounted(ended.fine().stats)
    assert (account.done, account.failed) == (60, 0)
    row.saw("READs of those that are there only")


@pytest.mark.fault("store: while the run cleans up, each DELETE {fault}")
@pytest.mark.parametrize(
    ("fault", "behaviour"),
    [
        ("stalls", stall),
        ("drips", dripping(OK + b"Content-Length: 99\r\n\r\n")),
        ("is answered without end", flooding(OK + b"\r\n", BLOCK)),
    ],
)
def test_clean_up_of_a_run(fault: str, behaviour: Behaviour, bench: Bench, row: Row) -> None:
    with HostileSwift({fault: behaviour}, of_objects("DELETE")) as swift:
        keys = {**AT_ONCE, "crud_profile": [1, 0, 0, 0], "operation_count": 12}
        ended = bench.run(swift, **keys)
    stats = ended.fine().stats
    account = row.accounted(stats)
    assert (account.done, account.failed) == (12, 0)
    assert stats.run.left_behind == 12
    assert "rphaned" in ended.out
    row.saw(f"status 0, 12 objects left behind; {ended.took_s:.0f} s")


SILENT_AT_LISTING = "silent for 0.5 s"
LISTING = OK + b"Content-Type: application/json\r\n\r\n["
ENTRY = json.dumps({"name": "ssbench_000000", "count": 1, "bytes": 1}).encode() + b","
AGAIN = OK + b"Content-Length: %d\r\n\r\n[%b]" % (len(ENTRY) + 1, ENTRY[:-1])


@pytest.mark.fault("cleanup-containers: {fault}")
@pytest.mark.parametrize(
    ("fault", "behaviour", "words"),
    [
        ("the listing stalls", saying(START, then=stall), SILENT_AT_LISTING),
        ("the listing is cut off", saying(START, b"[{"), "2 of 1000 body bytes"),
        ("the listing is no JSON", saying(OK + b"Content-Length: 4\r\n\r\n[}}}"), "JSON|listing"),
        (
            "the listing begins again",
            saying(AGAIN),
            'is not in order: "ssbench_000000" comes after',
        ),
        ("the listing is of nothing", flooding(LISTING, b"{}," * 9999), "a body of more than"),
        ("the listing has no end", flooding(LISTING, ENTRY * 1000), "a body of more than"),
        ("the listing drips", dripping(LISTING), "took too long"),
    ],
)
def test_cleanup_containers(
    fault: str, behaviour: Behaviour, words: str, bench: Bench, row: Row
) -> None:
    with HostileSwift({fault: behaviour}, of_containers("GET")) as swift:
        # Nothing is asked but that listing: a short timeout is met by it as surely as a long one.
        timeout_s = 0.5 if words in (SILENT_AT_LISTING, "took too long") else STALL_S
        options = ["-S", swift.url, "-T", swift.token, "--network-timeout", timeout_s]
        ended = bench.call("cleanup-containers", "--yes", *options)
        line = ended.one_line()
        assert re.search(words, line)
        assert "DELETE" not in swift.methods()
    row.saw(f"status 1: {line.partition(': ')[2]}; {ended.took_s:.0f} s")
