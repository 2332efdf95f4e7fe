"""Live figures of a run, kept by seconds."""

from __future__ import annotations

from math import inf, isnan

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssbench.core.model import Phase
from ssbench.core.records import HostRecord
from ssbench.core.stats.headroom import ProcessId, ProcessSeries, judge
from ssbench.core.stats.host_metrics import (
    DSTAT,
    FIGURES,
    KEPT,
    OF_HOST,
    HostSeconds,
    HostSeries,
    bounded,
    core_name,
)

UNITS = ("_percent", "_s", "_bytes")


def second(at_s: float, **figures: float) -> HostRecord:
    return HostRecord(0, at_s, {"interval_s": 1.0, **figures}, host="h", boot_id="b")


def test_each_name_says_its_unit() -> None:
    assert all(name.endswith(UNITS) for name in FIGURES)
    assert core_name(3) == "core_3_percent"


def test_derived_metrics_come_from_recorded_ones() -> None:
    assert set(KEPT) - set(FIGURES) == {"memory_available_percent", "cores"}
    assert set(OF_HOST) - set(FIGURES) == {"memory_used_percent"}
    assert set(DSTAT.values()) <= set(FIGURES)


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


def test_missing_metrics_are_left_out_or_not_a_number() -> None:
    series = HostSeries()
    series.add(second(1, cpu_percent=5.0))
    series.add(second(2, loop_cpu_percent=7.0))
    assert series.values("cpu_percent", [(0, 9)]) == [5.0]
    rows = list(series.rows(["cpu_percent", "loop_cpu_percent"], [(0, 9)]))
    assert rows[0][0] == 5.0
    assert isnan(rows[0][1])
    assert isnan(rows[1][0])


def test_memory_is_kept_as_a_share() -> None:
    series = HostSeries()
    series.add(second(1, memory_total_bytes=8e9, memory_available_bytes=2e9))
    series.add(second(2, memory_total_bytes=0, memory_available_bytes=2e9))
    assert series.values("memory_available_percent", [(0, 9)]) == [25.0]


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


def test_a_cpu_that_is_a_little_more_than_busy_is_busy() -> None:
    assert bounded({"cpu_percent": 100.00000000000001}) == {"cpu_percent": 100.0}
