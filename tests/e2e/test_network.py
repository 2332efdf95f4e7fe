"""check-network, workers that only send metrics, and stores far away, in processes of their own."""

from __future__ import annotations

import csv
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from ssbench import statfile
from ssbench.core.errors import ExitStatus, StatFileError
from ssbench.core.operations import READ
from ssbench.core.records import HostRecord
from tests.e2e.commands import (
    Commands,
    Ended,
    free_ports,
    port_options,
    until,
    workers_of,
)
from tests.e2e.faults.test_workers_share import in_flight, spans_by_worker
from tests.e2e.namespaces import Network
from tests.fakes.paced_swift import PacedSwift, reads_of
from tests.fakes.relay import Relay
from tests.ports import held_port

#: Nobody else is in these namespaces.
PORTS = port_options("13579", "13580", "13581")
STORE_ADDRESS = "198.18.1.2"
#: Of any machine and load.
BANDWIDTH = r"[\d.]+ [KMGT]?bits/sec"
LATENCY = r"[\d.]+ (?:µs|ms|s)"


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """A master's host, a worker's, and the store's; these two reach each other by way of it."""
    with Network(2) as made:
        made.master.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for index, host in enumerate(made.workers):
            host.run("ip", "route", "add", "default", "via", made.master_address(index))
        yield made


@pytest.fixture
def keyed(commands: Commands) -> list[str]:
    path = commands.place / "key"
    commands.call("make-key", path).fine()
    return ["--zmq-key-file", str(path)]


def on(network: Network, name: str) -> Callable[[], None]:
    """Moves a command to this host."""
    return network.workers[["bench-02", "store-01"].index(name)].enter(name)


def test_each_pair_of_three_hosts_is_measured_in_both_directions(
    commands: Commands, network: Network, keyed: list[str]
) -> None:
    server = commands.worker("--network-server", *keyed, preexec_fn=on(network, "store-01"))
    server.wait_for("Listening at 0.0.0.0, port 13583, for")
    to_master = ["--zmq-host", network.master_address(0), *PORTS, *keyed]
    workers = [
        commands.worker(*to_master, *words, preexec_fn=on(network, "bench-02"))
        for words in (["one"], ["--exit-with-master", "two"])
    ]
    words = ["check-network", STORE_ADDRESS, "--bytes", "4M", "--expect-workers", 2]
    master = commands.master(*words, *PORTS, *keyed, preexec_fn=network.master.enter())
    ended = master.wait().fine()
    assert server.wait().status == 0  # with the command
    assert workers[1].wait().status == 0
    assert workers[0].process.poll() is None
    master_host = socket.gethostname()
    store, here = f"{STORE_ADDRESS}:13583", f"master ({master_host})"
    worker = r"worker one \(bench-02\)"  # "two" is on the same host
    for near, far in ((re.escape(here), store), (worker, store), (worker, re.escape(here))):
        assert re.search(rf"^{near} - {far}, TCP$", ended.out, re.MULTILINE), ended.out
        row = rf"^{near} - {far} +{BANDWIDTH} +{BANDWIDTH} +{LATENCY}$"
        assert re.search(row, ended.out, re.MULTILINE), ended.out
    line = rf"^\[ +\d\]  0\.0- *[\d.]+ sec  4\.00 MBytes +{BANDWIDTH}  {LATENCY}$"
    assert len(re.findall(line, ended.out, re.MULTILINE)) == 6, ended.out
    assert ended.out.count("Round trip while idle: ") == 3


def test_what_cannot_be_measured_is_said(commands: Commands, keyed: list[str]) -> None:
    port = held_port("127.0.0.1")
    server = commands.worker("--network-server", port, *keyed)
    server.wait_for("Listening at 0.0.0.0")
    taken = commands.worker("--network-server", f"127.0.0.1:{port}", *keyed).wait()
    assert taken.status == 1
    assert f"port {port}: can't listen there: Address already in use (--network" in taken.err
    nobody = held_port("127.0.0.1")
    other = commands.place / "other"
    commands.call("make-key", other).fine()
    address = ["--zmq-bind-ip", "127.0.0.1", "--time", 1, "--worker-wait", 0]
    words = ["check-network", f"127.0.0.1:{port}", f"127.0.0.1:{nobody}", *address]
    ports = free_ports()
    ended = commands.master(*words, *ports, "--zmq-key-file", other).wait().fine(1)
    faults = re.findall(r"^FAILED: 127\.0\.0\.1, port (\d+): (.*)$", ended.out, re.MULTILINE)
    assert [number for number, _ in faults] == [str(port), str(nobody)]
    assert "the key is another one" in faults[0][1]
    assert faults[1][1] == "Connection refused"
    assert ended.err.splitlines()[-1] == "ssbench-master: 2 connections could not be measured"
    server.wait_for("A connection from 127.0.0.1 failed: the key is another one")
    nothing = commands.call("check-network", *address, *ports)
    assert "nothing to measure" in nothing.one_line(2)
    server.interrupt()
    assert server.wait().status == 0


def test_a_worker_that_is_killed_while_it_measures_is_said_to_be_gone(commands: Commands) -> None:
    ports = free_ports()
    worker = commands.worker(*ports, "victim")
    mine = ["--network-port", held_port("127.0.0.1"), "--worker-timeout", 1, "--time", 3600]
    master = commands.master("check-network", *ports, *mine)
    until("it measures", lambda: "Measuring from worker victim" in master.talk())
    worker.signal(signal.SIGKILL)
    ended = master.wait().fine(1)
    assert "FAILED: the worker is gone" in ended.out


def test_ctrl_c_ends_a_check_and_its_server(commands: Commands) -> None:
    number = held_port("127.0.0.1")
    server = commands.worker("--network-server", number)
    server.wait_for("Listening at 127.0.0.1")
    words = ["check-network", f"127.0.0.1:{number}", "--time", 60, "--worker-wait", 0]
    master = commands.master(*words, *free_ports())
    until("it measures", lambda: "Measuring from master" in master.talk())
    master.interrupt()
    ended = master.wait()
    assert ended.status == 5
    assert ended.err.splitlines()[-1] == "ssbench-master: interrupted by SIGINT"
    assert server.wait().status == 0


def seconds_of_store(stat_file: Path) -> int:
    """Seconds of the store's host that are in a stat file by now."""
    with suppress(StatFileError), statfile.read(str(stat_file)) as reader:
        return sum(isinstance(each, HostRecord) and each.host == "store-01" for each in reader)
    return 0


def test_metrics_of_the_stores_host_are_recorded_and_a_run_does_not_need_them(
    commands: Commands, network: Network, keyed: list[str]
) -> None:
    words = ["--metrics-only", "--zmq-host", network.master_address(1), *PORTS, *keyed]
    metrics = commands.worker(*words, "metrics", preexec_fn=on(network, "store-01"))
    metrics.wait_for("Worker metrics for metrics only")
    path = commands.scenario(operation_count=None, run_seconds=600, user_count=4)
    options = ["--noop", "--rate", 40, "--worker-timeout", 5, *keyed]
    master = commands.start_run(
        "-f", path, *options, workers=2, ports=PORTS, preexec_fn=network.master.enter()
    )
    assert master.stat_file is not None
    stat_file = master.stat_file
    until("two seconds are recorded", lambda: seconds_of_store(stat_file) >= 2)
    metrics.signal(signal.SIGKILL)
    master.wait_for("WARNING: No more metrics from worker metrics (store-01")
    master.interrupt()
    ended = master.wait().fine(ExitStatus.INTERRUPTED)
    assert "Lost worker metrics" not in ended.err
    assert ended.stats.worker_count == 2
    assert [w.concurrency for w in workers_of(stat_file) if w.worker_id == "metrics"] == [0]
    assert re.search(r"^ +store-01 +metrics only +[\d.]+", ended.out, re.MULTILINE), ended.out
    sheet = commands.place / "dstat.csv"
    words = ["report-scenario", "-s", stat_file, "--json", "--dstat", sheet]
    report = json.loads(commands.call(*words).fine().out)
    used = {row["host"]: row for row in report["host_use"]}
    assert used["store-01"]["processes"] == "metrics only"
    assert used[socket.gethostname()]["processes"] == "master, 2 workers"
    assert len(report["workers"]["requests_by_worker_id"]) == 2
    with sheet.open() as file:
        rows = [row for row in csv.DictReader(file) if row["host"] == "store-01"]
    assert len(rows) >= 2
    cpu = ("usr", "sys", "idl", "wai", "hiq", "siq", "stl")
    assert all(sum(float(row[name]) for name in cpu) == pytest.approx(100, abs=0.1) for row in rows)
    assert len({row["time"] for row in rows}) >= len(rows) - 1


@contextmanager
def far_away(port: int) -> Iterator[int]:
    """A port of this host that leads to another one, 50 ms there and back."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        Relay(port, listener=listener, delay_s=0.025) as relay,
    ):
        yield relay.port


def run_reads(commands: Commands, users: int, operations: int, *options: str) -> Ended:
    path = commands.scenario(
        **reads_of(1000), container_count=1, container_base="far", user_count=users,
        operation_count=operations,
    )  # fmt: skip
    return commands.run("-f", path, *options, workers=1).fine()


def test_users_make_up_for_the_distance_of_a_store(commands: Commands) -> None:
    """Of 60 ms each, as the store takes 10: one user does 16 operations a second, eight 133."""
    with PacedSwift(1000, 0.01) as swift, far_away(swift.port) as port:
        url = swift.url.replace(str(swift.port), str(port))
        rates = []
        for users in (1, 8):
            ended = run_reads(commands, users, 30 * users, "-S", url, "-T", "token")
            tally = ended.stats.total(READ)
            mean_ns = tally.last_byte.histogram.mean
            assert mean_ns is not None
            for times in (tally.first_byte, tally.last_byte):
                assert times.histogram.min is not None
                assert times.histogram.min >= 60_000_000
            assert tally.rate_per_s is not None
            # Little's law: no more can be at work than there are users.
            assert tally.rate_per_s * mean_ns / 1e9 <= users * 1.0001
            # All were, but for moments in which others used the host.
            spans = [span for each in spans_by_worker(ended.results).values() for span in each]
            busy = median(in_flight(spans, min(spans)[0], max(end for _, end in spans)))
            assert busy >= 0.8 * users
            if users == 1:  # its next operation begins when the last one ends
                assert median(n - end for (_, end), (n, _) in pairwise(sorted(spans))) < 0.006
            rates.append(tally.rate_per_s)
    assert rates[0] <= 1 / 0.06
    assert rates[1] > 4 * rates[0]


def test_the_round_trip_of_a_network_50_ms_long_is_measured(commands: Commands) -> None:
    number = held_port("127.0.0.1")
    server = commands.worker("--network-server", number)
    server.wait_for("Listening at 127.0.0.1")
    with far_away(number) as port:
        words = ["check-network", f"127.0.0.1:{port}", "--bytes", "1M", "--worker-wait", 0]
        ended = commands.master(*words, *free_ports()).wait().fine()
    least, mean = re.findall(r"Round trip while idle: ([\d.]+) ms min, ([\d.]+) ms", ended.out)[0]
    assert 50 <= float(least) <= float(mean)
    assert float(least) < 100  # the fastest: no moment in which others used the host
    assert ended.out.count("1.00 MBytes") == 2
    assert server.wait().status == 0
