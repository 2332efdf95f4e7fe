"""Real servers as fixtures. What is missing makes a test fail; nothing here skips."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssbench.embedded import EmbeddedSwift
from ssbench.embedded.plan import ROLES
from tests.e2e.commands import Commands
from tests.servers.certificates import Certificates
from tests.servers.four_process import FourProcessSwift
from tests.servers.keystone import KeystoneSwift
from tests.servers.swift import swift_options

#: Keystone's releases that run without a patch ask for it.
KEYSTONE_PYTHON = (3, 11)


@pytest.fixture
def commands(fork_server: None, tmp_path: Path) -> Iterator[Commands]:
    """The commands, run from here; none of them outlives the test."""
    made = Commands(tmp_path)
    yield made
    made.close()


@pytest.fixture
def base() -> str:
    """Of containers of this test alone."""
    return f"base{secrets.token_hex(4)}"


@pytest.fixture(scope="session")
def embedded_swift() -> Iterator[EmbeddedSwift]:
    """A Swift that all tests share: take container names that are your own."""
    with EmbeddedSwift(swift_options()) as swift:
        yield swift


@pytest.fixture
def fresh_swift() -> Iterator[Callable[..., EmbeddedSwift]]:
    """``fresh_swift(**options)``: an empty Swift for this test alone; options of EmbeddedSwift."""
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(EmbeddedSwift(swift_options(**options)))


@pytest.fixture(scope="session")
def shared_four_process_swift() -> Iterator[FourProcessSwift]:
    with FourProcessSwift(swift_options()) as swift:
        yield swift


@pytest.fixture
def four_process_swift(shared_four_process_swift: FourProcessSwift) -> Iterator[FourProcessSwift]:
    """A shared Swift whose servers can be killed one by one; those that were are started again."""
    yield shared_four_process_swift
    for role in ROLES:
        if role not in shared_four_process_swift.pids:
            shared_four_process_swift.revive(role)


@pytest.fixture(scope="session")
def ipv6_swift() -> Iterator[EmbeddedSwift]:
    """A shared Swift on ::1."""
    with EmbeddedSwift(swift_options(host="::1")) as swift:
        yield swift


@pytest.fixture(scope="session")
def tls_swift(certificates: Certificates) -> Iterator[EmbeddedSwift]:
    """A shared Swift that speaks https with a certificate that nobody trusts by default."""
    options = swift_options(tls_cert=certificates.certificate, tls_key=certificates.key)
    with EmbeddedSwift(options) as swift:
        yield swift


@pytest.fixture(scope="session")
def keystone() -> Iterator[KeystoneSwift]:
    """A shared Keystone v3 with a Swift in its catalog."""
    with KeystoneSwift() as both:
        yield both


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every test here is an end-to-end test; Keystone's exist where Keystone does."""
    for item in items:
        if item.nodeid.startswith("tests/e2e/"):
            item.add_marker(pytest.mark.e2e)
    if sys.version_info >= KEYSTONE_PYTHON:
        return
    without = [item for item in items if "keystone" in getattr(item, "fixturenames", ())]
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if item not in without]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped end-to-end test proves nothing, so it fails; one that fails shows its commands."""
    report = failed_if_skipped((yield))
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Commands):
                report.sections += [("command", str(started)) for started in value.started]
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself whole."""
    report = yield
    return failed_if_skipped(report)


def failed_if_skipped(report):  # type: ignore[no-untyped-def]
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"an end-to-end test may not be skipped ({reason})"
    return report
