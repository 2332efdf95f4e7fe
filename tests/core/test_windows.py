"""What counts, and to which stage it belongs."""

from __future__ import annotations

from ssbench.core.model import NONE_NS, Operation
from ssbench.core.records import MarkRecord, ResultBatch
from ssbench.core.windows import SECOND_NS, Windows
from tests.report import runs

SECOND = SECOND_NS


def batch(*starts_s: float, due: bool = False) -> ResultBatch:
    rows = [
        runs.result(
            number,
            Operation.READ,
            start_ns=round(start * SECOND) + (5 * SECOND if due else 0),
            due_ns=round(start * SECOND) if due else NONE_NS,
        )
        for number, start in enumerate(starts_s)
    ]
    return runs.batch(rows)


def stages(windows: Windows, given: ResultBatch) -> dict[int, list[int]]:
    return {stage: list(part.column("number")) for stage, part in windows.cut(given)}


def marked(windows: Windows, *at_s: float) -> Windows:
    for index, at in enumerate(at_s):
        windows.mark(MarkRecord(round(at * SECOND), "stage", index))
    windows.mark(MarkRecord(100 * SECOND, "end"))
    return windows


def test_without_marks_all_counts() -> None:
    given = batch(0, 1, 2)
    ((stage, part),) = Windows(5, 5, 100 * SECOND).cut(given)
    assert stage == 0
    assert part is given


def test_a_batch_of_one_stage_is_not_copied() -> None:
    given = batch(3, 1, 2)
    assert list(marked(Windows(), 1).cut(given)) == [(0, given)]


def test_warm_up_and_cool_down_are_left_out() -> None:
    windows = marked(Windows(2, 3, 100 * SECOND), 1)
    assert windows.low_ns == 3 * SECOND
    assert stages(windows, batch(1, 2.999, 3, 96.999, 97, 120)) == {-1: [0, 1, 4, 5], 0: [2, 3]}
    assert stages(windows, batch(0, 1)) == {-1: [0, 1]}


def test_without_a_warm_up_nothing_is_left_out_at_the_start() -> None:
    windows = marked(Windows(), 1, 2)
    assert stages(windows, batch(0.999, 1, 2)) == {0: [0, 1], 1: [2]}


def test_an_operation_belongs_to_the_time_at_which_it_was_due() -> None:
    windows = marked(Windows(2), 0, 10)
    assert stages(windows, batch(1, 2, 9.5, 10, due=True)) == {-1: [0], 0: [1, 2], 1: [3]}


def test_stages_part_where_they_begin() -> None:
    windows = marked(Windows(), 0, 10, 20)
    found = stages(windows, batch(20, 9.999, 10, 0, 19, 25))
    assert found == {0: [1, 3], 1: [2, 4], 2: [0, 5]}
