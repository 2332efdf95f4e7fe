"""What check-network prints of connections."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ssbench.cli import network_commands
from ssbench.cli.master import main
from ssbench.core.messages import NetworkInterval, NetworkResult
from ssbench.runner.network import Link

MIB = 1 << 20
#: 1 GiB in 2.1 s, as a published run of iperf had it.
INTERVALS = [
    NetworkInterval(1.0, 384 * MIB, 0.0005),
    NetworkInterval(1.0, 574 * MIB, 0.0015),
    NetworkInterval(0.116, 66 * MIB),
]
GOOD = Link("master (a)", "store:13583", NetworkResult([0.0001, 0.0003], INTERVALS, INTERVALS[:1]))
BAD = Link("worker w\x1b[2J (b)", "store:13583", None, "h, port 1: Connection refused\n\x07")


def printed(
    links: list[Link], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str, str]:
    def found(*arguments: object) -> Iterator[Link]:
        return iter(links)

    monkeypatch.setattr(network_commands, "check_network", found)
    status = main(["check-network", "store"])
    return status, *capsys.readouterr()


def test_the_table_is_that_of_iperf(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = printed([GOOD], monkeypatch, capsys)
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


def test_a_worker_may_have_measured_no_round_trip(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = Link("worker w (b)", "store:13583", NetworkResult([], INTERVALS[:1], INTERVALS[:1]))
    status, out, _ = printed([GOOD, silent], monkeypatch, capsys)
    assert status == 0
    assert out.count("Round trip while idle") == 1
    assert out.splitlines()[-1].split()[-3:] == ["3.22", "Gbits/sec", "-"]


def test_a_connection_that_failed_is_in_the_tables_and_in_the_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = printed([GOOD, BAD], monkeypatch, capsys)
    assert status == 1
    assert out.replace("\n", "").isprintable()
    lines = out.splitlines()
    assert "FAILED: h, port 1: Connection refused\\n\\x07" in lines
    assert lines[-2].split() == [
        "master", "(a)", "-", "store:13583", "4.06", "Gbits/sec", "3.22", "Gbits/sec", "0.20", "ms",
    ]  # fmt: skip
    assert lines[-1].endswith("failed")
    assert err == "ssbench-master: 1 connection could not be measured\n"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["h:0"], "give HOST or HOST:PORT"),
        ([":1"], "give HOST or HOST:PORT"),
        (["h", "--bytes", "1G", "--time", "5"], "not allowed with"),
        (["h", "--bytes", "0"], "is not a size"),
    ],
)
def test_bad_options_are_rejected(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["check-network", *words])
    assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("store", "store", 13583),
        ("store:99", "store", 99),
        ("198.18.0.2:99", "198.18.0.2", 99),
        ("[2001:db8::7]:99", "2001:db8::7", 99),
        ("2001:db8::7", "2001:db8::7", 13583),
        ("[::1]", "::1", 13583),
    ],
)
def test_a_server_is_a_host_with_or_without_a_port(
    text: str, host: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[network_commands.NetworkConfig] = []

    def keep(config: network_commands.NetworkConfig, *others: object) -> Iterator[Link]:
        asked.append(config)
        return iter(())

    monkeypatch.setattr(network_commands, "check_network", keep)
    assert main(["check-network", text]) == 0
    assert asked[0].servers == [(host, port)]
