"""How many users a host can run."""

from __future__ import annotations

import pytest

from ssbench.host.process import (
    WORKER_DESCRIPTORS,
    HostLimits,
    memory_warning,
    most_users,
    shortage,
)

TOO_MANY = "are too many for this host:"
TIGHT = HostLimits(descriptors=256, ports=28_232, memory_bytes=10**9)


def test_the_scarcest_resource_limits_the_users() -> None:
    users, why = most_users(TIGHT)
    assert users == 256 - WORKER_DESCRIPTORS
    assert why.startswith("a process may open 256 files (ulimit -Hn)")
    users, why = most_users(HostLimits(descriptors=10**6, ports=28_232), targets=2)
    assert users == 56_464
    assert "28,232 local ports" in why
    users, why = most_users(HostLimits(descriptors=10**6, ports=28_232), targets=2, workers=4)
    assert users == 14_116
    assert why.endswith("(net.ipv4.ip_local_port_range), which 4 workers share")
    assert most_users(HostLimits()) == (None, "")


@pytest.mark.parametrize(
    ("users", "workers", "targets", "said"),
    [
        (228, 1, 1, ""),
        (229, 1, 1, f"229 users in 1 worker (229 each) {TOO_MANY} a process may open 256"),
        (456, 2, 1, ""),
        (457, 2, 1, f"457 users in 2 workers (229 each) {TOO_MANY} a process may open 256"),
        (28_233, 200, 1, f"28,233 users {TOO_MANY} there are 28,232 local ports"),
        (28_233, 200, 2, ""),
    ],
)
def test_a_scarce_resource_is_reported_with_figures(
    users: int, workers: int, targets: int, said: str
) -> None:
    assert shortage(TIGHT, users, workers, targets).startswith(said or "x") is bool(said)


def test_scarce_memory_gives_a_warning() -> None:
    assert not memory_warning(TIGHT, 1000, 1)
    assert memory_warning(TIGHT, 20_000, 10) == (
        "20,000 users in 10 workers take about 1,300 MB of memory, and 1,000 MB can be had on this"
        " host"
    )
    assert not memory_warning(HostLimits(), 10**9, 1)
