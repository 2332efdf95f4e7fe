"""A run with --profile: its section in text and JSON, and its lines for other tools."""

from __future__ import annotations

from ssbench.core.operations import READ
from ssbench.core.records import MASTER, ProfileRecord, Record
from ssbench.report import collapsed_stacks
from tests.report import runs
from tests.report.runs import MS, render

MAIN = "main (m.py:1)"
MASTER_PROFILE = ProfileRecord(
    MASTER, {f"{MAIN};poll (m.py:9)": 30 * MS, f"{MAIN};send (m.py:5)": 10 * MS}, 4, MS
)
WORKER_STACKS = {
    f"{MAIN};user (u.py:3);read (s.py:7)": 199 * MS, f"{MAIN};user (u.py:3)": MS,
}  # fmt: skip


def records(*profiles: Record) -> list[Record]:
    return [
        runs.header(), runs.worker(0, "w0"), runs.worker(1, "w\x1b1"),
        runs.batch([runs.result(1, READ)]), *profiles, runs.footer(),
    ]  # fmt: skip


BOTH = [MASTER_PROFILE, *(ProfileRecord(index, WORKER_STACKS, 20, 2 * MS) for index in (0, 1))]


def test_text_shows_hot_functions_and_calls_of_master_and_workers() -> None:
    text = render("text", runs.stats_of(records(*BOTH)))
    assert text[text.index("PROFILE") :].split("\n\n")[0].splitlines() == [
        "PROFILE",
        "CPU time in the run phase, sampled after each 10 ms that a process used; waiting is not in"
        " it.",
        "     role  processes  samples  CPU time (s)  sampling (%)",
        "   master          1        4          0.04          2.44",
        "  workers          2       40          0.40          0.99",
        "Functions of the master with the most CPU time of their own",
        "  self (%)  total (%)  function",
        "      75.0       75.0  poll (m.py:9)",
        "      25.0       25.0  send (m.py:5)",
        "       0.0      100.0  main (m.py:1)",
        "Calls of the master, from 1 %",
        "  self (%)  total (%)  calls",
        "       0.0      100.0  main (m.py:1)",
        "      75.0       75.0    poll (m.py:9)",
        "      25.0       25.0    send (m.py:5)",
        "Functions of the workers with the most CPU time of their own",
        "  self (%)  total (%)  function",
        "      99.5       99.5  read (s.py:7)",
        "       0.5      100.0  user (u.py:3)",
        "       0.0      100.0  main (m.py:1)",
        "Calls of the workers, from 1 %",
        "  self (%)  total (%)  calls",
        "       0.5      100.0  user (u.py:3)",
        "      99.5       99.5    read (s.py:7)",
    ]


def test_processes_without_a_profile_are_named() -> None:
    text = render("text", runs.stats_of(records(BOTH[1])))
    assert "Warning: The master reported no profile" in text
    assert "Warning: Worker w\\x1b1 (bench-01, pid 101) reported no profile" in text
    found = runs.as_json(runs.stats_of(records(*BOTH[:2])))["profile"]
    assert found["missing"] == ["Worker w\x1b1 (bench-01, pid 101)"]


def test_json_has_all_functions_and_percent() -> None:
    found = runs.as_json(runs.stats_of(records(*BOTH)))["profile"]
    assert found["missing"] == []
    assert found["processes"]["workers"] == {
        "processes": 2, "samples": 40, "cpu_s": 0.4, "overhead_percent": 0.990099010,
    }  # fmt: skip
    assert found["workers_functions"][0] == {
        "self_percent": 99.5, "total_percent": 99.5, "function": "read (s.py:7)",
    }  # fmt: skip
    assert [(row["depth"], row["function"]) for row in found["master_calls"]] == [
        (0, "main (m.py:1)"), (1, "poll (m.py:9)"), (1, "send (m.py:5)"),
    ]  # fmt: skip


def test_lines_for_other_tools_merge_the_workers() -> None:
    lines = list(collapsed_stacks(runs.stats_of(records(*BOTH)).run))
    assert lines == [
        "master;main (m.py:1);poll (m.py:9) 30000\n",
        "master;main (m.py:1);send (m.py:5) 10000\n",
        "workers;main (m.py:1);user (u.py:3) 2000\n",
        "workers;main (m.py:1);user (u.py:3);read (s.py:7) 398000\n",
    ]


def test_a_run_without_profile_has_no_section() -> None:
    assert "profile" not in runs.as_json(runs.stats_of(records()))
    assert "PROFILE" not in render("text", runs.stats_of(records()))
