"""Short runs of the real commands, without a store, and what is read out of their output: that they
can be measured at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.bench import child, noop, ours, simulated, statfiles, wrk
from benchmarks.bench.child import CommandError, Completed
from benchmarks.bench.cores import CLIENT
from benchmarks.bench.peers.run import Peer, parse
from benchmarks.bench.start import first_operation_at
from ssbench.core.model import Phase
from ssbench.core.records import PhaseRecord, ResultBatch
from ssbench.runner.results import read_stats
from ssbench.statfile import read
from tests.statfile.samples import FOOTER, HEADER, batch, result, write_run
from tests.timing import spoilable

NOWHERE = "http://127.0.0.1:9/v1/AUTH_test"


def test_a_child_runs_on_its_core_and_its_cpu_time_is_known() -> None:
    program = "import os; sum(range(1_000_000)); print(os.sched_getaffinity(0))"
    ended = child.run([sys.executable, "-c", program], CLIENT)
    assert ended.out == f"{{{CLIENT}}}\n"
    assert ended.cpu_s > 0
    assert ended.memory_mb > 1


def test_a_command_that_fails_or_takes_too_long_is_an_error() -> None:
    with pytest.raises(CommandError, match="status 3: no store"):
        child.run([sys.executable, "-c", "print('no store'); raise SystemExit(3)"], CLIENT)
    with pytest.raises(CommandError, match="status -9"):
        child.run([sys.executable, "-c", "import time; time.sleep(99)"], CLIENT, timeout_s=0.01)


@pytest.mark.e2e
def test_operations_and_cpu_time_of_both_are_reported() -> None:
    load = ours.Load(NOWHERE, ours.GET, 4096, 4, 0.3, options=["--noop"], watched=True)
    done = ours.run(load)
    assert done.operations > 0
    assert done.worker_cpu_s > 0
    assert done.master_cpu_s > 0
    assert done.worker_mb > 1
    assert 0.3 <= done.seconds < 30
    with pytest.raises(CommandError, match="status 1"):
        ours.run(ours.Load(NOWHERE, ours.GET, 4096, 4, 0.3))


@pytest.mark.e2e
@spoilable("the kernel counts CPU time of processes in ticks of 10 ms")
def test_simulated_workers_are_measured_during_their_run() -> None:
    cost = simulated.run(simulated.Setup(2, 8, 10, 0.3))
    assert cost.master_us > 0
    assert cost.worker_us > 0


@pytest.mark.e2e
def test_a_rate_is_parsed_and_below_that_of_the_messages_alone() -> None:
    assert noop.sockets(noop.SETTINGS[0]) > noop.measure("-u 2 -o 100 --workers 1") > 10
    with pytest.raises(CommandError, match="status 2"):
        noop.measure("-u 0")


def test_the_first_operation_is_the_earliest_of_the_run(tmp_path: Path) -> None:
    rows = [result(1, start_ns=500_000_000), result(2, start_ns=250_000_000)]
    path = tmp_path / "run.stat.gz"
    write_run(path, [HEADER, PhaseRecord(Phase.RUN, 100.0, 1), batch(rows), FOOTER])
    assert first_operation_at(path) == 100.25


@pytest.mark.parametrize("rate", [None, 5_000.0])
def test_a_generated_file_has_the_requested_operations(
    rate: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statfiles, "_UNIT", 100)
    path = tmp_path / "made.stat.gz"
    statfiles.write(path, statfiles.Shape(300, rows=8, rate=rate))
    stats = read_stats(str(path))
    assert stats.run.complete
    assert stats.unaccounted == 0
    assert stats.total().operations == 300
    assert bool(stats.total().response.histogram.count) == bool(rate)
    with read(path) as records:
        batches = [record for record in records if isinstance(record, ResultBatch)]
    ids = [each for batch in batches for each in batch.column("transaction_id")]
    numbers = [each for batch in batches for each in batch.column("number")]
    assert len(set(ids)) == 300
    assert sorted(numbers) == list(range(1, 301))
    assert max(batch.count for batch in batches) == 8


# What peers print ---------------------------------------------------------------------------

OUT = """Running 2s test @ http://127.0.0.1:40557/v1/AUTH_test/c/o
  1 threads and 64 connections
  123391 requests in 2.00s, 517.65MB read
SAYS 123391 2001344 542794547 {errors}
"""


def test_a_peer_says_how_many_and_how_long() -> None:
    said = parse(Completed("noise\nSAYS 37438 2.845522\nmore\n", 2.5, 60))
    assert said == Peer(37438, 2.845522, 2.5)
    its_own = wrk.parse(OUT.format(errors=0), 1.5)
    assert its_own == wrk.Wrk(123391, 2.001344, 1.5)
    assert its_own.us_a_request == pytest.approx(12.156, abs=0.001)
    assert its_own.per_s == pytest.approx(61654, abs=1)


@pytest.mark.parametrize("out", ["", "SAYS 0 2.0\n", "3 requests failed\n"])
def test_a_peer_that_did_nothing_gives_no_figure(out: str) -> None:
    with pytest.raises(CommandError, match="doesn't say"):
        parse(Completed(out, 2.5, 60))


@pytest.mark.parametrize(
    ("out", "word"),
    [
        (OUT.format(errors=3), "3 errors in 123391"),
        ("SAYS 0 2001344 0 0\n", "0 errors in 0"),
        ("unable to connect to 127.0.0.1:1 Connection refused\n", "refused"),
    ],
)
def test_a_run_of_wrk_with_errors_gives_no_figure(out: str, word: str) -> None:
    with pytest.raises(CommandError, match=word):
        wrk.parse(out, 1.0)
