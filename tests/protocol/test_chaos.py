"""Messages are lost, repeated and reordered at random, and workers come and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssbench.core.errors import SsbenchError
from ssbench.core.model import Stage
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
}
SCRIPTS = st.lists(
    st.tuples(st.floats(0.5, 15), st.integers(0, 2), st.sampled_from(sorted(FAULTS))), max_size=5
)


def play(cluster: Cluster, script: list[tuple[float, int, str]]) -> None:
    for seconds, index, fault in script:
        worker = cluster.workers[index]
        cluster.at(seconds, lambda worker=worker, fault=fault: FAULTS[fault](worker))


@settings(max_examples=40, deadline=None)
@given(SCRIPTS)
def test_whatever_happens_to_workers_no_job_runs_twice(
    script: list[tuple[float, int, str]],
) -> None:
    """Invariants: the run ends; each job has one outcome; none is started after the master gave it
    up; none is started twice but those that are in doubt, as their acknowledgement did not arrive;
    operation_count is reached, or a reason given.
    """
    cluster = Cluster(drain_timeout_s=5.0)
    play(cluster, script)
    try:
        outcome = cluster.run(1500)
    except SsbenchError:  # the workers were gone before the run began
        return
    if outcome.ended == "complete":
        assert outcome.counts.sent == 1500
    assert cluster.too_late == []
    assert cluster.started_twice <= outcome.counts.doubtful


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 3), st.integers(1, 12)), min_size=1, max_size=6), SCRIPTS)
def test_whatever_users_there_are_in_each_stage_no_job_runs_twice(
    stages: list[tuple[float, int]], script: list[tuple[float, int, str]]
) -> None:
    """Invariants: as above; and without faults, all jobs are done."""
    cluster = Cluster(drain_timeout_s=5.0)
    play(cluster, script)
    try:
        outcome = cluster.run(10**6, stages=[Stage(seconds, users) for seconds, users in stages])
    except SsbenchError:
        return
    assert cluster.too_late == []
    assert cluster.started_twice <= outcome.counts.doubtful
    if not script:
        assert outcome.counts.lost == outcome.counts.failed == 0
        assert sum(cluster.begun.values()) == outcome.counts.done


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.floats(0, 0.1),
    st.floats(0, 0.2),
    st.sampled_from([0.0, 0.05, 0.5, 3.0]),
    SCRIPTS,
)
def test_lost_repeated_and_reordered_messages_keep_the_accounts(
    seed: int, loses: float, repeats: float, delay_s: float, script: list[tuple[float, int, str]]
) -> None:
    """Invariants: the run ends, each job has one outcome, and each job that counts as done ran."""
    cluster = Cluster(chaos=Chaos(seed, loses, repeats, delay_s), drain_timeout_s=5.0)
    play(cluster, script)
    try:
        outcome = cluster.run(400)
    except SsbenchError:
        return
    if outcome.ended == "complete":
        assert outcome.counts.sent == 400


@pytest.mark.parametrize("loses", [0.3, 0.6])
def test_a_run_ends_over_a_link_that_loses_a_third_of_the_messages(loses: float) -> None:
    outcome = Cluster(chaos=Chaos(1, loses), worker_timeout_s=20.0).run(100)
    assert outcome.ended == "complete"
    assert outcome.counts.sent == 100
