from __future__ import annotations

import os

from benchmarks.soak.faults import KINDS
from benchmarks.soak.memory import MB, Memory, Usage
from benchmarks.soak.soak import NO_FAULT, Outcome
from benchmarks.soak.table import judged, lines
from benchmarks.soak.verdict import Accounts
from ssbench.core.model import Phase
from ssbench.core.records import PhaseRecord, RunFooter, RunHeader
from ssbench.core.stats.run_stats import RunStats

BEGAN_S = 1e9
SECONDS = 1800


def outcome(per_10_min_mb: float = 0.0, seconds: int = SECONDS, **last_s: float) -> Outcome:
    """A run in which the master's memory grew like that."""
    stats = RunStats()
    stats.add(RunHeader("abc", BEGAN_S, "1", {}, {"user_count": 1}, {}, 1, "swift"))
    stats.add(PhaseRecord(Phase.RUN, BEGAN_S, 1))
    stats.add(RunFooter(BEGAN_S + seconds, "complete", "", float(seconds), sent=0))
    made = Outcome(Memory())
    made.memory.watch("master", os.getpid())
    made.memory.tracks[0].samples += [
        (BEGAN_S + s, Usage(int((40 + per_10_min_mb * s / 600) * MB), 50 * MB, 60 * MB, 70 * MB))
        for s in range(seconds)
    ]
    # What comes after the run, a report say, is another matter.
    made.memory.tracks[0].samples += [
        (BEGAN_S + seconds + s, Usage(200 * MB, 0, 0, 0)) for s in range(1, 600)
    ]
    made.accounts = Accounts(stats, started_s=BEGAN_S, last_s=last_s)
    return made


def test_growth_is_reported_with_its_rate() -> None:
    """And separately what the report after the run took."""
    assert judged(outcome(0.3)) == []
    grown = outcome(1.2)
    assert judged(grown) == ["master grows by 1.20 MB in 10 minutes"]
    (row,) = [line for line in lines(grown) if line.startswith("master")]
    assert row.split()[-4:] == ["1.20", "0.00", "0.00", "0.00"]
    words = "clean-up and report took the master from 40.0 to 200.0 MB of its own at most"
    assert words in lines(outcome())


def test_the_first_minutes_are_not_judged() -> None:
    made = outcome()
    samples = made.memory.tracks[0].samples
    samples[:300] = [(at, Usage(int(30 * MB + 3e4 * n), 0, 0, 0)) for n, (at, _) in
                     enumerate(samples[:300])]  # fmt: skip
    assert judged(made) == []


def test_a_short_run_is_not_judged() -> None:
    made = outcome(9.0, seconds=60)
    assert judged(made) == []
    assert any("too short to say" in line for line in lines(made))


def test_a_healthy_worker_without_operations_hangs_and_failures_remain() -> None:
    made = outcome(anna=1795.0, berta=1200.0)
    made.well += ["anna", "berta"]
    made.wrong.append("the master did not end in time; it is ended")
    assert judged(made) == [*made.wrong, "berta did nothing in the last 600 s of the run"]


def test_without_a_stat_file_there_is_a_table_of_the_faults_and_no_success() -> None:
    made = outcome()
    made.accounts = None
    assert judged(made) == ["there is nothing to account for"]
    assert [line.split()[0] for line in lines(made)] == ["fault", *KINDS, NO_FAULT]
