"""What a report says of the load generator and its hosts."""

from __future__ import annotations

from typing import Any

import pytest

from ssbench.core.stats.headroom import (
    Cause,
    Headroom,
    HeadroomVerdict,
    HostLoad,
    ProcessId,
    Shortage,
)
from ssbench.core.stats.run_stats import RunStats
from tests.report import runs
from tests.report.runs import render

WORKER, MASTER = ProcessId("w2", "bench-02"), ProcessId("", "bench-01")


def judged(verdict: HeadroomVerdict) -> RunStats:
    """A run with this verdict."""
    stats = runs.stats_of(runs.normal())
    stats.verdict = lambda: verdict  # type: ignore[method-assign]
    return stats


def verdict_lines(verdict: HeadroomVerdict) -> list[str]:
    """The block that follows the run's own notes."""
    text = render("classic", judged(verdict))
    *_, block, _hosts, _warnings = text.split("\n\n")
    return block.splitlines()


def verdict_map(verdict: HeadroomVerdict) -> Any:
    return runs.as_json(judged(verdict))["load_generator"]


def sentences(*findings: Shortage) -> list[str]:
    return verdict_lines(HeadroomVerdict(Headroom.NONE, findings))


@pytest.mark.parametrize(
    ("who", "cause", "value", "sentence"),
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
            " generator was the bottleneck; other processes used its host's cores: give it a"
            " host of its own",
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
def test_each_cause_is_a_sentence(
    who: ProcessId, cause: Cause, value: float, sentence: str
) -> None:
    assert sentences(Shortage(who, cause, value, 41, 60)) == [sentence]


def test_a_bottleneck_at_times_is_named_so() -> None:
    most, sentence = sentences(
        Shortage(MASTER, Cause.CORE, 98, 30, 60), Shortage(WORKER, Cause.CORE, 98, 6, 60)
    )
    assert "30 of 60 s: the load generator was the bottleneck; give" in most
    assert "6 of 60 s: the load generator was the bottleneck at times; add workers" in sentence


def test_only_the_first_findings_are_listed() -> None:
    found = [Shortage(ProcessId(f"w{n}", "h"), Cause.CORE, 98, 9, 9) for n in range(64)]
    sentence = sentences(*found)
    assert len(sentence) == 5
    assert sentence[-1] == "60 more findings of this kind (--json has all)"


def test_headroom_is_shown_with_figures() -> None:
    hosts = (HostLoad("bench-01", 34.4, 20.0, 0.1),)
    assert list(
        verdict_lines(HeadroomVerdict(Headroom.ENOUGH, (), MASTER, 7.3, 99.0, 0.001, hosts))
    ) == [
        "The load generator was not the bottleneck: ssbench used at most 7 % of a core"
        " (host: 34 % busy)"
    ]
    assert (verdict_lines(HeadroomVerdict(Headroom.ENOUGH, (), MASTER, 7.3))) == [
        "The load generator was not the bottleneck: ssbench used at most 7 % of a core"
        " (the master (bench-01))"
    ]
    assert "N/A" in verdict_lines(HeadroomVerdict(Headroom.ENOUGH))[0]


def test_other_processes_on_the_cores_are_named_with_their_effect() -> None:
    hosts = (
        HostLoad("bench-01", 92.4, 89.0, 12.0),
        HostLoad("bench-02", 92.0, 40.0, 1.0),
        HostLoad("bench-03", 92.0, 88.0, 0.4),
    )
    verdict = HeadroomVerdict(Headroom.ENOUGH, (), MASTER, 7.3, 99.0, 0.001, hosts)
    first, second, third = verdict_lines(verdict)
    assert first.endswith("used at most 7 % of a core (host: 92 % busy)")
    assert second == (
        "Other processes used 89 % of all cores of bench-01: ssbench waited for a core 12 % of the"
        " time, which adds to the latencies, and a store on that host had less CPU; give the load"
        " generator a host of its own"
    )
    assert third == (
        "Other processes used 88 % of all cores of bench-03: a store on that host had less CPU;"
        " give the load generator a host of its own"
    )
    found = verdict_map(verdict)["hosts"]
    assert [row["taken_by_others"] for row in found] == [True, False, True]
    assert found[0]["other_work_percent"] == 89


def test_operations_that_failed_on_the_own_host_make_it_the_bottleneck() -> None:
    (sentence,) = verdict_lines(HeadroomVerdict(Headroom.NONE, own_failures=44))
    assert sentence.startswith(
        "The load generator was the bottleneck: 44 operations failed because its own host had no"
        " file descriptor, port or memory left"
    )
    assert verdict_map(HeadroomVerdict(Headroom.NONE, own_failures=44))["own_failures"] == 44


def test_without_metrics_the_verdict_is_unknown() -> None:
    assert (verdict_lines(HeadroomVerdict(Headroom.UNKNOWN))) == [
        "Load generator: unknown whether it was the bottleneck (no whole second with metrics of"
        " its hosts)"
    ]


def test_names_of_workers_are_escaped() -> None:
    (sentence,) = sentences(Shortage(ProcessId("w\x1b[2J", "h\n"), Cause.CORE, 98, 9, 9))
    assert sentence.isprintable()


def test_json_has_words_and_figures() -> None:
    finding = Shortage(WORKER, Cause.LATE, 0.03, 41, 60)
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
