"""ab: two variants of a scenario, run in turn, against no store."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ssbench
from ssbench.core.errors import SsbenchError
from ssbench.core.model import SECOND_NS
from ssbench.core.records import MarkRecord
from ssbench.core.stats.intervals import Pairs, Sides, estimate_of, student
from ssbench.master.phase_machine import PhaseOutcome
from ssbench.runner.config import RunConfig
from ssbench.runner.paired import LEAST_PAIRS
from ssbench.runner.single_run import Aborted, RunResult
from tests.cli.shell import Said, Shell, free_ports, scenario, stat_file
from tests.report import runs

pytestmark = pytest.mark.usefixtures("forked_workers")

BROKEN = SsbenchError("the store is gone")
LOST = -2  #: in place of a rate: of a run that ended with its last worker
SHORT = -1  #: in place of a rate: of a run with fewer users than its scenario asks for


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
        if change["low"] is not None:  # known, as these three pairs are alike
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
    mean = estimate_of(rates)  # its ends are None where the three rates are far apart
    assert row["operations_per_s"] == pytest.approx(mean.value)
    assert row["operations_per_s_low"] == (mean.low and pytest.approx(mean.low))
    assert row["operations_per_s_high"] == (mean.high and pytest.approx(mean.high))
    assert len({ssbench.read(step["stats_file"]).run.header.seed for step in made["steps"]}) == 3
    summary = made["summary"]
    assert summary["operations_per_s"] == pytest.approx(row["operations_per_s"])
    worst = max(step["service_max_s"] for step in made["steps"])
    assert (summary["best"], summary["max_s"]) == (4, pytest.approx(worst))
    assert "operations/s, with 4 users (mean of 3 runs)" in str(summary["lines"])
    assert "4, 4" not in str(summary["lines"])


def test_no_secret_of_a_variant_is_in_a_report(shell: Shell) -> None:
    own = scenario(shell.folder)
    secret = "-A http://127.0.0.1:1/auth -U test:tester -K s3cret"
    common = ("--noop", "--workers", "1", *free_ports(), "-o", "60", "--repeat", "1", "-q")
    found = shell("ab", own, *common, "--a", "", "--b", secret, "-s", shell.folder / "x.stat.gz")
    assert found.status == 0  # the shell looks for the secret
    assert "\nB: -A http://127.0.0.1:1/auth -U test:tester -K '********'\n" in found.out


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


# Recorded figures in place of runs -----------------------------------------------------------


@pytest.fixture
def recorded(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Said]:
    """Runs ab with operations a second in place of the runs, in the order A1, B1, B2, A2, A3 ...;
    an exception ends its run."""

    def ab(rates: Sequence[int | BaseException], *words: object) -> Said:
        left = iter(rates)

        def run(config: RunConfig, *_others: object) -> RunResult:
            rate = next(left)
            if isinstance(rate, BaseException):
                raise SsbenchError(*rate.args) if isinstance(rate, SsbenchError) else rate
            assert config.stats_file is not None
            records = runs.lasting(12, 100 if rate in (LOST, SHORT) else rate)
            if rate == SHORT:
                records.insert(-1, MarkRecord(SECOND_NS, "users", 0, 1))
            if rate == LOST:
                records[-1] = runs.footer(ended="failed", reason="all workers are gone")
            Path(config.stats_file).unlink(missing_ok=True)
            stat_file(Path(config.stats_file), records)
            outcome = PhaseOutcome.nothing("complete", "")
            return RunResult("", config.stats_file, {}, True, True, False, outcome)

        monkeypatch.setattr("ssbench.runner.run", run)
        own = scenario(shell.folder)
        common = ("--noop", "-o", 60, "--a", "", "--b", "-u 3", "-s", shell.folder / "x.stat.gz")
        return shell("ab", own, *common, *words)

    return ab


#: B is 10 % faster. Half of the interval is 21, 7.3 and 4.1 % after 3, 4 and 5 pairs; at 99 %, in
#: place of the level of a look, it would be 11, 4.8 and 2.9 %, and pairs would end earlier.
STEADY = [100, 110, 112, 100, 100, 108, 110, 100, 100, 110, 110, 100, 100, 110]


@pytest.mark.parametrize(("precision", "pairs"), [("25%", 3), ("15%", 4), ("4.5%", 5)])
def test_pairs_end_once_the_change_is_known_to_the_precision(
    precision: str, pairs: int, recorded: Callable[..., Said]
) -> None:
    found = recorded(STEADY, "--precision", precision, "--repeat", 7, "--json", "-q")
    assert (found.status, found.err) == (0, "")
    made = json.loads(found.out)
    assert [side["runs"] for side in made["sides"]] == [pairs, pairs]
    assert (made["pairs"]["asked"], made["confidence"]) == (7, 0.997)
    (change,) = made["total"]["figures"]["operations_per_s"]["changes_against_first"]
    in_pairs = np.log([(b / a) for a, b in zip(*_sides(STEADY), strict=True)][:pairs])
    reach = student(0.9985, pairs - 1) * np.std(in_pairs, ddof=1) / pairs**0.5
    assert change["high"] == pytest.approx(math.exp(np.mean(in_pairs) + reach), rel=0.01)
    assert (change["high"] - change["low"]) / 2 <= float(precision[:-1]) / 100


def _sides(rates: Sequence[int]) -> tuple[list[int], list[int]]:
    pairs = [sorted(rates[at : at + 2]) for at in range(0, len(rates), 2)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def test_what_one_pair_does_not_tell_is_not_said_as_a_number(
    recorded: Callable[..., Said],
) -> None:
    found = recorded(STEADY, "--precision", "1%", "--repeat", 1, "-q")
    assert "WARNING: the difference is not known to 1 %: many more pairs" in found.last


def test_pairs_end_at_their_number_where_the_precision_is_not_reached(
    recorded: Callable[..., Said],
) -> None:
    found = recorded(STEADY, "--precision", "1%", "--repeat", 4, "-q")
    assert found.status == 0
    assert re.search(
        r"WARNING: the difference is known to 7\.\d+ %, not to 1 %: about \d+ pairs", found.last
    )
    assert "It is at 99.7%, so that" in found.out
    assert " 99.7% interval\n" in found.out


def test_an_interval_of_two_pairs_that_says_nothing_is_unknown(
    recorded: Callable[..., Said],
) -> None:
    found = recorded([20, 200, 90, 30], "--repeat", 2, "-q")
    changes = re.findall(r"^Operations/s .*$", found.out, re.MULTILINE)
    assert changes
    assert all(re.search(r" x [0-9.,]+ +unknown  no more than noise$", each) for each in changes)
    again = recorded([20, 200, 90, 30], "--repeat", 2, "-q", "--json", "--force")
    (change,) = json.loads(again.out)["total"]["figures"]["operations_per_s"][
        "changes_against_first"
    ]
    assert (change["low"], change["high"]) == (None, None)


def test_a_report_says_how_many_pairs_would_tell(recorded: Callable[..., Said]) -> None:
    rates = [51, 97, 70, 60, 45, 80]
    found = recorded(rates, "--repeat", 3, "-q")
    assert re.search(
        r"more operations/s: no more than noise; about \d+ pairs would tell such", found.out
    )
    assert re.search(r"Throughput .*: noise; about \d+ pairs would tell\n", found.out)
    again = recorded(rates, "--repeat", 3, "-q", "--json", "--force")
    (change,) = json.loads(again.out)["total"]["figures"]["operations_per_s"][
        "changes_against_first"
    ]
    differences = np.log([97 / 51, 70 / 60, 80 / 45])
    needed, spread = change["runs_needed"], np.std(differences, ddof=1)

    def tells(pairs: int) -> bool:
        reach = student(0.995, pairs - 1) + student(0.8, pairs - 1)
        return bool(reach * spread / pairs**0.5 <= np.mean(differences))

    assert (tells(needed - 2), tells(needed + 1)) == (False, True)  # rates are a little off


@pytest.mark.parametrize(
    ("rates", "status", "pairs", "said", "left_out"),
    [
        ([100, 110, 112, BROKEN], 1, 1, "A2: the store is gone", ["b2"]),
        ([100, 110, 112, KeyboardInterrupt("SIGINT")], 5, 1, "A2: SIGINT", ["b2"]),
        ([100, 110, SHORT, 100, 100, 110], 0, 2, "", ["a2", "b2"]),
        ([100, 110, LOST, 100, 100, 110], 0, 2, "", ["a2", "b2"]),
        ([100, BROKEN], 1, 0, "B1: the store is gone", ["a1"]),
    ],
)  # fmt: skip
def test_what_ended_before_a_failure_is_reported(
    rates: list[Any], status: int, pairs: int, said: str, left_out: list[str],
    recorded: Callable[..., Said], tmp_path: Path,
) -> None:  # fmt: skip
    found = recorded(rates, "--repeat", 3, "--json", "-q")
    assert found.status == status
    if said:
        assert found.last == f"ssbench-master: {said} (exit status {status})"
    if not pairs:
        assert f"x.{left_out[0]}.stat.gz; not compared: the other run" in found.err
        return
    made = json.loads(found.out)
    assert [side["runs"] for side in made["sides"]] == [pairs, pairs]
    assert (made["pairs"]["complete"], made["pairs"]["reason"]) == (not said, said or None)
    names = [Path(run["file"]).name for run in made["pairs"]["left_out"]]
    assert names == [f"x.{name}.stat.gz" for name in left_out]
    text = recorded(rates, "--repeat", 3, "-q", "--force").out
    assert ("Ended early, with 1 of 3 pairs: A2: " in text) == bool(said)
    assert f"Not compared: {made['pairs']['left_out'][0]['file']}: " in text
    assert ("runs, ended early, " in text) == bool(said)


def test_a_second_interrupt_reports_the_pairs_so_far(
    recorded: Callable[..., Said], tmp_path: Path
) -> None:
    outcome = PhaseOutcome.nothing("interrupted", "")
    path = str(tmp_path / "cut.stat.gz")
    cut = Aborted("interrupted", RunResult("", path, {}, True, True, True, outcome))
    found = recorded([100, 110, 112, cut], "--repeat", 3, "--json")
    assert found.status == 5
    made = json.loads(found.out)
    assert made["pairs"]["left_out"][0] == {"file": path, "why": "aborted"}
    assert (made["sides"][0]["runs"], made["pairs"]["reason"]) == (1, "A2: interrupted")
    assert "cut.stat.gz\n" in found.err
    assert found.last == "ssbench-master: interrupted"


@pytest.mark.parametrize("most", [6, 20, 100])
@pytest.mark.parametrize("ratio", [4.0, 2.0, 1.0, 0.85, 0.7, 0.5])
def test_stopping_at_a_precision_raises_no_false_alarms(most: int, ratio: float) -> None:
    """Like sides, whose pairs are normal; ``ratio`` is the precision over what a pair differs by.

    Within chance: 1.3 % of 20,000 are 4 standard deviations above 1 %. At 99 % in place of the
    level of a look it would be up to 2.7 %.
    """
    sides = Sides((1, 1), paired=True, pairs=Pairs(most, sequential=True))
    drawn = np.random.default_rng(most).normal(0, 1, (20_000, most))
    pairs = np.arange(1, most + 1)
    means = np.cumsum(drawn, 1) / pairs
    left = np.maximum(np.cumsum(drawn**2, 1) - pairs * means**2, 0)
    errors = np.sqrt(left[:, 1:] / pairs[:-1] / pairs[1:])
    half = np.array([sides.reach(freedom) for freedom in range(1, most)]) * errors
    known = half <= ratio
    known[:, : LEAST_PAIRS - 2] = False
    known[:, -1] = True
    ends = known.argmax(1)[:, np.newaxis]
    alarms = np.abs(np.take_along_axis(means[:, 1:], ends, 1)) > np.take_along_axis(half, ends, 1)
    assert alarms.mean() <= 0.013
