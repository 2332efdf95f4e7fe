"""Live metrics of this host: plausible, cheap, and never blocking."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgpack  # noqa: F401
import psutil
import pytest
import zmq  # noqa: F401

from ssbench.core.stats.host_metrics import core_name
from ssbench.host import metrics
from ssbench.host.live import HostLive, LoopLag, boot_id
from ssbench.host.metrics import (
    HostSampler,
    network_figures,
    tcp_retransmits,
    waited_seconds,
)
from tests.timing import PATIENCE_S, spoilable


class Nic(NamedTuple):
    bytes_recv: int
    bytes_sent: int


def sampler() -> HostSampler:
    return HostSampler(threading.get_ident(), threading.get_native_id())


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_cpu_time_of_the_loop_thread_is_separate() -> None:
    before_s = time.thread_time()
    here = sampler()
    other = threading.Thread(target=burn, args=(0.1,))
    other.start()
    other.join()
    burn(0.05)
    figures = here.sample()
    spent_s = time.thread_time() - before_s
    loop_s = figures["loop_cpu_percent"] * figures["interval_s"] / 100
    process_s = figures["process_cpu_percent"] * figures["interval_s"] / 100
    assert 0.049 < loop_s <= spent_s
    assert process_s > loop_s + 0.1 - 0.03  # in ticks of 10 ms


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no schedstat here")
@spoilable("a hypervisor or a quota takes time that the kernel counts nowhere")
def test_a_busy_thread_runs_or_waits_for_a_core() -> None:
    here = sampler()
    until = time.perf_counter() + 0.2
    while time.perf_counter() < until:
        pass
    figures = here.sample()
    assert figures["loop_cpu_percent"] + figures["loop_waiting_percent"] == pytest.approx(
        100, abs=15
    )


def test_a_sample_costs_little_more_than_to_read_the_counters_of_the_kernel() -> None:
    here = sampler()
    sampled_s = read_s = float("inf")
    for _ in range(20):
        began_s = time.thread_time()
        here.sample()
        between_s = time.thread_time()
        psutil.cpu_times(percpu=True)
        psutil.net_io_counters(pernic=True, nowrap=False)
        psutil.disk_io_counters(nowrap=False)
        psutil.swap_memory()
        psutil.virtual_memory()
        psutil.cpu_stats()
        read_s = min(read_s, time.thread_time() - between_s)
        sampled_s = min(sampled_s, between_s - began_s)
    assert sampled_s < 3 * read_s


class Cores(NamedTuple):
    """Of a core, as on Linux."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    guest: float


def test_figures_are_the_differences_of_counters_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    counters: dict[str, list[Any]] = {
        "net_if_stats": [{
            "eth0": SimpleNamespace(speed=1000), "eth1": SimpleNamespace(speed=0),
            "eth2": SimpleNamespace(speed=65535),
        }],
        "cpu_times": [
            [Cores(1, 1, 1, 1, 1, 1)] * 2,
            [Cores(3, 2, 2, 5, 3, 2), Cores(1, 1, 1, 11, 1, 1)],
        ],
        "net_io_counters": [
            {"eth0": Nic(0, 0), "eth1": Nic(0, 0), "eth2": Nic(0, 0)},
            {"eth0": Nic(50_000_000, 100), "eth1": Nic(0, 10**9), "eth2": Nic(0, 10**9)},
        ],
        "swap_memory": [SimpleNamespace(sin=10, sout=20), SimpleNamespace(sin=14, sout=10)],
        "disk_io_counters": [
            SimpleNamespace(read_bytes=5, write_bytes=6),
            SimpleNamespace(read_bytes=9, write_bytes=3),
        ],
        "cpu_stats": [
            SimpleNamespace(ctx_switches=7, interrupts=8),
            SimpleNamespace(ctx_switches=27, interrupts=10),
        ],
    }  # fmt: skip
    for name, values in counters.items():
        monkeypatch.setattr(psutil, name, lambda values=values, **_: values.pop(0))
    times = iter((5_000_000_000, 7_000_000_000))
    here = HostSampler(threading.get_ident(), threading.get_native_id(), clock=lambda: next(times))
    figures = here.sample()
    expected = {
        "interval_s": 2, "cpu_percent": 20, "cpu_busiest_core_percent": 40,
        core_name(0): 40, core_name(1): 0,
        "cpu_user_percent": 15, "cpu_system_percent": 5, "cpu_idle_percent": 70,
        "cpu_iowait_percent": 10,
        "swap_in_bytes_per_s": 2, "swap_out_bytes_per_s": 0,
        "network_received_bytes_per_s": 25_000_000, "network_sent_bytes_per_s": 1_000_000_050,
        "network_busiest_percent": 20, "loopback_bytes_per_s": 0,
        "disk_read_bytes_per_s": 2, "disk_written_bytes_per_s": 0,
        "context_switches_per_s": 10, "interrupts_per_s": 1,
    }  # fmt: skip
    assert {name: figures.get(name) for name in expected} == pytest.approx(expected)


def test_loopback_is_separate_and_the_busiest_interface_counts() -> None:
    before = {"lo": Nic(0, 0), "eth0": Nic(100, 0), "eth1": Nic(0, 0), "gone": Nic(5, 5)}
    now = {"lo": Nic(900, 900), "eth0": Nic(300, 10), "eth1": Nic(20, 60), "new": Nic(7, 7)}
    figures = network_figures(before, now, {"eth0": 1000.0, "eth1": 60.0}, 2.0)
    assert figures == {
        "network_received_bytes_per_s": 110,
        "network_sent_bytes_per_s": 35,
        "network_busiest_percent": 50,
        "loopback_bytes_per_s": 450,
    }
    assert "network_busiest_percent" not in network_figures(before, now, {}, 2.0)


def test_tcp_retransmissions_may_be_unknown(tmp_path: Path) -> None:
    snmp = tmp_path / "snmp"
    assert tcp_retransmits(snmp) is None
    snmp.write_text("Ip: A B\nIp: 1 2\nTcp: InSegs RetransSegs\nTcp: 9 17\n")
    assert tcp_retransmits(snmp) == 17
    for broken in ("", "Tcp: RetransSegs\n", "Tcp: InSegs\nTcp: 9\n", "Tcp: RetransSegs\nTcp: x\n"):
        snmp.write_text(broken)
        assert tcp_retransmits(snmp) is None


def test_waiting_for_a_core_may_be_unknown(tmp_path: Path) -> None:
    schedstat = tmp_path / "schedstat"
    assert waited_seconds(schedstat) is None
    schedstat.write_text("1 2500000000 3\n")
    assert waited_seconds(schedstat) == 2.5
    schedstat.write_text("\n")
    assert waited_seconds(schedstat) is None


@pytest.mark.parametrize("fault", [NotImplementedError(), ValueError("not sure how to interpret")])
def test_without_counters_of_disks_there_are_other_metrics(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def fails(**_: object) -> None:
        raise fault

    monkeypatch.setattr(psutil, "disk_io_counters", fails)
    figures = sampler().sample()
    assert "cpu_percent" in figures
    assert not [name for name in figures if name.startswith("disk_")]


def test_a_host_has_one_boot_id() -> None:
    assert boot_id() == boot_id()


class Steady:
    """A sampler that says how often it was asked."""

    def __init__(self, *_thread: int) -> None:
        self.asked = 0

    def sample(self) -> dict[str, float]:
        self.asked += 1
        return {"interval_s": float(self.asked)}


def until(condition: object, seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.002)


def test_only_wanted_samples_are_kept_with_the_loop_lag() -> None:
    made: list[Steady] = []

    def make(*_thread: int) -> Steady:
        made.append(Steady())
        return made[0]

    with HostLive(interval_s=0.01, make_sampler=make) as live:  # type: ignore[arg-type]
        until(lambda: made and made[0].asked > 2)
        assert list(live.take()) == []
        assert live.newest["interval_s"] > 0
        live.lag.add(5_000_000)
        live.wanted = True
        asked = made[0].asked
        until(lambda: made[0].asked > asked + 3)
        before_ns = time.perf_counter_ns()
        first, second, *_ = live.take()
    assert first.at_ns < second.at_ns < before_ns
    assert second.figures["interval_s"] > first.figures["interval_s"]
    assert not live.is_alive()


def test_samples_that_are_not_taken_use_bounded_memory() -> None:
    with HostLive(interval_s=0.0001, make_sampler=Steady) as live:  # type: ignore[arg-type]
        live.wanted = True
        until(lambda: live.newest.get("interval_s", 0) > 100)
    assert len(list(live.take())) <= 60


def test_a_host_without_metrics_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")

    def none_here(*_thread: int) -> HostSampler:
        raise psutil.AccessDenied(1)

    with HostLive(make_sampler=none_here) as live:
        live.join(60)
        assert not live.is_alive()
        assert list(live.take()) == []
    assert caplog.messages == ["No metrics of this host: AccessDenied: (pid=1)"]


# How late an event loop is, by a timer of its own


MS = 1_000_000


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def run_at(lag: LoopLag, clock: Clock, *times_ms: int) -> None:
    for at_ms in times_ms:
        clock.now_ns = at_ms * MS
        lag.ran()


def test_a_blocked_loop_reports_its_present_lag() -> None:
    clock = Clock()
    lag = LoopLag(0.05, clock)
    run_at(lag, clock, 0)
    lag.take()
    clock.now_ns = 2050 * MS
    assert lag.take() == (2.0, 2.0)
    run_at(lag, clock, 2050, 2100)
    clock.now_ns = 3150 * MS
    most_s, mean_s = lag.take() or (0, 0)
    assert most_s == 2.0  # it ran that late, and then stands still for a second
    assert mean_s == pytest.approx((2.0 + 0.05 + 1.05) / 3)


def test_lag_can_be_reported_by_others() -> None:
    lag = LoopLag(0.05, Clock())
    lag.add(7 * MS)
    lag.add(-MS)  # early is not late
    assert repr(lag) == "<LoopLag 2 not yet taken>"
    assert lag.take() == (pytest.approx(0.007), pytest.approx(0.0035))
    assert lag.take() is None


# Facts of this host


def test_facts_contain_no_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ST_KEY", "s3cr3t-of-mine")
    assert "s3cr3t-of-mine" not in repr((metrics.facts(), metrics.versions()))


def test_a_package_that_is_not_loaded_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gevent")
    assert "gevent" not in metrics.versions()


def test_the_cpu_model_of_linux(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Abacus 9\nmodel name\t: Abacus 9\n")
    assert metrics.cpu_model(cpuinfo) == "Abacus 9"
    assert isinstance(metrics.cpu_model(tmp_path / "missing"), str)
