"""Keys of a scenario that say which objects there are, and how they are asked for, on Swift."""

from __future__ import annotations

import re
import zlib

import pytest

from ssbench.core.model import Phase
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, check_all_done, login, requests, rows_of


def test_sizes_and_picks_are_those_of_the_scenario(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    sizes = [
        {"name": "log", "size_min": 10, "size_max": 9000, "pick": "round_robin",
         "size": {"log_normal": {"median": 500, "sigma": 1}}},
        {"name": "two", "size": {"list": [[7, 1], [3000, 1]]}, "pick": "newest_first"},
        {"name": "bins", "size": {"histogram": [[0, 10, 1], [100, 120, 1]]}, "pick": "zipf"},
    ]  # fmt: skip
    path = commands.scenario(
        sizes=sizes, initial_files={"log": 12, "two": 12, "bins": 12}, operation_count=60,
        operations={"create": 1, "read": 6, "update": 1, "delete": 1},
        container_base=base,
    )  # fmt: skip
    given = ("-f", path, "--verify", *login(embedded_swift))
    check_all_done(commands.run(*given, workers=1), 60, embedded_swift, base)
    stored = {r.object: int(r.size) for r in requests(embedded_swift, base) if r.method == "PUT"
              and r.object}  # fmt: skip
    assert {size for name, size in stored.items() if name.startswith("two_")} == {7, 3000}
    in_bins = {size for name, size in stored.items() if name.startswith("bins_")}
    assert in_bins <= {*range(10), *range(100, 120)}
    logs = [size for name, size in stored.items() if name.startswith("log_")]
    assert 10 <= min(logs) < 500 < max(logs) <= 9000
    before = len(requests(embedded_swift, base))
    again = commands.run(*given, "-o", 30, "--seed", "1", workers=1)
    check_all_done(again, 30, embedded_swift, base, before)


@pytest.mark.parametrize(
    ("key_names", "pattern"), [("hashed", r"[0-9a-f]{4}-tiny_"), ("deep", r"\d\d/\d\d/\d\d/tiny_")]
)
def test_key_names_are_found_again_and_cleaned_up(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str, key_names: str, pattern: str
) -> None:
    path = commands.scenario(
        key_names=key_names, container_base=base, operation_count=40,
        operations={"create": 1, "read": 1, "copy": 1},
    )  # fmt: skip
    given = ("-f", path, "--verify", *login(embedded_swift))
    ended = commands.run(*given, workers=1)
    check_all_done(ended, 40, embedded_swift, base)
    account = Account(embedded_swift)
    assert len(account.objects(base)) == 10
    assert all(re.match(f"[^/]+/{pattern}", name) for name in account.objects(base))
    assert ended.stats.phase(Phase.CLEANUP).count > 10
    again = commands.run(*given, "-k", workers=1).fine()
    assert len(account.objects(base)) > 20
    commands.master(
        "cleanup-containers", "--resume-cleanup", again.results, "--yes", *login(embedded_swift)
    ).wait().fine()
    assert len(account.objects(base)) == 10


def test_initial_objects_are_made_with_headers_and_kept_for_the_same(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    account = Account(embedded_swift)

    def uploads(color: str | None) -> int:
        """Initial objects that a run with this header makes."""
        more = {"populate_headers": {"X-Object-Meta-Color": color}} if color else {}
        path = commands.scenario(
            container_base=base, operations={"read": 1}, operation_count=10,
            headers={"X-Note": "all"}, **more,
        )  # fmt: skip
        before = len(requests(embedded_swift, base))
        commands.run("-f", path, *login(embedded_swift), workers=1).fine()
        colors = {
            account("HEAD", each)[1].get("X-Object-Meta-Color") for each in account.objects(base)
        }
        assert colors == {color}
        return sum(
            r.method == "PUT" and r.object != "" for r in requests(embedded_swift, base)[before:]
        )

    assert [uploads(each) for each in ("red", "red", "blue", None, None)] == [10, 0, 10, 10, 0]


def test_a_store_can_save_a_share_of_the_content_of_requests_of_all_kinds(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(
        compressible=0.5, duplicate=0.25, container_base=base, operation_count=30,
        sizes=[{"name": "tiny", "size_min": "64k", "size_max": "64k"}],
        headers={"read": {"X-Newest": "true"}}, keep_alive=False, expect_continue=True,
    )  # fmt: skip
    sources = ["--source-address", "127.0.0.1", "--source-address", "127.0.0.9"]
    words = ["-f", path, "--verify", *sources, *login(embedded_swift)]
    ended = commands.run(*words, workers=1)
    check_all_done(ended, 30, embedded_swift, base)
    assert "Content: 50% of each 4,096 bytes zeros, 25% of blocks of" in ended.out
    account = Account(embedded_swift)
    body = account("GET", account.objects(base)[0])[2]
    assert 0.45 < 1 - len(zlib.compress(body)) / len(body) < 0.55
    before = len(requests(embedded_swift, base))
    other = commands.run(*words, "--compressible", workers=1)  # makes initial objects of its own
    check_all_done(other, 30, embedded_swift, base, before)
    assert "Content:" not in other.out


def test_a_source_address_must_be_one_of_the_host(commands: Commands) -> None:
    path = commands.scenario()
    words = ["-f", path, "--noop", "--workers", 1, "--source-address", "192.0.2.7"]
    ended = commands.call_run(*words)
    line = ended.one_line(2)
    assert "--source-address 192.0.2.7: cannot assign requested address on this host" in line


def test_existing_objects_are_read_and_nothing_is_changed(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    account, container = Account(embedded_swift), f"{base}_own"
    account("PUT", container)
    for number in range(10):
        account.put(container, f"in/{number} ä?", b"x" * (10 + number))
        account.put(container, f"out/{number}", b"x")
    before = account.contents(container)[container]
    path = commands.scenario(
        operations={"read": 4, "head": 1, "range_read": 1, "list": 1},
        range_bytes=4, operation_count=60, container_base=base, pick="round_robin",
        populate_headers={"X-Object-Meta-Color": "red"},
    )  # fmt: skip
    given = ("-f", path, "--existing", f"{container}/in/", *login(embedded_swift))
    before_run = len(requests(embedded_swift, base))
    ended = commands.run(*given, workers=1)
    check_all_done(ended, 60, embedded_swift, base, before_run)
    store = f"Store: swift at {embedded_swift.storage_url}, existing {container}/in/\n"
    assert store in ended.out
    assert f"populate_headers has no effect: {container}/in/ stays as it is" in ended.err
    assert ended.stats.run  # no record of the file is damaged, its header included
    asked = [r for r in requests(embedded_swift, base) if r.container == container]
    names = {r.object for r in asked if r.method in ("GET", "HEAD") and r.object}
    assert all(name.startswith("in/") for name in names)
    assert len(names) == 10
    assert account.contents(container)[container] == before
    assert account.containers(f"{base}_0") == []
    swept = commands.run(*given, "--sweep", "users=1,3", "-o", "10", workers=1).fine()
    assert store in swept.out
    assert "users" in swept.out


def test_users_of_all_workers_together_keep_the_bandwidth(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(
        sizes=[{"name": "tiny", "size": 2000}], crud_profile=[0, 1, 0, 0], operation_count=100,
        container_base=base,
    )  # fmt: skip
    ended = commands.run("-f", path, "--bandwidth", "60k", *login(embedded_swift))
    check_all_done(ended, 100, embedded_swift, base)
    rows = list(rows_of(ended.results))
    span_ns = max(r["start_ns"] + r["last_byte_ns"] for r in rows) - min(
        r["start_ns"] for r in rows
    )
    # The first of each of two workers is paid before; a worker keeps a tenth of a second.
    assert span_ns / 1e9 + 0.2 >= (100 - 2) * 2000 / 61_440
    assert "Requests: bandwidth 61440" in ended.out


def test_a_run_that_misses_a_threshold_ends_early(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(run_seconds=3600, operation_count=None, container_base=base)
    ended = commands.run(
        "-f", path, "--threshold", "p50 < 10us", "--threshold", "errors < 50%",
        "--abort-on-threshold", "2s", "--think-time", 0.05, *login(embedded_swift), workers=1,
    )  # fmt: skip
    ended.fine(3)
    assert "ended early: threshold p50 < 10us missed: about" in ended.err
    assert "Ended early: threshold p50 < 10us missed" in ended.out
    assert Account(embedded_swift).created(base, ended.stats.run.run_id) == []


def test_a_scenario_is_made_of_a_container_and_runs(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    account, container = Account(embedded_swift), f"{base}_own"
    account("PUT", container)
    for number in range(8):
        account.put(container, f"{number}", b"x" * (1000 if number % 2 else 100_000))
    made = commands.place / "made.scenario"
    commands.master(
        "make-scenario", "--from-container", container, "--output", made, *login(embedded_swift)
    ).wait().fine()
    before = len(requests(embedded_swift, base))
    ended = commands.run(
        "-f", made, "-o", "20", "-u", "4", "--container-base", base, *login(embedded_swift),
        workers=1,
    )  # fmt: skip
    check_all_done(ended, 20, embedded_swift, base, before)
    stored = [int(r.size) for r in requests(embedded_swift, base)
              if r.method == "PUT" and r.object and r.container != container]  # fmt: skip
    assert len(stored) == 8
    assert all(896 <= size < 1024 or 98_304 <= size < 114_688 for size in stored)
