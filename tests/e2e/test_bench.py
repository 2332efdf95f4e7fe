"""The bench commands against a real Swift: each finds the objects of the others by number."""

from __future__ import annotations

import csv
import re
from collections import Counter
from pathlib import Path

import pytest

from ssbench.core.content import initial_size
from ssbench.core.model import SizeClass
from ssbench.core.operations import CREATE, DELETE
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, Ended, free_ports, login

WRITE = "completion_time_unix_nano,object_name,transaction_id,status,elapsed_nanoseconds"
READ = (
    "completion_time_unix_nano,object_name,transaction_id,status,headers_elapsed_nanoseconds,"
    "elapsed_nanoseconds"
)
MIXED = "completion_time_unix_nano,method,object_name,transaction_id,status,elapsed_nanoseconds"
COUNT = 12
RATE = r"^(\d+\.\d{5})s total time, (\d+\.\d{5}) (\w+)s per second\.$"


class Bench:
    """``bench`` against one Swift."""

    def __init__(self, commands: Commands, swift: EmbeddedSwift) -> None:
        self._commands, self._swift = commands, swift
        self._runs = 0

    def __call__(self, method: str, *words: object) -> Ended:
        self._runs += 1
        path = self._commands.place / f"bench-{self._runs}.stat.gz"
        own = ["--workers", 1, "-s", path, *login(self._swift), *free_ports()]
        return self._commands.master("bench", method, *words, *own, stat_file=path).wait()


@pytest.fixture
def bench(commands: Commands, embedded_swift: EmbeddedSwift) -> Bench:
    return Bench(commands, embedded_swift)


@pytest.fixture
def account(embedded_swift: EmbeddedSwift) -> Account:
    return Account(embedded_swift)


def table(path: Path) -> list[list[str]]:
    return [*csv.reader(path.read_text().splitlines())]


def names(container: str, count: int, containers: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for number in range(count):
        found.setdefault(f"{container}{number % containers}", []).append(f"bench-{number}")
    return {each: sorted(listed) for each, listed in found.items()}


def test_each_command_finds_the_objects_of_another(
    bench: Bench, account: Account, tmp_path: Path
) -> None:
    common = ("turns-", "--containers", 3, "--count", COUNT, "-u", 4)
    sizes = ("--size", 100, "--max-size", 300)
    ended = bench("put", *common, *sizes, "--csv", tmp_path / "put.csv").fine()
    assert f"Bench-PUT of {COUNT} objects, in 3 containers, at 4 concurrency..." in ended.out
    found = re.search(RATE, ended.out, re.MULTILINE)
    assert found, ended.out
    assert found[3] == "PUT"
    assert re.search(
        r"^Store: swift at http://\S+/AUTH_test, .*base turns-$", ended.out, re.MULTILINE
    )
    # Both have five digits, of few hundredths of a second on a quick host.
    assert float(found[1]) * float(found[2]) == pytest.approx(COUNT, rel=1e-3)
    there = {c: sorted(listed) for c, listed in account.contents("turns-").items()}
    assert there == names("turns-", COUNT, 3)
    size = int(account("HEAD", "turns-1/bench-7")[1]["Content-Length"])
    assert size == initial_size(SizeClass("bench", 100, 299, (), 0), 7)

    head, *rows = table(tmp_path / "put.csv")
    assert ",".join(head) == WRITE
    assert sorted(row[1] for row in rows) == sorted(
        f"{container}/{name}" for container, listed in there.items() for name in listed
    )
    assert {row[3] for row in rows} == {"201"}
    assert all(row[2].startswith("tx") and int(row[4]) > 0 for row in rows)
    assert max(int(row[0]) for row in rows) - min(int(row[0]) for row in rows) < 60e9

    path = tmp_path / "get.csv"
    ended = bench("get", *common, *sizes, "--iterations", 2, "--verify", "--csv", path).fine()
    assert f"Bench-GET of {COUNT} objects, 2 times, in 3 containers" in ended.out
    assert ended.stats.total().count == 2 * COUNT
    head, *rows = table(path)
    assert ",".join(head) == READ
    assert Counter(row[1] for row in rows).most_common()[-1][1] == 2
    assert all(0 < int(row[4] or 1) <= int(row[5]) for row in rows)
    for method in ("head", "post"):
        assert bench(method, *common).fine().stats.total().count == COUNT
    assert account("HEAD", "turns-0/bench-0")[1]["X-Object-Meta-Ssbench-Post"]

    account.put("turns-2", f"bench-{COUNT}")  # beyond the count: another's
    account.put("turns-1", "bench-mine")
    ended = bench("delete", *common).fine()
    assert ended.stats.total().count == COUNT
    assert "Deleted 1 emptied container." in ended.out
    assert account.contents("turns-") == {
        "turns-1": ["bench-mine"], "turns-2": [f"bench-{COUNT}"],
    }  # fmt: skip
    assert "Left alone: 2 containers: other objects" in ended.err
    ended = bench("delete", *common, "--retries", 0, "--csv", tmp_path / "again.csv").fine(1)
    assert f"WARNING: {COUNT} of {COUNT} DELETEs failed" in ended.err
    rows = table(tmp_path / "again.csv")
    assert Counter(row[3] for row in rows[1:]) == {"404": COUNT}


def test_a_single_container_a_prefix_a_header_and_objects_of_unknown_size(
    bench: Bench, account: Account
) -> None:
    header = "X-Object-Meta-Colour: red"
    bench("put", "alone/deep/x-", "--count", 5, "--size", "1MiB", "--header", header).fine()
    assert account("HEAD", "alone/deep/x-1")[1]["X-Object-Meta-Colour"] == "red"
    assert account.contents("alone")["alone"] == [f"deep/x-{number}" for number in range(5)]
    ended = bench("get", "alone", "deep/x-", "--count", 5).fine()
    assert ended.stats.total().bytes_moved == 5 << 20
    bench("delete", "alone", "deep/x-", "--count", 5).fine()
    assert account.containers("alone") == []


def test_a_container_of_others_is_neither_used_nor_deleted(bench: Bench, account: Account) -> None:
    account("PUT", "bench-theirs")
    account.put("bench-theirs", "bench-1", b"precious")
    for method in ("put", "post", "delete"):
        line = bench(method, "bench-theirs", "--count", 3).one_line()
        assert re.search(r'container "bench-theirs" (holds \d|may hold objects)', line)
        assert line.endswith("use it with --use-existing")
    _, headers, body = account("GET", "bench-theirs/bench-1")
    assert (body, headers["X-Object-Meta-Ssbench-Post"]) == (b"precious", None)
    bench("get", "bench-theirs", "--count", 2, "--retries", 0).fine()
    bench("delete", "bench-theirs", "--count", 2, "--retries", 0, "--use-existing").fine()
    assert account.containers("bench-theirs") == []


def test_mixed_runs_all_operations_and_leaves_nothing(
    bench: Bench, account: Account, tmp_path: Path
) -> None:
    paths = (
        "--csv", tmp_path / "mixed.csv", "--csv-over-time", tmp_path / "over.csv",
        "--html", tmp_path / "mixed.html",
    )  # fmt: skip
    ended = bench(
        "mixed", "mix-", "--containers", 2, "--time", "3s", "-u", 1, "--delete-behind", 2,
        "--size", 200, *paths,
    ).fine()  # fmt: skip
    found = re.search(
        r"^(\d+\.\d{5})s for (\d+) requests, (\d+\.\d{5}) requests per second\.$",
        ended.out, re.MULTILINE,
    )  # fmt: skip
    assert found, ended.out
    head, *rows = table(tmp_path / "mixed.csv")
    assert ",".join(head) == MIXED
    counts = Counter(row[1] for row in rows)
    assert {*counts} == {"DELETE", "GET", "HEAD", "POST", "PUT"}
    assert sum(counts.values()) == int(found[2])
    assert counts["PUT"] - counts["DELETE"] > 0
    assert {row[4] for row in rows} <= {"200", "201", "202", "204"}
    over = table(tmp_path / "over.csv")
    assert "<figcaption>Throughput" in (tmp_path / "mixed.html").read_text()
    assert over[0] == ["time_unix_nano", "DELETE", "GET", "HEAD", "POST", "PUT"]
    assert over[1][1:] == ["0"] * 5
    assert [int(count) for count in over[2][1:]] == [counts[name] for name in over[0][1:]]
    assert account.containers("mix-") == []


def test_the_suite_runs_all_steps_in_their_order(
    bench: Bench, account: Account, tmp_path: Path
) -> None:
    ended = bench(
        "suite", "suite-", "--containers", 1, "-u", 2, "--mixed-users", 1, "--count", 6,
        "--large-count", 2, "--time", "0.3s", "--pause", 0, "--long-pause", 0,
        "--delete-behind", 3, "--csv-dir", tmp_path,
    ).fine()  # fmt: skip
    steps = [f"{turn}{number}" for turn in ("put", "get", "delete") for number in (1, 2)]
    names = [f"{size}{step}" for size in ("4KB", "1MB") for step in (*steps, "mixed1")]
    rows = [line.split() for line in ended.out.split("step ")[1].splitlines()[1:15]]
    assert [row[0] for row in rows] == names
    assert all(len(row) == 4 for row in rows), rows
    table_of_rates = ended.out.split("Successes per second\n")[1]
    assert re.match(r"Store: swift at http://\S+/AUTH_test, .*base suite-\n", table_of_rates)
    assert rows[0][2:] == ["4970", "594"]
    assert rows[-1][2:] == ["4044", "2897"]
    lines = {name: len(table(tmp_path / f"bench{name}.csv")) - 1 for name in names}
    assert (lines["4KBput1"], lines["4KBget2"], lines["1MBget1"], lines["1MBdelete2"]) == (
        6, 18, 6, 2,
    )  # fmt: skip
    assert {path.name for path in ended.results.parent.glob("bench-1.*.stat.gz")} == {
        f"bench-1.{name}.stat.gz" for name in names
    }
    assert account.containers("suite-") == []


def test_mixed_can_keep_its_objects(bench: Bench, account: Account) -> None:
    words = ("--time", "0.5s", "-u", 1, "--delete-behind", 5, "-k", "--size", 10)
    stats = bench("mixed", "kept", *words).fine().stats
    kept = stats.total(CREATE).count - stats.total(DELETE).count
    assert len(account.contents("kept")["kept"]) == kept > 0


def test_it_stops_at_the_first_error(bench: Bench) -> None:
    ended = bench("get", "nowhere", "--count", 500, "--stop-on-error", "--retries", 0).fine(1)
    assert "stopped at the error limit: an operation failed" in ended.err
    assert ended.stats.total().errors < 500
