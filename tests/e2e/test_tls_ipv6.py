"""https with an authority of one's own, and addresses with colons."""

from __future__ import annotations

import pytest

from ssbench.core.operations import READ
from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Commands, check_all_done, free_ports, login
from tests.servers.certificates import Certificates


def test_a_certificate_of_a_given_authority_is_accepted(
    commands: Commands, tls_swift: EmbeddedSwift, certificates: Certificates
) -> None:
    path = commands.scenario(container_base="trusted")
    options = ["--os-cacert", certificates.authority, *login(tls_swift)]
    ended = commands.run("-f", path, *options, workers=1).fine()
    check_all_done(ended, 60, tls_swift, "trusted")
    assert "insecure" not in ended.err


def test_insecure_works_with_one_warning(commands: Commands, tls_swift: EmbeddedSwift) -> None:
    path = commands.scenario(container_base="insecure")
    words = ["-q", "-f", path, "--insecure", "--verify", *login(tls_swift)]
    ended = commands.run(*words, workers=1).fine()
    check_all_done(ended, 60, tls_swift, "insecure")
    assert ended.stats.verified is not None
    assert ended.stats.verified.reads == ended.stats.total(READ).count > 0
    # On the screen, whatever -q keeps off it, and in the report.
    for text in (ended.err, ended.out):
        assert text.count("--insecure") == 1
        assert text.count("certificates are not verified") == 1


@pytest.mark.program("ipv6")
def test_swift_at_an_ipv6_address(commands: Commands, ipv6_swift: EmbeddedSwift) -> None:
    assert "[::1]" in ipv6_swift.auth_url
    path = commands.scenario(container_base="six")
    ended = commands.run("-f", path, *login(ipv6_swift), workers=1).fine()
    check_all_done(ended, 60, ipv6_swift, "six")


@pytest.mark.program("ipv6")
def test_master_and_workers_at_an_ipv6_address(commands: Commands) -> None:
    path = commands.scenario(operation_count=300)
    ports = free_ports("::1")
    worker = commands.worker("--zmq-host", "::1", *ports, "six")
    ended = commands.run(
        "-f", path, "--noop", "--zmq-bind-ip", "::1", "--expect-workers", "1",
        workers=None, ports=ports,
    ).fine()  # fmt: skip
    assert ended.counted() == (300, 0, 0)
    assert "WARNING" not in ended.err
    worker.process.terminate()
    assert worker.wait().status == 0


def test_a_name_with_ipv4_and_ipv6_addresses_is_reached_by_ipv4(commands: Commands) -> None:
    path = commands.scenario(operation_count=300)
    ports = free_ports()
    worker = commands.worker("--zmq-host", "localhost", *ports)
    ended = commands.run(
        "-f", path, "--noop", "--zmq-bind-ip", "localhost", "--expect-workers", 1,
        workers=None, ports=ports,
    ).fine()  # fmt: skip
    assert ended.counted() == (300, 0, 0)
    worker.process.terminate()
    worker.wait()
