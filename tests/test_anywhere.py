"""The table of ``make test-anywhere``, with variations that say so instead of running pytest."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from tests import anywhere
from tests.anywhere import ROOT, Conditions, NotHereError, fixed


def missing() -> AbstractContextManager[Conditions]:
    raise NotHereError("no Python 3.9")


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):  # type: ignore[no-untyped-def]
    """Runs the script; gives its exit status and the lines of its table."""
    table = {
        "alone": fixed(prefix=["echo", "7 passed in 0.1s;"]),
        "absent": missing,
        "bad": fixed(prefix=["sh", "-c", "echo '=== 1 failed, 6 passed in 2.50s ==='; exit 1"]),
        "three": fixed(prefix=["true"], processes=3),
    }
    monkeypatch.setattr(anywhere, "VARIATIONS", table)

    def run(*words: str) -> tuple[int, list[str]]:
        monkeypatch.setattr("sys.argv", ["anywhere", *words])
        status = anywhere.main()
        return status, capfd.readouterr().out.rpartition("\n\n")[2].splitlines()

    return run


def test_each_variation_has_a_line_and_one_that_fails_is_the_status(call) -> None:  # type: ignore[no-untyped-def]
    status, lines = call()
    assert status == 1
    assert lines[0].startswith("ok       alone        7 passed in 0.1s; ")
    assert lines[1:] == [
        "not run  absent       no Python 3.9",
        "FAILED   bad          1 failed, 6 passed in 2.50s",
        "ok       three        no closing line",
    ]


def test_single_variations_are_run_by_name(call) -> None:  # type: ignore[no-untyped-def]
    assert call("absent") == (0, ["not run  absent       no Python 3.9"])
    with pytest.raises(SystemExit, match="2"):
        call("alone+unheard-of")


def test_several_are_joined(call) -> None:  # type: ignore[no-untyped-def]
    status, (line,) = call("three+alone")
    assert (status, line[:30]) == (0, "ok       three+alone  7 passed")
    assert " -n 3" in line


@pytest.mark.parametrize("commit", ["00000003", "00000001"])
def test_a_commit_chooses_one_that_can_be_had(call, commit: str) -> None:  # type: ignore[no-untyped-def]
    status, lines = call("--commit", commit)
    assert status == 1
    assert lines[-1].startswith("FAILED   bad ")


def test_commits_choose_all_that_there_is_time_for() -> None:
    chosen = {anywhere.order_of(f"{number:08x}")[0] for number in range(100)}
    assert chosen == {*anywhere.VARIATIONS} - {"alone", "two"}


def test_commits_choose_halves_of_the_tests_that_are_together_all_but_those_of_faults() -> None:
    one, other = anywhere.half_of("0" * 16), anywhere.half_of("0" * 15 + "1")
    assert not {*one} & {*other}
    assert abs(len(one) - len(other)) <= 1
    everything = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert everything - {*one, *other} == {
        name for name in everything if name.startswith("tests/e2e/faults/")
    }
