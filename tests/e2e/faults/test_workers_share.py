"""What one worker's trouble costs the others: next to nothing.

The store's answers take a fixed time, so that rates are a matter of the clock.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from ssbench import statfile
from ssbench.core.model import Phase
from ssbench.core.records import PhaseRecord, ResultBatch
from tests.e2e.commands import Commands, Ended, Started, free_ports, until, workers_of
from tests.e2e.faults.matrix import Row
from tests.fakes.paced_swift import PacedSwift
from tests.timing import spoilable

SIZE = 1000
DELAY_S = 0.1
#: Of each worker; so one does about 60 operations in a second.
USERS = 6
READS = {
    "crud_profile": [0, 1, 0, 0],
    "sizes": [{"name": "tiny", "size_min": SIZE, "size_max": SIZE}],
}


def start(
    commands: Commands, store: PacedSwift, names: list[str], *options: object, **keys: object
) -> tuple[Started, dict[str, Started]]:
    """A run with workers of these names, each good for as many users; and the workers."""
    ports = free_ports()
    workers = {name: commands.worker("-c", USERS, *ports, name) for name in names}
    path = commands.scenario(**{"user_count": USERS * len(names), **READS, **keys})
    words = ["-S", store.url, "-T", "token", "--expect-workers", len(names)]
    started = commands.start_run("-f", path, *words, *options, workers=None, ports=ports)
    return started, workers


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


def rate(spans: list[Span], since_s: float, until_s: float) -> float:
    """Operations that ended, in a second."""
    return sum(since_s <= end < until_s for _, end in spans) / (until_s - since_s)


def in_flight(spans: list[Span], since_s: float, until_s: float) -> float:
    """How many operations were, on the average.

    What a user without a job to do costs is seen by this as well as by a rate. But where somebody
    else takes the cores, operations take longer, and rates fall: that is nobody's trouble here.
    """
    covered = (min(end, until_s) - max(start, since_s) for start, end in spans)
    return sum(seconds for seconds in covered if seconds > 0) / (until_s - since_s)


@pytest.mark.fault("one of four workers stopped (SIGSTOP)")
@spoilable
def test_with_one_of_four_stopped_the_others_keep_their_rate(commands: Commands, row: Row) -> None:
    names = ["anna", "berta", "clara", "dora"]
    timeout_s = 4.0
    with PacedSwift(SIZE, DELAY_S).listening() as store:
        options = ["-r", 13, "--worker-timeout", timeout_s, "--progress", "chars"]
        started, workers = start(commands, store, names, *options)
        started.wait_for("Benchmark Run")
        time.sleep(4)
        workers["dora"].signal(signal.SIGSTOP)
        stopped_at = time.time()
        row.strike()
        started.wait_for("Lost worker dora")
        row.recovered()
        lost_at = time.time()
        workers["dora"].signal(signal.SIGCONT)
        ended = started.wait().fine(6)
    account = row.accounted(ended.stats)
    assert account.failed == 0
    assert 0 < account.lost <= 3 * USERS
    began_at = run_began_at(ended.results)
    stopped_s, lost_s = stopped_at - began_at, lost_at - began_at
    assert lost_s - stopped_s > timeout_s - 2, "no time-out was to be seen"
    spans = spans_by_worker(ended.results)
    others = [span for name in names[:3] for span in spans[name]]
    before = in_flight(others, 1.0, stopped_s - 0.5)
    meanwhile = in_flight(others, stopped_s + 0.5, lost_s - 0.5)
    assert before <= 3 * USERS
    assert meanwhile >= 0.9 * before, f"{meanwhile:.1f} in flight, before {before:.1f}"
    dora = [end for _, end in spans["dora"]]
    assert not any(stopped_s + 0.5 < end < lost_s - 0.5 for end in dora)
    assert dora[-1] > lost_s, "it did nothing any more"
    rates = [rate(others, 1.0, stopped_s - 0.5), rate(others, stopped_s + 0.5, lost_s - 0.5)]
    row.saw(f"the other three do {rates[1]:.0f} of {rates[0]:.0f}/s while its time-out runs")


@pytest.mark.fault("a worker of a tenth of the speed beside fast ones")
@spoilable
def test_a_slow_worker_does_not_slow_the_others(commands: Commands, row: Row) -> None:
    fast = ["anna", "berta"]
    with PacedSwift(SIZE, DELAY_S, {"snail": 10 * DELAY_S}).listening() as store:
        alone = _finished(start(commands, store, fast, "-r", 6))
        together = _finished(start(commands, store, [*fast, "snail"], "-r", 6))
    account = row.accounted(together.stats)
    assert (account.failed, account.lost) == (0, 0)
    by_worker = together.stats.requests_per_worker()
    assert by_worker["snail"] < 0.2 * min(by_worker[name] for name in fast), by_worker
    # Both ran as long; what is outside of that is left out.
    rates = {
        name: sum(rate(spans, 1, 5) for spans in spans_by_worker(ended.results).values())
        for name, ended in (("alone", alone), ("together", together))
    }
    assert rates["together"] >= 0.9 * rates["alone"], rates
    row.saw(f"{rates['together']:.0f} operations/s with it, {rates['alone']:.0f} without it")


def _finished(begun: tuple[Started, dict[str, Started]]) -> Ended:
    started, workers = begun
    ended = started.wait().fine()
    for worker in workers.values():
        worker.process.terminate()
    until("they have ended", lambda: all(w.process.poll() is not None for w in workers.values()))
    return ended


@pytest.mark.fault("a stage with fewer users than workers")
@spoilable
def test_workers_without_users_in_a_stage_hold_up_nobody(commands: Commands, row: Row) -> None:
    stages = [{"seconds": 2, "users": 18}, {"seconds": 3, "users": 1}, {"seconds": 2, "users": 18}]
    names = ["anna", "berta", "clara"]
    with PacedSwift(SIZE, DELAY_S).listening() as store:
        keys = {"stages": stages, "operation_count": None, "user_count": None}
        started, _ = start(commands, store, names, **keys)
        ended = started.wait().fine()
    account = row.accounted(ended.stats)
    assert (account.failed, account.lost) == (0, 0)
    spans = [span for each in spans_by_worker(ended.results).values() for span in each]
    first_s = min(begin for begin, _ in spans)
    rates = [
        in_flight(spans, first_s + begin_s, first_s + end_s)
        for begin_s, end_s in ((0.5, 1.8), (2.3, 4.8), (5.3, 6.5))
    ]
    assert rates[1] == pytest.approx(1, abs=0.1), rates
    assert rates[2] >= 0.9 * rates[0], rates
    row.saw(f"{rates[0]:.1f}, {rates[1]:.1f} and {rates[2]:.1f} operations in flight")


@pytest.mark.fault("a slow worker at the end of a run of so many operations")
def test_a_slow_worker_does_not_hold_up_the_end(commands: Commands, row: Row) -> None:
    with PacedSwift(SIZE, DELAY_S, {"snail": 10 * DELAY_S}).listening() as store:
        started, _ = start(commands, store, ["anna", "snail"], "-o", 120)
        ended = started.wait().fine()
    account = row.accounted(ended.stats)
    assert (account.sent, account.done) == (120, 120)
    numbers = Counter(number for number in _numbers(ended.results))
    assert max(numbers.values()) == 1
    # It gives back what it hasn't started: three rounds of its own, not twenty.
    assert max(end for spans in spans_by_worker(ended.results).values() for _, end in spans) < 8
    row.saw("it gives back what it hasn't started; nothing is lost")


def _numbers(path: Path) -> list[int]:
    with statfile.read(str(path)) as reader:
        return [
            number
            for record in reader
            if isinstance(record, ResultBatch) and record.phase is Phase.RUN
            for number in record.column("number")
        ]
