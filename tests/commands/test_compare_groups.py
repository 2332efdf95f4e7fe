"""compare with groups of runs, and with conditions that set the exit status."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from ssbench.core.stats.intervals import CONFIDENCE, difference, student
from tests.cli.shell import Shell, stat_file
from tests.report import runs


def files(folder: Path, side: str, many: int, seed: int, slower: float = 1.0) -> list[Path]:
    """Runs of one side, that differ a little."""
    return [
        stat_file(
            folder / f"{side}{n}.gz",
            runs.lasting(12, 40, seed=seed + n, slower=slower * (1 + 0.01 * (n % 3))),
        )
        for n in range(many)
    ]


@pytest.fixture(scope="module")
def two_sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[Path]]:
    folder = tmp_path_factory.mktemp("sides")
    return files(folder, "before", 4, 1), files(folder, "after", 4, 50, slower=1.5)


def test_groups_of_runs_are_compared(
    two_sides: tuple[list[Path], list[Path]], shell: Shell
) -> None:
    before, after = two_sides
    found = shell("compare", *before, "vs", *after)
    assert (found.status, found.err) == (0, "")
    assert f"\nA1: {before[0]}\n" in found.out
    assert f"\nB4: {after[3]}\n" in found.out
    assert "\nB against A: 4" in found.out
    assert "longer service time p99: more than noise.\n" in found.out
    assert "\nTOTAL                            A           B " in found.out
    assert "Welch's t" in found.out
    assert "Failures    none of 1,920 operations, on each side\n" in found.out
    made = json.loads(shell("compare", *before, "vs", *after, "--json").out)
    assert [run["side"] for run in made["runs"]] == [*"AAAA", *"BBBB"]
    assert [(side["side"], side["runs"]) for side in made["sides"]] == [("A", 4), ("B", 4)]
    p50 = made["total"]["figures"]["service_p50_s"]
    assert len(p50["runs"]) == 2
    (change,) = p50["changes_against_first"]
    assert change["verdict"] == "real"
    assert change["low"] < 1.5 < change["high"]
    values = [
        json.loads(shell("report-scenario", path, "--json").out)["total"]["last_byte_latency"]
        for path in before
    ]
    logs = [math.log(each["percentiles_s"]["50"]) for each in values]
    assert p50["runs"][0]["value"] == pytest.approx(math.exp(sum(logs) / 4), rel=0.05)
    assert made["total"]["operations"] == [4 * 480, 4 * 480]
    for form in ("--markdown", "--wide"):
        assert "B against A" in shell("compare", *before, "vs", *after, form).out


def test_single_runs_around_vs_are_as_without_it(
    two_sides: tuple[list[Path], list[Path]], shell: Shell
) -> None:
    (first, *_), (other, *_) = two_sides
    assert shell("compare", first, "vs", other) == shell("compare", first, other)
    said = shell("compare", first, "vs")
    assert said.status == 2
    assert "vs: name a stat file on either side of it" in said.err


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ("p50 > +10%", 3),
        ("service_p50(get) >= 10%", 3),
        ("p50 > +90%", 0),
        ("p50 < -5%", 0),
        ("rate < -5%", 0),
        ("p99.9 > +500%", 3),  # it can't be judged
    ],
)
def test_a_rule_sets_the_exit_status(
    rule: str, status: int, two_sides: tuple[list[Path], list[Path]], shell: Shell
) -> None:
    (first, *_), (other, *_) = two_sides
    found = shell("compare", first, other, "--fail-if", rule)
    assert found.status == status
    assert ("FAIL IF" in found.out, "Rules       " in found.out) == (True, True)
    assert ("FAIL IF" in found.out.splitlines()[-2]) == bool(status)
    made = json.loads(shell("compare", first, other, "--fail-if", rule, "--json").out)
    (row,) = made["fail_if"]
    assert (row["passed"], row["side"]) == (not status, "run 2")


def test_a_rule_judges_groups(two_sides: tuple[list[Path], list[Path]], shell: Shell) -> None:
    before, after = two_sides
    assert shell("compare", *before, "vs", *after, "--fail-if", "p50(READ) > +10%").status == 3
    assert shell("compare", *before[:2], "vs", *before[2:], "--fail-if", "p50 > +2%").status == 0


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("p99", "give METRIC, one of < <= > >= and a change in percent"),
        ("p99 > 10ms", "give METRIC, one of < <= > >= and a change in percent"),
        ("p99 == 1%", "give METRIC, one of < <= > >= and a change in percent"),
        ("errors > 1%", "errors is not compared; compared are rate, throughput, and p50"),
        ("mean > 1%", "mean is not compared"),
        ("first_byte_p99 > 1%", "first_byte_p99 is not compared"),
        ("pp > 1%", '"pp" is no metric'),
        ("p99(tiny) > 1%", "choose one with --size-class tiny"),
    ],
)
def test_a_malformed_rule(
    rule: str, said: str, two_sides: tuple[list[Path], list[Path]], shell: Shell
) -> None:
    (first, *_), (other, *_) = two_sides
    found = shell("compare", first, other, "--fail-if", rule)
    assert (found.status, found.out) == (2, "")
    assert said in found.err
    assert "--fail-if" in found.err


def alarms(paired: bool, repeat: int, effect: float, drift: float, seed: int) -> float:
    """The share of simulated comparisons whose interval excludes no change.

    Runs differ by 2 % (their pace from run to run, of which a third goes on to the next), and drift
    by so much over all of them.
    """
    rng, found, many = np.random.default_rng(seed), 0, 2000
    order = [0, 1, 1, 0] * repeat
    reach = (1 + CONFIDENCE) / 2
    for _ in range(many):
        noise = rng.normal(0, 0.02, 2 * repeat)
        for at in range(1, len(noise)):
            noise[at] += noise[at - 1] / 3
        values = noise + drift * np.linspace(0, 1, len(noise))
        sides: list[list[float]] = [[], []]
        for at, value in enumerate(values.tolist()):
            sides[order[at]].append(value + effect * order[at])
        spread = difference(*sides, paired=paired)
        found += abs(spread.mean) > student(reach, spread.freedom) * spread.error
    return found / many


@pytest.mark.parametrize(("repeat", "drift"), [(3, 0.1), (10, 0.0), (10, 0.1)])
@pytest.mark.parametrize("paired", [True, False])
def test_like_sides_are_called_different_in_at_most_one_percent(
    paired: bool, drift: float, repeat: int
) -> None:
    """Within chance: 1.8 % of 2,000 are 3.6 standard deviations above 1 %."""
    assert alarms(paired, repeat, 0.0, drift, seed=repeat) <= 0.018


def test_five_percent_are_found() -> None:
    assert alarms(True, 10, math.log(1.05), 0.1, seed=1) >= 0.95
    assert alarms(False, 10, math.log(1.05), 0.0, seed=2) >= 0.95
