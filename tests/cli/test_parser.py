"""Parsers of the commands: what they say of wrong command lines."""

from __future__ import annotations

import argparse
from collections.abc import Callable

import pytest

from ssbench.cli.parser import Parser, add_options
from ssbench.core.option import Option


def parser() -> Parser:
    made = Parser(prog="tool")
    made.add_argument("--size", default=5, help="how big")
    made.add_argument("--password")
    made.add_argument("--passage")
    commands = made.add_subparsers(dest="command", required=True)
    sing = commands.add_parser("sing", stray="sing goes by itself")
    sing.add_argument("--loudness", required=True)
    sing.add_argument("--voice")
    sing.add_argument("--vo_name", dest="voice", help=argparse.SUPPRESS)
    sing.add_argument("--hidden", help=argparse.SUPPRESS)
    commands.add_parser("dance")
    return made


Failure = Callable[..., str]


@pytest.fixture
def failure(capsys: pytest.CaptureFixture[str]) -> Failure:
    """What is said of a command line that is wrong."""

    def said(*argv: str) -> str:
        with pytest.raises(SystemExit) as caught:
            parser().parse_args(argv)
        assert caught.value.code == 2
        out, err = capsys.readouterr()
        assert out == ""
        return err

    return said


def test_help_shows_informative_defaults_only() -> None:
    made = Parser(prog="tool")
    rows = (
        Option(("--size",), "size", default=5, help="how big"),
        Option(("--flag",), "flag", bool, default=False, help="yes or no"),
        Option(("--said",), "said", default=7, help="how [default: seven]"),
        Option(("--none",), "none", help="nothing"),
    )
    add_options(made, rows)
    text = made.format_help()
    assert "how big [default: 5]" in text
    assert "yes or no\n" in text
    assert "how [default: seven]\n" in text
    assert "None" not in text


@pytest.mark.parametrize("command", ["sng", "s"])
def test_a_mistyped_or_cut_command_suggests_the_nearest(failure: Failure, command: str) -> None:
    assert "invalid choice; did you mean sing? choose from sing, dance" in failure(command)


@pytest.mark.parametrize(
    "argv",
    [
        ["-K", "s3cret", "sing"],
        ["sing", "-Ks3cret"],
        ["sing", "--pasword", "s3cret"],
        ["sing", "--pasword=s3cret"],
        ["--pass=s3cret", "sing"],
        ["sing", "s3cret"],
        ["sing", "--loudness", "3", "s3cret"],
        ["sing", "--vo=s3cret", "--v=s3cret"],
    ],
)
def test_misplaced_passwords_are_masked(failure: Failure, argv: list[str]) -> None:
    text = failure(*argv)
    assert "s3cret" not in text
    assert "tool -h" in text or "tool sing -h" in text


def test_unknown_options_are_named(failure: Failure) -> None:
    assert "unknown option: --colour, -x" in failure("sing", "--colour=red", "-x")
    assert "2 unexpected arguments; sing goes by itself" in failure(
        "sing", "--loudness", "3", "a", "b"
    )


def test_usage_errors_name_the_command_and_its_help(failure: Failure) -> None:
    for argv in (["sing", "--colour"], ["sing", "a", "--loud=3"], ["sing", "--loud"]):
        said = failure(*argv).splitlines()
        assert said[0].startswith("tool sing: ")
        assert said[1:] == ["(see tool sing -h)"]
    assert failure("--colour", "sing").endswith("(see tool -h)\n")


def test_an_option_before_its_command_is_reported_with_its_place(failure: Failure) -> None:
    assert "--key; give a command's options after its name" in failure(
        "--key", "x", "sing", "--loudness", "3"
    )


def test_unambiguous_prefixes_are_accepted() -> None:
    assert parser().parse_args(["--si=7", "sing", "--loudn", "3"]).loudness == "3"
    assert parser().parse_args(["--si", "7", "sing", "--loudness", "3"]).size == "7"
    assert parser().parse_args(["sing", "--loudness", "3", "--vo_n", "x"]).voice == "x"
    # What is behind -- is no option, and a negative number is a value.
    assert parser().parse_args(["sing", "--loudn", "-3"]).loudness == "-3"


def test_ambiguous_prefixes_list_the_candidates(failure: Failure) -> None:
    text = failure("--pass=s3cret", "sing")
    assert "--pass is ambiguous: it could be --password or --passage" in text


def test_hidden_options_are_not_suggested(failure: Failure) -> None:
    text = failure("sing", "--loudness", "3", "--hid", "x")
    assert "unknown option: --hid" in text
    assert "--hidden" not in text


def test_a_misspelt_option_is_reported_before_missing_arguments(failure: Failure) -> None:
    text = failure("sing", "--ludness", "3")
    assert "unknown option: --ludness; did you mean --loudness?" in text
    assert "required" not in text
