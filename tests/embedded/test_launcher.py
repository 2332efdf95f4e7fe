"""The launcher's faults, without Swift; tests/e2e/test_servers.py has it at work."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ssbench.core.errors import SsbenchError, UsageError
from ssbench.embedded import launcher
from ssbench.embedded.launcher import EmbeddedSwift, bound_socket, child_environment


@pytest.fixture
def as_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())


def stand_in(monkeypatch: pytest.MonkeyPatch, directory: Path, text: str) -> None:
    """Let a script of our own be the child."""
    script = directory / "child"
    script.write_text(f"#!{sys.executable}\n{text}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"^.*pip install '\.\[embedded\]'$"):
        EmbeddedSwift().start()


@pytest.mark.usefixtures("as_if_installed")
def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with bound_socket("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"127.0.0.1 port {port}: .*in use"):
            EmbeddedSwift(port=port, directory=str(tmp_path)).start()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("as_if_installed")
def test_a_port_out_of_range_is_a_users_error() -> None:
    with pytest.raises(UsageError, match="port 70000"):
        EmbeddedSwift(port=70000).start()


@pytest.mark.usefixtures("as_if_installed")
def test_a_child_that_dies_at_its_start_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path, "print('one'); print('no luck today'); raise SystemExit(3)")
    data = tmp_path / "data"
    data.mkdir()
    with pytest.raises(SsbenchError, match="ended at its start: no luck today"):
        EmbeddedSwift(directory=str(data)).start()
    assert not list(data.iterdir())


@pytest.mark.usefixtures("as_if_installed")
def test_a_child_that_stays_silent_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, tmp_path, "import sys; sys.stdin.read()")
    monkeypatch.setattr(launcher, "START_TIMEOUT_S", 0.0)
    with pytest.raises(SsbenchError, match="gave no answer for 0 s: it said nothing"):
        EmbeddedSwift(directory=str(tmp_path)).start()


def test_before_its_start_it_says_so() -> None:
    swift = EmbeddedSwift()
    assert repr(swift) == "<EmbeddedSwift not started>"
    assert not swift.is_running()
    with pytest.raises(SsbenchError, match="isn't started"):
        _ = swift.auth_url
    swift.stop()


def test_no_repr_shows_the_key() -> None:
    assert EmbeddedSwift().key == "testing"
    assert "testing" not in repr(EmbeddedSwift())


def test_the_child_finds_this_very_ssbench(monkeypatch: pytest.MonkeyPatch) -> None:
    home = str(Path(launcher.__file__).resolve().parents[2])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert child_environment()["PYTHONPATH"] == home
    monkeypatch.setenv("PYTHONPATH", "/other")
    assert child_environment()["PYTHONPATH"].split(os.pathsep) == [home, "/other"]


def test_the_child_gets_nobodys_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ST_KEY", "OS_PASSWORD", "SSBENCH_KEY_FILE"):
        monkeypatch.setenv(name, "secret")
    assert "secret" not in child_environment().values()


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_addresses_are_written_as_urls_want_them(host: str, shown: str) -> None:
    swift = EmbeddedSwift(host=host)
    swift._plan = plan_of(host)
    assert swift.auth_url == f"http://{shown}:8080/auth/v1.0"
    assert swift.storage_url == f"http://{shown}:8080/v1/AUTH_test"


def plan_of(host: str) -> Any:
    return launcher.Plan(
        top="/nowhere", host=host, ports={"proxy": 8080}, access_log="", fernet_key=""
    )
