"""``python -m ssbench.embedded`` without Swift; tests/e2e/test_servers.py has it with one."""

from __future__ import annotations

import importlib.util

import pytest

from ssbench.core.errors import ExitStatus
from ssbench.embedded.__main__ import main, parser


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert main([]) == ExitStatus.USAGE
    assert "pip install '.[embedded]'" in capsys.readouterr().err


def test_every_option_has_a_help_text() -> None:
    assert all(action.help for action in parser()._actions)
