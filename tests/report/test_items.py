"""Entries listed and objects handled, as reports show them."""

from __future__ import annotations

from ssbench.core.model import Phase
from ssbench.core.operations import DELETE, READ
from ssbench.core.records import MarkRecord, PhaseRecord, Record
from tests.report import runs
from tests.report.runs import render

#: 8 successes in 2 s, of which the first four have 1000 items each; and a failure, which has 7.
ROWS = [
    *(runs.result(number, READ, size_class=number % 2, items=1000) for number in range(4)),
    *(runs.result(number, DELETE) for number in range(4, 8)),
    runs.failure(8, READ, items=7),
]


def records() -> list[Record]:
    scenario = {**runs.SCENARIO, "operation_count": None, "run_seconds": 2}
    return [
        runs.header(scenario=scenario),
        PhaseRecord(Phase.RUN, runs.STARTED_AT, 4),
        MarkRecord(0, "stage", 0, 4),
        runs.batch(ROWS),
        MarkRecord(2 * runs.SECOND, "end", 0, 4),
        runs.footer(sent=len(ROWS)),
    ]


def test_json_has_the_items_of_each_operation_and_size_class() -> None:
    found = runs.as_json(runs.stats_of(records()))
    for part in (found["total"], found["operations"]["READ"]):
        assert (part["items"], part["items_per_s"]) == (4000, 2000)
        assert part["size_classes"]["tiny"]["items"] == 2000
    deletes = found["operations"]["DELETE"]
    assert (deletes["items"], deletes["items_per_s"]) == (0, 0)


def test_csv_has_them_in_its_last_columns() -> None:
    found = runs.as_csv(runs.stats_of(records()))
    assert list(found)[-10:-8] == ["total_items", "total_items_per_s"]
    assert (found["total_items"], found["read_items_per_s"]) == ("4000", "2000.0")


def test_text_has_a_line_where_there_are_any() -> None:
    blocks = render("text", runs.stats_of(records())).split("\n\n")
    line = "       Items: 4000  Average items per second: 2000.0"
    assert {block.split("\n")[0]: line in block for block in blocks if "Count: " in block} == {
        "TOTAL": True, "CREATE": False, "READ": True, "UPDATE": False, "DELETE": False,
    }  # fmt: skip


def test_items_are_no_throughput_and_without_any_there_is_no_key() -> None:
    assert runs.as_json(runs.stats_of(records()))["total"]["moved_bytes"] == 4 * 5000
    assert "items" not in runs.as_json(runs.stats_of(runs.normal()))["total"]
