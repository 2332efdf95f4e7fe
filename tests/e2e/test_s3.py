"""S3 as its users run it: two workers against Swift's s3api, and against versitygw."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.core.operations import CREATE_IF_ABSENT, GET_TAGS, UPDATE_IF_MATCH
from tests.commands.test_converted import WORKLOAD
from tests.e2e.commands import (
    Commands,
    Started,
    finished,
    is_gone,
    rows_of,
    stats_of,
    until,
    workers_of,
)
from tests.e2e.test_secrets import Watcher, none_has, nowhere
from tests.fakes.scripted_server import ScriptedServer
from tests.fakes.served_pool import dripping
from tests.servers.s3 import S3Server, SwiftS3, VersityGW

SECRET = "Hv8-secret-key-of-the-s3-tests"
OPERATIONS = {
    "create": 4, "read": 4, "update": 1, "delete": 1, "head": 1, "post": 1, "list": 1,
    "list_all": 1, "list_random": 1, "copy": 1, "range_read": 1, "bulk_delete": 1,
}  # fmt: skip


PART = 5 << 20  #: bytes of the smallest part that S3 takes
LARGE = {
    "sizes": [
        {"name": "tiny", "size_min": 100, "size_max": 2000},
        {"name": "large", "size_min": PART + 1, "size_max": PART + 2000},
    ],
    "initial_files": {"tiny": 10, "large": 2},
    "large_object": {"above": PART, "segment": PART, "parallel": 2},
}  # fmt: skip


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with SwiftS3(SECRET) as server:
        server.make_bucket("bench")
        yield server


@pytest.fixture(scope="module")
def versitygw() -> Iterator[S3Server]:
    with VersityGW() as server:
        server.make_bucket("bench")
        yield server


@pytest.fixture(params=["s3", pytest.param("versitygw", marks=pytest.mark.program("versitygw"))])
def each_s3(request: pytest.FixtureRequest) -> S3Server:
    server = request.getfixturevalue(request.param)
    assert isinstance(server, S3Server)
    return server


def scenario(commands: Commands, base: str, **keys: object) -> Path:
    given = {"operations": OPERATIONS, "container_base": base, "bulk_count": 3, **keys}
    return commands.scenario(**given)


@pytest.mark.program("versitygw")
def test_tags_and_conditional_writes_of_a_run(commands: Commands, versitygw: S3Server) -> None:
    """Three objects and eight users: some updates come too late, and of three rivals two."""
    tags = {"put_tags": 2, "get_tags": 2}
    races = {"create_if_absent": 3, "update_if_match": 4, "delete": 0.5, "bulk_delete": 0.1}
    path = scenario(
        commands, "races", operations={"read": 1, **tags, **races}, operation_count=120,
        user_count=8, initial_files={"tiny": 3}, rivals=3,
    )  # fmt: skip
    given = {"environment": versitygw.environment}
    words = ["-f", path, *versitygw.options, "--threshold", "errors < 1"]
    ended = commands.run(*words, workers=2, **given).fine()
    total = ended.stats.total()
    assert total.errors == 0
    assert total.count + total.lost_races == 120
    created, updated = (ended.stats.total(row) for row in (CREATE_IF_ABSENT, UPDATE_IF_MATCH))
    assert created.lost_races >= created.count > 0
    assert updated.count > 0
    assert ended.stats.total(GET_TAGS).items > 0
    assert f"; {total.lost_races} lost races" in ended.out
    verified = commands.run(*words[:-2], "-o", 40, "--verify", workers=2, **given).fine()
    assert verified.counted()[1] == 0
    commands.master("cleanup-containers", "-b", "races", *versitygw.options, **given).wait().fine()
    assert not [name for name in versitygw.contents() if name.startswith("races")]


@pytest.mark.program("versitygw")
@pytest.mark.parametrize("own", [[], ["--s3-bucket", "versions"]], ids=["buckets", "prefixes"])
def test_clean_up_deletes_versions_and_names_what_is_locked(
    commands: Commands, versitygw: S3Server, own: list[str]
) -> None:
    place, client = [*versitygw.options, *own], versitygw.client()
    given = {"environment": versitygw.environment}
    path = scenario(commands, "kept", container_count=1)
    bucket = own[1] if own else "kept-000000"
    if own:
        versitygw.make_bucket(bucket)
    run = ["-f", path, "-o", 30, *place]
    commands.run(*run, workers=1, **given).fine()
    client.put_object(Bucket=bucket, Key="other/object", Body=b"of somebody else")
    enabled = {"Status": "Enabled"}
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=enabled)
    ended = commands.run(*run, "--keep-objects", workers=1, **given).fine()

    def versions() -> list[str]:
        found = client.list_object_versions(Bucket=bucket)
        return [each["Key"] for each in (*found["Versions"], *found.get("DeleteMarkers", ()))]

    kept, version = next(
        (each["Key"], each["VersionId"])
        for each in client.list_object_versions(Bucket=bucket)["Versions"]
        if "tiny" in each["Key"] and each["VersionId"] != "null"
    )
    until = datetime.now(timezone.utc) + timedelta(hours=1)
    locked = {"ObjectLockEnabled": "Enabled"}
    client.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=locked)
    retention = {"Mode": "GOVERNANCE", "RetainUntilDate": until}
    client.put_object_retention(Bucket=bucket, Key=kept, VersionId=version, Retention=retention)
    cleanup = ["cleanup-containers", "-b", "kept", *place]
    ended = commands.master(*cleanup, **given).wait()
    assert ended.status == 1
    assert "keeps versions of replaced and deleted objects: these are deleted, too" in ended.err
    name = kept.removeprefix("kept_000000/")
    assert (
        f"kept_000000: the store keeps 1 version of objects: {name}: AccessDenied: locked"
        in ended.err
    )
    assert f"until {until:%Y-%m-%dT%H:%M:%S}" in ended.err
    if own:
        assert "other/object" in versions()
    client.delete_object(Bucket=bucket, Key=kept, VersionId=version, BypassGovernanceRetention=True)
    commands.master(*cleanup, **given).wait().fine()
    if own:
        assert set(versions()) == {"other/object"}
    else:
        assert "kept-000000" not in versitygw.contents()


def check_operations(
    commands: Commands, server: S3Server, started: Started, count: int, *options: str
) -> None:
    """A run that leaves no secret and, after clean-up, nothing of containers "all"."""
    ended = started.wait().fine()
    errors = [row for row in rows_of(ended.results) if row["error"]]
    assert ended.counted()[:2] == (count, 0), errors
    assert len(workers_of(ended.results)) == 2
    nowhere(commands.place, server.secret_key)
    words = ["cleanup-containers", "-b", "all", *server.options, *options]
    cleaned = commands.master(*words, environment=server.environment)
    assert "3 containers" in cleaned.wait().fine().out
    kept = server.contents()
    assert not [name for name in kept["bench"] if name.startswith("all_")]
    assert not any(bucket.startswith("all") for bucket in kept)


@pytest.mark.parametrize(
    ("words", "operations"),
    [
        (["--from-cosbench", "w.xml"], {"READ", "CREATE"}),
        (["--from-warp", "warp mixed --duration=1s --objects 40 --obj.size=4KiB --concurrent=4"],
         {"READ", "HEAD", "CREATE", "DELETE"}),
    ],
)  # fmt: skip
def test_converted_workloads_run(
    commands: Commands, s3: S3Server, words: list[str], operations: set[str]
) -> None:
    (commands.place / "w.xml").write_bytes(WORKLOAD)
    words = [str(commands.place / each) if each == "w.xml" else each for each in words]
    commands.call("make-scenario", *words, "--output", commands.place / "made.scenario").fine()
    place = [*s3.options, "--s3-bucket", "bench", "--container-base", "made"]
    run = ["-f", commands.place / "made.scenario", "-o", 60, "--seed", 1, "--verify", *place]
    ended = commands.start_run(*run, environment=s3.environment).wait().fine()
    assert ended.counted()[1] == 0
    assert {name for name, n in finished(stats_of(ended.results)).items() if n} == operations


def test_two_workers_run_all_operations_on_objects_in_parts_and_show_no_secret(
    commands: Commands, each_s3: S3Server
) -> None:
    path = scenario(commands, "all", operation_count=50, **LARGE)
    words = ["-v", "-f", path, "--verify", "--profile", *each_s3.options, "--s3-bucket", "bench"]
    started = commands.start_run(*words, environment=each_s3.environment, program=True)
    with Watcher(started) as watcher:
        check_operations(commands, each_s3, started, 50, "--s3-bucket", "bench")
    none_has(watcher.public, each_s3.secret_key)
    none_has(watcher.inherited, each_s3.secret_key, "AWS_SECRET_ACCESS_KEY")
    assert started.stat_file is not None
    assert set(finished(stats_of(started.stat_file))) == {name.upper() for name in OPERATIONS}


@pytest.mark.parametrize("own", [
    [], ["--s3-bucket", "bench", "--s3-style", "virtual", "--s3-payload", "unsigned"],
], ids=["buckets", "virtual"])  # fmt: skip
def test_containers_can_be_buckets_and_buckets_part_of_the_host_name(
    commands: Commands, s3: S3Server, own: list[str]
) -> None:
    path = scenario(commands, "all", operation_count=20)
    words = ["-v", "-f", path, "--verify", *s3.options, *own]
    started = commands.start_run(*words, environment=s3.environment)
    check_operations(commands, s3, started, 20, *own)


def initial_objects(server: S3Server) -> list[str]:
    """Keys of the first initial large object."""
    return [key for key in server.contents()["bench"] if key.endswith("/large_000000")]


def test_a_lost_worker_and_a_killed_master_leave_no_object_and_no_open_upload(
    commands: Commands, each_s3: S3Server
) -> None:
    given = {"environment": each_s3.environment}
    options = [*each_s3.options, "--s3-bucket", "bench"]
    path = scenario(
        commands, "left", operation_count=20, bulk_count=None, user_count=3,
        operations={"create": 3, "update": 3, "read": 1, "copy": 1},
        **{**LARGE, "initial_files": {"tiny": 1, "large": 3}},
    )  # fmt: skip
    client = each_s3.client()

    def open_uploads() -> list[str]:
        found = client.list_multipart_uploads(Bucket="bench", Prefix="left_")
        return [upload["Key"] for upload in found.get("Uploads", ())]

    started = commands.start_run("-f", path, "--think-time", 0.3, *options, **given)
    until("an open upload", open_uploads)
    started.workers()[0].send_signal(signal.SIGKILL)
    until("an initial object", lambda: initial_objects(each_s3))
    client.create_multipart_upload(Bucket="bench", Key=initial_objects(each_s3)[0])
    lost = started.wait().fine(ExitStatus.WORKERS_LOST)
    assert lost.counted()[0] > 10
    assert not open_uploads(), "also of initial objects"
    assert re.search(r"Aborted \d uploads? that lost workers had left open", lost.err)

    more = ["-o", 10**6, "--think-time", 0.05]
    started = commands.start_run("-f", path, *more, *options, **given)
    until("objects", lambda: started.on_disk("CREATE") > 0)
    until("an open upload", open_uploads)
    workers = started.workers()
    started.kill()
    until("the workers' end", lambda: all(is_gone(worker.pid) for worker in workers))
    others = ["left_000000/large_0123456789_000003", "left_000009/large_000003"]
    for key in others:
        client.create_multipart_upload(Bucket="bench", Key=key)
    client.put_object(Bucket="bench", Key="left_000000/somebody_elses")
    for stat_file in (lost.results, started.stat_file):
        words = ["cleanup-containers", "--resume-cleanup", stat_file, *options]
        resumed = commands.master(*words, **given).wait().fine()
    assert re.search("Deleted .* objects? .*of run", resumed.out)
    left = {key for key in each_s3.contents()["bench"] if key.startswith("left_")}
    names = {key.partition("/")[2] for key in left}
    assert names == {".ssbench", "somebody_elses", "tiny_000000"} | {
        f"large_{number:06d}" for number in range(3)
    }
    assert sorted(open_uploads()) == others
    commands.master("cleanup-containers", "-b", "left", *options, **given).wait().fine()
    assert open_uploads() == others[1:], "in a container without the mark"


def test_a_wrong_secret_ends_the_run_at_once_and_is_not_shown(
    commands: Commands, s3: S3Server
) -> None:
    wrong = {**s3.environment, "AWS_SECRET_ACCESS_KEY": "wr0ng-secret"}
    path = scenario(commands, "wrong")
    ended = commands.run("-f", path, *s3.options, workers=1, environment=wrong)
    assert "SignatureDoesNotMatch" in ended.one_line()
    line = ["--s3-access-key", s3.access_key, "--s3-secret-key", SECRET]
    path = scenario(commands, "line", operation_count=5)
    commands.run("-v", "-f", path, *s3.options, *line, workers=1).fine()
    nowhere(commands.place, SECRET, "wr0ng-secret")


def test_a_bucket_that_does_not_exist_is_named(commands: Commands, s3: S3Server) -> None:
    options = [*s3.options, "--s3-bucket", "nobodys"]
    path = scenario(commands, "none")
    ended = commands.run("-f", path, *options, workers=1, environment=s3.environment)
    assert "there is no bucket nobodys: create it" in ended.one_line(2)


def test_two_endpoints_share_the_load_over_single_connections_in_the_region_that_the_store_names(
    commands: Commands, s3: S3Server
) -> None:
    """With headers of the scenario, and Expect: 100-continue."""
    other = ["--s3-endpoint", f"{s3.url}/", "--s3-region", "eu-west-1"]
    path = scenario(
        commands, "both", operation_count=30, keep_alive=False, expect_continue=True,
        headers={"create": {"x-amz-meta-color": "blue"}, "X-Note": "all"},
    )  # fmt: skip
    options = [*s3.options, *other, "--s3-bucket", "bench"]
    ended = commands.run("-f", path, *options, workers=1, environment=s3.environment).fine()
    assert ended.counted()[:2] == (30, 0)
    assert {row["url"] for row in rows_of(ended.results)} == {0, 1}


def test_parts_below_5_mib_are_refused_before_the_run(commands: Commands, s3: S3Server) -> None:
    small = {"above": PART, "segment": PART - 1}
    path = scenario(commands, "parts", **{**LARGE, "large_object": small})
    options = [*s3.options, "--s3-bucket", "bench"]
    ended = commands.run("-f", path, *options, workers=1, environment=s3.environment).fine(2)
    assert "large_object.segment: 5242879 is less than the 5242880 bytes" in ended.err
    assert not any(key.startswith("parts") for key in s3.contents()["bench"])


@pytest.mark.program("versitygw")
@pytest.mark.parametrize(
    ("name", "place"),
    [("crc32c", "header"), ("crc32c", "trailer"), ("crc64nvme", "trailer"), ("sha256", "header")],
)
def test_versitygw_keeps_the_checksums_of_objects_and_parts(
    commands: Commands, versitygw: S3Server, name: str, place: str
) -> None:
    base = f"{name}-{place}"
    path = scenario(commands, base, **{
        **LARGE, "operation_count": 24, "bulk_count": None,
        "operations": {"create": 1, "read": 2, "update": 1, "copy": 1, "range_read": 1},
    })  # fmt: skip
    words = ["--verify", "-k", "--checksum", name, "--checksum-in", place, "--s3-bucket", "bench"]
    ended = commands.run(
        "-f", path, *versitygw.options, *words, workers=1, environment=versitygw.environment
    ).fine()
    assert ended.counted()[:2] == (24, 0)
    assert f"Requests: checksum {name}" in ended.out
    client, element = versitygw.client(), f"Checksum{name.upper()}"
    kinds = set()
    for key in versitygw.contents()["bench"]:
        if key.startswith(base) and not key.endswith(".ssbench"):
            head = client.head_object(Bucket="bench", Key=key, ChecksumMode="ENABLED")
            kinds.add((head.get("ChecksumType"), element in head))
    whole = ("FULL_OBJECT", True)
    assert whole in kinds
    assert name == "crc64nvme" or ("COMPOSITE", True) in kinds


def test_ctrl_c_ends_what_asks_for_the_keys(commands: Commands) -> None:
    """Of this process alone, as kill sends it: the child has a terminal's Ctrl-C of its own."""
    with ScriptedServer(dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x")) as service:
        environment = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{service.port}/keys",
            "AWS_CONFIG_FILE": "/dev/null",
        }
        words = ["--storage", "s3", "--s3-endpoint", "http://127.0.0.1:9"]
        master = commands.start_run("-f", commands.scenario(), *words, environment=environment)
        until("it asks for the keys", lambda: service.connections > 0)
        (child,) = master.children("by_botocore:answer")
        master.interrupt()
        assert "interrupted by SIGINT" in master.wait().one_line(ExitStatus.INTERRUPTED)
        until("the child has ended", lambda: is_gone(child.pid))
