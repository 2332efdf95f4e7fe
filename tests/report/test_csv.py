"""The CSV report: two lines, 0.3.9's columns first; and the CSV files beside it."""

from __future__ import annotations

import csv
from collections.abc import Sequence

import pytest

from ssbench.core.model import Phase
from ssbench.core.records import HostRecord, PhaseRecord, Record
from ssbench.core.stats.host_metrics import FIGURES
from ssbench.report.as_csv import dstat_head, dstat_rows, host_columns, host_rows, hosts_of
from tests.report import runs


@pytest.mark.parametrize("name", ["=1+1", "+1+1", "-1+1", "@a", "\t=1", "\r=1"])
def test_no_text_of_others_is_a_formula(name: str) -> None:
    host = HostRecord(0, 1.0, {"cpu_percent": 5.0}, host=name)
    lines = [*host_rows([host], host_columns([host])), *dstat_rows([host], (name, ""))]
    cells = [cell for line in lines for cell in next(csv.reader([line]))]
    assert name.encode("unicode_escape").decode() in " ".join(cells)
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]


# --host-stats

BEFORE_FIGURES = ("phase", "at_s", "wall_clock_s", "worker_index", "worker_id", "host", "boot_id")


def table(records: Sequence[Record]) -> list[dict[str, str]]:
    return list(csv.DictReader("".join(host_rows(records, host_columns(records))).splitlines()))


def test_a_row_has_who_and_when_and_the_figures() -> None:
    rows = table(runs.normal())
    assert len(rows) == 6
    assert [row["worker_id"] for row in rows[:3]] == ["", "alpha", "beta"]
    row = rows[1]
    assert (row["phase"], row["at_s"], row["worker_index"]) == ("RUN", "1.000", "0")
    assert row["wall_clock_s"] == f"{runs.STARTED_AT + 1:.3f}"
    assert (row["host"], row["boot_id"]) == ("bench-01", "b007")
    assert float(row["loop_cpu_percent"]) == 97.0
    assert row["disk_read_bytes_per_s"] == ""  # not measured


def test_there_is_a_column_for_each_core_of_the_largest_machine() -> None:
    records = [
        HostRecord(0, 1.0, {"core_0_percent": 5.0}),
        HostRecord(1, 1.0, {"core_0_percent": 6.0, "core_1_percent": 7.25, "strange": 1.0}),
    ]
    names = host_columns(records)
    assert names == [*BEFORE_FIGURES, *FIGURES, "core_0_percent", "core_1_percent"]
    rows = table(records)
    assert [row["core_1_percent"] for row in rows] == ["", "7.25"]
    assert rows[0]["wall_clock_s"] == ""  # unknown when the phase began


def sheet(records: list[Record], host: tuple[str, str]) -> list[dict[str, str]]:
    return list(csv.DictReader([dstat_head(), *dstat_rows(records, host)]))


def test_the_sheet_of_a_host_has_the_columns_of_dstat_and_a_row_for_each_second() -> None:
    """By the wall clock, and with figures of this host only."""
    records = runs.normal()
    assert hosts_of(records) == [("bench-01", "b007")]
    rows = sheet(records, ("bench-01", "b007"))
    assert len(rows) == 2  # of three processes
    names = "usr sys idl wai hiq siq stl used buff cach free read writ recv send in out int csw"
    assert list(rows[0]) == ["host", "time", "epoch", "phase", *names.split()]
    assert rows[0]["usr"] == ""  # not recorded by earlier versions
    begin = PhaseRecord(Phase.POPULATE, 1_795_000_000.0, 4)
    mine = {"interval_s": 1.0, "cpu_user_percent": 12.3456, "memory_used_bytes": 5e9}
    records = [
        HostRecord(1, 0.5, {}, Phase.RUN, "store", "s"),  # the phase's start is unknown
        begin,
        HostRecord(1, 1.25, mine, Phase.POPULATE, "store", "s"),
        HostRecord(0, 1.25, {}, Phase.POPULATE, "bench", "b"),
    ]
    first, second = sheet(records, ("store", "s"))
    assert (first["time"], first["epoch"]) == ("", "")
    assert (second["host"], second["phase"]) == ("store", "POPULATE")
    assert (second["time"], second["epoch"]) == ("2026-11-18 11:06:41", "1795000001.250")
    assert (second["usr"], second["used"], second["sys"]) == ("12.346", "5000000000.0", "")
