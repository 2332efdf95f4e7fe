"""Was it us?"""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.model import Phase
from ssbench.core.records import HostRecord
from ssbench.core.stats.headroom import Cause, Headroom, HostLoad, ProcessId, ProcessSeries, judge
from ssbench.core.stats.host_metrics import (
    FIGURES,
    HostSeconds,
    HostSeries,
    bounded,
    core_name,
)

CALM = {
    "interval_s": 1.0, "loop_cpu_percent": 30.0, "process_cpu_percent": 33.0,
    "loop_waiting_percent": 1.0, "loop_lag_mean_s": 0.0002, "loop_lag_max_s": 0.001,
    "cpu_busiest_core_percent": 40.0, "memory_total_bytes": 100, "memory_available_bytes": 50,
    "network_busiest_percent": 10.0,
}  # fmt: skip


def process(
    *seconds: dict[str, float],
    worker_id: str = "w1",
    host: str = "h",
    boot_id: str = "",
    low_s: float = 0.0,
    high_s: float = inf,
) -> ProcessSeries:
    """A process by its seconds, each as it differs from a calm one."""
    series = HostSeries()
    series.host, series.boot_id = host, boot_id
    for at_s, changes in enumerate(seconds, 1):
        figures = {k: v for k, v in {**CALM, **changes}.items() if v >= 0}
        series.add(HostRecord(0, float(at_s), figures))
    return ProcessSeries(ProcessId(worker_id, host), series, [(low_s, high_s)])


BUSY = {"loop_cpu_percent": 98.0}


@pytest.mark.parametrize(
    ("busy", "calm", "room"),
    [
        (1, 1, Headroom.NONE),
        (9, 11, Headroom.AT_TIMES),
        (1, 19, Headroom.AT_TIMES),
        (1, 20, Headroom.ENOUGH),
    ],
)
def test_the_share_of_time_decides(busy: int, calm: int, room: Headroom) -> None:
    assert judge([process(*[BUSY] * busy, *[CALM] * calm)]).headroom is room


@pytest.mark.parametrize(
    ("second", "cause", "value"),
    [
        ({"loop_cpu_percent": 85.0}, Cause.CORE, 85),
        ({"loop_cpu_percent": 60.0, "loop_waiting_percent": 38.0}, Cause.CORES, 38),
        ({"loop_cpu_percent": 80.0, "loop_waiting_percent": 6.0}, Cause.CORE, 80),
        ({"loop_waiting_percent": 25.0}, Cause.CORES, 25),
        ({"loop_lag_mean_s": 0.03}, Cause.LATE, 0.03),
        ({"loop_lag_mean_s": 0.03, "loop_waiting_percent": 40.0}, Cause.CORES, 40),
        ({"network_busiest_percent": 95.0}, Cause.NETWORK, 95),
        ({"memory_available_bytes": 3}, Cause.MEMORY, 3),
        # Where threads can't be told apart it is the process that counts.
        ({"loop_cpu_percent": -1, "process_cpu_percent": 99.0}, Cause.CORE, 99),
    ],
)
def test_each_cause_is_found(second: dict[str, float], cause: Cause, value: float) -> None:
    (finding,) = judge([process(second)]).findings
    assert finding.cause is cause
    assert finding.value == pytest.approx(value)


def test_only_the_measured_part_is_judged() -> None:
    seconds = [BUSY, BUSY, CALM, CALM, CALM, BUSY]
    assert judge([process(*seconds)]).headroom is Headroom.NONE
    assert judge([process(*seconds, low_s=2, high_s=5)]).headroom is Headroom.ENOUGH


def test_a_host_is_named_once_for_all_its_processes() -> None:
    full = {"network_busiest_percent": 99.0}
    processes = [
        process(full, worker_id="w1", boot_id="b1"),
        process(full, full, worker_id="w2", boot_id="b1", host="container"),
        process(full, worker_id="", boot_id="b2"),
    ]
    assert sorted(finding.seconds for finding in judge(processes).findings) == [1, 2]


def test_the_gravest_cause_comes_first() -> None:
    processes = [process(BUSY, CALM, worker_id="half"), process(BUSY, worker_id="all")]
    assert [finding.who.worker_id for finding in judge(processes).findings] == ["all", "half"]


#: Worker -> percent of each second for which it waited for a core.
WAITS = {"": 43.0, "most": 93.0, "least": 30.0}


def test_of_causes_at_all_times_the_highest_comes_first() -> None:
    waits = {worker: {"loop_waiting_percent": percent} for worker, percent in WAITS.items()}
    processes = [process(*[second] * 4, worker_id=worker) for worker, second in waits.items()]
    assert [finding.who.worker_id for finding in judge(processes).findings] == ["most", "", "least"]


CORES = {"core_0_percent": 90.0, "core_1_percent": 94.0, "cpu_percent": 92.0}


def test_other_processes_are_named_for_each_host() -> None:
    """Two processes of ours with 33 % of a core each are 33 % of a machine of two cores."""
    ours = [
        process(*[CORES] * 3, boot_id="a"),
        process(*[CORES] * 3, worker_id="w2", boot_id="a"),
        process({**CORES, "cpu_percent": 20.0}, worker_id="w3", host="calm", boot_id="b"),
        process(CALM, worker_id="w4", host="mute"),
    ]
    first, second = judge(ours).hosts
    assert first.host == "h"
    assert first.cpu_percent == pytest.approx(92)
    assert first.other_percent == pytest.approx(59)
    assert first.waiting_percent == pytest.approx(1)
    assert (second.host, second.other_percent) == ("calm", pytest.approx(3.5))
    assert [load.host for load in judge(ours).hosts if load.taken] == ["h"]
    assert judge(ours).headroom is Headroom.ENOUGH


def test_a_store_that_ssbench_runs_is_no_other_process() -> None:
    """A temporary store with 110 % of a core is 55 % of a machine of two cores."""
    master = process(*[{**CORES, "store_cpu_percent": 110.0}] * 3, worker_id="", boot_id="a")
    worker = process(*[CORES] * 3, boot_id="a")
    (load,) = judge([master, worker]).hosts
    assert load.store_percent == pytest.approx(55)
    assert load.other_percent == pytest.approx(92 - 33 - 55)
    assert not load.taken


def test_cores_used_by_ssbench_are_not_counted_as_others() -> None:
    assert not HostLoad("h", 99.0, 30.0, 40.0).taken
    assert not HostLoad("h", 80.0, 78.0, 0.0).taken


def test_own_failures_and_workers_that_are_gone_make_the_load_generator_the_bottleneck() -> None:
    calm = process(*[CALM] * 3)
    for processes in ([], [calm]):
        failed, gone = judge(processes, 44), judge(processes, workers_gone=True)
        assert (failed.headroom, failed.own_failures) == (Headroom.NONE, 44)
        assert (gone.headroom, gone.workers_gone) == (Headroom.NONE, True)


# The figures of hosts


def second(at_s: float, **figures: float) -> HostRecord:
    return HostRecord(0, at_s, {"interval_s": 1.0, **figures}, host="h", boot_id="b")


def test_one_record_is_selected_for_each_second_of_a_host() -> None:
    seconds = HostSeconds()
    ends_s = [1.0, 1.6, 1.95, 2.6, 3.0, 3.6]  # of two processes; the second outlives the first
    assert [at for at in ends_s if seconds.is_new(second(at))] == [1.0, 1.95, 3.0]
    assert [at for at in (4.6, 5.6) if seconds.is_new(second(at))] == [4.6, 5.6]
    assert seconds.is_new(replace(second(1.0), host="another"))
    assert seconds.is_new(replace(second(1.0), phase=Phase.CLEANUP))


def test_a_second_belongs_to_the_time_in_which_its_middle_is() -> None:
    series = HostSeries()
    for at_s in (0.4, 1.4, 2.4, 3.4):
        series.add(second(at_s, cpu_percent=10 * at_s))
    assert (series.host, series.boot_id, len(series)) == ("h", "b", 4)
    assert [round(value) for value in series.values("cpu_percent", [(0.0, 2.0)])] == [14, 24]
    assert len(series.values("cpu_percent", [(-inf, 0.5), (1.9, inf)])) == 3


_NAMES = [*FIGURES, *map(core_name, range(3))]
_ANY = st.dictionaries(st.sampled_from(_NAMES), st.floats(-1e300, 1e300), max_size=len(_NAMES))
_OF_CORES = ("process_cpu_percent", "store_cpu_percent")  # of one core, of which there are several
_HALF = [name for name in _NAMES if name.endswith("_percent") and name not in _OF_CORES]


@given(_ANY)
def test_no_figure_is_out_of_its_bounds(figures: dict[str, float]) -> None:
    found = bounded(figures)
    assert found.keys() == figures.keys()
    assert all(value >= 0 for value in found.values())
    assert all(found.get(name, 0) <= 100 for name in _HALF if not name.startswith("core_"))
    cores = 0
    while core_name(cores) in found:
        assert found[core_name(cores)] <= 100
        cores += 1
    if cores:
        assert all(found.get(name, 0) <= 100 * cores for name in _OF_CORES)
    total = found.get("memory_total_bytes", inf)
    assert found.get("memory_used_bytes", 0) <= total
    assert found.get("memory_available_bytes", 0) <= total


@given(st.lists(_ANY, min_size=1, max_size=20))
def test_no_figure_of_a_verdict_is_out_of_its_bounds(rows: list[dict[str, float]]) -> None:
    series = HostSeries()
    for at_s, figures in enumerate(rows, 1):
        series.add(second(at_s, **{"loop_cpu_percent": 100.00000000000001, **figures}))
    verdict = judge([ProcessSeries(ProcessId("w", "h"), series, [(-inf, inf)])])
    assert 0 <= (verdict.busiest_loop_percent or 0) <= 100
    assert 0 <= (verdict.busiest_core_percent or 0) <= 100
    for load in verdict.hosts:
        assert 0 <= load.other_percent <= load.cpu_percent <= 100
        assert 0 <= load.waiting_percent <= 100
