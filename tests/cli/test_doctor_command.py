"""The table that doctor prints, and its exit status."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ssbench.cli import doctor_command
from ssbench.cli.master import main
from ssbench.runner.doctor import Finding, Verdict
from tests.ports import held_port

pytestmark = pytest.mark.usefixtures("forked_workers")


def printed(
    found: list[Finding], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, list[str], str]:
    class Scripted:
        def __init__(self, *arguments: object) -> None:
            """Takes what Doctor takes."""

        def findings(self) -> Iterator[Finding]:
            return iter(found)

    monkeypatch.setattr(doctor_command, "Doctor", Scripted)
    status = main(["doctor", "--noop"])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def test_a_row_for_each_finding_with_what_to_do_below(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [
        Finding("login", Verdict.OK, "swift, in 12 ms"),
        Finding("quota", Verdict.SKIPPED, "the store reports no quota of this user"),
        Finding("clocks", Verdict.WARNING, "400 s ahead\nof\x1b[2J the store's", "set both by NTP"),
    ]
    status, lines, err = printed(found, monkeypatch, capsys)
    assert lines == [
        "ok       login        swift, in 12 ms",
        "-        quota        the store reports no quota of this user",
        "warning  clocks       400 s ahead",
        "                      of\\x1b[2J the store's",
        "                      -> set both by NTP",
    ]
    assert (status, err) == (1, "ssbench-master: 1 warning, 0 failed\n")


def test_long_rows_are_wrapped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [Finding("login", Verdict.FAILED, "word " * 50, "advice " * 50)]
    _, lines, _ = printed(found, monkeypatch, capsys)
    assert max(map(len, lines)) <= 100
    assert all(line.startswith(" " * 22) for line in lines[1:])


def test_all_is_well(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = [Finding("login", Verdict.OK, "x"), Finding("quota", Verdict.SKIPPED, "y")]
    status, lines, err = printed(found, monkeypatch, capsys)
    assert (status, lines[-1], err) == (0, "All is well.", "")


def test_nothing_is_sent_with_noop(capsys: pytest.CaptureFixture[str]) -> None:
    ports = [f"--zmq-{name}-port={held_port()}" for name in ("work", "results", "control")]
    status = main(["doctor", "--noop", "--workers", "1", "-f", "small", *ports])
    out, _ = capsys.readouterr()
    assert "nothing is sent" in out
    assert status == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-f", "no-such-scenario"], "no such file or canned scenario"),
        (["-p", "gold"], "give that with -f"),
        (["-u", "7"], "give that with -f"),
    ],
)
def test_usage_errors(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--noop", *words]) == 2
    assert said in capsys.readouterr().err
