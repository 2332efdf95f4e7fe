"""The check of what ssbench needs: a finding fails it, the lack of a service doesn't."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

FILE = Path(__file__).resolve().parent.parent / ".ci" / "audit.py"


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


FINE = {"name": "gevent", "version": "25.1", "vulns": []}
BAD = {
    "name": "requests", "version": "2.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"], "aliases": [], "description": ""}],
}  # fmt: skip
UNKNOWN = {"name": "x", "skip_reason": "not found on PyPI"}


def test_a_finding_fails_the_check_and_names_the_fixed_version(audit: ModuleType) -> None:
    status, lines = audit.verdict(report(FINE, BAD, UNKNOWN))
    assert status == 1
    assert lines[1:] == ["requests 2.0: PYSEC-1 (fixed in 2.1)"]


def test_no_findings_are_reported(audit: ModuleType) -> None:
    assert audit.verdict(report(FINE, UNKNOWN)) == (
        0, ["pip-audit: 1 packages, nothing known against them"],
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "Traceback", "[]", "{}", report(), report(UNKNOWN)])
def test_without_a_service_it_says_so_in_a_line(audit: ModuleType, text: str) -> None:
    status, (line,) = audit.verdict(text)
    assert status == 0
    assert "skipped" in line


def test_what_is_needed_is_found_with_all_that_it_needs(audit: ModuleType) -> None:
    found = audit.needed(["ssbench"])
    assert {"gevent", "pyzmq", "greenlet", "urllib3", "python-swiftclient"} <= set(found)
    assert not {"pytest", "ruff", "swift"} & set(found)


def test_the_command_gets_pinned_versions(
    audit: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = (
        "import sys, json; lines = open(sys.argv[-1]).read().split();"
        "assert any(line.startswith('pyzmq==') for line in lines);"
        "print(json.dumps({'dependencies': [{'name': line, 'vulns': []} for line in lines]}))"
    )
    assert audit.main([sys.executable, "-c", fake]) == 0
    assert "packages, nothing known" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [["/no/such/command"], ["false"], [sys.executable, "-c", "import time; time.sleep(100)"]],
)
def test_a_missing_failing_or_hanging_tool_is_skipped(
    audit: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: list[str],
) -> None:
    monkeypatch.setattr(audit, "LONGEST_S", 0.2)
    monkeypatch.setenv("SSBENCH_CI_WARNINGS", str(tmp_path / "warnings"))
    assert audit.main(command) == 0
    warned = "WARNING: pip-audit: skipped, NOTHING WAS AUDITED: no advisory service answers here\n"
    assert capsys.readouterr() == ("", warned)
    assert (tmp_path / "warnings").read_text() == warned, "CI repeats it at its end"
