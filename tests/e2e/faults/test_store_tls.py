"""TLS that fails: in the login, in the making of containers, and in the middle of a run."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from ssbench.core.model import ErrorKind
from tests.e2e.commands import Commands, until
from tests.e2e.faults.hostile import (
    MEMORY_MAX_MB,
    TIMEOUTS,
    Bench,
    judged,
    watch,
)
from tests.e2e.faults.matrix import Row
from tests.fakes.hostile_swift import HostileSwift
from tests.fakes.loopback_http import Behaviour
from tests.fakes.relay import Relay
from tests.fakes.scripted_server import Peer
from tests.fakes.server_behaviours import leave, reading, reset, saying, stall
from tests.servers.certificates import Certificates
from tests.timing import STALL_S

GIVEN_TOKEN = ["--os-auth-token", "tk", *TIMEOUTS, "--retries", 0]

#: What the server does to connections, and what the one line says of it.
HANDSHAKES: dict[str, tuple[Behaviour, str]] = {
    "closes in the handshake": (leave, "TLS failed"),
    # Not before its first byte: the client may not have seen yet that the connection was made.
    "resets in the handshake": (reading(1, then=reset), "TLS failed: connection reset by peer"),
    "stalls in the handshake": (stall, f"no connection within {STALL_S:g} s"),
    "speaks HTTP without TLS": (saying(b"HTTP/1.1 400 No\r\n\r\n"), "TLS failed"),
}


@pytest.fixture
def context(certificates: Certificates) -> ssl.SSLContext:
    """Of a server whom those trust who trust the tests' authority."""
    return certificates.server_context()


def refused(bench: Bench, row: Row, url: str, *options: object) -> str:
    """The one line of a run that comes no further than its first connection."""
    words = ["-f", bench.commands.scenario(), "--expect-workers", 1, *bench.ports]
    path = bench.commands.place / "refused.stat.gz"
    ended = bench.call("run-scenario", *words, "-s", path, "-S", url, *GIVEN_TOKEN, *options)
    line = ended.one_line()
    row.saw(f"status 1: {line.partition(': ')[2]}; {ended.took_s:.0f} s")
    return line


@pytest.mark.fault("TLS: a certificate of an unknown authority")
def test_an_unknown_authority(bench: Bench, row: Row, context: ssl.SSLContext) -> None:
    with HostileSwift({}, context=context) as swift:
        assert "certificate refused: unable to get local issuer" in refused(bench, row, swift.url)
        assert swift.seen == []


@pytest.mark.fault("TLS: a certificate for another host")
def test_a_certificate_of_another_host(bench: Bench, row: Row, tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("elsewhere.test").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with HostileSwift({}, context=context) as swift:
        line = refused(bench, row, swift.url, "--os-cacert", tmp_path / "ca.pem")
        assert "certificate refused: IP address mismatch" in line
        assert swift.seen == []


@pytest.mark.fault("TLS: a plain URL for a port that speaks it")
def test_a_plain_url_for_tls(bench: Bench, row: Row, context: ssl.SSLContext) -> None:
    with HostileSwift({}, context=context) as swift:
        line = refused(bench, row, swift.url.replace("https", "http"))
        assert "connection closed" in line or "not an HTTP/1.1 response" in line or "reset" in line


@pytest.mark.fault("TLS: the store {fault}")
@pytest.mark.parametrize("fault", HANDSHAKES)
def test_a_server_without_a_handshake(
    fault: str, bench: Bench, row: Row, certificates: Certificates
) -> None:
    behaviour, words = HANDSHAKES[fault]
    with Relay(0, {fault: behaviour}) as gate:
        gate.strike()
        url = f"https://127.0.0.1:{gate.port}/v1/AUTH_test"
        assert words in refused(bench, row, url, "--os-cacert", certificates.authority)
        assert gate.struck[fault] > 0


@pytest.mark.fault("TLS: handshakes fail in the middle of a run, in one way after another")
def test_failing_handshakes_during_a_run(
    commands: Commands, row: Row, context: ssl.SSLContext, certificates: Certificates
) -> None:
    stranger = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(stranger)

    def mask(peer: Peer) -> None:
        stranger.wrap_socket(peer.sock, server_side=True)

    at_once = {
        name: behaviour for name, (behaviour, _) in HANDSHAKES.items() if behaviour is not stall
    }
    behaviours = {**at_once, "shows another certificate": mask}
    path = commands.scenario(crud_profile=[0, 1, 0, 0], operation_count=200)
    with HostileSwift({}, context=context) as swift, Relay(swift.port, behaviours) as gate:
        url = swift.url.replace(str(swift.port), str(gate.port))
        options = [*GIVEN_TOKEN, "-S", url, "--os-cacert", certificates.authority]
        started = commands.start_run("-f", path, *options, workers=1)
        until("reads", lambda: swift.methods().count("GET") > 20)
        gate.strike()
        ended, peaks = watch(started)
        struck = gate.struck.total()
    assert max(peaks) < MEMORY_MAX_MB
    account = row.accounted(ended.stats)
    judged(ended, account)
    # A reset may be there before anybody has looked whether the connection was made.
    kinds = ((ErrorKind.TLS, 0), (ErrorKind.CONNECT, 0))
    refusals = sum(ended.stats.errors[kind].count for kind in kinds if kind in ended.stats.errors)
    assert refusals == struck, ended.stats.errors
    assert account.failed - refusals <= 4, "more than what was in flight"
    row.saw(f"{refusals} tls; {ended.took_s:.0f} s")
