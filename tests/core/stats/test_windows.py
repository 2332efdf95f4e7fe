"""What counts, and to which stage it belongs."""

from __future__ import annotations

from ssbench.core.model import NONE_NS
from ssbench.core.operations import READ
from ssbench.core.records import MarkRecord, ResultBatch
from ssbench.core.stats.results import PhaseResults
from ssbench.core.stats.scenario_view import ScenarioView
from ssbench.core.stats.windows import LEFT_OUT, Windows
from tests.report import runs

SECOND = runs.SECOND


def windows_of(end_s: int | None = None, **scenario: object) -> Windows:
    return Windows(ScenarioView.of(scenario), None if end_s is None else end_s * SECOND)


def batch(*starts_s: float, due: bool = False) -> ResultBatch:
    rows = [
        runs.result(
            number,
            READ,
            start_ns=round(start * SECOND) + (5 * SECOND if due else 0),
            due_ns=round(start * SECOND) if due else NONE_NS,
            bytes_moved=number,
        )
        for number, start in enumerate(starts_s)
    ]
    return runs.batch(rows)


def stages(windows: Windows, given: ResultBatch) -> dict[int, list[int]]:
    results = PhaseResults([given], {})
    groups = results.groups(windows.stages(results))
    return {group.stage: group.column("bytes_moved").tolist() for group in groups}


def marked(windows: Windows, *at_s: float) -> Windows:
    for index, at in enumerate(at_s):
        windows.mark(MarkRecord(round(at * SECOND), "stage", index))
    windows.mark(MarkRecord(100 * SECOND, "end"))
    return windows


def test_without_marks_everything_counts() -> None:
    assert stages(windows_of(100, warmup=5, cooldown=5), batch(0, 1, 2)) == {0: [0, 1, 2]}


def test_warm_up_and_cool_down_are_left_out() -> None:
    windows = marked(windows_of(100, warmup=2, cooldown=3), 1)
    assert stages(windows, batch(1, 2.999, 3, 96.999, 97, 120)) == {
        LEFT_OUT: [0, 1, 4, 5],
        0: [2, 3],
    }
    assert stages(windows, batch(0, 1)) == {LEFT_OUT: [0, 1]}


def test_without_a_warm_up_nothing_is_left_out_at_the_start() -> None:
    windows = marked(windows_of(), 1, 2)
    assert stages(windows, batch(0.999, 1, 2)) == {0: [0, 1], 1: [2]}


def test_an_operation_belongs_to_the_time_at_which_it_was_due() -> None:
    windows = marked(windows_of(warmup=2), 0, 10)
    assert stages(windows, batch(1, 2, 9.5, 10, due=True)) == {LEFT_OUT: [0], 0: [1, 2], 1: [3]}


def test_stages_are_split_at_their_starts() -> None:
    windows = marked(windows_of(), 0, 10, 20)
    found = stages(windows, batch(20, 9.999, 10, 0, 19, 25))
    assert found == {0: [1, 3], 1: [2, 4], 2: [0, 5]}


def warming(*warmups: float) -> list[dict[str, float]]:
    return [{"seconds": 10, "users": 1, "warmup": warmup} for warmup in warmups]


def test_a_stage_has_a_warm_up_of_its_own() -> None:
    windows = marked(windows_of(stages=warming(0, 4, 1)), 0, 10, 20)
    found = stages(windows, batch(-0.001, 9, 10, 13.9, 14, 19, 20.9, 21, 300))
    assert found == {0: [0, 1], LEFT_OUT: [2, 3, 6], 1: [4, 5], 2: [7, 8]}


def test_the_longer_of_two_warm_ups_counts() -> None:
    windows = marked(windows_of(warmup=5, stages=warming(2, 0)), 0, 10)
    assert stages(windows, batch(4.9, 5, 10)) == {LEFT_OUT: [0], 0: [1], 1: [2]}
    windows = marked(windows_of(warmup=2, stages=warming(5, 0)), 0, 10)
    assert stages(windows, batch(4.9, 5, 10)) == {LEFT_OUT: [0], 0: [1], 1: [2]}


def test_ramps_may_be_longer_than_stages() -> None:
    windows = marked(windows_of(warmup=12), 0, 10, 20)
    assert stages(windows, batch(9, 11.9, 12, 20)) == {LEFT_OUT: [0, 1], 1: [2], 2: [3]}
    windows = marked(windows_of(30, cooldown=15), 0, 10, 20)
    assert stages(windows, batch(9, 14.9, 15, 20, 29)) == {0: [0], 1: [1], LEFT_OUT: [2, 3, 4]}


def test_a_batch_on_both_sides_of_what_counts_is_left_out_on_both() -> None:
    windows = marked(windows_of(100, warmup=2, cooldown=2), 0)
    assert stages(windows, batch(1, 50, 99)) == {LEFT_OUT: [0, 2], 0: [1]}
