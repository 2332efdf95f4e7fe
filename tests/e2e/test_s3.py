"""S3 as its users run it: two workers against Swift's s3api."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus, StatFileError
from tests.e2e.commands import Commands, Started, finished, rows_of, until, workers_of
from tests.e2e.test_secrets import Watcher, none_has, nowhere
from tests.servers.s3 import SwiftS3

SECRET = "Hv8-secret-key-of-the-s3-tests"
OPERATIONS = {
    "create": 4, "read": 4, "update": 1, "delete": 1, "head": 1, "post": 1, "list": 1, "copy": 1,
    "range_read": 1, "bulk_delete": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def s3() -> Iterator[SwiftS3]:
    with SwiftS3(SECRET) as server:
        server.make_bucket("bench")
        yield server


def scenario(commands: Commands, base: str, **keys: object) -> Path:
    given = {"operations": OPERATIONS, "container_base": base, "bulk_count": 3, **keys}
    path = commands.scenario(**given)
    path.write_text(path.read_text().replace('"crud_profile": [1, 1, 1, 1], ', ""))
    return path


def done(started: Started, operation: str) -> int:
    """How many are in the stat file, which may not be there yet."""
    with suppress(StatFileError):
        return started.on_disk(operation)
    return 0


@pytest.mark.parametrize("own", [
    [], ["--s3-bucket", "bench"],
    ["--s3-bucket", "bench", "--s3-style", "virtual", "--s3-payload", "unsigned"],
], ids=["buckets", "prefixes", "virtual"])  # fmt: skip
def test_two_workers_run_all_operations_and_show_no_secret(
    commands: Commands, s3: SwiftS3, own: list[str]
) -> None:
    path = scenario(commands, "all", operation_count=120)
    given = {"environment": s3.environment}
    started = commands.start_run(
        "-v", "-f", path, "--verify", "--profile", *s3.options, *own, **given
    )
    with Watcher(started) as watcher:
        ended = started.wait().fine()
    assert ended.counted()[:2] == (120, 0)
    assert set(finished(ended.stats)) == {name.upper() for name in OPERATIONS}
    assert len(workers_of(ended.results)) == 2
    none_has(watcher.public, SECRET)
    none_has(watcher.inherited, SECRET, "AWS_SECRET_ACCESS_KEY")
    nowhere(commands.place, SECRET)
    cleaned = commands.master("cleanup-containers", "-b", "all", *s3.options, *own, **given)
    assert "3 containers" in cleaned.wait().fine().out
    kept = s3.contents()
    assert not kept["bench"]
    assert not any(bucket.startswith("all") for bucket in kept)


def test_a_run_survives_a_killed_worker(commands: Commands, s3: SwiftS3) -> None:
    path = scenario(commands, "killed")
    started = commands.start_run(
        "-f", path, "-r", 10, *s3.options, "--s3-bucket", "bench", environment=s3.environment
    )
    until("operations", lambda: done(started, "READ") > 5)
    started.workers()[0].send_signal(signal.SIGKILL)
    ended = started.wait().fine(ExitStatus.WORKERS_LOST)
    assert ended.counted()[0] > 10


def test_resume_cleanup_deletes_what_a_killed_master_left(commands: Commands, s3: SwiftS3) -> None:
    given = {"environment": s3.environment}
    options = [*s3.options, "--s3-bucket", "bench"]
    started = commands.start_run(
        "-f", scenario(commands, "left", operation_count=10**6), *options, **given
    )
    until("objects", lambda: done(started, "CREATE") > 10)
    started.signal(signal.SIGKILL)
    started.process.wait()
    s3.client().put_object(Bucket="bench", Key="left_000000/somebody_elses")
    words = ["cleanup-containers", "--resume-cleanup", started.stat_file, *options]
    assert "Deleted " in commands.master(*words, **given).wait().fine().out
    assert "Nothing was left of run" in commands.master(*words, **given).wait().fine().out
    left = s3.contents()["bench"]
    assert "left_000000/somebody_elses" in left
    assert "left_000000/.ssbench" in left


@pytest.mark.parametrize("bucket", ["", "shared"])
def test_cleanup_deletes_no_container_without_our_mark(
    commands: Commands, s3: SwiftS3, bucket: str
) -> None:
    given = {"environment": s3.environment}
    options = [*s3.options, *(["--s3-bucket", bucket] if bucket else [])]
    s3.make_bucket(bucket or "mine-000001")
    key = "mine_000001/precious" if bucket else "precious"
    s3.client().put_object(Bucket=bucket or "mine-000001", Key=key, Body=b"!")
    ended = commands.master("cleanup-containers", "-b", "mine", *options, **given).wait().fine()
    assert "there is no mark of ssbench" in ended.out
    assert s3.contents()[bucket or "mine-000001"] == [key]
    # Nor does a run use it.
    path = scenario(commands, "mine", operation_count=10)
    refused = commands.run("-f", path, *options, **given)
    assert 'container "mine_000001" holds 1 object, and nothing says that ssbench made it' in (
        refused.one_line()
    )


def test_a_wrong_secret_ends_the_run_at_once_and_is_not_shown(
    commands: Commands, s3: SwiftS3
) -> None:
    wrong = {**s3.environment, "AWS_SECRET_ACCESS_KEY": "wr0ng-secret"}
    ended = commands.run("-f", scenario(commands, "wrong"), *s3.options, environment=wrong)
    assert "SignatureDoesNotMatch" in ended.one_line()
    line = ["--s3-access-key", s3.access_key, "--s3-secret-key", SECRET]
    path = scenario(commands, "line", operation_count=20)
    commands.run("-v", "-f", path, *s3.options, *line).fine()
    nowhere(commands.place, SECRET, "wr0ng-secret")


def test_a_bucket_that_does_not_exist_is_named(commands: Commands, s3: SwiftS3) -> None:
    options = [*s3.options, "--s3-bucket", "nobodys"]
    path = scenario(commands, "none")
    ended = commands.run("-f", path, *options, environment=s3.environment)
    assert "there is no bucket nobodys: create it" in ended.one_line(2)


def test_the_region_that_the_store_names_replaces_a_wrong_one(
    commands: Commands, s3: SwiftS3
) -> None:
    options = [*s3.options, "--s3-bucket", "bench", "--s3-region", "eu-west-1"]
    path = scenario(commands, "region", operation_count=20)
    ended = commands.run("-f", path, *options, environment=s3.environment).fine()
    assert ended.counted()[:2] == (20, 0)


def test_several_endpoints_share_the_load(commands: Commands, s3: SwiftS3) -> None:
    other = ["--s3-endpoint", f"{s3.url}/"]
    path = scenario(commands, "both", operation_count=40)
    options = [*s3.options, *other, "--s3-bucket", "bench"]
    ended = commands.run("-f", path, *options, environment=s3.environment).fine()
    assert {row["url"] for row in rows_of(ended.results)} == {0, 1}


def test_headers_expect_continue_and_single_connections(commands: Commands, s3: SwiftS3) -> None:
    path = scenario(
        commands, "keys", operation_count=40, keep_alive=False, expect_continue=True,
        headers={"create": {"x-amz-meta-color": "blue"}, "X-Note": "all"},
    )  # fmt: skip
    options = [*s3.options, "--s3-bucket", "bench"]
    ended = commands.run("-f", path, *options, environment=s3.environment).fine()
    assert ended.counted()[:2] == (40, 0)
