"""Stores that speak S3 and fail: as an in-memory one is told to, and real ones that are ended."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from ssbench.core.errors import ExitStatus, StatFileError
from ssbench.core.model import ErrorKind
from tests.e2e.commands import Commands, Started, until
from tests.e2e.faults.matrix import Row
from tests.fakes.loopback_http import Answer, Request
from tests.fakes.s3_store import S3Store, refusal
from tests.servers.s3 import SwiftS3

KEYS = "[default]\naws_access_key_id = AK\naws_secret_access_key = s3cret\naws_session_token = {}\n"


def reads(started: Started) -> int:
    """How many are in the stat file, which may not be there yet."""
    with suppress(StatFileError):
        return started.on_disk("READ")
    return 0


@pytest.mark.fault("s3: 503 SlowDown and 429 for a fifth of the requests")
def test_requests_to_slow_down_are_retried_and_counted(commands: Commands, row: Row) -> None:
    numbers = count()

    def slow_down(request: Request, answer: Answer) -> Answer:
        answers = {0: refusal(503, "SlowDown"), 5: refusal(429, "TooManyRequests")}
        return answers.get(next(numbers) % 10, answer)

    with S3Store(slow_down) as store:
        ended = commands.run(
            "-f", commands.scenario(), *store.options, environment=store.environment
        ).fine()
    total = ended.stats.total()
    assert ended.counted()[:2] == (60, 0)
    assert total.rate_limited >= 8
    row.accounted(ended.stats)
    row.saw(f"no operation failed; {total.rate_limited} responses counted as rate limits")


@pytest.mark.fault("s3: the session token expires, and a new one is in the shared file")
def test_an_expired_token_is_replaced_from_the_shared_file(
    commands: Commands, row: Row, tmp_path: Path
) -> None:
    keys = tmp_path / "aws-keys.key"
    keys.write_text(KEYS.format("old-t0ken"))
    numbers = count()

    def expire(request: Request, answer: Answer) -> Answer:
        if request.headers["x-amz-security-token"] == "new-t0ken" or next(numbers) < 60:
            return answer
        keys.write_text(KEYS.format("new-t0ken"))
        return refusal(400, "ExpiredToken")

    with S3Store(expire) as store:
        ended = commands.run(
            "-f", commands.scenario(operation_count=200), *store.options,
            environment={"AWS_SHARED_CREDENTIALS_FILE": str(keys), "AWS_REGION": "us-east-1"},
        ).fine()  # fmt: skip
    assert ended.counted()[:2] == (200, 0)
    renewals = ended.stats.total().renewals
    assert renewals > 0
    row.accounted(ended.stats)
    row.saw(f"no operation failed; {renewals} began anew with the new key")


@pytest.mark.fault("s3: the bucket moves to another region")
def test_a_key_for_another_region_is_issued(commands: Commands, row: Row) -> None:
    numbers = count()

    def move(request: Request, answer: Answer) -> Answer:
        if next(numbers) == 60:
            store.region = "eu-west-1"
        return answer

    with S3Store(move) as store:
        ended = commands.run(
            "-f", commands.scenario(operation_count=200), *store.options,
            environment=store.environment,
        ).fine()  # fmt: skip
    assert ended.counted()[:2] == (200, 0)
    renewals = ended.stats.total().renewals
    assert renewals > 0
    row.accounted(ended.stats)
    row.saw(f"no operation failed; {renewals} began anew with the new key")


@pytest.mark.fault("s3: wrong bytes under the right ETag")
def test_wrong_content_is_found(commands: Commands, row: Row) -> None:
    numbers = count()

    def lie(request: Request, answer: Answer) -> Answer:
        is_read = request.method == "GET" and answer.status == 200
        if not is_read or next(numbers) % 10:
            return answer
        return answer._replace(body=bytes([answer.body[0] ^ 1]) + answer.body[1:])

    with S3Store(lie) as store:
        ended = commands.run(
            "-f", commands.scenario(crud_profile=[1, 6, 1, 1]), "--verify", *store.options,
            environment=store.environment,
        )  # fmt: skip
    assert ended.status == ExitStatus.CORRUPTION
    kinds = {kind for kind, _ in ended.stats.errors}
    assert kinds == {ErrorKind.CORRUPT}
    row.accounted(ended.stats)
    row.saw(f"{ended.counted()[1]} corrupt, exit status 4")


@pytest.mark.fault("s3: silent (Swift's s3api, SIGSTOP)")
def test_a_silent_store_is_timed_out(commands: Commands, row: Row) -> None:
    with SwiftS3() as s3:
        (pid,) = set(s3.swift.pids.values())
        started = commands.start_run(
            "-f", commands.scenario(crud_profile=[0, 1, 0, 0]), "-r", 5, "--retries", 0,
            "--network-timeout", 1, *s3.options, environment=s3.environment,
        )  # fmt: skip
        until("reads", lambda: reads(started) > 5)
        os.kill(pid, signal.SIGSTOP)
        until("the end", lambda: started.process.poll() is not None, 60)
        os.kill(pid, signal.SIGCONT)
        ended = started.wait()
    kinds = {kind for kind, _ in ended.stats.errors}
    assert ErrorKind.NETWORK_TIMEOUT in kinds
    row.accounted(ended.stats)
    row.saw(f"{ended.counted()[1]} network timeout")


@pytest.mark.fault("s3: its server is ended (Swift's s3api)")
def test_a_store_that_is_gone_is_reported(commands: Commands, row: Row) -> None:
    with SwiftS3() as s3:
        started = commands.start_run(
            "-f", commands.scenario(crud_profile=[0, 1, 0, 0]), "-r", 4, "--retries", 1,
            *s3.options, environment=s3.environment,
        )  # fmt: skip
        until("reads", lambda: reads(started) > 5)
    ended = started.wait()
    assert ended.status in (ExitStatus.OK, ExitStatus.FAILED)
    assert ErrorKind.CONNECT in {kind for kind, _ in ended.stats.errors}
    row.accounted(ended.stats)
    row.saw(f"{ended.counted()[1]} failed to connect or were reset, the run ends with a report")
