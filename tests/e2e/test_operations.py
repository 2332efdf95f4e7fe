"""All operations on a real Swift, in processes of their own."""

from __future__ import annotations

import json

import pytest

from ssbench.core.operations import BULK_DELETE, COPY, LIST, RANGE_READ
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, login
from tests.golden.compare import FOLDER

pytestmark = pytest.mark.e2e

OTHER_RUN = FOLDER / "format-1" / "healthy.stat.gz"
ROWS = (LIST, COPY, RANGE_READ, BULK_DELETE)


def created(account: Account, base: str) -> list[str]:
    """The objects in the store that runs created: ``tiny_<run id>_000012``."""
    return [name for name in account.objects(base) if name.partition("/")[2].count("_") == 2]


def test_the_canned_scenario_has_them_all(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    who = [*login(embedded_swift), "--container-base", "allops"]
    ended = commands.run("-f", "all_operations", "-c", 3, "-o", 100, "--verify", *who).fine()
    assert ended.counted()[:2] == (100, 0)
    assert all(ended.counted(row.name)[0] for row in ROWS)
    assert "\nOperations: list_limit 100, range_bytes 16384, bulk_count 10\n" in ended.out
    assert created(Account(embedded_swift), "allops") == []
    report = json.loads(commands.call("report-scenario", "-s", ended.results, "--json").fine().out)
    listed = report["operations"]["LIST"]
    assert 0 < listed["items"] <= 100 * listed["count"]
    deleted = report["operations"]["BULK_DELETE"]
    assert deleted["count"] < deleted["items"] <= 10 * deleted["count"]
    ranges = report["operations"]["RANGE_READ"]
    assert 0 < ranges["moved_bytes"] <= 16384 * ranges["count"]
    assert ranges["first_byte_latency"]["min_s"] > 0
    for threshold, status in (("p99(range_read) < 60s", 0), ("p99(copy) < 0.001ms", 3)):
        words = ["report-scenario", "-s", ended.results, "--threshold", threshold]
        commands.call(*words).fine(status)
    compared = commands.call("compare", ended.results, OTHER_RUN, "--json").fine()
    assert {row.name for row in ROWS} <= json.loads(compared.out)["operations"].keys()


def test_whole_listings_count_their_pages(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    path = commands.scenario(
        sizes=[{"name": "tiny", "size": 10}], initial_files={"tiny": 60}, container_count=2,
        container_base="whole", list_limit=7,
        operations={"list_all": 1, "list_random": 1, "delete": 0.2},
    )  # fmt: skip
    words = ["-c", 2, "-o", 30, "--verify", "--seed", 1, *login(embedded_swift)]
    ended = commands.run("-f", path, *words).fine()
    assert ended.counted()[:2] == (30, 0)
    report = json.loads(commands.call("report-scenario", "-s", ended.results, "--json").fine().out)
    for name, most in (("LIST_ALL", 30), ("LIST_RANDOM", 30)):
        found = report["operations"][name]
        assert 2 * found["count"] <= found["pages"] <= (most // 7 + 2) * found["count"]
        assert 0 < found["items"] <= most * found["count"]
        assert found["pages_per_s"] > 0
        assert found["first_byte_latency"]["max_s"] <= found["last_byte_latency"]["max_s"]
    assert "  Average pages per second: " in ended.out
