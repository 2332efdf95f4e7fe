"""A short run of the real commands, without a store: that they can be measured at all."""

from __future__ import annotations

import pytest

from benchmarks.bench import ours, simulated
from benchmarks.bench.child import CommandError
from tests.timing import spoilable

pytestmark = pytest.mark.e2e
NOWHERE = "http://127.0.0.1:9/v1/AUTH_test"


def test_operations_and_cpu_time_of_both_are_reported() -> None:
    load = ours.Load(NOWHERE, ours.GET, 4096, 4, 0.3, options=["--noop"], watched=True)
    done = ours.run(load)
    assert done.operations > 0
    assert done.worker_cpu_s > 0
    assert done.master_cpu_s > 0
    assert done.worker_mb > 1
    assert 0.3 <= done.seconds < 30


def test_a_run_that_fails_gives_no_figure() -> None:
    with pytest.raises(CommandError, match="status 1"):
        ours.run(ours.Load(NOWHERE, ours.GET, 4096, 4, 0.3))


@spoilable("the kernel counts CPU time of processes in ticks of 10 ms")
def test_simulated_workers_are_measured_during_their_run() -> None:
    cost = simulated.run(simulated.Setup(2, 8, 10, 0.3))
    assert cost.master_us > 0
    assert cost.worker_us > 0
