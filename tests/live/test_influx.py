"""--influx: the points of a run, and what happens where they cannot be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from ssbench.core.errors import SsbenchError, UsageError
from ssbench.core.model import Phase
from ssbench.core.option import influx_url
from ssbench.core.records import EventRecord
from ssbench.live import push as live_influx
from ssbench.live.push import Influx
from ssbench.live.watch import Watch
from tests.cli.shell import Shell
from tests.fakes.receiver import Receiver, receiving
from tests.fakes.scripted_server import Script, ScriptedServer
from tests.fakes.served_pool import dripping, silent_after
from tests.live.test_json_lines import STATE, Clock
from tests.live.test_metrics import TWO
from tests.report.runs import header

pytestmark = pytest.mark.usefixtures("forked_workers")

TOKEN = "s3cret-token"


def url_of(server: Receiver) -> str:
    return f"http://127.0.0.1:{server.server_port}/api/v2/write?org=o&bucket=b"


def lines_of(server: Receiver) -> list[str]:
    return [line for _, _, body in server.requests for line in body.decode().splitlines()]


def tokens_of(server: Receiver) -> set[str]:
    return {headers.get("Authorization", "none") for _, headers, _ in server.requests}


@pytest.fixture
def server() -> Iterator[Receiver]:
    with receiving() as made:
        made.answer = 204, b""
        yield made


def watched(*options: Any, clock: Clock) -> Watch:
    watch = Watch(clock, lambda: 1_700_000_000.5)
    watch.add(Influx(*options))
    return watch


def run_of(influx: Watch, clock: Clock, states: int) -> None:
    influx.start_phase(Phase.RUN)
    for _ in range(states):
        clock.now_s += 1
        influx.update(STATE)
    influx.end_phase()


def test_each_second_is_written_as_points_with_tags(server: Receiver) -> None:
    told: list[str] = []
    clock = Clock()
    with watched(url_of(server), "a b,c=d\\", TOKEN, told.append, clock=clock) as one:
        run_of(one, clock, 1)
    assert {path for path, _, _ in server.requests} == {"/api/v2/write?org=o&bucket=b"}
    assert tokens_of(server) == {f"Token {TOKEN}"}
    tags, at = "scenario=a\\ b\\,c\\=d/", 1_700_000_000_500_000_000
    assert lines_of(server)[0].startswith(f'ssbench_run,{tags} event="begin",version="')
    assert lines_of(server)[1:6] == [
        f"ssbench,{tags},phase=run elapsed_s=2.5,remaining_s=3.75,done=42i,total=100i,errors=3i,"
        "lost_races=2i,operations_per_s=16.0,bytes_per_s=1000000.0,p50_s=0.005,p99_s=0.02,workers=2i,users=8i,"
        f"late=0i {at}",
        f"ssbench_operations,{tags},phase=run,operation=READ count=37i,errors=3i,"
        f"lost_races=2i,operations_per_s=15.0,p50_s=0.004 {at}",
        f"ssbench_errors,{tags},phase=run,cause=status count=3i {at}",
        f"ssbench_statuses,{tags},phase=run,status=503 count=3i {at}",
        f"ssbench_workers,{tags},phase=run,state=running count=2i {at}",
    ]
    assert lines_of(server)[-1].startswith(f'ssbench_run,{tags} event="end"')
    assert told == []


def test_identities_marks_and_runs_of_a_series_have_their_points(server: Receiver) -> None:
    clock = Clock()
    with watched(url_of(server), "x", None, pytest.fail, clock=clock) as influx:
        influx.describe_run(header(store={"identities": ["a b", "c"]}, scenario={"sizes": []}))
        influx.start_run(3, "users 8")
        influx.start_phase(Phase.RUN)
        influx.mark(EventRecord(1_700_000_000.25, 'rack "a\\b" down', "alice"))
        for _ in range(3):
            clock.now_s += 1
            influx.update(replace(STATE, identities=TWO))
    run = "scenario=x,run=3,run_name=users\\ 8"
    _begin, first, operations, *others = lines_of(server)
    assert first.startswith(f"ssbench,{run},phase=run elapsed_s=")
    assert operations.startswith(f"ssbench_operations,{run},phase=run,operation=READ count=")
    start = f"ssbench_identities,{run},phase=run,identity="
    points = [each for each in others if each.startswith(start)]
    assert [each.rpartition(" ")[0] for each in points[:2]] == [
        f"{start}a\\ b count=30i,errors=3i,operations_per_s=1.0",
        f"{start}c count=7i,errors=0i,operations_per_s=4.5",
    ]
    assert [line for line in others if line.startswith("ssbench_marks")] == [
        f'ssbench_marks,{run} text="rack \\"a\\\\b\\" down",who="alice" 1700000000250000000'
    ], "once"


def test_https_is_not_spoken_in_the_clear(server: Receiver) -> None:
    url = url_of(server).replace("http:", "https:")
    with pytest.raises(SsbenchError, match=r"--influx https://127\.0\.0\.1:\d+/.*can't be reached"):
        Influx(url, "x", TOKEN, print)
    assert server.requests == []


def test_a_server_that_closes_idle_connections_gets_all_states(server: Receiver) -> None:
    server.closes = True
    told: list[str] = []
    clock = Clock()
    with watched(url_of(server), "x", None, told.append, clock=clock) as influx:
        run_of(influx, clock, 5)
    assert sum(line.startswith("ssbench,") for line in lines_of(server)) == 6
    assert (told, tokens_of(server)) == ([], {"none"})


def test_states_that_a_slow_server_does_not_take_are_dropped_and_counted(server: Receiver) -> None:
    told: list[str] = []
    clock = Clock()
    with watched(url_of(server), "x", None, told.append, clock=clock) as influx:
        server.go.clear()
        run_of(influx, clock, 500)  # returns, although nobody reads
        server.go.set()
    (line,) = told
    written = len(server.requests) - 1  # but for the first
    assert written < 100
    assert f": {502 - written} states of 502 were not written: too slow" in line


def test_refused_states_are_told_without_the_token(server: Receiver) -> None:
    told: list[str] = []
    clock = Clock()
    with watched(url_of(server), "x", TOKEN, told.append, clock=clock) as influx:
        server.answer = 503, f"no: {TOKEN}\x1b\n".encode()
        run_of(influx, clock, 1)
    assert told == [
        f"--influx http://127.0.0.1:{server.server_port}/api/v2/write: 3 states of 3 were not"
        " written: HTTP 503 Service Unavailable: no: ***"
    ]


@pytest.mark.parametrize(
    "script",
    [
        dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        dripping(b"HTTP/1.1 204 No Content\r\nX: ", b"x"),
        dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x"),
        silent_after(b""),
    ],
)
def test_a_server_that_does_not_end_its_response_ends_the_run_before_it_begins(
    script: Script, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_influx, "_TIMEOUT_S", 0.2)
    with ScriptedServer(script) as server:
        said = shell.run("-q", "-R", "--influx", f"http://127.0.0.1:{server.port}/write?db=x")
    assert (said.status, said.out) == (1, "")
    assert said.err.endswith("write: no connection or no complete response within 0.4 s\n")
    assert not shell.results.exists()


def test_a_server_that_refuses_the_first_points_ends_the_run_before_it_begins(
    server: Receiver, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFLUX_TOKEN", TOKEN)  # no output has it: see Shell
    server.answer = 401, TOKEN.encode()
    said = shell.run("-q", "-R", "--influx", url_of(server))
    assert (said.status, said.out) == (1, "")
    assert "HTTP 401 Unauthorized" in said.err
    assert not shell.results.exists()


def test_a_run_writes_its_phases_and_hides_the_token_from_workers(
    server: Receiver, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFLUX_TOKEN", TOKEN)
    assert shell.run("-q", "-R", "--influx", url_of(server)) == (0, "", "")
    found = [line.split(" ")[0] for line in lines_of(server) if line.startswith("ssbench,")]
    assert "ssbench,scenario=own,phase=run" in found
    assert tokens_of(server) == {f"Token {TOKEN}"}
    assert "INFLUX_TOKEN" not in os.environ


def test_no_server_is_an_error() -> None:
    with pytest.raises(SsbenchError, match=r"--influx http://127.0.0.1:9/w: can't be reached: "):
        Influx("http://127.0.0.1:9/w?db=x", "x", None, print)


@pytest.mark.parametrize("token", ["a b", "a\nb", "ä"])
def test_what_is_no_token_is_not_shown(token: str) -> None:
    with pytest.raises(UsageError) as found:
        Influx("http://127.0.0.1:9/w", "x", token, print)
    assert token not in str(found.value)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.1:8086", "give the URL that takes the lines"),
        ("127.0.0.1/write", "give the URL"),
        ("ftp://h/write", "give the URL"),
        ("http://h:x/write", "give the URL"),
        ("http://h/wri te", "give the URL"),
        ("http://u:hush@h/write", "give a token as INFLUX_TOKEN"),
        ("http://h/write?db=x&u=me&p=hush", "give a token as INFLUX_TOKEN"),
        ("http://h/write?precision=s", "leave out precision"),
    ],
)
def test_a_url_that_would_not_do_is_refused(url: str, text: str) -> None:
    with pytest.raises(UsageError, match=text) as found:
        influx_url(url)
    assert "hush" not in str(found.value)
