"""All operations on a real Swift, in processes of their own."""

from __future__ import annotations

import json
import signal

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.core.operations import BULK_DELETE, COPY, LIST, RANGE_READ
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, is_gone, login, rows_of, until
from tests.golden.compare import FOLDER

pytestmark = pytest.mark.e2e

OTHER_RUN = FOLDER / "format-1" / "healthy.stat.gz"
ROWS = (LIST, COPY, RANGE_READ, BULK_DELETE)
KEYS = {
    "sizes": [{"name": "tiny", "size_min": 1, "size_max": 20_000}],
    "initial_files": {"tiny": 30},
    "operations": {
        "create": 6, "read": 3, "update": 3, "delete": 1, "head": 1, "post": 1,
        "list": 2, "copy": 4, "range_read": 4, "bulk_delete": 1,
    },
    "range_bytes": 3000, "bulk_count": 4, "list_limit": 5, "list_prefix": "tiny_",
}  # fmt: skip


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
        container_base="whole", crud_profile=None, list_limit=7,
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


def test_a_lost_worker_leaves_nothing(commands: Commands, embedded_swift: EmbeddedSwift) -> None:
    path = commands.scenario(**KEYS, container_base="oplost", crud_profile=None)
    words = ["--verify", "-o", 150, "--think-time", 0.15, "--seed", 1, *login(embedded_swift)]
    started = commands.start_run("-f", path, *words)
    until("operations", lambda: started.on_disk("BULK_DELETE") > 1)
    started.workers()[0].send_signal(signal.SIGKILL)
    ended = started.wait().fine(ExitStatus.WORKERS_LOST)
    assert all(ended.counted(row.name)[0] for row in ROWS)
    corrupt = [row for row in rows_of(ended.results) if row["error"]]
    assert corrupt == []
    # What the worker held may arrive after the clean-up; resume-cleanup finds that.
    if created(Account(embedded_swift), "oplost"):
        resume = ["cleanup-containers", "--resume-cleanup", ended.results]
        commands.master(*resume, *login(embedded_swift)).wait().fine()
    assert created(Account(embedded_swift), "oplost") == []


def test_what_a_killed_master_left_is_cleaned_up(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    path = commands.scenario(
        **KEYS, container_base="opkilled", crud_profile=None, operation_count=10**6
    )
    started = commands.start_run("-f", path, "--think-time", 0.2, *login(embedded_swift))
    until("copies", lambda: started.on_disk("COPY") > 10)
    workers = started.workers()
    started.signal(signal.SIGKILL)
    started.process.wait()
    until("the workers' end", lambda: all(is_gone(worker.pid) for worker in workers))
    account = Account(embedded_swift)
    initial = len(account.objects("opkilled"))
    assert created(account, "opkilled")
    resume = ["cleanup-containers", "--resume-cleanup", started.stat_file]
    commands.master(*resume, *login(embedded_swift)).wait().fine()
    assert created(account, "opkilled") == []
    assert 0 < len(account.objects("opkilled")) < initial, "initial objects stay"
