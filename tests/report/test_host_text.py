"""Was it us? In sentences, and for JSON."""

from __future__ import annotations

import pytest

from ssbench.core.stats.headroom import Cause, Finding, Headroom, HeadroomVerdict, HostLoad, Who
from ssbench.report.host_text import clock_rows, verdict_lines, verdict_map
from tests.report import runs

WORKER, MASTER = Who("w2", "bench-02"), Who("", "bench-01")


def sentences(*findings: Finding) -> list[str]:
    return list(verdict_lines(HeadroomVerdict(Headroom.NONE, findings)))


@pytest.mark.parametrize(
    ("who", "cause", "value", "said"),
    [
        (
            WORKER, Cause.CORE, 98.2,
            "Worker w2 (bench-02) used 98 % of a core for 41 of 60 s: the load generator was the"
            " bottleneck; add workers",
        ),
        (
            MASTER, Cause.CORE, 99.0,
            "The master (bench-01) used 99 % of a core for 41 of 60 s: the load generator was the"
            " bottleneck; give the master a larger --batch-size, or a faster core",
        ),
        (
            WORKER, Cause.CORES, 38.0,
            "Worker w2 (bench-02) waited for a core 38 % of the time for 41 of 60 s: the load"
            " generator was the bottleneck; other processes took its host's cores: move it or them",
        ),
        (
            WORKER, Cause.LATE, 0.0304,
            "Worker w2 (bench-02) ran its timers 30 ms late for 41 of 60 s: the load"
            " generator was the bottleneck; find out what blocks it",
        ),
        (
            WORKER, Cause.NETWORK, 95.0,
            "Host bench-02 had its network interface 95 % full for 41 of 60 s: the load"
            " generator was the bottleneck; add hosts",
        ),
        (
            MASTER, Cause.MEMORY, 2.5,
            "Host bench-01 had 2.5 % of its memory left for 41 of 60 s: the load generator was"
            " the bottleneck; add memory or hosts",
        ),
    ],
)  # fmt: skip
def test_each_cause_is_a_sentence(who: Who, cause: Cause, value: float, said: str) -> None:
    assert sentences(Finding(who, cause, value, 41, 60)) == [said]


def test_a_limit_at_times_is_called_so_whatever_the_others_were() -> None:
    most, said = sentences(
        Finding(MASTER, Cause.CORE, 98, 30, 60), Finding(WORKER, Cause.CORE, 98, 6, 60)
    )
    assert "30 of 60 s: the load generator was the bottleneck; give" in most
    assert "6 of 60 s: the load generator was the bottleneck at times; add workers" in said


def test_many_workers_dont_fill_the_screen() -> None:
    found = [Finding(Who(f"w{n}", "h"), Cause.CORE, 98, 9, 9) for n in range(64)]
    said = sentences(*found)
    assert len(said) == 5
    assert said[-1] == "Of the same kind: 60 more (--json has them all)"


def test_room_is_told_with_figures() -> None:
    hosts = (HostLoad("bench-01", 34.4, 20.0, 0.1),)
    assert list(
        verdict_lines(HeadroomVerdict(Headroom.ENOUGH, (), MASTER, 7.3, 99.0, 0.001, hosts))
    ) == [
        "The load generator was not the bottleneck: ssbench used at most 7 % of a core"
        " (host: 34 % busy)"
    ]
    assert list(verdict_lines(HeadroomVerdict(Headroom.ENOUGH, (), MASTER, 7.3))) == [
        "The load generator was not the bottleneck: ssbench used at most 7 % of a core"
        " (the master (bench-01))"
    ]
    assert "N/A" in next(verdict_lines(HeadroomVerdict(Headroom.ENOUGH)))


def test_other_work_that_took_the_cores_is_told_and_what_it_does() -> None:
    hosts = (HostLoad("bench-01", 92.4, 89.0, 12.0), HostLoad("bench-02", 92.0, 40.0, 1.0))
    verdict = HeadroomVerdict(Headroom.ENOUGH, (), MASTER, 7.3, 99.0, 0.001, hosts)
    first, second = verdict_lines(verdict)
    assert first.endswith("used at most 7 % of a core (host: 92 % busy)")
    assert second == (
        "Other work used 89 % of all cores of bench-01: ssbench waited for a core 12 % of the time,"
        " which is in the latencies, and a store on that host had less to work with; give the load"
        " generator a host of its own"
    )
    found = verdict_map(verdict)["hosts"]
    assert [row["taken_by_others"] for row in found] == [True, False]
    assert found[0]["other_work_percent"] == 89


def test_operations_that_our_own_host_failed_make_it_the_bottleneck() -> None:
    (said,) = verdict_lines(HeadroomVerdict(Headroom.NONE, own_failures=44))
    assert said.startswith(
        "The load generator was the bottleneck: 44 operations failed because its own host had no"
        " file descriptor, port or memory left"
    )
    assert verdict_map(HeadroomVerdict(Headroom.NONE, own_failures=44))["own_failures"] == 44


def test_where_nothing_is_known_that_is_said() -> None:
    assert list(verdict_lines(HeadroomVerdict(Headroom.UNKNOWN))) == [
        "Load generator: unknown whether it was the bottleneck (no whole second with metrics of"
        " its hosts)"
    ]


def test_names_cant_play_with_a_terminal() -> None:
    (said,) = sentences(Finding(Who("w\x1b[2J", "h\n"), Cause.CORE, 98, 9, 9))
    assert said.isprintable()


def test_json_has_words_and_figures() -> None:
    finding = Finding(WORKER, Cause.LATE, 0.03, 41, 60)
    found = verdict_map(HeadroomVerdict(Headroom.NONE, (finding,), MASTER, 12.3, None, 0.5))
    assert found["verdict"] == "limit"
    assert found["sentences"][0].startswith("Worker w2")
    assert found["findings"] == [
        {
            "cause": "late", "worker_id": "w2", "host": "bench-02", "percent": None,
            "late_s": 0.03, "seconds": 41, "of_seconds": 60,
        }
    ]  # fmt: skip
    assert found["busiest"] == {"worker_id": "", "host": "bench-01"}
    assert (found["busiest_core_percent"], found["loop_lag_max_s"]) == (None, 0.5)


def test_each_workers_clock_is_a_row() -> None:
    assert clock_rows(runs.stats_of(runs.normal())) == [
        {
            "worker_id": "alpha", "host": "bench-01", "corrected_by_s": 0.0,
            "uncertainty_s": 0.00015, "wall_clock_ahead_s": 0.012,
        }
    ]  # fmt: skip
