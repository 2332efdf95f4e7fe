"""What one worker's trouble costs the others: next to nothing.

The store's answers take a fixed time, so that rates are a matter of the clock.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from statistics import median, quantiles

import pytest

from ssbench import statfile
from ssbench.core.model import Phase
from ssbench.core.records import PhaseRecord, ResultBatch
from tests.e2e.commands import Commands, Started, free_ports, results_of, until, workers_of
from tests.e2e.faults.matrix import Row
from tests.fakes.paced_swift import PacedSwift, reads_of

SIZE = 1000
DELAY_S = 0.1
#: Where the pauses between operations count, which a busy host makes longer: a small part of it.
LONG_DELAY_S = 1.0
#: Of each worker.
USERS = 3
READS = reads_of(SIZE)


def start(
    commands: Commands,
    store: PacedSwift,
    names: list[str],
    *options: object,
    users: int = USERS,
    **keys: object,
) -> tuple[Started, dict[str, Started]]:
    """A run with workers of these names, each good for as many users; and the workers."""
    ports = free_ports()
    workers = {name: commands.worker("-c", users, *ports, name) for name in names}
    path = commands.scenario(**{"user_count": users * len(names), **READS, **keys})
    words = ["-S", store.url, "-T", "token", "--expect-workers", len(names)]
    started = commands.start_run("-f", path, *words, *options, workers=None, ports=ports)
    return started, workers


STEP_S = 0.01
#: When an operation began and ended, in seconds since the run's start.
Span = tuple[float, float]


def spans_by_worker(path: Path) -> dict[str, list[Span]]:
    """Each worker's operations."""
    names = {worker.index: worker.worker_id for worker in workers_of(path)}
    spans: dict[str, list[Span]] = {name: [] for name in names.values()}
    with statfile.read(str(path)) as reader:
        for record in reader:
            if isinstance(record, ResultBatch) and record.phase is Phase.RUN:
                starts, lasts = record.column("start_ns"), record.column("last_byte_ns")
                spans[names[record.worker]] += [
                    (start / 1e9, (start + last) / 1e9)
                    for start, last in zip(starts, lasts, strict=True)
                ]
    return spans


def run_began_at(path: Path) -> float:
    """By the wall clock, as the stat file has it."""
    with statfile.read(str(path)) as reader:
        return next(
            record.started_at
            for record in reader
            if isinstance(record, PhaseRecord) and record.phase is Phase.RUN
        )


def in_flight(spans: list[Span], since_s: float, until_s: float) -> list[int]:
    """How many operations were, every 10 ms.

    What a user without a job to do costs is seen by this as well as by a rate. But where somebody
    else takes the cores, operations take longer, and rates fall: that is nobody's trouble here.
    """
    moments = (since_s + number * STEP_S for number in range(int((until_s - since_s) / STEP_S)))
    return [sum(start <= moment < end for start, end in spans) for moment in moments]


@pytest.mark.fault("one of four workers stopped (SIGSTOP)")
def test_with_one_of_four_stopped_the_others_keep_their_rate(commands: Commands, row: Row) -> None:
    names = ["anna", "berta", "clara", "dora"]
    timeout_s = 4.0
    with PacedSwift(SIZE, LONG_DELAY_S) as store:
        options = ["-r", 600, "--worker-timeout", timeout_s, "--progress", "chars"]
        started, workers = start(commands, store, names, *options)
        started.wait_for("Benchmark Run")
        until("results of all", lambda: all(results_of(name, started.stat_file) > USERS
                                            for name in names))  # fmt: skip
        workers["dora"].signal(signal.SIGSTOP)
        stopped_at = time.time()
        row.strike()
        started.wait_for("Lost worker dora")
        row.recovered()
        lost_at = time.time()
        done = results_of("dora", started.stat_file)
        workers["dora"].signal(signal.SIGCONT)
        until("its work", lambda: results_of("dora", started.stat_file) > done + USERS)
        started.interrupt()
        ended = started.wait().fine(5)
    account = row.accounted(ended.stats)
    assert account.failed == 0
    assert 0 < account.lost <= 3 * USERS
    began_at = run_began_at(ended.results)
    stopped_s, lost_s = stopped_at - began_at, lost_at - began_at
    assert lost_s - stopped_s > timeout_s - 2, "no timeout was to be seen"
    spans = spans_by_worker(ended.results)
    meanwhile = {
        name: median(in_flight(spans[name], stopped_s + 0.5, lost_s - 0.5)) for name in names[:3]
    }
    # More than nine tenths of the users of each, which are three: all of them.
    assert meanwhile == dict.fromkeys(names[:3], USERS), "users without a job to do"
    dora = [end for _, end in spans["dora"]]
    assert not any(stopped_s + 0.5 < end < lost_s - 0.5 for end in dora)
    assert dora[-1] > lost_s, "it did nothing any more"
    row.saw(
        f"{sum(meanwhile.values()):.0f} of {3 * USERS} users of the others are at work while its"
        " timeout runs"
    )


@pytest.mark.fault("a worker of a tenth of the speed beside fast ones")
def test_a_slow_worker_does_not_slow_the_others(commands: Commands, row: Row) -> None:
    fast = ["anna", "berta"]
    with PacedSwift(SIZE, LONG_DELAY_S, {"snail": 10 * LONG_DELAY_S}) as store:
        started, _ = start(commands, store, [*fast, "snail"], "-r", 600, "--progress", "chars")
        started.wait_for("Benchmark Run")
        until("eight rounds of each", lambda: all(results_of(name, started.stat_file) > 8 * USERS
                                                  for name in fast))  # fmt: skip
        started.interrupt()
        ended = started.wait().fine(5)
    account = row.accounted(ended.stats)
    assert (account.failed, account.lost) == (0, 0)
    by_worker = ended.stats.requests_per_worker()
    assert by_worker["snail"] < 0.2 * min(by_worker[name] for name in fast), by_worker
    spans = spans_by_worker(ended.results)
    # Without the first and the last round.
    rounds = {name: sorted(start for start, _ in spans[name])[USERS:-USERS] for name in fast}
    busy = {name: median(in_flight(spans[name], its[0], its[-1])) for name, its in rounds.items()}
    # More than nine tenths of the users, which are three: all of them.
    assert busy == dict.fromkeys(fast, USERS), "users without a job to do"
    row.saw(f"{sum(busy.values()):.0f} of {2 * USERS} users of the others are at work beside it")


@pytest.mark.fault("a stage with fewer users than workers")
def test_workers_without_users_in_a_stage_hold_up_nobody(commands: Commands, row: Row) -> None:
    most = 18
    stages = [{"operation_count": count, "users": users}
              for count, users in ((20 * most, most), (30, 1), (20 * most, most))]  # fmt: skip
    names = ["anna", "berta", "clara"]
    with PacedSwift(SIZE, DELAY_S) as store:
        keys = {"stages": stages, "operation_count": None, "user_count": None}
        started, _ = start(commands, store, names, users=6, **keys)
        ended = started.wait().fine()
    account = row.accounted(ended.stats)
    assert (account.failed, account.lost) == (0, 0)
    spans = [span for each in spans_by_worker(ended.results).values() for span in each]
    began_s = min(spans)[0]
    counts = in_flight(spans, began_s, max(end for _, end in spans))
    # What is in flight tells where the stages are.
    parts = [(many, list(part)) for many, part in groupby(counts, lambda count: count > 1)]
    _, single = max(parts, key=lambda part: (not part[0], len(part[1])))
    at = next(i for i, part in enumerate(parts) if part[1] is single)
    before, after = (
        quantiles([count for _, part in some for count in part])[2]
        for some in (parts[:at], parts[at + 1 :])
    )
    assert len(single) * STEP_S > 2, parts
    since_s = began_s + sum(len(part) for _, part in parts[:at]) * STEP_S
    its = sorted(span for span in spans if since_s < span[0] < since_s + len(single) * STEP_S)
    waits = [begin - end for (_, end), (begin, _) in pairwise(its)]
    assert len(waits) > 10
    # Nine tenths of the time in flight, but for moments in which others used the host.
    assert median(waits) <= DELAY_S / 9, "its one user was without a job to do"
    assert before == most
    assert after >= 0.9 * before
    row.saw(
        f"{before:.0f}, 1 and {after:.0f} operations in flight; the one user waits"
        f" {1000 * median(waits):.1f} ms for a job"
    )


@pytest.mark.fault("a slow worker at the end of a run of so many operations")
def test_a_slow_worker_does_not_hold_up_the_end(commands: Commands, row: Row) -> None:
    with PacedSwift(SIZE, DELAY_S, {"snail": 10 * DELAY_S}) as store:
        started, _ = start(commands, store, ["anna", "snail"], "-o", 120, users=6)
        ended = started.wait().fine()
    account = row.accounted(ended.stats)
    assert (account.sent, account.done) == (120, 120)
    numbers = Counter(number for number in _numbers(ended.results))
    assert max(numbers.values()) == 1
    # It returns what it has not started: three rounds of its own, not ten. Each takes it a second
    # at least, but on a busy host longer, and that is not what holds up the end here.
    assert ended.stats.requests_per_worker()["snail"] < 8 * 6
    row.saw("it returns what it has not started; nothing is lost")


def _numbers(path: Path) -> list[int]:
    with statfile.read(str(path)) as reader:
        return [
            number
            for record in reader
            if isinstance(record, ResultBatch) and record.phase is Phase.RUN
            for number in record.column("number")
        ]
