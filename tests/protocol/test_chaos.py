"""Messages are lost, repeated and reordered at random, and workers come and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.errors import SsbenchError
from ssbench.core.model import Stage
from ssbench.master.phase_machine import PhaseOutcome
from tests.fakes.cluster import Chaos, Cluster, SimWorker


def toggle(name: str) -> Callable[[SimWorker], None]:
    return lambda worker: setattr(worker, name, not getattr(worker, name))


FAULTS: dict[str, Callable[[SimWorker], None]] = {
    "kill": SimWorker.kill,
    "restart": SimWorker.restart,
    "stop": toggle("running"),
    "cut": toggle("connected"),
    "exit": lambda worker: worker.machine.stop("SIGTERM"),
    "crash": lambda worker: worker.machine.crash(ValueError("odd")),
    "slow": lambda worker: setattr(worker, "operation_s", 2.0),
    "fail": lambda worker: setattr(worker, "failing", 0.3),
}
SCRIPTS = st.lists(
    st.tuples(st.floats(0.5, 15), st.integers(0, 2), st.sampled_from(sorted(FAULTS))), max_size=5
)
STAGES = st.lists(st.tuples(st.floats(0.1, 3), st.integers(1, 12)), max_size=6)
#: Each worker that has users has one of each group; a stage has as many users as the run.
GROUPS = st.sampled_from([(), (6, 6), (3, 9), (4, 4, 4)])


def played(
    cluster: Cluster,
    script: list[tuple[float, int, str]],
    stages: list[tuple[float, int]],
    groups: tuple[int, ...],
) -> PhaseOutcome | None:
    """A run in which this happens; None if the workers were gone before it began.

    ``run`` checks that it ends, that each job has one outcome, and that what is counted, recorded
    and started fits each other.
    """
    for seconds, index, fault in script:
        worker = cluster.workers[index]
        cluster.at(seconds, lambda worker=worker, fault=fault: FAULTS[fault](worker))
    parts = [Stage(seconds, 12 if groups else users) for seconds, users in stages]
    try:
        outcome = cluster.run(10**6 if stages else 1000, stages=parts, groups=groups)
    except SsbenchError:
        return None
    if outcome.ended == "complete" and not stages:
        assert outcome.counts.sent == 1000
    return outcome


@settings(max_examples=40, deadline=None)
@given(SCRIPTS, STAGES, GROUPS)
def test_whatever_happens_to_workers_no_job_runs_twice(
    script: list[tuple[float, int, str]], stages: list[tuple[float, int]], groups: tuple[int, ...]
) -> None:
    """Invariants: those of ``played``; no job is started after the master gave it up; none is
    started twice but those that are in doubt, as their acknowledgement did not arrive; without
    faults, all jobs are done; workers that exit in order lose none.
    """
    cluster = Cluster(drain_timeout_s=5.0)
    outcome = played(cluster, script, stages, groups)
    if outcome is None:
        return
    assert cluster.too_late == []
    assert cluster.started_twice <= outcome.counts.doubtful
    faults = {fault for _, _, fault in script}
    if not faults - {"exit", "fail"}:
        assert outcome.counts.lost == 0
        assert sum(cluster.begun.values()) == outcome.counts.done + outcome.counts.failed
        assert cluster.into_closed == 0
        assert bool(outcome.counts.failed) <= ("fail" in faults)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.floats(0, 0.1),
    st.floats(0, 0.2),
    st.sampled_from([0.0, 0.05, 0.5, 3.0]),
    st.sampled_from([0.0, 0.2]),
    SCRIPTS,
    STAGES,
    GROUPS,
)
def test_lost_repeated_reordered_and_false_messages_keep_the_accounts(
    seed: int,
    loses: float,
    repeats: float,
    delay_s: float,
    forges: float,
    script: list[tuple[float, int, str]],
    stages: list[tuple[float, int]],
    groups: tuple[int, ...],
) -> None:
    """Invariants: those of ``played``."""
    chaos = Chaos(seed, loses, repeats, delay_s, forges)
    played(Cluster(chaos=chaos, drain_timeout_s=5.0), script, stages, groups)


@pytest.mark.parametrize("loses", [0.3, 0.6])
def test_a_run_ends_over_a_link_that_loses_a_third_of_the_messages(loses: float) -> None:
    outcome = Cluster(chaos=Chaos(1, loses), worker_timeout_s=20.0).run(100)
    assert outcome.ended == "complete"
    assert outcome.counts.sent == 100
