"""run-scenario against a real Swift: what it does there, and what it says of it."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path

import pytest

from ssbench.core.model import Phase
from ssbench.core.operations import CREATE, DELETE, READ, UPDATE
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import (
    Account,
    Commands,
    Ended,
    finished,
    is_initial,
    login,
    requests,
    scenario,
    unavailable,
    until,
)


@pytest.fixture
def base() -> str:
    """Containers of this test alone."""
    return f"run{secrets.token_hex(4)}"


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
op-count = 40
""")
    file.chmod(0o600)
    site = {"SSBENCH_CONFIG": str(file)}
    path = commands.scenario()
    ended = commands.run("-f", path, environment={**site, "SSBENCH_OP_COUNT": "50"}).fine()
    assert ended.counted() == (50, 0, 0)
    assert "3 users on" in ended.out
    assert given["-K"] not in ended.out + ended.err
    file.chmod(0o644)
    line = commands.run("-f", path, environment=site).one_line(2)
    assert "key: is secret, and others may read this file" in line
    assert given["-K"] not in line


def test_the_command_line_of_0_3_9(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    ended = commands.run(
        "-f", "scenarios/very_small.scenario", "-u", "4", "-c", "80", "-o", "613",
        "--pctile", "50", "--container-base", base, *login(embedded_swift),
    ).fine()  # fmt: skip
    assert ended.counted() == (613, 0, 0)
    assert "50%-ile" in ended.out
    assert "Worker count:   2   Concurrency:   4" in ended.out
    stats = ended.stats
    assert sum(finished(stats).values()) == 613
    for operation in (CREATE, READ, UPDATE, DELETE):
        counted = ended.counted(operation.name)
        assert counted == (stats.total(operation).count, 0, 0)
    assert stats.phase(Phase.POPULATE).count == 110
    account = Account(embedded_swift)
    assert account.containers(f"{base}_") == [f"{base}_{number:06d}" for number in range(80)]
    assert account.created(base, stats.run.run_id) == []
    assert len(account.objects(base)) == 110 - _initial_ones_deleted(embedded_swift, base)


def _initial_ones_deleted(swift: EmbeddedSwift, base: str) -> int:
    return sum(r.method == "DELETE" and is_initial(r) for r in requests(swift, base))


def test_the_report_agrees_with_the_server(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, crud_profile=[2, 3, 2, 1], operation_count=150)
    ended = commands.run("-f", path, *login(embedded_swift)).fine()
    stats, seen = ended.stats, requests(embedded_swift, base)
    run_id = stats.run.run_id
    counted = finished(stats)
    assert sum(counted.values()) == 150
    assert [r for r in seen if r.status >= 400 and r.method != "HEAD"] == []
    objects = [r for r in seen if r.object]
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


def test_head_and_post_run_in_a_mix(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    """Swift's POST replaces all metadata: what ssbench keeps there must survive it."""
    weights = {"create": 1, "read": 2, "update": 2, "head": 3, "post": 3}
    path = commands.scenario(
        container_base=base, crud_profile=None, operations=weights,
        operation_count=150, delete_after=600,
    )  # fmt: skip
    first = commands.run("-f", path, "--verify", *login(embedded_swift)).fine()
    seen = [r for r in requests(embedded_swift, base) if r.object]
    counted = finished(first.stats)
    for name in ("POST", "HEAD"):
        good = [r for r in seen if r.method == name and r.status < 300]
        assert len(good) == counted[name] > 0
    # Swift may answer 503 while a POST replaces the metadata of the only replica.
    assert {r.method for r in seen if r.status >= 499} <= {"GET", "HEAD", "POST"}
    before = len(requests(embedded_swift, base))
    assert first.counted() == (150, 0, unavailable(embedded_swift, base))
    account = Account(embedded_swift)
    for name in account.objects(base):
        assert "x-delete-at" in account("HEAD", name)[1]
    second = commands.run("-f", path, "--verify", *login(embedded_swift)).fine()
    assert second.counted() == (150, 0, unavailable(embedded_swift, base, before))
    assert second.stats.phase(Phase.POPULATE).errors == 0


def test_an_updated_and_posted_object_does_not_count_as_initial(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    weights = {"update": 1, "post": 1}
    path = commands.scenario(
        container_base=base, crud_profile=None, operations=weights, operation_count=60
    )
    commands.run("-f", path, *login(embedded_swift)).fine()
    account = Account(embedded_swift)
    before = len(requests(embedded_swift, base))
    changed = {
        name for name in account.objects(base)
        if "x-object-meta-ssbench-version" in account("HEAD", name)[1]
    }  # fmt: skip
    assert changed
    reads = commands.scenario(container_base=base, crud_profile=[0, 1, 0, 0])
    commands.run("-f", reads, "--verify", *login(embedded_swift)).fine()
    uploads = [r for r in requests(embedded_swift, base)[before:] if r.method == "PUT" and r.object]
    assert {f"{r.container}/{r.object}" for r in uploads} == changed


def test_a_second_run_uploads_no_initial_object(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, crud_profile=[1, 2, 0, 0])
    commands.run("-f", path, "--seed", "1", *login(embedded_swift)).fine()
    before = len(requests(embedded_swift, base))
    second = commands.run("-f", path, "--seed", "2", *login(embedded_swift)).fine()
    seen = [r for r in requests(embedded_swift, base)[before:] if r.object]
    assert len({r.object for r in seen if r.method == "HEAD"}) == 10
    assert [r for r in seen if r.method == "PUT" and is_initial(r)] == []
    assert second.stats.phase(Phase.POPULATE).count == 10
    assert second.counted() == (60, 0, unavailable(embedded_swift, base, before))


def test_missing_or_wrong_initial_objects_are_uploaded(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, crud_profile=[0, 1, 0, 0], operation_count=20)
    commands.run("-f", path, *login(embedded_swift)).fine()
    account = Account(embedded_swift)
    missing, wrong, *_ = account.objects(base)
    account("DELETE", missing)
    account("PUT", wrong, b"")
    before = len(requests(embedded_swift, base))
    ended = commands.run("-f", path, *login(embedded_swift)).fine()
    uploads = [r for r in requests(embedded_swift, base)[before:] if r.method == "PUT" and r.object]
    assert {f"{r.container}/{r.object}" for r in uploads} == {missing, wrong}
    assert ended.counted() == (20, 0, 0)


@pytest.mark.parametrize("keep", [False, True], ids=["deletes", "keeps"])
def test_created_objects_are_deleted_unless_kept_by_option(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str, keep: bool
) -> None:
    path = commands.scenario(container_base=base, crud_profile=[2, 1, 0, 1])
    options = ["-k"] if keep else []
    stats = commands.run("-f", path, *options, *login(embedded_swift)).fine().stats
    kept = Account(embedded_swift).created(base, stats.run.run_id)
    of_the_run = f"_{stats.run.run_id}_"
    seen = [r for r in requests(embedded_swift, base) if of_the_run in r.object]
    made = {r.object for r in seen if r.method == "PUT"}
    gone = {r.object for r in seen if r.method == "DELETE"}
    assert {name.partition("/")[2] for name in kept} == made - gone
    assert stats.run.left_behind == len(kept)
    if keep:
        assert kept
    else:
        assert made == gone


def test_containers_get_the_policy(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, container_count=2)
    ended = commands.run("-f", path, "-p", "silver", *login(embedded_swift)).fine()
    assert ended.counted() == (60, 0, unavailable(embedded_swift, base))
    assert "Policy: silver" in ended.out
    account = Account(embedded_swift)
    names = [f"{base}_000000_silver", f"{base}_000001_silver"]
    assert account.containers(base) == names
    assert [account("HEAD", name)[1]["X-Storage-Policy"] for name in names] == ["silver"] * 2
    commands.run("-f", path, "-p", "gold", *login(embedded_swift)).fine()
    assert account("HEAD", f"{base}_000000_gold")[1]["X-Storage-Policy"] == "gold"


def test_the_default_policy_has_no_suffix(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, container_count=1, operation_count=10)
    commands.run("-f", path, *login(embedded_swift)).fine()
    account = Account(embedded_swift)
    assert account.containers(base) == [f"{base}_000000"]
    assert account("HEAD", f"{base}_000000")[1]["X-Storage-Policy"] == "gold"


def test_an_unknown_policy_is_reported_before_any_change(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base)
    line = commands.run("-f", path, "-p", "lead", *login(embedded_swift)).one_line(2)
    assert '"lead"' in line
    assert "gold, silver" in line
    assert requests(embedded_swift, base) == []


def test_a_scenario_from_stdin(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    text = json.dumps(scenario(container_base=base, name="vom Rohr é"))
    ended = commands.run("-f", "-", *login(embedded_swift), stdin=text).fine()
    assert ended.out.startswith("\nvom Rohr é")
    assert ended.counted() == (60, 0, unavailable(embedded_swift, base))


def test_a_faulty_scenario_sends_no_request(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    text = json.dumps(scenario(container_base=base, user_count=0, colour="red"))
    ended = commands.run("-f", "-", *login(embedded_swift), stdin=text).fine(2)
    assert "user_count" in ended.err
    assert "colour" in ended.err
    assert requests(embedded_swift, base) == []
    assert not ended.logs


def test_a_run_by_seconds(commands: Commands, embedded_swift: EmbeddedSwift, base: str) -> None:
    path = commands.scenario(container_base=base, crud_profile=[0, 1, 0, 0])
    ended = commands.run("-f", path, "-r", "2", *login(embedded_swift)).fine()
    stats = ended.stats
    assert stats.run.footer is not None
    assert stats.run.footer.ended == "complete"
    assert stats.run.footer.run_seconds == pytest.approx(2, abs=0.7)
    reads = sum(r.method == "GET" and r.object != "" for r in requests(embedded_swift, base))
    count, errors, _ = ended.counted()
    assert (count, errors) == (reads, 0)
    assert stats.run.lost == 0


def test_run_seconds_override_operation_count(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    keys = {"container_base": base, "crud_profile": [0, 1, 0, 0], "run_seconds": 1}
    path = commands.scenario(**keys, operation_count=1)
    assert commands.run("-f", path, *login(embedded_swift)).fine().counted()[0] > 4
    ended = commands.run("-f", path, "-o", "7", *login(embedded_swift)).fine()
    assert ended.counted() == (7, 0, 0)


def test_one_operation(commands: Commands, embedded_swift: EmbeddedSwift, base: str) -> None:
    path = commands.scenario(container_base=base, operation_count=1, crud_profile=[0, 1, 0, 0])
    assert commands.run("-f", path, *login(embedded_swift)).fine().counted() == (1, 0, 0)


def test_the_same_seed_draws_the_same_operations(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    counts = []
    for number in range(2):
        # So many objects that none is ever wanting: which one is taken is a matter of time.
        keys = {"container_base": f"{base}x{number}", "initial_files": {"tiny": 60}}
        path = commands.scenario(**keys, operation_count=80)
        ended = commands.run("-f", path, "--seed", "7", *login(embedded_swift)).fine()
        counts.append(finished(ended.stats))
        assert "Seed: 7 " in ended.out
    assert counts[0] == counts[1]


def test_a_quiet_run_can_be_reported_later(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base)
    started = commands.start_run("-q", "-R", "-f", path, *login(embedded_swift))
    ended = started.wait().fine()
    assert (ended.out, ended.err) == ("", "")
    again = commands.master("report-scenario", "-s", ended.stat_file).wait().fine()
    assert again.counted() == (60, 0, unavailable(embedded_swift, base))
    as_json = commands.master("report-scenario", "--json", "-s", ended.stat_file).wait().fine()
    assert json.loads(as_json.out)
    as_csv = commands.master("report-scenario", "--csv", "-s", ended.stat_file).wait().fine()
    names, values = as_csv.out.splitlines()
    assert len(names.split(",")) == len(values.split(","))


def test_each_operation_prints_one_progress_character(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, operation_count=100)
    ended = commands.run("-f", path, "--progress", "chars", *login(embedded_swift)).fine()
    lines = re.findall(r"^[.oO*_|^@X]+$", ended.err, re.MULTILINE)
    assert [len(line) for line in lines] == [78, 22]


def test_the_embedded_swift_needs_no_credentials_and_is_removed(
    commands: Commands, base: str
) -> None:
    path = commands.scenario(container_base=base)
    started = commands.start_run("-f", path, "--embedded-swift")
    until("a Swift", lambda: started.children("ssbench.embedded"))
    (swift,) = started.children("ssbench.embedded")
    assert started.wait().fine().counted() == (60, 0, 0)
    assert not swift.is_running()
    assert list(commands.place.glob("ssbench-swift-*")) == []


def test_a_noop_run(commands: Commands) -> None:
    ended = commands.run("-f", "very_small", "-u", "24", "-o", "3000", "--noop").fine()
    assert ended.counted() == (3000, 0, 0)
    stats = ended.stats
    assert stats.run.header is not None
    assert stats.run.header.driver == "noop"
    assert stats.errors == {}


def test_missing_credentials_list_the_ways_to_give_them(commands: Commands) -> None:
    path = commands.scenario()
    said = commands.run("-f", path).fine(2).err
    for word in ("-A", "OS_AUTH_URL", "--embedded-swift"):
        assert word in said


def test_credentials_of_the_environment(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    swift = embedded_swift
    environment = {"ST_AUTH": swift.auth_url, "ST_USER": swift.user, "ST_KEY": swift.key}
    path = commands.scenario(container_base=base)
    ended = commands.run("-f", path, environment=environment)
    assert ended.fine().counted() == (60, 0, unavailable(embedded_swift, base))


def test_a_given_token_and_storage_url_need_no_login(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    account = Account(embedded_swift)
    path = commands.scenario(container_base=base)
    options = ["--os-auth-token", account.token, "--os-storage-url", account.url]
    ended: Ended = commands.run("-f", path, *options)
    assert ended.fine().counted() == (60, 0, unavailable(embedded_swift, base))


def test_a_profile_shows_where_master_and_workers_spend_cpu_time(
    commands: Commands, embedded_swift: EmbeddedSwift, base: str
) -> None:
    path = commands.scenario(container_base=base, operation_count=300)
    ended = commands.run("-f", path, "--profile", *login(embedded_swift)).fine()
    section = ended.out[ended.out.index("PROFILE") :]
    assert "reported no profile" not in section
    overheads = re.findall(r"^ *(?:master|workers) .* ([0-9.]+)$", section, re.MULTILINE)
    assert len(overheads) == 2
    assert all(0 < float(percent) < 10 for percent in overheads)
    assert "Hub.run (gevent/hub.py:" in section
    assert {index for _run_id, index in ended.stats.run.profiles} == {-1, 0, 1}
