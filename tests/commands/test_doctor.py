"""The table that doctor prints, and its exit status."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from ssbench.commands import doctor as doctor_command
from ssbench.commands.doctor import Finding, Verdict
from tests.cli.shell import Said, Shell, free_ports

pytestmark = pytest.mark.usefixtures("forked_workers")


Printed = Callable[..., Said]


@pytest.fixture
def printed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Printed:
    """What doctor comes to when it finds this."""

    def call(*found: Finding) -> Said:
        doctor = SimpleNamespace(findings=lambda: iter(found))
        monkeypatch.setattr(doctor_command, "Doctor", lambda *arguments: doctor)
        return shell("doctor", "--noop")

    return call


def test_a_row_for_each_finding_with_what_to_do_below(printed: Printed) -> None:
    said = printed(
        Finding("login", Verdict.OK, "swift, in 12 ms"),
        Finding("quota", Verdict.SKIPPED, "the store reports no quota of this user"),
        Finding("clocks", Verdict.WARNING, "400 s ahead\nof\x1b[2J the store's", "set both by NTP"),
    )
    assert said.out.splitlines() == [
        "ok       login        swift, in 12 ms",
        "-        quota        the store reports no quota of this user",
        "warning  clocks       400 s ahead",
        "                      of\\x1b[2J the store's",
        "                      -> set both by NTP",
    ]
    assert (said.status, said.err) == (1, "ssbench-master: 1 warning, 0 failed\n")


def test_long_rows_are_wrapped(printed: Printed) -> None:
    said = printed(Finding("login", Verdict.FAILED, "word " * 50, "advice " * 50))
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 100
    assert all(line.startswith(" " * 22) for line in lines[1:])


def test_all_is_well(printed: Printed) -> None:
    said = printed(Finding("login", Verdict.OK, "x"), Finding("quota", Verdict.SKIPPED, "y"))
    assert (said.status, said.err) == (0, "")
    assert said.out.endswith("\nAll is well.\n")


def test_nothing_is_sent_with_noop(shell: Shell) -> None:
    said = shell("doctor", "--noop", "--workers", 1, "-f", "small", *free_ports())
    assert "nothing is sent" in said.out
    assert said.status == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-f", "no-such-scenario"], "no such file or canned scenario"),
        (["-p", "gold"], "give that with -f"),
        (["-u", "7"], "give that with -f"),
    ],
)
def test_usage_errors(words: list[str], says: str, shell: Shell) -> None:
    said = shell("doctor", "--noop", *words)
    assert said.status == 2
    assert says in said.err
