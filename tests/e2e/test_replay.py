"""Replays of the access log that a real Swift wrote."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ssbench.commands.replay.formats import LineParser, LoggedRequest
from tests.e2e.commands import (
    Account,
    Commands,
    Ended,
    finished,
    free_ports,
    login,
    scenario,
)
from tests.e2e.faults.hostile import watch
from tests.e2e.test_secrets import nowhere
from tests.servers.proxylog import ProxyLog
from tests.servers.s3 import SwiftS3
from tests.servers.webdav import WsgiDav

ADDRESS = "203.0.113.9"
OPERATIONS = {
    "create": 4, "read": 6, "update": 2, "delete": 2, "head": 1, "post": 1, "list": 1, "copy": 1,
    "range_read": 2, "bulk_delete": 1,
}  # fmt: skip


class Recorded(NamedTuple):
    """A log, and the Swift that wrote it."""

    log: Path
    swift: SwiftS3


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """The log of a run on containers ``holiday_...`` with objects ``beach_...``."""
    folder = tmp_path_factory.mktemp("recorded")
    path = folder / "scenario"
    keys = scenario(
        sizes=[{"name": "beach", "size_min": 100, "size_max": 2000}], initial_files={"beach": 10},
        operations=OPERATIONS, container_base="holiday", bulk_count=2, operation_count=70, rate=40,
    )  # fmt: skip
    path.write_text(json.dumps(keys))
    commands = Commands(folder)
    with ProxyLog(folder / "raw") as written, SwiftS3(more_conf=written.proxy_conf) as server:
        assert isinstance(server, SwiftS3)
        words = ("-f", path, "--seed", 1, *login(server.swift))
        commands.run(*words, "-o", 1, workers=1).fine()
        before = written.path.stat().st_size  # the log begins when there are objects
        commands.run(*words, "-k", workers=1).fine()
        text = written.path.read_text()[before:]
        log = folder / "access.log"
        log.write_text(text.replace("127.0.0.1", ADDRESS))
        yield Recorded(log, server)
    commands.close()


def replay(commands: Commands, *words: object, workers: int = 2, **options: object) -> Ended:
    path = commands.place / "replay.stat.gz"
    fixed = ("-u", 8, "-s", path, "--force", "--workers", workers, *free_ports())
    return commands.master("replay", *words, *fixed, stat_file=path, **options).wait()


def logged(log: Path) -> Counter[str]:
    """Requests of the log that a replay sends."""
    parser = LineParser()
    found = [parser.parse(line) for line in log.read_bytes().splitlines()]
    assert None not in found
    requests = (each.request for each in found if isinstance(each, LoggedRequest))
    return Counter(each for each in requests if "MULTI" not in each)


def test_a_log_is_replayed_by_two_workers_in_containers_of_its_own(
    commands: Commands, recorded: Recorded
) -> None:
    swift = recorded.swift.swift
    account = Account(swift)
    before = account.contents()
    ended = replay(commands, recorded.log, "--speed", 2, *login(swift)).fine()
    wanted = logged(recorded.log)
    did = finished(ended.stats)
    assert did["CREATE"] + did["UPDATE"] == wanted["PUT OBJECT"]
    assert (did["READ"], did["RANGE_READ"]) == (wanted["GET OBJECT"], wanted["GET OBJECT 206"])
    assert (did["HEAD"], did["POST"]) == (wanted["HEAD OBJECT"], wanted["POST OBJECT"])
    assert did["LIST"] == wanted["GET BUCKET"]
    assert f"Requests of the log that were never sent: 0 of {sum(did.values())}" in ended.err
    assert re.search(r"left out \d+: bulk deletes: a log does not name their objects", ended.err)
    assert re.search(r"left out \d+: accounts and containers", ended.err)
    assert re.search(
        r"Lateness \(from due to start\): 50% [\d.]+ [mµ]?s, 99% [\d.]+ [mµ]?s, worst", ended.out
    )
    assert ended.stats.lateness.count == sum(did.values())
    errors = ended.counted()[1]
    assert errors <= 3, "a read at twice the speed may come before the end of an upload"

    after = account.contents()
    assert {name: after[name] for name in before} == before
    ours = {name: after[name] for name in after if name not in before}
    assert {*ours} == {f"ssbench_replay_{number:06}" for number in range(len(ours))}
    names = [name for listed in ours.values() for name in listed]
    assert names
    assert all(re.fullmatch("replay_[0-9a-f]{14}", name) for name in names)
    nowhere(commands.place, "holiday", "beach", ADDRESS)

    first = ended.results.rename(commands.place / "first.stat.gz")
    again = replay(commands, recorded.log, "--speed", 3, *login(swift), workers=1).fine()
    assert sum(finished(again.stats).values()) == sum(did.values())
    compared = commands.call("compare", first, again.results).fine()
    assert "replay at speed 2" in compared.out
    assert "replay at speed 3" in compared.out
    cleaned = commands.master("cleanup-containers", "-b", "ssbench_replay", "--yes", *login(swift))
    assert f"{len(ours)} container" in cleaned.wait().fine().out
    assert account.contents() == before


def test_a_log_is_replayed_on_s3(commands: Commands, recorded: Recorded) -> None:
    server = recorded.swift
    words = (recorded.log, "--speed", 3, "--container-base", "onsthree", *server.options)
    ended = replay(commands, *words, workers=1, environment=server.environment).fine()
    assert sum(finished(ended.stats).values()) == sum(logged(recorded.log).values())
    assert ended.counted()[1] <= 3


def test_a_log_is_replayed_on_webdav(commands: Commands, recorded: Recorded) -> None:
    with WsgiDav("digest") as server:
        words = (recorded.log, "--speed", 2, *server.options)
        ended = replay(commands, *words, workers=1, environment=server.environment).fine()
    assert sum(finished(ended.stats).values()) == sum(logged(recorded.log).values())


def test_parts_of_a_log_and_the_scenario_of_one_run_without_a_store(
    commands: Commands, recorded: Recorded
) -> None:
    few = replay(
        commands, recorded.log, "--max-requests", 20, "--speed", 50, "--noop", workers=1
    ).fine()
    assert sum(finished(few.stats).values()) <= 20
    assert re.search(r"left out \d+: beyond --max-requests", few.err)
    made = commands.place / "made.scenario"
    commands.call("make-scenario", "--from-access-log", recorded.log, "--output", made).fine()
    nowhere(commands.place, "holiday", "beach", ADDRESS)
    ended = commands.run("-f", made, "-o", 60, "--noop", workers=1).fine()
    assert ended.counted()[0] == 60


@pytest.mark.slow
def test_a_line_of_a_log_takes_few_bytes(commands: Commands, tmp_path: Path) -> None:
    few, many = (peak_mb(commands, tmp_path / "log.gz", lines) for lines in (20_000, 220_000))
    assert (many - few) / 0.2 < 150, "bytes"


def peak_mb(commands: Commands, log: Path, lines: int) -> float:
    """The memory of the replay of a log that has so many, and as many objects."""
    with gzip.open(log, "wt", compresslevel=1) as file:
        for number in range(lines):
            method = "PUT" if number % 7 == 3 else "GET"
            file.write(
                f"10.1.2.3 - - [21/Sep/2026:10:{number // 600_000:02}:{number // 10_000 % 60:02}"
                f' +0000] "{method} /photos/{number * 7919 % 1_000_003:x}.jpg HTTP/1.1" 200'
                f" {1000 + number % 50_000}\n"
            )
    path = commands.place / f"{lines}.stat.gz"
    words = ("replay", log, "--noop", "--workers", 2, "-s", path, *free_ports(), "-R")
    # The memory of a fork counts what its fork server has loaded for tests.
    started = commands.master(*words, "--progress", "none", stat_file=path, program=True)
    ended, peaks = watch(started)
    assert f"never sent: 0 of {lines:,}" in ended.fine().err
    assert ended.stats.lateness.count == lines
    return peaks.master
