from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

import ssbench
from ssbench.core.errors import UsageError
from ssbench.host.process import (
    WORKER_DESCRIPTORS,
    HostLimits,
    allow_many_connections,
    check_source_addresses,
    child_environment,
    host_limits,
    memory_warning,
    most_users,
    shortage,
    usable_cores,
)


def test_the_limit_of_open_files_is_raised_to_the_hard_limit(few_files: int) -> None:
    allow_many_connections()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (few_files, few_files)


def test_limits_of_the_host(tmp_path: Path, few_files: int) -> None:
    ports, memory = tmp_path / "ports", tmp_path / "memory"
    ports.write_text("32768\t60999\n")
    memory.write_text("MemTotal:  9 kB\nMemAvailable:    1000 kB\n")
    found = host_limits(ports, memory)
    assert found.descriptors == min(256, few_files)
    assert (found.ports, found.memory_bytes) == (28_232, 1_024_000)
    ports.write_text("none")
    memory.write_text("")
    unknown = host_limits(ports, memory)
    assert (unknown.ports, unknown.memory_bytes) == (None, None)
    gone = tmp_path / "gone"
    assert host_limits(gone, gone).ports is None


def test_source_addresses_are_of_this_host() -> None:
    check_source_addresses([])
    check_source_addresses(["127.0.0.1", "127.0.0.9"])
    for address, why in (("192.0.2.1", "cannot assign requested address on this host"),
                         ("2001:db8::1", ""), ("nonsense", "")):  # fmt: skip
        with pytest.raises(UsageError, match=f"--source-address {address}: .*{why}"):
            check_source_addresses(["127.0.0.1", address])


@pytest.mark.parametrize(
    ("quotas", "wanted"),
    [
        ({}, 8),
        ({"": "max 100000"}, 8),
        ({"a/b": "250000 100000"}, 2),
        ({"a": "300000 100000", "a/b": "max 100000"}, 3),
        ({"a/b": "50000 100000"}, 1),
        ({"a/b": "nonsense"}, 8),
        ({"": "400000 100000", "other": "100000 100000"}, 4),
    ],
)
def test_usable_cores_heed_affinity_and_quotas(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quotas: dict[str, str], wanted: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    own, root = tmp_path / "own", tmp_path / "root"
    own.write_text("1:cpu:/x\n0::/a/b\n")
    for group, text in quotas.items():
        (root / group).mkdir(parents=True, exist_ok=True)
        (root / group / "cpu.max").write_text(f"{text}\n")
    assert usable_cores(own, root) == wanted
    own.unlink()
    assert usable_cores(own, root) == 8, "no control groups"


def test_a_child_imports_the_same_ssbench(monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(Path(ssbench.__file__).resolve().parents[1])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert child_environment(())["PYTHONPATH"] == home
    monkeypatch.setenv("PYTHONPATH", "/other")
    assert child_environment(())["PYTHONPATH"].split(os.pathsep) == [home, "/other"]


def test_a_child_gets_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "ST_KEY",
        "OS_PASSWORD",
        "SSBENCH_KEY_FILE",
        "AWS_SESSION_TOKEN",
        "WEBDAV_PASSWORD",
    ):
        monkeypatch.setenv(name, "secret")
    assert "secret" not in child_environment(["WEBDAV_PASSWORD"]).values()


# How many users a host can run


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
