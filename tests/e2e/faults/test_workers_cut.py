"""Workers on hosts of their own, whose cable is pulled, and put back.

The store is behind the same cable: it listens on the master's host.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Commands, Started, port_options, requests, results_of, until
from tests.e2e.faults.agreement import agrees_with_log
from tests.e2e.faults.matrix import Row
from tests.e2e.namespaces import Network
from tests.fakes.relay import Relay

#: Nobody else is in these namespaces.
PORTS = port_options("13579", "13580", "13581")
USERS = 8


@pytest.fixture
def network() -> Iterator[Network]:
    with Network(2) as made:
        yield made


@contextmanager
def pulled(network: Network, index: int) -> Iterator[None]:
    """A worker's cable, for the length of the block."""
    network.master.run("ip", "link", "set", f"v{index}", "down")
    try:
        yield
    finally:
        network.master.run("ip", "link", "set", f"v{index}", "up")


@contextmanager
def at_work(
    commands: Commands, network: Network, swift: EmbeddedSwift, base: str, *options: object
) -> Iterator[Started]:
    """A run with a worker on each host, that has begun."""
    key = commands.place / "key"
    commands.call("make-key", key).fine()
    keyed = [*PORTS, "--zmq-key-file", key]
    with network.master.listener(0) as listener, Relay(swift.port, listener=listener) as relay:
        store = network.master_address(0)
        for index, host in enumerate(network.workers):
            host.run("ip", "route", "add", "default", "via", network.master_address(index))
            place = ["--zmq-host", network.master_address(index)]
            commands.worker(*place, *keyed, f"host-{index}", preexec_fn=host.enter())
        keys = {"crud_profile": [1, 1, 0, 0], "user_count": USERS, "think_time": 0.4}
        path = commands.scenario(container_base=base, **keys)
        login = ["-A", f"http://{store}:{relay.port}/auth/v1.0", "-U", swift.user, "-K", swift.key]
        started = commands.start_run(
            "-f", path, *login, "--expect-workers", 2, *options,
            workers=None, ports=keyed, preexec_fn=network.master.enter(),
        )  # fmt: skip
        until("work", lambda: len(requests(swift, base)) > 40)
        yield started


@pytest.mark.fault("worker cut off (link down) for less than its timeout; then past it, then up")
def test_a_worker_cut_off_and_reconnected(
    commands: Commands, network: Network, embedded_swift: EmbeddedSwift, row: Row
) -> None:
    options = ["-r", 60, "--worker-timeout", 10, "--network-timeout", 5]
    with at_work(commands, network, embedded_swift, "cut", *options) as started:
        with pulled(network, 1):
            before = len(requests(embedded_swift, "cut"))
            until("work of the other", lambda: _sent_by("host-0", embedded_swift, "cut", before))
            briefly = len(requests(embedded_swift, "cut"))
        until("its work", lambda: _sent_by("host-1", embedded_swift, "cut", briefly))
        # The results of all that it had sent until then have arrived: they come in order.
        asked = requests(embedded_swift, "cut")[:briefly]
        sent = sum(r.transaction.endswith("-host-1") for r in asked)
        until("results", lambda: results_of("host-1", started.stat_file) > sent + USERS)
        assert "Lost worker" not in started.talk()
        row.saw("cut off briefly, it loses nothing")
        with pulled(network, 1):
            started.wait_for("Lost worker host-1")
            before = len(requests(embedded_swift, "cut"))
        row.strike()
        until("its return", lambda: _sent_by("host-1", embedded_swift, "cut", before))
        row.recovered()
        started.interrupt()
        ended = started.wait().fine(5)
    stats = ended.stats
    account = row.accounted(stats)
    assert account.lost > 0
    assert [name.split()[0] for name in stats.run.workers_lost] == ["host-1"]
    agreement = agrees_with_log(embedded_swift, "cut", ended.results)
    unheard = agreement.of_worker("host-1")
    assert agreement.others == unheard
    assert not {r.transaction for r in unheard} & {r.transaction for r in asked}
    # Lost are results that were in its sockets, and what was in flight: of what it had queued it
    # begins nothing. So at most one operation of each user reaches the store after the cut.
    later = {r.transaction for r in requests(embedded_swift, "cut")[before:]}
    begun = {(r.method, r.container, r.object) for r in unheard if r.transaction in later}
    assert len(begun) <= USERS // 2, begun
    row.saw("given up, and taken again once the link is up; nothing is counted twice; status 5")


def _sent_by(worker: str, swift: EmbeddedSwift, base: str, after: int) -> bool:
    return any(r.transaction.endswith(f"-{worker}") for r in requests(swift, base)[after:])
