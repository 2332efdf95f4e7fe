"""``python -m ssbench.embedded`` without Swift; tests/e2e/test_servers.py has it with one."""

from __future__ import annotations

import importlib.util
import signal
from collections.abc import Iterator
from typing import ClassVar

import pytest

from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.embedded import __main__ as embedded_main
from ssbench.embedded.__main__ import main, parser
from ssbench.embedded.plan import SwiftOptions


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert main([]) == ExitStatus.USAGE
    assert "pip install '.[embedded]'" in capsys.readouterr().err


class Server:
    """Runs until it was asked three times, or until Ctrl-C."""

    user, key = "test:tester", "testing"
    auth_url, storage_url = "http://h:1/auth/v1.0", "http://h:1/v1/AUTH_test"
    error: BaseException | None = None

    def __init__(self, options: SwiftOptions) -> None:
        self.given.append(options)
        self.asked = 0

    given: ClassVar[list[SwiftOptions]] = []
    exits: ClassVar[list[object]] = []

    def __enter__(self) -> Server:
        if isinstance(self.error, SsbenchError):
            raise self.error
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self.exits.append(kind)

    def is_running(self) -> bool:
        self.asked += 1
        if self.error and self.asked == 2:
            raise self.error
        return self.asked < 3


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Server]]:
    monkeypatch.setattr(embedded_main, "EmbeddedSwift", Server)
    monkeypatch.setattr(embedded_main, "CHECK_EVERY_S", 0)
    monkeypatch.setattr(Server, "given", [])
    monkeypatch.setattr(Server, "exits", [])
    before = signal.getsignal(signal.SIGTERM)
    yield Server
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (None, 1, "ssbench.embedded: the Swift process ended\n"),
        (KeyboardInterrupt(), 0, ""),
        (UsageError("port 9 is in use"), ExitStatus.USAGE, "ssbench.embedded: port 9 is in use\n"),
    ],
)
def test_it_runs_until_it_is_told_to_end_or_the_server_does(
    server: type[Server],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException | None,
    status: int,
    says: str,
) -> None:
    monkeypatch.setattr(server, "error", error)
    assert main([]) == status
    printed = capsys.readouterr()
    assert printed.err == says
    assert ("export ST_AUTH=http://h:1/auth/v1.0\n" in printed.out) == (status != ExitStatus.USAGE)
    assert len(server.exits) == (status != ExitStatus.USAGE)
    # SIGTERM ends it as Ctrl-C does.
    assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", SwiftOptions()),
        ("--host ::1 --port 9 --token-life 2m --in-memory", SwiftOptions("::1", 9, 120, True)),
        ("--tls-cert c --tls-key k --directory d --log l",
         SwiftOptions(tls_cert="c", tls_key="k", directory="d", log_path="l")),
    ],
)  # fmt: skip
def test_options_are_those_of_the_server(
    server: type[Server], words: str, expected: SwiftOptions
) -> None:
    main(words.split())
    assert server.given == [expected]


def test_a_life_that_is_no_duration_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--token-life", "long"])
    assert caught.value.code == 2
    assert "'long' is no duration: give seconds, as in" in capsys.readouterr().err


def test_every_option_has_a_help_text() -> None:
    assert all(action.help for action in parser()._actions)
