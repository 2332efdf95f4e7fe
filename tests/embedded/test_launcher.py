"""Faults of the launcher, without Swift; tests/e2e/test_servers.py starts a real one."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from ssbench.core.errors import SsbenchError, UsageError
from ssbench.embedded import launcher
from ssbench.embedded.launcher import EmbeddedSwift, bound_socket
from ssbench.embedded.plan import SwiftOptions
from ssbench.runner.session import embedded_store
from ssbench.runner.stop import Stop
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import secret_variables


@pytest.fixture
def swift_seems_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())


def stand_in(monkeypatch: pytest.MonkeyPatch, directory: Path, text: str) -> None:
    """Run a script of ours as the child."""
    script = directory / "child"
    script.write_text(f"#!{sys.executable}\n{text}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"^.*pip install '\.\[embedded\]'$"):
        EmbeddedSwift().start()


@pytest.mark.usefixtures("swift_seems_installed")
def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with bound_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1 port {port}: .*in use"):
            EmbeddedSwift(SwiftOptions(port=port, directory=str(tmp_path))).start()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("swift_seems_installed")
def test_a_port_out_of_range_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="port 70000"):
        EmbeddedSwift(SwiftOptions(port=70000)).start()


@pytest.mark.usefixtures("swift_seems_installed")
@pytest.mark.parametrize("option", ["tls_cert", "tls_key"])
def test_a_pem_file_that_cannot_be_read_is_named(tmp_path: Path, option: str) -> None:
    options = SwiftOptions(directory=str(tmp_path), **{option: "no/such.pem"})
    with pytest.raises(UsageError, match=r"^no/such\.pem: can't be read: No such file"):
        EmbeddedSwift(options).start()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("swift_seems_installed")
def test_the_error_quotes_a_child_that_ends_during_its_start_in_a_session_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So Ctrl-C in the terminal does not reach it."""
    stand_in(
        monkeypatch, tmp_path,
        "import os; print('one'); print('led by', os.getsid(0) - os.getpid()); raise SystemExit(3)",
    )  # fmt: skip
    data = tmp_path / "data"
    data.mkdir()
    with pytest.raises(SsbenchError, match="ended during its start: led by 0"):
        EmbeddedSwift(SwiftOptions(directory=str(data))).start()
    assert not list(data.iterdir())


@pytest.mark.usefixtures("swift_seems_installed")
def test_a_child_that_does_not_respond_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path, "import sys; sys.stdin.read()")
    monkeypatch.setattr(launcher, "START_TIMEOUT_S", 0.0)
    with pytest.raises(SsbenchError, match="did not respond for 0 s: no output"):
        EmbeddedSwift(SwiftOptions(directory=str(tmp_path))).start()


def test_before_the_start_urls_are_an_error_and_no_repr_shows_the_key() -> None:
    swift = EmbeddedSwift()
    assert swift.key == "testing"
    assert repr(swift) == "<EmbeddedSwift not started>"
    assert not swift.is_running()
    with pytest.raises(SsbenchError, match="isn't started"):
        _ = swift.auth_url
    swift.stop()


@pytest.mark.usefixtures("swift_seems_installed")
def test_the_child_of_a_run_sees_no_secret_of_any_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = secret_variables(StoreOptions())
    assert {"WEBDAV_USER", "WEBDAV_PASSWORD", "AWS_SECRET_ACCESS_KEY", "ST_KEY"} <= secrets
    for name in (*secrets, "UNKNOWN_TO_STORES"):
        monkeypatch.setenv(name, "s3cret")
    stand_in(
        monkeypatch, tmp_path,
        "import os; print(*(name for name, text in os.environ.items() if text == 's3cret'))",
    )  # fmt: skip
    with ExitStack() as stack, pytest.raises(SsbenchError, match=r": UNKNOWN_TO_STORES$"):
        embedded_store(stack, Stop())
