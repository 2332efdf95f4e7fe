"""--host-stats: a row for each process of ours and second."""

from __future__ import annotations

import csv
from collections.abc import Sequence

from ssbench.core.model import Phase
from ssbench.core.records import MASTER, HostRecord, Record
from ssbench.core.stats.host_metrics import FIGURES
from ssbench.report.host_stats import FIRST, columns, host_rows
from tests.report import runs


def table(records: Sequence[Record]) -> list[dict[str, str]]:
    return list(csv.DictReader("".join(host_rows(records, columns(records))).splitlines()))


def test_a_row_has_who_and_when_and_the_figures() -> None:
    rows = table(runs.normal())
    assert len(rows) == 6
    assert [row["worker_id"] for row in rows[:3]] == ["", "alpha", "beta"]
    row = rows[1]
    assert (row["phase"], row["at_s"], row["worker_index"]) == ("RUN", "1.000", "0")
    assert row["wall_clock_s"] == f"{runs.STARTED_AT + 1:.3f}"
    assert (row["host"], row["boot_id"]) == ("bench-01", "b007")
    assert float(row["loop_cpu_percent"]) == 97.0
    assert row["disk_read_bytes_per_s"] == ""  # not told


def test_there_is_a_column_for_each_core_of_the_largest_machine() -> None:
    records = [
        HostRecord(0, 1.0, {"core_0_percent": 5.0}),
        HostRecord(1, 1.0, {"core_0_percent": 6.0, "core_1_percent": 7.25, "strange": 1.0}),
    ]
    names = columns(records)
    assert names == [*FIRST, *FIGURES, "core_0_percent", "core_1_percent"]
    rows = table(records)
    assert [row["core_1_percent"] for row in rows] == ["", "7.25"]
    assert rows[0]["wall_clock_s"] == ""  # nobody said when the phase began


def test_without_figures_there_is_the_line_of_names() -> None:
    assert "".join(host_rows([], columns([]))) == ",".join([*FIRST, *FIGURES]) + "\n"


def test_names_from_others_are_made_harmless() -> None:
    hostile = HostRecord(MASTER, 1.0, {}, Phase.RUN, "h\n\x1b[2J", "b,c")
    (row,) = table([hostile])
    assert row["host"].isprintable()
    assert row["boot_id"] == "b,c"
