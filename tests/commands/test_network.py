"""What check-network prints of connections."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ssbench.commands.hosts import command as network_commands
from ssbench.commands.hosts.command import Link
from ssbench.core.messages import NetworkInterval, NetworkResult
from tests.cli.shell import Said, Shell

MIB = 1 << 20
#: 1 GiB in 2.1 s, as a published run of iperf had it.
INTERVALS = [
    NetworkInterval(1.0, 384 * MIB, 0.0005),
    NetworkInterval(1.0, 574 * MIB, 0.0015),
    NetworkInterval(0.116, 66 * MIB),
]
GOOD = Link("master (a)", "store:13583", NetworkResult([0.0001, 0.0003], INTERVALS, INTERVALS[:1]))
BAD = Link("worker w\x1b[2J (b)", "store:13583", None, "h, port 1: Connection refused\n\x07")


Printed = Callable[..., Said]


@pytest.fixture
def printed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Printed:
    """What check-network comes to when it measures this."""

    def call(*links: Link) -> Said:
        monkeypatch.setattr(network_commands, "measure_links", lambda *_: iter(links))
        return shell("check-network", "store")

    return call


def test_the_table_is_that_of_iperf(printed: Printed) -> None:
    status, out, err = printed(GOOD)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "-" * 60,
        "master (a) - store:13583, TCP",
        "Round trip while idle: 0.10 ms min, 0.20 ms mean, 0.30 ms max (2 samples)",
        "-" * 60,
        "[ ID] Interval        Transfer     Bandwidth       Round trip",
        "[  1] to store:13583",
        "[  1]  0.0- 1.0 sec   384 MBytes  3.22 Gbits/sec  0.50 ms",
        "[  1]  1.0- 2.0 sec   574 MBytes  4.82 Gbits/sec  1.5 ms",
        "[  1]  0.0- 2.1 sec  1.00 GBytes  4.06 Gbits/sec  1.0 ms",
        "[  2] to master (a)",
        "[  2]  0.0- 1.0 sec   384 MBytes  3.22 Gbits/sec  0.50 ms",
    ]


def test_a_worker_may_have_measured_no_round_trip(printed: Printed) -> None:
    silent = Link("worker w (b)", "store:13583", NetworkResult([], INTERVALS[:1], INTERVALS[:1]))
    status, out, _ = printed(GOOD, silent)
    assert status == 0
    assert out.count("Round trip while idle") == 1
    assert out.splitlines()[-1].split()[-3:] == ["3.22", "Gbits/sec", "-"]


def test_a_connection_that_failed_is_in_the_tables_and_in_the_status(printed: Printed) -> None:
    status, out, err = printed(GOOD, BAD)
    assert status == 1
    assert out.replace("\n", "").isprintable()
    lines = out.splitlines()
    assert "FAILED: h, port 1: Connection refused\\n\\x07" in lines
    assert lines[-2].split() == [
        "master", "(a)", "-", "store:13583", "4.06", "Gbits/sec", "3.22", "Gbits/sec", "0.20", "ms",
    ]  # fmt: skip
    assert lines[-1].endswith("failed")
    assert err == "ssbench-master: 1 connection could not be measured\n"
