"""Objects in segments on a real Swift, in processes of their own."""

from __future__ import annotations

import re
import signal

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    Account,
    Commands,
    finished,
    is_gone,
    login,
    requests,
    rows_of,
    until,
)

pytestmark = pytest.mark.e2e

KEYS = {
    "sizes": [{"name": "tiny", "size_min": 100, "size_max": 9000}],
    "initial_files": {"tiny": 12},
    "operations": {
        "create": 12, "read": 3, "update": 3, "delete": 3, "head": 1, "post": 2, "range_read": 3,
        "list": 1, "copy": 2, "bulk_delete": 1,
    },
    "bulk_count": 2,
    "range_bytes": 3000,
}  # fmt: skip
SEGMENT = re.compile(r".+_(\d+)_\d{6}")


def large(kind: str) -> dict[str, object]:
    return {"above": 2000, "segment": 2500, "kind": kind, "parallel": 3}


def created(account: Account, base: str) -> list[str]:
    """Objects and segments that runs created: ``tiny_<run id>_000012``, ``..._000012_0_000003``."""
    names = account.objects(base)
    return [name for name in names if re.match(r"tiny_[0-9a-f]{10}_", name.partition("/")[2])]


def segments(account: Account, base: str) -> set[str]:
    """Those of ``created`` that are segments."""
    return {name for name in created(account, base) if SEGMENT.fullmatch(name)}


def check_initial(account: Account, base: str) -> None:
    """No segment is of an object that is gone, or of another version than the object's."""
    names = [name.partition("/") for name in account.objects(base)]
    objects = {
        name: account("HEAD", f"{container}/{name}", safe="/")[1]
        for container, _, name in names
        if not SEGMENT.fullmatch(name) or name.count("_") == 1
    }
    segments = [name for _, _, name in names if name not in objects]
    assert segments
    for name in segments:
        owner, version, _ = name.rsplit("_", 2)
        assert owner in objects, name
        assert (objects[owner]["X-Object-Meta-Ssbench-Version"] or "0") == version, name


@pytest.mark.parametrize("kind", ["slo", "dlo"])
def test_they_are_written_read_verified_and_deleted_whole(
    commands: Commands, embedded_swift: EmbeddedSwift, kind: str
) -> None:
    base = f"large{kind}"
    path = commands.scenario(
        **KEYS, large_object=large(kind), container_base=base, operation_count=40
    )
    ended = commands.run("-f", path, "--verify", *login(embedded_swift)).fine()
    assert ended.counted()[:2] == (40, 0), [row for row in rows_of(ended.results) if row["error"]]
    assert {"DELETE", "BULK_DELETE"} <= finished(ended.stats).keys()
    assert "PARTS OF OBJECTS" in ended.out
    account = Account(embedded_swift)
    assert created(account, base) == []
    check_initial(account, base)
    queries = {request.query for request in requests(embedded_swift, base)}
    assert ("multipart-manifest=put" in queries) is (kind == "slo")
    assert ("multipart-manifest=delete" in queries) is (kind == "slo")


def test_a_lost_worker_leaves_no_segment(commands: Commands, embedded_swift: EmbeddedSwift) -> None:
    path = commands.scenario(
        **KEYS, large_object=large("slo"), container_base="lost", operation_count=60
    )
    words = ["--verify", "--think-time", 0.4, *login(embedded_swift)]
    started = commands.start_run("-f", path, *words)
    until("operations", lambda: started.on_disk("COPY") and started.on_disk("CREATE") > 2, 90)
    started.workers()[0].send_signal(signal.SIGKILL)
    ended = started.wait().fine(ExitStatus.WORKERS_LOST)
    assert [row for row in rows_of(ended.results) if row["error"]] == []
    account = Account(embedded_swift)
    if created(account, "lost"):  # the store carried out a request after the clean-up
        resume = ["cleanup-containers", "--resume-cleanup", ended.results]
        commands.master(*resume, *login(embedded_swift)).wait().fine()
    assert created(account, "lost") == []


def test_a_killed_master_leaves_no_segment_after_resumed_clean_up(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    path = commands.scenario(
        **KEYS, large_object=large("dlo"), container_base="dlo_killed", operation_count=10**6
    )
    account = Account(embedded_swift)
    started = commands.start_run("-f", path, "--think-time", 0.1, *login(embedded_swift))
    until("segments", lambda: segments(account, "dlo_killed"), 90)
    until("copies", lambda: started.on_disk("COPY") > 2)
    workers = started.workers()
    started.kill()
    until("the workers' end", lambda: all(is_gone(worker.pid) for worker in workers))
    assert segments(account, "dlo_killed")
    before = len(account.objects("dlo_killed"))
    resume = ["cleanup-containers", "--resume-cleanup", started.stat_file]
    commands.master(*resume, *login(embedded_swift)).wait().fine()
    assert created(account, "dlo_killed") == []
    assert 0 < len(account.objects("dlo_killed")) < before, "initial objects stay"
