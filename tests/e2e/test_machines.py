"""Was it us, and what time is it there? In processes of their own."""

from __future__ import annotations

import csv
import json
import re
from contextlib import suppress
from pathlib import Path

import pytest

from ssbench import statfile
from ssbench.core.columns import pack_results
from ssbench.core.errors import StatFileError
from ssbench.core.messages import Ack, Jobs, Results, pack
from ssbench.core.model import Job, Phase
from ssbench.core.records import (
    MASTER,
    ClockRecord,
    HostRecord,
    PhaseRecord,
    Record,
    ResultBatch,
)
from ssbench.core.stats.headroom import Cause, Headroom
from ssbench.core.stats.host_metrics import FIGURES
from ssbench.transport.sockets import Ports
from tests.e2e.commands import Commands, Ended, Started, free_ports, until, workers_of
from tests.fakes.scripted_master import host_key
from tests.fakes.scripted_worker import ScriptedWorker

#: A worker whose event loop has no rest: always at something for 5 ms, then at what is due.
PINNED = """
import sys, time, gevent
from ssbench.cli.worker import main
def spin():
    while True:
        until = time.perf_counter() + 0.005
        while time.perf_counter() < until:
            pass
        gevent.sleep(0)
gevent.spawn(spin)
sys.exit(main())
"""
#: One on another machine, as far as its clocks go: up for a week more, and 1.3 s ahead.
ELSEWHERE = """
import sys, time
mono, wall = time.perf_counter_ns, time.time_ns
time.perf_counter_ns = lambda: mono() + 604_800_000_000_000
time.time_ns = lambda: wall() + 1_300_000_000
from ssbench.cli.worker import main
sys.exit(main())
"""


def records_of(path: Path) -> list[Record]:
    with statfile.read(str(path)) as reader:
        return list(reader)


def metrics_of(path: Path) -> dict[int, list[HostRecord]]:
    """Those of the run, by process: of the master and of two workers."""
    found: dict[int, list[HostRecord]] = {MASTER: [], 0: [], 1: []}
    with suppress(StatFileError):  # it need not be there yet
        for record in records_of(path):
            if isinstance(record, HostRecord) and record.phase is Phase.RUN:
                found[record.worker].append(record)
    return found


def after_seconds(count: int, started: Started) -> Ended:
    """A run that is interrupted once each process has so many seconds of metrics on disk."""
    path = started.stat_file
    assert path is not None
    until(
        f"{count} seconds of each process",
        lambda: all(len(mine) >= count for mine in metrics_of(path).values()),
    )
    started.interrupt()
    return started.wait().fine(5)


def run_with(commands: Commands, script: str) -> Started:
    """A run of two workers at 50 operations a second, one of them as the script makes it."""
    ports = free_ports()
    commands.start(["-c", script, "-c", 8, *ports, "odd"])
    path = commands.scenario(operation_count=None, run_seconds=3600, user_count=16)
    words = ["-f", path, "--noop", "--rate", 50, "--expect-workers", 2]
    words += ["--zmq-bind-ip", "127.0.0.1"]  # without a key
    return commands.start_run(*words, workers=1, ports=ports)


def test_workers_of_the_same_user_join_without_a_key_file_and_those_of_others_do_not(
    commands: Commands,
) -> None:
    ports = free_ports()
    other = commands.place / "other"
    other.mkdir()
    stranger = commands.worker(*ports, "stranger", environment={"HOME": str(other)})
    path = commands.scenario(operation_count=300)
    run = commands.start_run("-f", path, "--noop", "--expect-workers", 2, workers=1, ports=ports)
    stranger.wait_for("rejects this worker: its key is another one")
    run.wait_for("Rejected a peer at 127.0.0.1")
    mine = commands.worker(*ports, "mine")
    ended = run.wait().fine()
    assert ended.counted() == (300, 0, 0)
    assert "give it and the master the same --zmq-key-file" in ended.err
    assert {worker.worker_id for worker in workers_of(ended.results)} > {"mine"}
    assert len(workers_of(ended.results)) == 2
    commands.master("kill-workers", *ports).wait().fine()
    assert mine.wait().status == 0
    assert stranger.process.poll() is None


def test_every_process_records_metrics_once_a_second(commands: Commands) -> None:
    path = commands.scenario(operation_count=None, run_seconds=3600, user_count=8)
    ended = after_seconds(3, commands.start_run("-f", path, "--noop", "--rate", 50))
    metrics = metrics_of(ended.results)
    seconds = [record for mine in metrics.values() for record in mine]
    for mine in metrics.values():
        ends = [record.at_s for record in mine]
        assert ends == sorted(ends)
        assert len(mine) <= ends[-1] + 1.5, "more than one a second"
        assert sum(record.figures["interval_s"] for record in mine) <= ends[-1] + 1.5
    assert len({record.boot_id for record in seconds}) == 1
    for record in seconds:
        figures = record.figures
        assert 0 <= figures["cpu_percent"] <= figures["cpu_busiest_core_percent"] <= 100
        assert 0 < figures["process_rss_bytes"] < figures["memory_used_bytes"]
        assert figures["loop_cpu_percent"] < 60
    # Two workers, a master, their sockets: whatever else runs here, it is on that machine.
    assert max(record.figures["context_switches_per_s"] for record in seconds) > 20
    # 50 operations a second are nothing. Where a neighbour takes the cores, that is said instead.
    verdict = ended.stats.verdict()
    assert verdict.findings or verdict.headroom is Headroom.ENOUGH
    assert {finding.cause for finding in verdict.findings} <= {Cause.CORES, Cause.LATE}
    assert verdict.findings or "The load generator had cores left: ssbench used" in ended.out
    assert_csv(commands, ended.results, len(records_of(ended.results)))


def assert_csv(commands: Commands, results: Path, most: int) -> None:
    out = commands.place / "hosts.csv"
    words = ["report-scenario", "-s", results, "--json", "--host-stats", out]
    report = json.loads(commands.call(*words).fine().out)
    assert report["load_generator"]["verdict"] != "unknown"
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert 6 <= len(rows) < most
    assert {row["worker_id"].rpartition("-")[0] for row in rows} == {"", "local-0", "local-1"}
    begin_s = next(r.started_at for r in records_of(results) if isinstance(r, PhaseRecord))
    for row in rows:
        assert 0 <= float(row["wall_clock_s"]) - begin_s < 60
        assert float(row["core_0_percent"]) <= 100
        assert set(row) >= set(FIGURES)


def test_a_worker_at_full_load_is_named_as_the_limit(commands: Commands) -> None:
    ended = after_seconds(4, run_with(commands, PINNED))
    verdict = ended.stats.verdict()
    assert verdict.headroom is Headroom.NONE
    at = [finding.who.worker_id for finding in verdict.findings].index("odd")
    # Where other processes use all cores, those of this run may have been without for as long.
    assert {finding.cause for finding in verdict.findings[:at]} <= {Cause.CORES, Cause.LATE}
    # Where this test has a core to itself it is the first, on a busy machine the second.
    assert verdict.findings[at].cause in (Cause.CORE, Cause.CORES)
    assert verdict.findings[at].seconds >= verdict.findings[at].of_seconds / 2
    assert "Worker odd (" in ended.out
    assert "the load generator was the bottleneck; " in ended.out


def test_a_worker_with_other_clocks_is_reported_and_its_results_are_corrected(
    commands: Commands,
) -> None:
    ended = after_seconds(2, run_with(commands, ELSEWHERE))
    (warning,) = [text for text in ended.stats.run.warnings if "clock" in text]
    assert "The clock of worker odd (" in warning
    said = re.search(r" is (\S+) s ahead of the master's", warning)
    assert said is not None
    names = {w.index: w.worker_id for w in ended.stats.run.workers.values()}
    clocks = [r for r in records_of(ended.results) if isinstance(r, ClockRecord)]
    assert {names[clock.worker] for clock in clocks if clock.phase is Phase.RUN} == set(
        names.values()
    )
    unknown_s = max(clock.uncertainty_ns for clock in clocks) / 1e9  # a busy machine answers late
    assert float(said[1]) == pytest.approx(1.3, abs=unknown_s + 0.1)
    for clock in clocks:
        assert clock.wall_ns is not None
        truth_ns = 1_300_000_000 if names[clock.worker] == "odd" else 0
        # A clock may be read a moment after the other one.
        assert clock.wall_ns == pytest.approx(truth_ns, abs=clock.uncertainty_ns + 2_000_000)
    starts: list[int] = []
    for record in records_of(ended.results):
        if isinstance(record, ResultBatch) and record.phase is Phase.RUN:
            starts += record.column("start_ns")
    assert min(starts) > -100_000_000
    lasted_s = max(mine[-1].at_s for mine in metrics_of(ended.results).values())
    assert max(starts) < (lasted_s + unknown_s + 1) * 1e9
    assert len(ended.stats.completions()) <= lasted_s + 2


def test_a_run_that_lost_most_of_its_operations_failed(commands: Commands) -> None:
    options = free_ports()
    answered: list[int] = []

    def two_of_five(scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
        rows = []
        for job in jobs:
            if batch.phase == Phase.RUN and len(answered) >= 2:
                continue
            if batch.phase == Phase.RUN:
                answered.append(job.number)
            rows.append(
                (job.number, job.operation, job.size_class, job.object, job.due_ns, 0, 1, 1, 1, 0,
                 *[0] * 6, 200, 0, 0, b"tx", "")
            )  # fmt: skip
        run = scripted.incarnation, batch.run
        scripted.transport.send(Ack(*run, [batch.batch]))
        if rows:
            packed = pack(pack_results(rows))
            scripted.transport.send(Results(*run, batch.phase, [], packed))

    path = commands.scenario(operation_count=5, user_count=4)
    words = ["--noop", "--expect-workers", 1, "--drain-timeout", 1]
    started = commands.start_run("-f", path, *words, workers=None, ports=options)
    ports = Ports(*(int(word) for word in options[1::2]))
    with ScriptedWorker(ports, two_of_five, key=host_key()):
        ended = started.wait().fine(1)
    assert ended.stats.run.lost == 3
    assert "3 of 5 operations failed or were lost" in ended.err
