"""No error of our own making: few objects, many users, all four operations at once.

With ten objects and as many CREATEs as DELETEs the population touches zero again and again.
"""

from __future__ import annotations

import math

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Commands, finished, login, requests

USERS = 64
OPERATIONS = 250
MANY = 20_000  #: 70 to 100 s: `make test-long`
SEED = 1  #: of chance itself, three standard deviations would be exceeded once in a hundred runs


@pytest.mark.timeout(660)  # more than the run may take, where another 180 s would end it
@pytest.mark.parametrize(
    "operations", [OPERATIONS, pytest.param(MANY, marks=pytest.mark.slow)], ids="{}".format
)
def test_a_run_has_no_own_errors(
    commands: Commands, embedded_swift: EmbeddedSwift, operations: int
) -> None:
    base = f"ownerrors{operations}"
    path = commands.scenario(user_count=USERS, operation_count=operations, container_base=base)
    ended = commands.start_run("-f", path, "--seed", SEED, *login(embedded_swift)).wait(600).fine()
    assert ended.counted() == (operations, 0, 0)
    stats = ended.stats
    total = stats.total()
    assert (total.not_found_retries, total.rate_limited, total.renewals) == (0, 0, 0)
    assert stats.run.lost == stats.run.left_behind == 0
    seen = [r for r in requests(embedded_swift, base) if r.object]
    # HEAD: populate looks for what isn't there yet.
    assert [r for r in seen if r.status >= 400 and r.method != "HEAD"] == []
    counted = finished(stats)
    uploads = sum(r.method == "PUT" for r in seen)
    assert uploads == 10 + counted["CREATE"] + counted["UPDATE"]
    assert sum(r.method == "GET" for r in seen) == counted["READ"]
    drawn = {name: counted[name] + stats.run.skipped.get(name, 0) for name in counted}
    # Draws are independent, and a quarter each: three standard deviations of so many.
    draws = sum(drawn.values())
    three_sigma = 3 * math.sqrt(draws * 0.25 * 0.75)
    for name, count in drawn.items():
        assert abs(count - draws / 4) < three_sigma, f"{name}: {drawn}"
    if stats.run.skipped:
        assert "Skipped" in ended.out
