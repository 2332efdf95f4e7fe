from __future__ import annotations

import pytest

from ssbench.cli.parser import Parser


def parser() -> Parser:
    made = Parser(prog="tool")
    made.add_argument("--size", default=5, help="how big")
    made.add_argument("--flag", action="store_true", help="yes or no")
    made.add_argument("--said", default=7, help="how [default: seven]")
    made.add_argument("--password")
    commands = made.add_subparsers(dest="command", required=True)
    commands.add_parser("sing")
    commands.add_parser("dance")
    return made


def failure(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as caught:
        parser().parse_args(argv)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    return err


def test_help_shows_defaults_that_say_something() -> None:
    text = parser().format_help()
    assert "how big [default: 5]" in text
    assert "yes or no\n" in text
    assert "how [default: seven]\n" in text
    assert "None" not in text


def test_a_mistyped_command_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "no such choice; did you mean sing? there are sing, dance" in failure(capsys, "sng")


@pytest.mark.parametrize(
    "argv",
    [
        ["-K", "s3cret", "sing"],
        ["sing", "-Ks3cret"],
        ["sing", "--pasword", "s3cret"],
        ["sing", "--pasword=s3cret"],
        ["--pass=s3cret", "sing"],
        ["sing", "s3cret"],
    ],
)
def test_misplaced_passwords_are_not_shown(
    capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    text = failure(capsys, *argv)
    assert "s3cret" not in text
    assert "tool -h" in text


def test_unknown_options_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such option here: --colour, -x" in failure(capsys, "sing", "--colour=red", "-x", "1")
    assert "2 arguments too many" in failure(capsys, "sing", "a", "b")
