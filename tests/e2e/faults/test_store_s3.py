"""An S3 in memory that fails as only S3 does. test_stores.py has the faults of all stores."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from tests.e2e.commands import Commands
from tests.e2e.faults.matrix import Row
from tests.fakes.loopback_http import Answer, Request
from tests.fakes.s3_store import S3Store, refusal

KEYS = "[default]\naws_access_key_id = AK\naws_secret_access_key = s3cret\naws_session_token = {}\n"


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
