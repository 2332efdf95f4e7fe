"""Keys, passwords and tokens: in the head of the request, and nowhere else."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ssbench.embedded import EmbeddedSwift
from tests.e2e.commands import Account, Commands, Started, requests, until
from tests.servers.keystone import TESTER, KeystoneSwift


def command_lines(started: Started) -> Iterator[str]:
    """Of the process and all below it, as any user of the machine sees them."""
    for process in [psutil.Process(started.pid), *psutil.Process(started.pid).children(True)]:
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError):
            yield Path(f"/proc/{process.pid}/cmdline").read_bytes().decode(errors="replace")


def environments(started: Started) -> Iterator[str]:
    """Of its workers."""
    for worker in started.workers():
        yield Path(f"/proc/{worker.pid}/environ").read_bytes().decode(errors="replace")


def artefacts(place: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file that came of the run, unpacked."""
    for path in place.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            yield path, data
            if path.suffix == ".gz":
                with contextlib.suppress(EOFError, OSError):
                    yield path, gzip.decompress(data)


def nowhere(place: Path, *secrets: str) -> None:
    seen = 0
    for path, data in artefacts(place):
        seen += 1
        for secret in secrets:
            assert secret.encode() not in data, f"{path} has the secret {secret[:4]}..."
    assert seen >= 5


KEY = "Xq7-key-of-nobody-else"


@pytest.fixture
def keyed_swift(fresh_swift: object) -> EmbeddedSwift:
    """A Swift with a key that is no common word; tokens run out in the middle of the run."""
    conf = {"filter:tempauth": {"user_test_tester": f"{KEY} .admin"}}
    return fresh_swift(proxy_conf=conf, token_life_s=2)  # type: ignore[operator,no-any-return]


def test_of_a_verbose_run_in_which_things_fail(
    commands: Commands, keyed_swift: EmbeddedSwift
) -> None:
    swift = keyed_swift
    path = commands.scenario(crud_profile=[1, 1, 1, 1])
    who = {"ST_AUTH": swift.auth_url, "ST_USER": swift.user, "ST_KEY": KEY}
    options = ["-v", "-r", "4", "--profile"]
    started = commands.start_run("-f", path, *options, environment=who)
    until("requests", lambda: len(requests(swift, "ssbench")) > 60)
    lines = [*command_lines(started)]
    assert len(lines) >= 3
    assert not [line for line in lines if KEY in line]
    assert not [text for text in environments(started) if KEY in text]
    # Something goes wrong, and is told: the containers vanish under the run's feet.
    account = Account(swift, KEY)
    for name in account.objects("ssbench")[:5]:
        account("DELETE", name)
    ended = started.wait().fine()
    assert ended.counted()[0] > 60
    assert f"with a fresh token: {ended.stats.total().renewals}" in ended.out
    nowhere(commands.place, KEY, account.token, "X-Auth-Token: ")


def test_of_runs_that_fail_at_their_login(
    commands: Commands, embedded_swift: EmbeddedSwift
) -> None:
    path = commands.scenario()
    for url in (embedded_swift.auth_url, "http://127.0.0.1:9/auth/v1.0"):
        options = ["-A", url, "-U", "test:tester", "-K", KEY]
        commands.run("-v", "-f", path, *options).fine(1)
    with pytest.raises(AssertionError, match="scenario"):
        # The eyes are open: what is there is found.
        nowhere(commands.place, "crud_profile")
    nowhere(commands.place, KEY)


def test_of_an_environment_with_a_password(commands: Commands, keystone: KeystoneSwift) -> None:
    environment = {
        "OS_AUTH_URL": keystone.auth_url,
        "OS_IDENTITY_API_VERSION": "3",
        "OS_USERNAME": TESTER.user,
        "OS_PASSWORD": TESTER.password,
        "OS_PROJECT_NAME": TESTER.project,
        "OS_USER_DOMAIN_NAME": TESTER.domain,
        "OS_PROJECT_DOMAIN_NAME": TESTER.domain,
    }
    path = commands.scenario(container_base="envpass")
    started = commands.start_run("-v", "-f", path, "-r", "2", environment=environment)
    until("workers", lambda: len(started.workers()) == 2)
    assert not [text for text in environments(started) if "OS_PASSWORD" in text]
    assert started.wait().fine().counted()[1] == 0
    nowhere(commands.place, "OS_PASSWORD", f'"{TESTER.password}"', "X-Auth-Token: ")
