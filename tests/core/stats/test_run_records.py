"""Headers, footers and workers."""

from __future__ import annotations

import math

from ssbench.core.records import MarkRecord
from ssbench.core.stats.run_records import RunRecords
from tests.report import runs


def run_of(*records: object) -> RunRecords:
    found = RunRecords()
    for record in records:
        found.add(record)  # type: ignore[arg-type]
    return found


def test_without_a_footer_it_was_cut_off() -> None:
    assert run_of(runs.header()).ending == "cut off"
    assert run_of(runs.header(), runs.footer(ended="interrupted")).ending == "interrupted"
    assert run_of().ending == "cut off"


def test_a_damaged_file_is_not_complete_whatever_its_footer_says() -> None:
    run = run_of(runs.header(), runs.footer())
    run.damage.append("block 3 is damaged")
    assert (run.complete, run.ending) == (False, "cut off")


def test_0_3_9_is_known_by_its_version() -> None:
    assert "load" in run_of(runs.header(run_id="", ssbench_version="0.3.9")).unrecorded
    assert not run_of(runs.header()).unrecorded


def test_footers_of_several_runs_add_up() -> None:
    one = run_of(
        runs.header(run_id="1"), runs.footer(lost=2, skipped={"READ": 1}, warnings=["a"]),
        runs.header(run_id="2"), runs.footer(late=3, skipped={"READ": 4}, left_behind=1),
    )  # fmt: skip
    assert (one.lost, one.late, one.left_behind, one.refused) == (2, 3, 1, 0)
    assert one.skipped == {"READ": 5}
    assert one.warnings == ["a"]


def test_the_number_sent_is_known_if_each_run_records_it() -> None:
    records = [runs.header(run_id="1"), runs.footer(sent=5)]
    assert run_of(*records).sent == 5
    records += [runs.header(run_id="2"), runs.footer(sent=2)]
    assert run_of(*records).sent == 7
    records += [runs.header(run_id="3"), runs.footer()]
    assert run_of(*records).sent is None
    assert run_of(runs.header()).sent is None


def test_one_of_two_cut_off_is_incomplete() -> None:
    one = run_of(runs.header(run_id="1"), runs.footer(), runs.header(run_id="2"))
    assert not one.complete


def test_the_measured_part_lies_between_the_marks_without_ramps() -> None:
    stages = [{"seconds": 7.5, "users": 1}, {"seconds": 11, "users": 2, "warmup": 3}]
    scenario = {**runs.SCENARIO, "warmup": 5, "cooldown": 2, "stages": stages}
    found = run_of(
        runs.header(scenario=scenario),
        MarkRecord(1_500_000_000, "stage"),
        MarkRecord(9_000_000_000, "stage", 1),
        MarkRecord(20_000_000_000, "end", 1),
    )
    assert found.spans_s("5e1f") == [(6.5, 9.0), (12.0, 18.0)]
    assert [span.seconds for span in found.spans] == [2.5, 6.0]
    assert found.spans_s("another") == [(0.0, math.inf)]


def test_a_run_that_ended_in_its_warm_up_has_no_measured_part() -> None:
    scenario = {**runs.SCENARIO, "warmup": 5}
    marks = MarkRecord(0, "stage"), MarkRecord(3_000_000_000, "end")
    assert run_of(runs.header(scenario=scenario), *marks).spans_s("5e1f") == []


def test_users_that_ran_and_users_requested_are_reported() -> None:
    second = 1_000_000_000
    run = run_of(
        runs.header(),
        MarkRecord(second, "stage", 0, 64),
        MarkRecord(second, "users", 0, 4),
        MarkRecord(9 * second, "stage", 1, 8),
        MarkRecord(12 * second, "users", 1, 2),
        MarkRecord(13 * second, "users", 1, 8),
        MarkRecord(20 * second, "stage", 2, 5),
        MarkRecord(30 * second, "end", 2, 5),
    )
    first, second_stage, third = run.stage_users
    assert (first.asked, first.ran, first.least, first.short) == (64, ((1.0, 4),), 4, True)
    assert second_stage.ran == ((9.0, 8), (12.0, 2), (13.0, 8))
    assert (second_stage.least, second_stage.short) == (2, True)
    assert (third.ran, third.short) == (((20.0, 5),), False)
    assert (run.users_ran, run.short_of_users) == (2, True)


def test_users_are_unknown_without_records() -> None:
    assert run_of(runs.header()).users_ran is None
    assert not run_of(runs.header()).short_of_users
