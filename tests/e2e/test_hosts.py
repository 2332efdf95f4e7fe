"""Several hosts: network namespaces, each with nothing but a cable to the master's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.commands import Commands, Started, port_options, workers_of
from tests.e2e.namespaces import Network

#: Nobody else is in these namespaces.
PORTS = port_options("13579", "13580", "13581")


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network(4) as made:
        yield made


@pytest.fixture
def key_file(commands: Commands) -> Path:
    path = commands.place / "key"
    commands.call("make-key", path).fine()
    assert path.stat().st_mode & 0o777 == 0o600
    return path


def start_worker(
    commands: Commands, network: Network, index: int, *options: object, name: str = ""
) -> Started:
    words = ["-c", 1000, "--zmq-host", network.master_address(index), *PORTS, *options]
    host = network.workers[index]
    return commands.worker(*words, name or f"host-{index}", preexec_fn=host.enter())


def test_four_hosts_with_a_key_in_any_order(
    commands: Commands, network: Network, key_file: Path
) -> None:
    keyed = ["--zmq-key-file", key_file]
    workers = [start_worker(commands, network, index, *keyed) for index in (2, 0)]
    for worker in workers:
        worker.wait_for("Worker host-")
    path = commands.scenario(crud_profile=[1, 8, 1, 0])  # 2,000 users find objects
    options = ["-v", "--noop", "-u", 2000, "-o", 40000, "--expect-workers", 4, *keyed]
    master = commands.start_run(
        "-f", path, *options, workers=None, ports=PORTS, preexec_fn=network.master.enter()
    )
    for name in ("host-0", "host-2"):
        master.wait_for(f"Worker {name} ")
    # One each on a host where a worker with the right key is to come later.
    stranger = start_worker(commands, network, 1, name="stranger")
    other_key = commands.place / "other"
    commands.call("make-key", other_key).fine()
    wrong = start_worker(commands, network, 3, "--zmq-key-file", other_key, name="wrong")
    for turned_away in (stranger, wrong):
        turned_away.wait_for("rejects this worker")
    assert "it has a key, this worker has none" in stranger.talk()
    assert "its key is another one" in wrong.talk()
    workers += [start_worker(commands, network, index, *keyed) for index in (3, 1)]
    ended = master.wait().fine()
    assert ended.counted() == (40000, 0, 0)
    stats = ended.stats
    assert stats.run.lost == 0
    shares = stats.requests_per_worker()
    assert sorted(shares) == ["host-0", "host-1", "host-2", "host-3"]
    assert min(shares.values()) > 40000 / 4 / 3
    assert {w.worker_id for w in workers_of(ended.results)} == set(shares)
    warnings = [line for line in ended.err.splitlines() if "WARNING" in line]
    told = [line for line in warnings if line.startswith("WARNING: Rejected a peer at ")]
    # One line an address; where it was missed at first, one line may say that.
    assert warnings == told
    named = [line for line in told if "an unknown address" not in line]
    for index in (1, 3):
        (line,) = [line for line in named if f"at 198.18.{index}.2, port 1358" in line]
        assert line.removeprefix("WARNING: ") in ended.out
    assert len(named) == 2
    assert len(told) <= 3
    for started in (stranger, wrong):
        assert "populate" not in started.talk()
        assert started.talk().count("WARNING:The master rejects") == 1, started.talk()
    killer = ["kill-workers", *PORTS, *keyed]
    gone = commands.master(*killer, preexec_fn=network.master.enter()).wait().fine()
    ends = [f"Ended worker host-{index} " for index in range(4)]
    lines = sorted(gone.out.splitlines())
    assert [line[: len(end)] for line, end in zip(lines, ends, strict=True)] == ends
    assert [worker.wait().status for worker in workers] == [0] * 4
    assert stranger.process.poll() is wrong.process.poll() is None


def test_without_key_and_address_only_loopback_is_served(
    commands: Commands, network: Network
) -> None:
    path = commands.scenario()
    start_worker(commands, network, 0)
    options = ["--noop", "--worker-wait", 2]
    ended = commands.run(
        "-f", path, *options, workers=None, ports=PORTS, preexec_fn=network.master.enter()
    )
    assert "no worker joined" in ended.one_line(6)
