"""A run that was killed is cleaned up after, by its stat file, and nothing else is touched."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, Ended, login, requests, silenced, stats_of, until
from tests.e2e.faults.matrix import Row


def killed_run(commands: Commands, swift: EmbeddedSwift, base: str) -> tuple[Path, str]:
    """Stat file and id of a run whose master was killed in the middle of it."""
    path = commands.scenario(
        container_base=base, crud_profile=[4, 1, 1, 1], operation_count=10**6, think_time=0.05,
        sizes=[{"name": "tiny", "size_min": 1, "size_max": 99},
               {"name": "x.y", "size_min": 1, "size_max": 99}],
        initial_files={"tiny": 10, "x.y": 5},
    )  # fmt: skip
    started = commands.start_run("-f", path, *login(swift))
    stat_file = started.stat_file
    assert stat_file is not None
    started.wait_for(", seed ")
    run_id = started.talk().partition(", run ")[2].partition(",")[0]
    until("objects", lambda: _puts(swift, base) > 40)
    until("some of it in the stat file", lambda: started.on_disk("CREATE") > 0)
    so_far = _puts(swift, base)
    until("some that isn't", lambda: _puts(swift, base) > so_far + 20)
    started.kill()
    return stat_file, run_id


def _puts(swift: EmbeddedSwift, base: str) -> int:
    return sum(r.method == "PUT" and r.object != "" for r in requests(swift, base))


def settled(account: Account, base: str) -> list[str]:
    """The objects, once no request of the dead run's workers is under way any more."""
    seen = account.objects(base)
    while True:
        time.sleep(0.3)
        again = account.objects(base)
        if again == seen:
            return seen
        seen = again


def resume(commands: Commands, swift: EmbeddedSwift, path: Path, *words: object) -> Ended:
    command = [*words, "--resume-cleanup", path, *login(swift)]
    return commands.call(*command)


@pytest.mark.fault("master killed in the run, then --resume-cleanup")
def test_resume_cleanup_deletes_exactly_what_the_run_created(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str, row: Row
) -> None:
    stat_file, run_id = killed_run(commands, embedded_swift, base)
    account = Account(embedded_swift)
    _plant_neighbours(account, base, run_id)
    before = settled(account, base)
    created = [name for name in before if re.search(rf"_{run_id}_\d{{6}}$", name)]
    planted = sorted(set(before) & set(_neighbours(base, run_id)))
    assert len(planted) == len(_neighbours(base, run_id))
    ours = sorted(set(created) - set(planted))
    assert len(ours) > 20
    dry = resume(commands, embedded_swift, stat_file, "cleanup-containers", "--dry-run").fine()
    assert f"objects of run {run_id}, in 3 containers" in dry.out
    assert account.objects(base) == before
    row.strike()
    ended = resume(commands, embedded_swift, stat_file, "cleanup-containers").fine()
    row.recovered()
    assert re.search(
        rf"Deleted {len(ours)} objects of run {run_id} in [\d.]+ s \(.*/s\)", ended.out
    )
    assert sorted(account.objects(base)) == sorted(set(before) - set(ours))
    row.saw("what the run created is gone; initial objects and neighbours are not")
    again = resume(commands, embedded_swift, stat_file, "run-scenario").fine()
    assert f"of run {run_id}" in again.out
    assert "Nothing" in again.out
    row.saw("a second time there was nothing")


def test_objects_of_others_under_the_names_of_the_run_stay(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, crud_profile=[1, 0, 0, 0], operation_count=12)
    run = commands.run("-k", "-f", path, *login(embedded_swift), workers=1).fine()
    account = Account(embedded_swift)
    run_id = run.stats.run.run_id
    theirs, *ours = account.created(base, run_id)
    assert len(ours) == 11
    container, _, name = theirs.partition("/")
    assert account.put(container, name, b"precious") == 201
    dry = resume(commands, embedded_swift, run.results, "cleanup-containers", "--dry-run").fine()
    assert f"Would delete 11 objects of run {run_id}, in " in dry.out
    ended = resume(commands, embedded_swift, run.results, "cleanup-containers").fine(1)
    assert f"Deleted 11 objects of run {run_id} in " in ended.out
    assert "Left alone: 1 object named as the run's, without its header" in ended.err
    assert account.created(base, run_id) == [theirs]


def _neighbours(base: str, run_id: str) -> list[str]:
    """``container/object`` of what is almost the run's."""
    first, fourth = f"{base}_000000", f"{base}_000003"
    return [
        f"{first}/tiny_{run_id}", f"{first}/tiny_{run_id}_000123/4", f"{first}/{run_id}",
        f"{first}/xzy_{run_id}_000123", f"{first}/tiny_0123456789_000123",
        f"{fourth}/tiny_{run_id}_000123",
        f"{base}_000000_gold/tiny_{run_id}_000123", f"{base}_x/tiny_{run_id}_000123",
    ]  # fmt: skip


def _plant_neighbours(account: Account, base: str, run_id: str) -> None:
    for name in _neighbours(base, run_id):
        container, _, name = name.partition("/")
        assert account("PUT", container)[0] in (201, 202)
        assert account.put(container, name) == 201


@pytest.mark.fault("--resume-cleanup while the run is still going on")
def test_resume_cleanup_rejects_a_live_run(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str, row: Row
) -> None:
    path = commands.scenario(container_base=base, crud_profile=[1, 0, 0, 0], think_time=0.05)
    started = commands.start_run("-f", path, "-o", 10**6, *login(embedded_swift), workers=1)
    account = Account(embedded_swift)
    until("objects", lambda: _puts(embedded_swift, base) > 15)
    assert started.stat_file is not None
    line = resume(
        commands, embedded_swift, started.stat_file, "cleanup-containers", "--yes"
    ).one_line(2)
    assert "its run is still in progress" in line
    row.saw("refused in one line, status 2")
    started.interrupt()
    started.wait().fine(5)
    stats = stats_of(started.stat_file)
    row.accounted(stats)
    assert account.created(base, stats.run.run_id) == []


def test_a_second_ctrl_c_names_the_cleanup_command(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, crud_profile=[1, 0, 0, 0], think_time=0.02)
    started = commands.start_run("-f", path, "-o", 10**6, *login(embedded_swift), workers=1)
    account = Account(embedded_swift)
    until("objects", lambda: _puts(embedded_swift, base) > 40)
    with silenced(embedded_swift):  # so that it isn't done before the second one
        started.interrupt()
        started.wait_for("interrupted by SIGINT")
        started.interrupt()
        ended = started.wait().fine(5)
    command = re.search(r"ssbench-master (cleanup-containers --resume-cleanup \S+)", ended.err)
    assert command, ended.err
    settled(account, base)
    commands.call(*command[1].split(), *login(embedded_swift)).fine()
    assert all(name.count("_") == 2 for name in account.objects(base))
