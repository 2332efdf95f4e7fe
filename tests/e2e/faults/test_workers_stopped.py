"""Workers that stand still for a while: longer than the time-out, and shorter."""

from __future__ import annotations

import signal
import time

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Commands, login, requests, until, workers_of
from tests.e2e.faults.agreement import agrees_with_log
from tests.e2e.faults.matrix import Row

USERS = 8


@pytest.mark.fault("worker stopped (SIGSTOP) past its time-out, then SIGCONT")
def test_one_that_comes_back_after_it_was_given_up(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    keys = {"crud_profile": [1, 1, 0, 0], "user_count": USERS}
    path = commands.scenario(container_base="stopped", **keys)
    options = ["--worker-timeout", "4", *login(embedded_swift)]
    started = commands.start_run("-f", path, "-r", "8", *options)
    until("work", lambda: len(requests(embedded_swift, "stopped")) > 100)
    stopped, _ = started.workers()
    stopped.send_signal(signal.SIGSTOP)
    started.wait_for("Lost worker")
    before = len(requests(embedded_swift, "stopped"))
    row.strike()
    stopped.send_signal(signal.SIGCONT)
    until("its return", lambda: len(workers_of(started.stat_file)) > 2 if started.stat_file else 0)
    row.recovered()
    ended = started.wait().fine(6)
    stats = ended.stats
    account = row.accounted(stats)
    assert account.failed == 0
    assert account.lost > 0
    assert "Lost worker" in ended.err
    name = next(w.worker_id for w in workers_of(ended.results) if w.pid == stopped.pid)
    assert [lost.split()[0] for lost in stats.run.workers_lost] == [name]

    agreement = agrees_with_log(embedded_swift, "stopped", ended.results)
    unheard = agreement.of_worker(name)
    assert agreement.others == unheard
    # The fence: of what it had in its queue nothing was begun, only what was in flight ended.
    assert len(unheard) <= USERS // 2
    later = {r.transaction for r in requests(embedded_swift, "stopped")[before:]}
    assert not later & {r.transaction for r in unheard}, "it ran stale jobs"
    assert any(name in transaction for transaction in later), "it did nothing any more"
    row.saw(
        "given up, and taken again under a new incarnation; it begins nothing of what it held,"
        " and nothing is counted twice; status 6"
    )


@pytest.mark.fault("worker stopped (SIGSTOP) for less than its time-out")
def test_one_that_stops_for_a_moment_loses_nothing(
    commands: Commands, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    keys = {"crud_profile": [1, 1, 0, 0], "user_count": USERS}
    path = commands.scenario(container_base="paused", **keys)
    options = ["--worker-timeout", "12", *login(embedded_swift)]
    started = commands.start_run("-f", path, "-r", "5", *options)
    until("work", lambda: len(requests(embedded_swift, "paused")) > 100)
    stopped, _ = started.workers()
    stopped.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    stopped.send_signal(signal.SIGCONT)
    ended = started.wait().fine()
    account = row.accounted(ended.stats)
    assert (account.failed, account.lost) == (0, 0)
    assert "Lost worker" not in ended.err
    assert agrees_with_log(embedded_swift, "paused", ended.results).others == []
    row.saw("nothing is lost, status 0")
