"""X-Delete-After, and the population's knowledge of it."""

from __future__ import annotations

import time

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, login, requests, until

LIFE_S = 6


def test_objects_of_a_run_expire(commands: Commands, embedded_swift: EmbeddedSwift) -> None:
    keys = {"crud_profile": [1, 0, 0, 0], "operation_count": 10, "container_base": "expiring"}
    path = commands.scenario(**keys, delete_after=LIFE_S)
    before = time.time()
    ended = commands.run("-k", "-f", path, *login(embedded_swift), workers=1).fine()
    assert f"Object expiration (X-Delete-After): {LIFE_S} (sec)" in ended.out
    account = Account(embedded_swift)
    created = account.created("expiring", ended.stats.run.run_id)
    assert len(created) == 10
    for name in created:
        status, headers, _ = account("HEAD", name)
        if status == 200:
            expires = int(headers["X-Delete-At"])
            assert before + LIFE_S - 1 <= expires <= time.time() + LIFE_S
    until("all are gone", lambda: {account("HEAD", name)[0] for name in created} == {404})


def test_expired_initial_objects_are_uploaded_again(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    path = commands.scenario(
        container_base="anew", crud_profile=[0, 1, 0, 0], operation_count=10, delete_after=300
    )
    for _ in range(2):
        commands.run("-f", path, *login(embedded_swift), workers=1).fine()
    puts = [r for r in requests(embedded_swift, "anew") if r.method == "PUT" and r.object]
    assert len(puts) == 20
    account = Account(embedded_swift)
    assert all("X-Delete-At" in account("HEAD", name)[1] for name in account.objects("anew"))


def test_expired_objects_are_not_requested(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    # Thinking alone takes each of 8 users 5 s.
    path = commands.scenario(
        container_base="expired", delete_after=2, user_count=8, operation_count=80
    )
    ended = commands.run("-f", path, "--think-time", 0.5, *login(embedded_swift), workers=1).fine()
    assert ended.counted()[:2] == (80, 0)
    seen = [r for r in requests(embedded_swift, "expired") if r.object and r.status == 404]
    asked = [r for r in seen if r.method != "HEAD" and not _is_clean_up(r.method)]
    assert asked == []
    assert ended.stats.total().not_found_retries == 0


def _is_clean_up(method: str) -> bool:
    """Clean-up deletes what may have expired meanwhile, for which 404 is as good."""
    return method == "DELETE"
