"""Versions of objects and locks on them, as users run them: Swift, Swift's s3api, and versitygw."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, finished, login, until
from tests.servers.s3 import RcloneS3, S3Server, SwiftS3, VersityGW

OPERATIONS = {
    "create": 1, "read": 2, "update": 4, "delete": 1, "read_version": 3, "delete_version": 1,
}  # fmt: skip


class Store(NamedTuple):
    """A server, and what its user sees of versions in a container."""

    options: list[str]
    environment: dict[str, str]
    #: Name of an object, and "newest", "older" or "marker", of all versions and delete markers.
    versions: Callable[[str], set[tuple[str, str]]]
    containers: Callable[[], list[str]]


@contextmanager
def of_s3(server: S3Server) -> Iterator[Store]:
    def versions(container: str) -> set[tuple[str, str]]:
        pages = server.client().get_paginator("list_object_versions")
        found = pages.paginate(Bucket=container.replace("_", "-")).build_full_result()
        entries = {
            (e["Key"], "newest" if e["IsLatest"] else "older") for e in found.get("Versions", ())
        }
        entries |= {(e["Key"], "marker") for e in found.get("DeleteMarkers", ())}
        return {each for each in entries if each[0] != ".ssbench"}

    with server:
        yield Store(server.options, server.environment, versions, lambda: [*server.contents()])


@contextmanager
def of_swift(swift: EmbeddedSwift) -> Iterator[Store]:
    account = Account(swift)

    def versions(container: str) -> set[tuple[str, str]]:
        body = account("GET", f"{container}?versions&format=json")[2]
        return {(each["name"], kind(each)) for each in json.loads(body)}

    def kind(entry: dict[str, object]) -> str:
        if entry["content_type"] == "application/x-deleted;swift_versions_deleted=1":
            return "marker"
        return "newest" if entry["is_latest"] else "older"

    yield Store(login(swift), {}, versions, account.containers)


STORES = {"swift": of_swift, "swift-s3": lambda swift: of_s3(SwiftS3()),
          "versitygw": lambda swift: of_s3(VersityGW())}  # fmt: skip
PARAMS = ["swift", "swift-s3", pytest.param("versitygw", marks=pytest.mark.program("versitygw"))]


@pytest.fixture(params=PARAMS, scope="module")
def store(request: pytest.FixtureRequest, embedded_swift: EmbeddedSwift) -> Iterator[Store]:
    with STORES[request.param](embedded_swift) as opened:
        yield opened


def scenario(commands: Commands, base: str, **keys: object) -> Path:
    given = {"operations": OPERATIONS, "operation_count": 80, "versioning": True, **keys}
    return commands.scenario(container_base=base, container_count=2, **given)


def expect_initial_objects_only(store: Store, base: str) -> None:
    """The containers of a base hold the newest versions of initial objects that are there, and
    nothing else."""
    found = store.versions(f"{base}_000000") | store.versions(f"{base}_000001")
    others = {(name, kind) for name, kind in found if name.count("_") > 1 or kind != "newest"}
    assert others == set()


def test_versions_are_read_deleted_verified_and_cleaned_up(
    commands: Commands, store: Store
) -> None:
    given = {"environment": store.environment}
    words = ["-f", scenario(commands, "vers"), "--verify", *store.options]
    ended = commands.run(*words, workers=2, **given).fine()
    assert ended.counted()[:2] == (80, 0)
    done = finished(ended.stats)
    assert done["READ_VERSION"] > 5
    assert done["DELETE_VERSION"] > 0
    report = commands.call("report-scenario", "-s", ended.results, "--json").fine().out
    assert '"READ_VERSION"' in report
    assert '"versioning": true' in report
    expect_initial_objects_only(store, "vers")
    commands.master("cleanup-containers", "-b", "vers", *store.options, **given).wait().fine()
    assert not [name for name in store.containers() if name.startswith("vers")]


def test_versions_of_objects_in_parts(commands: Commands, store: Store) -> None:
    """In S3; Swift would have deleted their segments, and its s3api names no version of them."""
    given = {"environment": store.environment}
    size, part = 6_000_000, "5MiB"
    path = scenario(
        commands, "inparts", large_object={"above": part, "segment": part}, operation_count=30,
        operations={**OPERATIONS, "update": 8, "read_version": 8},
        sizes=[{"name": "tiny", "size_min": size, "size_max": size}], initial_files={"tiny": 4},
    )  # fmt: skip
    words = ["-f", path, "--verify", *store.options]
    if not store.environment:
        ended = commands.call_run(*words)
        assert ended.status == ExitStatus.USAGE
        assert "large_object: the segments of an older version are deleted" in ended.err
        return
    ended = commands.run(*words, **given).fine()
    assert ended.counted()[:2] == (30, 0)
    if SwiftS3.access_key in store.environment.values():
        assert "operations found no object" in ended.out
    else:
        assert finished(ended.stats)["READ_VERSION"] > 2
    expect_initial_objects_only(store, "inparts")
    commands.master("cleanup-containers", "-b", "inparts", *store.options, **given).wait().fine()
    assert not [name for name in store.containers() if name.startswith("inparts")]


def test_a_run_that_was_killed_leaves_no_version_after_clean_up(
    commands: Commands, store: Store
) -> None:
    given = {"environment": store.environment}
    path = scenario(commands, "left", operation_count=None, run_seconds=600)
    started = commands.start_run("-f", path, *store.options, workers=1, **given)
    until("versions are read", lambda: started.on_disk("READ_VERSION"))
    started.kill()
    words = ["cleanup-containers", "--resume-cleanup", started.stat_file, *store.options]
    planned = commands.call(*words, "--dry-run", **given).fine()
    assert re.search(r"Would delete \d+ objects and \d+ versions of run", planned.out)
    commands.call(*words, "--yes", **given).fine()
    expect_initial_objects_only(store, "left")
    assert re.match("Nothing (is|was) left of run", commands.call(*words, **given).fine().out)


@pytest.mark.program("versitygw")
@pytest.mark.parametrize("mode", ["governance", "compliance"])
def test_clean_up_waits_for_short_locks(commands: Commands, mode: str) -> None:
    operations = {"create": 2, "update": 2, "read": 1, "delete": 1}
    lock = {"seconds": 5, "mode": mode}
    path = scenario(commands, "lock", operations=operations, object_lock=lock, operation_count=40)
    with of_s3(VersityGW()) as store:
        given = {"environment": store.environment}
        ended = commands.run("-f", path, *store.options, workers=1, **given).fine()
        assert ended.counted()[:2] == (40, 0)
        who = "nobody" if mode == "compliance" else "nobody without a permission for that"
        assert f"object_lock: {who} can delete what this run uploads for 5 s after" in ended.err
        assert "Waiting until the locks of this run's versions end" in ended.err
        expect_initial_objects_only(store, "lock")


@pytest.mark.program("versitygw")
def test_what_is_locked_for_long_is_named(commands: Commands) -> None:
    operations = {"create": 1}
    lock = {"seconds": 3600}
    path = scenario(commands, "long", operations=operations, object_lock=lock, operation_count=8)
    with of_s3(VersityGW()) as store:
        given = {"environment": store.environment}
        ended = commands.run("-f", path, *store.options, workers=1, **given).fine()
        assert "; cleanup-containers -b long does it then" in ended.err
        assert re.search(
            r"8 versions of this run could not be deleted \(long_00000\d/tiny_[0-9a-f]+_\d+: a"
            r" version of it stays: AccessDenied: locked \(GOVERNANCE\) until 20",
            ended.err,
        )
        assert len(store.versions("long_000000") | store.versions("long_000001")) > 10


@pytest.mark.program("versitygw")
def test_a_bucket_of_the_user_is_not_changed(commands: Commands) -> None:
    path = scenario(commands, "mine", operation_count=40)
    server = VersityGW()
    with of_s3(server) as store:
        given = {"environment": store.environment}
        place = [*store.options, "--s3-bucket", "bench"]
        server.make_bucket("bench")
        words = ["-f", path, *place]
        refused = commands.run(*words, workers=1, **given).fine(1).err
        assert "versioning of bucket bench is off, and not ours to change: turn it on" in refused
        assert server.contents() == {"bench": []}, "nor a mark of ours"
        client = server.client()
        suspended = {"Status": "Suspended"}
        client.put_bucket_versioning(Bucket="bench", VersioningConfiguration=suspended)
        assert (
            "of bucket bench is suspended" in commands.run(*words, workers=1, **given).fine(1).err
        )
        client.put_object(Bucket="bench", Key="tiny_000000", Body=b"of somebody else")
        enabled = {"Status": "Enabled"}
        client.put_bucket_versioning(Bucket="bench", VersioningConfiguration=enabled)
        client.put_object(Bucket="bench", Key="tiny_000000", Body=b"of somebody else, again")
        commands.run(*words, workers=1, **given).fine()
        kept = {key for key, _ in store.versions("bench")}
        assert {key for key in kept if key.count("_") > 2} == set()
        commands.master("cleanup-containers", "-b", "mine", *place, **given).wait().fine()
        assert store.versions("bench") == {("tiny_000000", "newest"), ("tiny_000000", "older")}
        put = ["bench", "put", "mixed", "--count", 4, *place, "--workers", 1]
        warned = commands.master(*put, **given).wait().fine().err
        assert "of replaced and deleted objects: those of this run stay until" in warned


@pytest.mark.program("versitygw")
def test_a_bucket_with_versions_of_deleted_objects_is_not_taken_for_empty(
    commands: Commands,
) -> None:
    """With a mark of ours, a clean-up would delete them for good."""
    server = VersityGW()
    with of_s3(server) as store:
        server.make_bucket("theirs")
        client = server.client()
        enabled = {"Status": "Enabled"}
        client.put_bucket_versioning(Bucket="theirs", VersioningConfiguration=enabled)
        client.put_object(Bucket="theirs", Key="photo", Body=b"to be had back")
        client.delete_object(Bucket="theirs", Key="photo")
        before = store.versions("theirs")
        put = ["bench", "put", "theirs", "--count", 2, *store.options, "--workers", 1]
        ended = commands.master(*put, environment=store.environment).wait()
        assert ended.status == 1
        assert 'container "theirs" may hold objects, or versions of deleted ones' in ended.err
        assert store.versions("theirs") == before
        client.put_object(Bucket="theirs", Key="folder/photo", Body=b"to be had back")
        client.delete_object(Bucket="theirs", Key="folder/photo")
        before = store.versions("theirs")
        put[2:3] = ["folder", "--s3-bucket", "theirs"]
        ended = commands.master(*put, environment=store.environment).wait()
        assert ended.status == 1
        assert 'container "folder" may hold objects, or versions of deleted ones' in ended.err
        assert store.versions("theirs") == before


def test_a_swift_container_with_versions_of_deleted_objects_is_not_taken_for_empty(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    # By a name of its own: the account is that of other tests, too.
    with of_swift(embedded_swift) as store:
        account = Account(embedded_swift)
        account("PUT", "their-versions", X_Versions_Enabled="true")
        account.put("their-versions", "photo")
        account("DELETE", "their-versions/photo")
        before = store.versions("their-versions")
        put = ["bench", "put", "their-versions", "--count", 2, *store.options, "--workers", 1]
        ended = commands.master(*put).wait()
        assert ended.status == 1
        assert (
            'container "their-versions" may hold objects, or versions of deleted ones' in ended.err
        )
        assert store.versions("their-versions") == before


def test_stores_without_versions_are_refused_before_workers_start(commands: Commands) -> None:
    path = scenario(commands, "none", large_read={"segment": 1000})
    place = ["--storage", "file", "--path", commands.place, "--workers", 1]
    ended = commands.call_run("-f", path, *place)
    assert ended.status == ExitStatus.USAGE
    for what in ("operation read_version", "operation delete_version", "versioning"):
        assert f'the store "file" has no {what}; stores that have it: swift, s3, noop' in ended.err
    assert 'the store "file" has no large_read' in ended.err
    assert "Spawning" not in ended.err


def test_each_run_of_a_series_deletes_its_versions(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    words = ["-f", scenario(commands, "series", operation_count=30), "--repeat", 2]
    with of_swift(embedded_swift) as store:
        commands.master("run-scenario", *words, *store.options, "--workers", 1).wait().fine()
        expect_initial_objects_only(store, "series")


@pytest.mark.program("rclone")
def test_a_server_without_versions_is_refused(commands: Commands) -> None:
    with RcloneS3() as server:
        given = {"environment": server.environment}
        words = ["-f", scenario(commands, "without"), *server.options]
        refused = commands.run(*words, workers=1, **given).one_line()
    assert (
        "could not be made: the store has no versions of objects: leave out versioning (" in refused
    )
