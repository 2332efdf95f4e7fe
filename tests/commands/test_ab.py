"""ab: two variants of a scenario, run in turn, against no store."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import pytest

import ssbench
from ssbench.core.stats.bootstrap import student
from tests.cli.shell import Shell, free_ports, scenario


def test_two_variants_run_in_turn_and_are_compared(shell: Shell) -> None:
    own, out = scenario(shell.folder), shell.folder / "x.stat.gz"
    page = shell.folder / "page.html"
    found = shell(
        "ab", own, "--noop", "--workers", "1", *free_ports(), "-o", "60", "--a", "-u 2",
        "--b", "-u 3 --seed 7", "--repeat", "3", "-s", out, "--json", "--html", page,
        "--html-assets", shell.folder, "--fail-if", "rate < -99%",
    )  # fmt: skip
    made = json.loads(found.out)
    assert found.status == (0 if made["fail_if"][0]["passed"] else 3)
    named = [(run["side"], Path(run["file"]).name) for run in made["runs"]]
    assert named == [(s, f"x.{s.lower()}{n}.stat.gz") for s in "AB" for n in (1, 2, 3)]
    in_time = sorted(made["runs"], key=lambda run: run["started_at_s"])
    assert "".join(run["side"] for run in in_time) == "ABBAAB"
    assert [side["name"] for side in made["sides"]] == ["-u 2", "-u 3 --seed 7"]
    assert {side["paired"] for side in made["sides"]} == {True}
    differing = {row["key"]: row["values"] for row in made["differing_settings"]}
    assert differing["user_count"] == [2, 3]
    assert made["total"]["operations"] == [180, 180]
    for row in made["total"]["figures"].values():
        (change,) = row["changes_against_first"]
        assert change["verdict"] in ("real", "noise")
        assert change["low"] <= change["ratio"] <= change["high"]
    assert "A: -u 2" in page.read_text()
    assert "Pair 3 of 3: A3 " in found.err
    again = shell("ab", own, "--noop", "--a", "", "--b", "-u 3", "-s", out)
    assert again.status == 2
    assert "x.a1.stat.gz: is there already; --force overwrites it" in again.err


def test_one_setting_is_run_several_times(shell: Shell) -> None:
    found = shell.run("--repeat", "3", "--json", "-q")
    assert found.status == 0
    made = json.loads(found.out)
    assert [step["users"] for step in made["steps"]] == [4, 4, 4]
    (row,) = made["repeats"]
    assert (row["users"], row["runs"]) == (4, 3)
    rates = [step["operations_per_s"] for step in made["steps"]]
    assert row["operations_per_s"] == pytest.approx(statistics.geometric_mean(rates))
    spread = statistics.stdev(map(math.log, rates)) / 3**0.5 * student(0.995, 2)
    assert row["operations_per_s_high"] == pytest.approx(row["operations_per_s"] * math.exp(spread))
    assert len({ssbench.read(step["stats_file"]).run.header.seed for step in made["steps"]}) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--a", "-u 0", "--b", ""],
            "--a: argument -u/--user-count/--users: 0 is below 1",
        ),
        (["--a", "", "--b", "--usrs 3"], "--b: unknown option: --usrs"),
        (["--a", "'", "--b", ""], "quote the options as in a shell"),
        (["--a", "", "--b", "--repeat 3"], "--b: --repeat is of the comparison, not of a variant"),
        (["--a", "", "--b", "-r 3 --warmup 5"], "ssbench-master: --b: "),
        (["--a", "", "--b", "", "--precision", "0%"], "percent, above 0 and below 100"),
        (["--a", "", "--b", "", "--fail-if", "p99"], "--fail-if"),
        (["--a", ""], "--b"),
    ],
)
def test_errors_name_the_variant(words: list[str], said: str, shell: Shell) -> None:
    own = scenario(shell.folder)
    status, out, err = shell("ab", own, "--noop", "--workers", "1", *words)
    assert (status, out) == (2, "")
    assert said in err
