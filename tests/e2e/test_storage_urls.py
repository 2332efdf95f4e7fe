"""-S, repeated: each request takes one of the storage URLs at random."""

from __future__ import annotations

from collections import Counter

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Commands, check_all_done, login, requests, rows_of


@pytest.fixture
def two_urls(embedded_swift: EmbeddedSwift) -> list[str]:
    """Two ways to one store that its log can tell apart."""
    return [f"{embedded_swift.base_url}/v1/AUTH_test", f"{embedded_swift.base_url}/v1.0/AUTH_test"]


def test_requests_go_to_both_urls(
    commands: Commands, embedded_swift: EmbeddedSwift, two_urls: list[str]
) -> None:
    path = commands.scenario(container_base="both", operation_count=100, crud_profile=[0, 1, 0, 0])
    options = [word for url in two_urls for word in ("-S", url)]
    ended = commands.run("-f", path, *options, *login(embedded_swift), workers=1)
    check_all_done(ended, 100, embedded_swift, "both")
    taken = Counter(row["url"] for row in rows_of(ended.results))
    assert set(taken) == {0, 1}
    # Five standard deviations of 100 throws of a coin.
    assert abs(taken[0] - 50) < 25
    log = embedded_swift.access_log().read_text()
    seen = [sum(f" /{v}/AUTH_test/both_" in line for line in log.splitlines())
            for v in ("v1", "v1.0")]  # fmt: skip
    assert sum(seen) == len(requests(embedded_swift, "both"))
    assert min(seen) > 25


def test_a_given_storage_url_overrides_that_of_the_login(
    commands: Commands, embedded_swift: EmbeddedSwift, two_urls: list[str]
) -> None:
    path = commands.scenario(container_base="given", operation_count=20)
    commands.run("-f", path, "-S", two_urls[1], *login(embedded_swift), workers=1).fine()
    log = embedded_swift.access_log().read_text()
    assert "/v1.0/AUTH_test/given_" in log
    assert "/v1/AUTH_test/given_" not in log
