"""Options that several commands have: the same letters, defaults and faults wherever they are."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from ssbench.cli import shared_options as shared
from ssbench.cli.parser import Parser


def parsed(add: Callable[..., None], line: str, *args: str) -> argparse.Namespace:
    parser = Parser(prog="some-command")
    add(parser, *args)
    return parser.parse_args(line.split())


def formats(parser: argparse.ArgumentParser) -> None:
    shared.add_format(parser.add_mutually_exclusive_group(), "CSV", "JSON")


@pytest.mark.parametrize(
    ("add", "line", "name", "value"),
    [
        (shared.add_retries, "", "retries", 10),
        (shared.add_retries, "--retries 0", "retries", 0),
        (shared.add_batch_size, "", "batch_size", None),
        (shared.add_batch_size, "--batch-size auto", "batch_size", None),
        (shared.add_batch_size, "--batch-size 1", "batch_size", 1),
        (shared.add_pctile, "", "percentiles", None),
        (shared.add_pctile, "--pctile 99.9 --pctile 5", "percentiles", [99.9, 5.0]),
        (shared.add_threshold, "", "thresholds", None),
        (shared.add_threshold, "--threshold a --threshold b", "thresholds", ["a", "b"]),
    ],
)
def test_what_they_come_to(add: Callable[..., None], line: str, name: str, value: object) -> None:
    assert vars(parsed(add, line)) == {name: value}


@pytest.mark.parametrize(
    ("add", "line", "says"),
    [
        (shared.add_retries, "--retries -1", "--retries: -1 is out of range: give a whole number"),
        (shared.add_retries, "--retries", "--retries: expected one argument"),
        (shared.add_batch_size, "--batch-size 0", "--batch-size: '0': give auto, or a number"),
        (shared.add_pctile, "--pctile 0", "--pctile: 0 is not a percentile: give one above 0"),
        (shared.add_pctile, "--pctile 100.1", "--pctile: 100.1 is not a percentile"),
        (shared.add_threshold, "--threshold", "--threshold: expected one argument"),
        (formats, "--csv --json", "--json: not allowed with argument --csv"),
    ],
)
def test_bad_input_is_said_in_a_line(
    add: Callable[..., None], line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed(add, line)
    assert caught.value.code == 2
    assert f"some-command: argument {says}" in capsys.readouterr().err.splitlines()[0]


def test_resume_cleanup_names_a_stat_file() -> None:
    assert parsed(shared.add_resume, "", "help").resume_cleanup is None
    assert parsed(shared.add_resume, "--resume-cleanup x", "help").resume_cleanup == "x"


@pytest.mark.parametrize("quiet", [True, False])
def test_who_can_be_quiet(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="some-command")
    shared.add_loudness(parser, quiet=quiet, default=False)
    assert parser.parse_args(["-v"]).verbose
    if quiet:
        assert vars(parser.parse_args(["-q"])) == {"verbose": False, "quiet": True}
        return
    with pytest.raises(SystemExit):
        parser.parse_args(["-q"])
    assert "unknown option: -q" in capsys.readouterr().err


@pytest.mark.parametrize(("line", "name"), [("", "text"), ("--csv", "csv"), ("--json", "json")])
def test_a_report_has_one_format(line: str, name: str) -> None:
    assert shared.format_of(parsed(formats, line)) == name


@pytest.mark.parametrize(
    ("given", "found"), [(None, (95.0,)), ([], (95.0,)), ([99.0, 5.0, 99.0], (99.0, 5.0))]
)
def test_percentiles_come_once_each_in_their_order(
    given: list[float] | None, found: tuple[float, ...]
) -> None:
    assert shared.percentiles_from(argparse.Namespace(percentiles=given)) == found
