"""Workers that stand still for a while: longer than the timeout, and shorter."""

from __future__ import annotations

import signal

import pytest

from ssbench.core.columns import pack_results
from ssbench.core.messages import Ack, Heartbeat, Jobs, Results, pack
from ssbench.core.model import Job, Phase
from ssbench.embedded import EmbeddedSwift
from ssbench.transport.sockets import Ports
from tests.e2e.commands import Commands, free_ports, login, requests, results_of, until, workers_of
from tests.e2e.faults.agreement import agrees_with_log
from tests.e2e.faults.matrix import Row
from tests.fakes.paced_swift import PacedSwift, reads_of
from tests.fakes.scripted_master import host_key
from tests.fakes.scripted_worker import ScriptedWorker

USERS = 8
#: 20 operations a second: enough to see what a worker does, and little load on the host.
SLOW_USERS = {"crud_profile": [1, 1, 0, 0], "user_count": USERS, "think_time": 0.4}


@pytest.mark.fault("worker stopped (SIGSTOP) for less than its timeout; then past it, then SIGCONT")
def test_a_stopped_worker_that_continues_after_it_was_lost(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    path = commands.scenario(container_base="stopped", **SLOW_USERS)
    options = ["--worker-timeout", "10", *login(embedded_swift)]
    started = commands.start_run("-f", path, "-r", "60", *options)
    assert started.stat_file is not None
    until("work", lambda: len(requests(embedded_swift, "stopped")) > 40)
    stopped, _ = started.workers()
    stopped.send_signal(signal.SIGSTOP)
    before = len(requests(embedded_swift, "stopped"))
    until("work of the other", lambda: len(requests(embedded_swift, "stopped")) > before + 10)
    stopped.send_signal(signal.SIGCONT)
    briefly = requests(embedded_swift, "stopped")
    name = next(w.worker_id for w in workers_of(started.stat_file) if w.pid == stopped.pid)
    sent = sum(name in r.transaction for r in briefly)
    # The results of all that it had sent until then have arrived: they come in order.
    until("results", lambda: results_of(name, started.stat_file) > sent + USERS)
    assert "Lost worker" not in started.talk()
    row.saw("stopped briefly, it loses nothing")

    stopped.send_signal(signal.SIGSTOP)
    started.wait_for("Lost worker")
    before = len(requests(embedded_swift, "stopped"))
    row.strike()
    stopped.send_signal(signal.SIGCONT)
    until("its return", lambda: len(workers_of(started.stat_file)) > 2)
    row.recovered()
    until("its work", lambda: any(name in r.transaction for r in
                                  requests(embedded_swift, "stopped")[before:]))  # fmt: skip
    started.interrupt()
    ended = started.wait().fine(5)
    stats = ended.stats
    account = row.accounted(stats)
    assert account.failed == 0
    assert account.lost > 0
    assert [lost.split()[0] for lost in stats.run.workers_lost] == [name]

    agreement = agrees_with_log(embedded_swift, "stopped", ended.results)
    unheard = agreement.of_worker(name)
    assert agreement.others == unheard
    assert not {r.transaction for r in unheard} & {r.transaction for r in briefly}
    # Lost are results that it had not reported when it was stopped, and what was in flight: of what
    # it had queued it begins nothing. So at most one operation of each user ends after the loss.
    later = {r.transaction for r in requests(embedded_swift, "stopped")[before:]}
    begun = {(r.method, r.container, r.object) for r in unheard if r.transaction in later}
    assert len(begun) <= USERS // 2, begun
    row.saw(
        "given up, and taken again under a new incarnation; it begins nothing of what it held,"
        " and nothing is counted twice; status 5"
    )


class Sleeper:
    """What a scripted does that falls silent with its first job of the run, and once it is given up
    sends the results of all it held."""

    def __init__(self) -> None:
        self.held: list[tuple[Jobs, list[Job]]] = []
        self.results = 0  #: that came too late
        self.scripted: ScriptedWorker | None = None

    def play(self, scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
        self.scripted = scripted
        if batch.phase == Phase.RUN:
            scripted.transport.send(Ack(scripted.incarnation, batch.run, [batch.batch]))
            self.held.append((batch, jobs))
        else:
            self._report(scripted, batch, jobs)

    def pulse(self, pulse: Heartbeat) -> Heartbeat:
        scripted = self.scripted
        if not self.held or scripted is None or scripted.state is None:
            return pulse
        if scripted.incarnation not in scripted.state.workers:
            while self.held:
                self._report(scripted, *self.held.pop())
                self.results += 1
        return pulse._replace(answered_serial=0)  # an answer to no beat of today

    def _report(self, scripted: ScriptedWorker, batch: Jobs, jobs: list[Job]) -> None:
        rows = [
            (job.number, job.operation, job.size_class, job.object, job.due_ns, 0, 1, 1, 1, 0,
             *[0] * 6, 200, 0, 0, b"tx", "")
            for job in jobs
        ]  # fmt: skip
        took = [batch.batch]
        packed = pack(pack_results(rows))
        scripted.transport.send(Results(scripted.incarnation, batch.run, batch.phase, took, packed))


@pytest.mark.fault("results of a worker arrive after it was given up")
def test_stale_results_are_rejected_by_batch_number(commands: Commands, row: Row) -> None:
    options = free_ports()
    path = commands.scenario(**reads_of(1000), user_count=USERS)
    sleeper = Sleeper()
    work, results, control = (int(word) for word in options[1::2])
    with PacedSwift(1000, 0.05) as store:
        commands.worker(*options, "awake")
        words = ["-S", store.url, "-T", "token", "-r", 6, "--worker-timeout", 3]
        started = commands.start_run(
            "-f", path, *words, "--expect-workers", 2, workers=None, ports=options
        )
        ports = Ports(work, results, control)
        with ScriptedWorker(ports, sleeper.play, heartbeats=sleeper.pulse, key=host_key()):
            ended = started.wait().fine(6)
    stats = ended.stats
    account = row.accounted(stats)
    assert sleeper.results > 0
    assert stats.run.refused == sleeper.results
    assert account.failed == 0
    assert account.lost > 0
    assert stats.requests_per_worker()["awake"] == account.done
    row.saw(f"all {sleeper.results} messages are refused, their jobs stay lost; status 6")
