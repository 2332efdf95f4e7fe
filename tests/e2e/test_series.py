"""Series of runs, and runs that end once they are steady, in processes of their own."""

from __future__ import annotations

import csv
import io
import json
import re
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from statistics import mode
from typing import Any

import pytest

from ssbench.core.errors import StatFileError
from tests.e2e.commands import Commands, Ended, free_ports, stats_of, until
from tests.fakes.paced_swift import PacedSwift, reads_of
from tests.timing import AT_ONCE_S

READS = {
    "operation_count": None,
    **reads_of(1000),
}


def find(commands: Commands, swift: PacedSwift, *words: object) -> tuple[Ended, Path]:
    path = commands.scenario(**READS)
    results = commands.place / "limit.stat.gz"
    ended = commands.master(
        "find-limit", "-f", path, "-S", swift.url, "-T", "token", "--workers", 1, "-s", results,
        "--step-seconds", 1, "--warmup", 0.4, "--json", *words, *free_ports(),
    ).wait()  # fmt: skip
    return ended, results


def test_the_limit_of_a_store_of_known_slots_is_found(commands: Commands) -> None:
    """4 slots of 40 ms do 100 operations a second; by Little's law the mean of u users is
    10 ms x u once u is above 4, and 175 ms are kept by up to 17 users; on a busy host, by fewer."""
    with PacedSwift(1000, 0.04, slots=4) as swift:
        ended, results = find(
            commands, swift, "--slo", "mean < 175ms", "--start", 4, "--max-users", 64
        )
    made = json.loads(ended.fine().out)
    assert made["complete"]
    assert made["largest_kept"] <= 18, made
    assert made["smallest_broken"] == made["largest_kept"] + 1
    loads = [step["users"] for step in made["steps"]]
    assert loads[:2] == [4, 8]
    # Both are run again, and once more where that contradicted.
    assert all(loads.count(made[end]) >= 2 for end in ("largest_kept", "smallest_broken")), loads
    for at, step in enumerate(made["steps"]):
        again = f"-{loads[: at + 1].count(loads[at])}" if loads[at] in loads[:at] else ""
        assert step["stats_file"] == str(results).replace(
            ".stat.gz", f".users{loads[at]}{again}.stat.gz"
        )
        total = stats_of(Path(step["stats_file"])).total()
        assert total.count == step["operations"]
        mean_ns = total.last_byte.histogram.mean
        assert mean_ns is not None
        assert step["kept"] == (mean_ns < 0.175e9), step


def test_a_store_of_known_slots_keeps_up_with_a_known_rate(commands: Commands) -> None:
    """100 operations a second: of more the rest waits, and longer with each second. At 120 a second
    it is 480 ms in the end, and below 100 a pause of the machine of 300 ms misses no objective."""
    with PacedSwift(1000, 0.04, slots=4) as swift:
        ended, _results = find(
            commands, swift, "--over", "rate", "--slo", "p90 < 350ms", "--start", 80,
            "--max-rate", 400, "-u", 80, "--precision", 20, "--step-seconds", 2,
        )  # fmt: skip
    made = json.loads(ended.fine().out)
    assert made["complete"]
    assert 80 <= made["largest_kept"] <= 110 < 1.1 * made["smallest_broken"] <= 140, made
    verdicts = defaultdict(list)
    for step in made["steps"]:
        verdicts[step["rate"]].append(step["kept"])
        assert step["response_p99_s"] >= step["service_p99_s"]
    # Where two runs of a load contradict each other, a third one decides.
    assert {rate: mode(kept) for rate, kept in verdicts.items()} == {
        rate: rate <= made["largest_kept"] for rate in verdicts
    }


def test_fast_errors_meet_no_latency_objective(commands: Commands) -> None:
    path = commands.scenario(**READS)
    with PacedSwift(1000, 0.0, refuses=True) as swift:
        ended = commands.master(
            "find-limit", "-f", path, "-S", swift.url, "-T", "token", "--workers", 1,
            "--retries", 0,
            "--slo", "p99 < 10s", "--step-seconds", 0.5, "--warmup", 0, *free_ports(),
            "-s", commands.place / "x.stat.gz",
        ).wait()  # fmt: skip
    assert "No load met p99 < 10s and errors < 1%" in ended.fine(1).out


def operations_in(path: Path) -> int:
    """How many are in a stat file, which may not be there yet."""
    with suppress(StatFileError):
        return stats_of(path, damaged=True).total().count
    return 0


def test_an_interrupted_sweep_prints_its_table(commands: Commands) -> None:
    """100 users do all in one round, and one user takes minutes."""
    path = commands.scenario(**{**READS, "operation_count": 100})
    started = commands.start_run(
        "-f", path, "--noop", "--sweep", "users=100,1,2", "--think-time", 3, "--csv",
        stat_file=commands.place / "s.stat.gz", workers=1,
    )  # fmt: skip
    second = commands.place / "s.users1.stat.gz"
    until("operations of the second step", lambda: operations_in(second))
    started.signal(signal.SIGINT)
    ended = started.wait()
    ended.fine(5)
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    assert [row["users"] for row in rows] == ["100", "1"]
    assert [row["ended"] for row in rows] == ["complete", "interrupted"]
    assert not (commands.place / "s.users2.stat.gz").exists()


@pytest.mark.parametrize(("keys", "users"), [
    ({"stages": [{"seconds": 0.2, "users": 1}, {"seconds": 0.2, "users": 2}]}, 2),
    ({"groups": {"some": {"users": 1, "operations": {"read": 1}},
                 "others": {"users": 2, "operations": {"head": 1}}}, "run_seconds": 0.2}, 3),
])  # fmt: skip
def test_a_scenario_with_users_of_stages_or_groups_is_repeated(
    commands: Commands, keys: dict[str, Any], users: int
) -> None:
    reads = None if "groups" in keys else [0, 1, 0, 0]
    given = {"crud_profile": reads, "user_count": None, "operation_count": None, **keys}
    path = commands.scenario(**given)
    ended = commands.run("-f", path, "--noop", "--repeat", 2, "--json", workers=1).fine()
    assert [step["users"] for step in json.loads(ended.out)["steps"]] == [users, users]


def test_an_interrupted_ab_reports_its_pairs(commands: Commands) -> None:
    path = commands.scenario(**READS, run_seconds=2)
    started = commands.master(
        "ab", path, "--noop", "--workers", 1, "--think-time", 0.05, "--a", "", "--b", "-u 2",
        "--repeat", 50, "--json", "-s", commands.place / "s.stat.gz", *free_ports(),
    )  # fmt: skip
    third = commands.place / "s.b2.stat.gz"
    until("operations of the second pair", lambda: operations_in(third))
    started.signal(signal.SIGINT)
    ended = started.wait()
    made = json.loads(ended.fine(5).out)
    run = re.search(r"([AB][0-9]+): interrupted by SIGINT", ended.err.splitlines()[-1])
    assert run, ended.err
    pairs, compared = made["pairs"], made["sides"][0]["runs"]
    assert (pairs["complete"], pairs["asked"]) == (False, 50)
    assert pairs["reason"] == run[0]
    assert compared >= 1
    files = {Path(each["file"]) for each in (*made["runs"], *pairs["left_out"])}
    assert files == {*commands.place.glob("s.*.stat.gz")}


def test_a_run_ends_once_it_is_steady(commands: Commands) -> None:
    path = commands.scenario(**READS, run_seconds=3600)
    words = ["-f", path, "--noop", "--rate", 50, "--warmup", 1, "--auto-stop",
             "--auto-stop-window", 2, "--auto-stop-tolerance", 99]  # fmt: skip
    ports = free_ports()
    commands.worker("far", *ports)
    ended = commands.run(*words, "--expect-workers", 1, workers=None, ports=ports).fine()
    assert "Ended early: the rate was steady " in ended.out  # at once, or from a later second on
    footer = ended.stats.run.footer
    assert footer is not None
    assert footer.ended == "complete"
    found = re.search(r" (?:at second|from second \d+ to) (\d+):", footer.reason)
    assert found, footer.reason
    second = int(found[1])
    assert second >= 5  # two windows after the warm-up
    seconds = ended.stats.stage_seconds(0)  # the warm-up is none of them
    assert seconds is not None
    assert second - 2 <= seconds < second + AT_ONCE_S


def test_steps_with_missing_users_do_not_count(commands: Commands) -> None:
    """A worker for 4 users: the row of 64 has no figures, and the report says so at its head."""
    path = commands.scenario(**{**READS, "operation_count": 100})
    ports = free_ports()
    commands.worker("small", "-c", 4, *ports)
    common = ("--noop", "--think-time", 0.01, "--expect-workers", 1)
    ended = commands.master(
        "run-scenario", "-f", path, *common, "--sweep", "users=4,64", "--json",
        "-s", commands.place / "s.stat.gz", *ports,
    ).wait()  # fmt: skip
    fits, short = json.loads(ended.fine(6).out)["steps"]
    assert (fits["users_ran"], fits["counts"]) == (4, 1)
    assert fits["operations_per_s"] > 0
    assert (short["users"], short["users_ran"], short["counts"]) == (64, 4, 0)
    assert short["operations"] > 0
    assert (short["operations_per_s"], short["service_p50_s"]) == (None, None)
    ended = commands.run("-f", path, *common, "-u", 64, workers=None, ports=ports)
    out = ended.fine(6).out
    assert "Concurrency: 4 of 64" in out
    assert "FEWER USERS THAN REQUESTED: 4 of 64 users ran; the figures below" in out


def test_a_limit_of_the_load_generator_is_reported_as_such(commands: Commands) -> None:
    path = commands.scenario(**READS)
    ports = free_ports()
    commands.worker("small", "-c", 4, *ports)
    ended = commands.master(
        "find-limit", "-f", path, "--noop", "--expect-workers", 1, "--slo", "p99 < 10s",
        "--start", 64, "--step-seconds", 0.5, "--warmup", 0, "--confirm", 0,
        "-s", commands.place / "x.stat.gz", *ports,
    ).wait()  # fmt: skip
    lines = ended.fine(6).out.splitlines()
    assert lines[4].split()[:3] == ["4", "of", "64"]
    assert "only 4 of 64 users ran: not counted" in lines[5], "below its row, which is full"
    assert lines[6].split()[0] == "4"
    assert lines[-11].startswith("Highest load that met ")
    assert lines[-10].startswith("The limit may be higher: the workers can run only 4 users")
    assert lines[-4].startswith("Bottleneck  ssbench itself")
