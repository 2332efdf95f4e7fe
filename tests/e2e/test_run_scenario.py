"""run-scenario against a real Swift: what it does there, and what it says of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ssbench.core.model import Phase
from ssbench.core.operations import CREATE, READ, UPDATE
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    Account,
    Commands,
    Ended,
    check_all_done,
    finished,
    is_initial,
    login,
    requests,
    scenario,
    until,
)

READS = {"crud_profile": [0, 1, 0, 0]}


Run = Callable[..., Ended]


@pytest.fixture
def run(commands: Commands, embedded_swift: EmbeddedSwift) -> Run:
    """``run(*words)``: run-scenario on the Swift, with a worker unless ``workers`` says more."""

    def run(*words: object, workers: int = 1, **options: object) -> Ended:
        return commands.run(*words, *login(embedded_swift), workers=workers, **options)

    return run


def test_login_and_defaults_of_the_file_of_a_site(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str, tmp_path: Path
) -> None:
    flags = login(embedded_swift)
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    file = tmp_path / "config.toml"
    file.write_text(f"""\
auth = "{given["-A"]}"
user = "{given["-U"]}"
key = "{given["-K"]}"
users = 3
[run-scenario]
container-base = "{base}"
op-count = 20
""")
    file.chmod(0o600)
    site = {"SSBENCH_CONFIG": str(file)}
    path = commands.scenario(**READS)
    environment = {**site, "SSBENCH_OP_COUNT": "30"}
    ended = commands.run("-f", path, workers=1, environment=environment)
    check_all_done(ended, 30, embedded_swift, base)
    assert "3 users on" in ended.out
    assert given["-K"] not in ended.out + ended.err
    file.chmod(0o644)
    line = commands.run("-f", path, environment=site).one_line(2)
    assert "key: is secret, and others may read this file" in line
    assert given["-K"] not in line


def test_the_command_line_of_0_3_9(run: Run, embedded_swift: EmbeddedSwift, base: str) -> None:
    ended = run(
        "-f", "scenarios/very_small.scenario", "-u", "4", "-c", "8", "-o", "113",
        "--pctile", "50", "--container-base", base, workers=2, program=True,
    )  # fmt: skip
    check_all_done(ended, 113, embedded_swift, base)
    assert "50%-ile" in ended.out
    assert "Worker count:   2   Concurrency:   4" in ended.out
    stats = ended.stats
    assert sum(finished(stats).values()) == 113
    for operation in (CREATE, READ, UPDATE):
        assert ended.counted(operation.name)[:2] == (stats.total(operation).count, 0)
    assert stats.phase(Phase.POPULATE).count == 110
    account = Account(embedded_swift)
    assert account.containers(f"{base}_") == [f"{base}_{number:06d}" for number in range(8)]
    assert account.created(base, stats.run.run_id) == []
    assert len(account.objects(base)) == 110 - _initial_ones_deleted(embedded_swift, base)


def _initial_ones_deleted(swift: EmbeddedSwift, base: str) -> int:
    deleted = (r for r in requests(swift, base) if r.method == "DELETE" and is_initial(r))
    return sum(r.status < 300 for r in deleted)


def test_the_report_and_the_progress_agree_with_the_server(
    commands: Commands, run: Run, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, crud_profile=[2, 3, 2, 1], operation_count=100)
    ended = run("-f", path, "--progress", "chars", workers=2)
    check_all_done(ended, 100, embedded_swift, base)
    lines = re.findall(r"^[.oO*_|^@X]+$", ended.err, re.MULTILINE)
    assert [len(line) for line in lines] == [78, 22]
    stats = ended.stats
    run_id = stats.run.run_id
    counted = finished(stats)
    assert sum(counted.values()) == 100
    objects = [r for r in requests(embedded_swift, base) if r.object and r.status < 300]
    assert sum(r.method == "GET" for r in objects) == counted["READ"]
    uploads = sum(r.method == "PUT" for r in objects)
    assert uploads == stats.phase(Phase.POPULATE).count + counted["CREATE"] + counted["UPDATE"]
    deletes = sum(r.method == "DELETE" for r in objects)
    assert deletes == counted["DELETE"] + stats.phase(Phase.CLEANUP).count
    created = {(r.container, r.object) for r in objects if f"_{run_id}_" in r.object}
    assert len(created) == counted["CREATE"]
    moved = sum(int(r.size) for r in objects if r.method == "GET")
    assert moved == stats.total(READ).bytes_moved
    worst = stats.total().last_byte.worst
    assert worst is not None
    assert worst[1].decode() in {r.transaction for r in objects}
    assert worst[1].decode() in ended.out
    # What the run created is gone.
    assert Account(embedded_swift).created(base, run_id) == []
    assert stats.run.left_behind == 0


def test_head_and_post_run_in_a_mix(
    commands: Commands, run: Run, embedded_swift: EmbeddedSwift, base: str
) -> None:
    """Swift's POST replaces all metadata: what ssbench keeps there must survive it."""
    weights = {"create": 1, "read": 2, "update": 2, "head": 3, "post": 3}
    path = commands.scenario(
        container_base=base, operations=weights,
        operation_count=50, delete_after=600,
    )  # fmt: skip
    first = run("-f", path, "--verify")
    check_all_done(first, 50, embedded_swift, base)
    seen = [r for r in requests(embedded_swift, base) if r.object]
    counted = finished(first.stats)
    for name in ("POST", "HEAD"):
        good = [r for r in seen if r.method == name and r.status < 300]
        assert len(good) == counted[name] > 0
    before = len(requests(embedded_swift, base))
    account = Account(embedded_swift)
    for name in account.objects(base):
        assert "x-delete-at" in account("HEAD", name)[1]
    before = len(requests(embedded_swift, base))
    second = run("-f", path, "--verify", "-o", 10)
    check_all_done(second, 10, embedded_swift, base, before)
    assert second.stats.phase(Phase.POPULATE).errors == 0


def test_only_initial_objects_that_are_missing_or_changed_are_uploaded_again(
    commands: Commands, run: Run, embedded_swift: EmbeddedSwift, base: str
) -> None:
    def uploads(words: tuple[object, ...]) -> set[str]:
        """What a run that reads uploads; it checks all initial objects."""
        before = len(requests(embedded_swift, base))
        ended = run(*words)
        check_all_done(ended, 20, embedded_swift, base, before)
        seen = [r for r in requests(embedded_swift, base)[before:] if r.object]
        assert len({r.object for r in seen if r.method == "HEAD"}) == 10
        assert ended.stats.phase(Phase.POPULATE).count == 10
        return {f"{r.container}/{r.object}" for r in seen if r.method == "PUT"}

    weights = {"update": 1, "post": 1}
    keys = {"container_base": base, "initial_files": {"tiny": 10}, "operation_count": 12}
    path = commands.scenario(**keys, operations=weights)
    run("-f", path, "--seed", 1).fine()
    account = Account(embedded_swift)
    changed = {
        name for name in account.objects(base)
        if "x-object-meta-ssbench-version" in account("HEAD", name)[1]
    }  # fmt: skip
    assert changed
    reads = ("-f", commands.scenario(**keys, **READS), "--verify", "-o", 20)
    assert uploads(reads) == changed
    assert uploads((*reads, "--seed", 2)) == set()
    missing, wrong, *_ = account.objects(base)
    account("DELETE", missing)
    account("PUT", wrong, b"")
    assert uploads(reads) == {missing, wrong}


def test_containers_get_the_policy(
    commands: Commands, run: Run, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, container_count=2, operation_count=10, **READS)
    ended = run("-f", path, "-p", "silver")
    check_all_done(ended, 10, embedded_swift, base)
    assert "Policy: silver" in ended.out
    account = Account(embedded_swift)
    names = [f"{base}_000000_silver", f"{base}_000001_silver"]
    assert account.containers(base) == names
    assert [account("HEAD", name)[1]["X-Storage-Policy"] for name in names] == ["silver"] * 2
    run("-f", path, "-p", "gold").fine()
    assert account("HEAD", f"{base}_000000_gold")[1]["X-Storage-Policy"] == "gold"


def test_an_unknown_policy_is_reported_before_any_change(
    commands: Commands, run: Run, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base)
    line = run("-f", path, "-p", "lead").one_line(2)
    assert '"lead"' in line
    assert "gold, silver" in line
    assert requests(embedded_swift, base) == []


def test_a_scenario_of_stdin_with_credentials_of_the_environment_and_the_default_policy(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    swift = embedded_swift
    environment = {"ST_AUTH": swift.auth_url, "ST_USER": swift.user, "ST_KEY": swift.key}
    keys = {"container_count": 1, "operation_count": 20, **READS}
    text = json.dumps(scenario(container_base=base, name="vom Rohr é", **keys))
    ended = commands.run("-f", "-", workers=1, environment=environment, stdin=text)
    check_all_done(ended, 20, swift, base)
    assert ended.out.startswith("\nvom Rohr é")
    account = Account(swift)
    assert account.containers(base) == [f"{base}_000000"]
    assert account("HEAD", f"{base}_000000")[1]["X-Storage-Policy"] == "gold"


def test_a_run_ends_by_seconds_unless_operations_are_given(
    commands: Commands, run: Run, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, run_seconds=1, operation_count=1, **READS)
    ended = run("-f", path, "--think-time", 0.05).fine()
    stats = ended.stats
    assert stats.run.footer is not None
    assert stats.run.footer.ended == "complete"
    assert stats.run.footer.run_seconds >= 1
    reads = [r for r in requests(embedded_swift, base) if r.method == "GET" and r.object]
    count, errors, _ = ended.counted()
    assert (count, errors) == (sum(r.status < 300 for r in reads), 0)
    assert count > 1
    assert stats.run.lost == 0
    assert run("-f", path, "-o", "7").fine().counted()[:2] == (7, 0)


def test_the_embedded_swift_needs_no_credentials_and_is_removed(
    commands: Commands, base: str
) -> None:
    path = commands.scenario(container_base=base, operation_count=10, **READS)
    started = commands.start_run("-f", path, "--embedded-swift", workers=1)
    until("a Swift", lambda: started.children("ssbench.embedded"))
    (swift,) = started.children("ssbench.embedded")
    assert started.wait().fine().counted()[:2] == (10, 0)
    assert not swift.is_running()
    assert list(commands.place.glob("ssbench-swift-*")) == []


def test_a_mix_that_cannot_be_held_is_said_and_operations_of_weight_0_have_no_block(
    commands: Commands,
) -> None:
    weights = {"create": 0, "read": 1, "update": 0, "delete": 1}
    path = commands.scenario(operations=weights, initial_files={"tiny": 20})
    ended = commands.run("-f", path, "-o", 200, "--noop", workers=1).fine()
    blocks = [line for line in ended.out.splitlines() if line.isupper()]
    assert blocks[:3] == ["TOTAL", "READ", "DELETE"]
    assert not {"CREATE", "UPDATE"} & {*blocks}
    said = "WARNING: The mix of operations can't be held: 200 operations remove 100 objects"
    assert said in ended.err
    assert ended.err.index(said) < ended.err.index("Scenario run results")
    assert "The mix of operations can't be held" in ended.out, "in the report as well"


def test_a_profile_shows_where_master_and_workers_spend_cpu_time(
    commands: Commands,
) -> None:
    path = commands.scenario(operation_count=40_000)  # many times the 10 ms of a sample
    ended = commands.run("-f", path, "--noop", "--profile").fine()
    section = ended.out[ended.out.index("PROFILE") :]
    assert "reported no profile" not in section
    overheads = re.findall(r"^ *(?:master|workers) .* ([0-9.]+)$", section, re.MULTILINE)
    assert len(overheads) == 2
    assert all(0 < float(percent) < 10 for percent in overheads)
    for role in ("master", "workers"):  # whichever functions were the hottest
        table = rf"^Functions of the {role} with .*\n( .*\n)+? +[\d.]+ +[\d.]+ +\S+ \(.+:\d+\)$"
        assert re.search(table, section, re.MULTILINE), section
    profiles = ended.stats.run.profiles
    assert {*profiles} == {-1, 0, 1}
    for profile in profiles.values():
        assert any("(ssbench/" in stack for stack in profile.stacks)
