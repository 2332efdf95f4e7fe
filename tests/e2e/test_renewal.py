"""Tokens that run out during a run: renewed once for all, and nobody's error."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, login, logins, requests, rows_of
from tests.e2e.stores import response
from tests.fakes.breaking_proxy import BreakingProxy
from tests.fakes.server_behaviours import keep, saying
from tests.servers.swift import swift_options
from tests.timing import spoilable

TOKEN_LIFE_S = 2


@pytest.fixture(scope="module")
def swift() -> Iterator[EmbeddedSwift]:
    with EmbeddedSwift(swift_options(token_life_s=TOKEN_LIFE_S)) as made:
        yield made


@spoilable("on a busy host an early renewal may be as late as the expiry that 401 tells of")
def test_an_expiring_token_is_renewed_for_all_workers(
    commands: Commands, swift: EmbeddedSwift
) -> None:
    # Thinking alone takes each of 8 users three lives of a token.
    path = commands.scenario(user_count=8, container_base="renewed", operation_count=96)
    before = logins(swift)
    ended = commands.run("-f", path, "--think-time", 0.5, *login(swift)).fine()
    assert ended.counted() == (96, 0, 0)
    stats = ended.stats
    assert stats.run.left_behind == 0
    renewals = stats.total().renewals
    refused = [r for r in requests(swift, "renewed") if r.status == 401]
    # An operation is refused once or more; none is where each renewal was in time.
    assert renewals <= len(refused)
    assert bool(renewals) is bool(refused)
    said = re.findall(r"^Operations restarted with a new token: (\d+)$", ended.out, re.MULTILINE)
    assert said == [str(renewals)] * bool(renewals)
    # One login for each life that a token had, and not one for each worker or user.
    assert 2 <= logins(swift) - before <= ended.took_s / TOKEN_LIFE_S + 2
    assert all(row["status"] < 400 for row in rows_of(ended.results))


def test_an_expired_given_token_is_reported(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    path = commands.scenario(crud_profile=[0, 1, 0, 0], container_base="no_login")
    account = Account(embedded_swift)
    expired = {"expired": saying(response(b"401"), then=keep)}
    with BreakingProxy(embedded_swift.port, expired, spared=30) as proxy:
        url = account.url.replace(str(embedded_swift.port), str(proxy.port))
        options = ["--os-auth-token", account.token, "--os-storage-url", url, "-o", 40]
        ended = commands.run("-f", path, *options, workers=1)
    assert ended.err.count("rejected the given token") == 1
    assert ended.counted()[:2] == (30, 10)
    assert "401" in ended.out
    ended.fine(0)
