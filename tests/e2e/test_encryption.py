"""Objects that S3 encrypts with the user's key (SSE-C). versitygw and Swift's s3api have none, so
the store is a fake that demands the headers, and refuses any other key."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.commands import Commands, Ended
from tests.e2e.test_secrets import nowhere
from tests.fakes.s3_store import S3Store

KEY = bytes(range(32))
TEXT = b64encode(KEY).decode()
PART = 5 * 1024**2


@pytest.fixture
def store() -> Iterator[S3Store]:
    with S3Store() as store:
        yield store


def run(commands: Commands, store: S3Store, *words: Any, key: str = "", **keys: Any) -> Ended:
    keys = {
        "operation_count": 60, "container_base": "enc",
        "operations": dict.fromkeys((
            "create", "read", "update", "delete", "head", "post", "copy", "range_read",
        ), 1),
        **keys,
    }  # fmt: skip
    environment = {**store.environment, **({"SSBENCH_SSE_C_KEY": key} if key else {})}
    path = commands.scenario(**keys)
    return commands.run(
        "-v", "-f", path, *store.options, *words, workers=1, environment=environment
    )


def key_file(commands: Commands, content: bytes = KEY) -> Path:
    path = Path(commands.place) / "sse-c.key"
    path.write_bytes(content)
    return path


def test_all_operations_use_the_key_which_is_nowhere_else(
    commands: Commands, store: S3Store
) -> None:
    path = key_file(commands)
    ended = run(commands, store, "--verify", "--sse-c-key-file", path).fine()
    assert ended.counted()[:2] == (60, 0)
    stored = [each for name, each in store.objects.items() if not name.endswith(".ssbench")]
    assert stored
    assert {each.key for each in stored} == {TEXT}
    os.remove(path)
    nowhere(commands.place, TEXT)


def test_parts_have_the_key(commands: Commands, store: S3Store) -> None:
    large = {
        "sizes": [{"name": "big", "size_min": PART + 7, "size_max": PART + 7}],
        "initial_files": {"big": 2}, "large_object": {"above": PART, "segment": PART},
        "operations": {"create": 1, "read": 1, "copy": 1, "post": 1, "head": 1, "range_read": 1},
        "operation_count": 12,
    }  # fmt: skip
    ended = run(commands, store, "--verify", key=TEXT, **large).fine()
    assert ended.counted()[:2] == (12, 0)
    again = run(commands, store, key=TEXT, **large).fine()
    assert again.counted()[:2] == (12, 0)


def test_objects_of_another_key_are_made_anew(commands: Commands, store: S3Store) -> None:
    def uploads(key: str) -> int:
        before = len(store.seen)
        run(commands, store, key=key, operations={"read": 1}, operation_count=5).fine()
        return sum(
            each.method == "PUT" and not each.path.endswith(".ssbench")
            for each in store.seen[before:]
        )

    other = b64encode(bytes(32)).decode()
    made = [uploads(each) for each in (TEXT, TEXT, other, "", "", TEXT)]
    assert made == [10, 0, 10, 10, 0, 10]


def test_a_store_that_ignores_the_key_is_no_success(commands: Commands, store: S3Store) -> None:
    store.encrypts = False
    ended = run(commands, store, key=TEXT).fine(1)
    assert "the store has not encrypted the object with the given key (SSE-C)" in ended.err
    assert TEXT not in ended.err + ended.out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (KEY[:-1], "not a key for SSE-C: 32 bytes or their base64"),
        (b"", "not a key for SSE-C"),
        (b64encode(KEY[:16]), "not a key for SSE-C"),
    ],
)
def test_what_is_no_key_is_refused(
    commands: Commands, store: S3Store, content: bytes, says: str
) -> None:
    path = key_file(commands, content)
    assert says in run(commands, store, "--sse-c-key-file", path).one_line(2)
    assert not store.seen


def test_a_key_is_never_sent_in_clear(commands: Commands) -> None:
    words = ["--storage", "s3", "--s3-endpoint", "http://192.0.2.1", "--sse-c-key-file"]
    who = {"AWS_ACCESS_KEY_ID": "A", "AWS_SECRET_ACCESS_KEY": "secret"}
    path = commands.scenario()
    ended = commands.run("-f", path, *words, key_file(commands), workers=1, environment=who)
    assert "with SSE-C each request would send the key in clear" in ended.one_line(2)
