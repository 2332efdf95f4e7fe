"""What came from outside is shown on standard error, and steers no terminal."""

from __future__ import annotations

import io
import logging

import pytest

from ssbench.cli.console import PlainFormatter, printable_lines, tell
from tests.fakes.terminal import NASTY, steering


def test_control_characters_in_messages_are_escaped() -> None:
    assert printable_lines("one\ntwo\x1b[2J") == "one\ntwo\\x1b[2J"
    assert not steering(printable_lines(NASTY))


def test_messages_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"worker {NASTY}")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("worker \\x1b[2J\\x07\\r")
    assert not steering(err)


def test_log_messages_are_one_line_and_tracebacks_are_escaped() -> None:
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    handler.setFormatter(PlainFormatter("%(levelname)s:%(message)s"))
    log = logging.getLogger("test of plain")
    log.propagate = False
    log.addHandler(handler)
    try:
        log.warning("Worker %s is here", f"a{NASTY}\nERROR:forged")
        try:
            raise ValueError(NASTY)
        except ValueError:
            log.exception("A defect")
    finally:
        log.removeHandler(handler)
    lines = said.getvalue().splitlines()
    assert lines[0].startswith("WARNING:Worker a\\x1b[2J")
    assert not any(line.startswith("ERROR:forged") for line in lines)
    assert lines[1:3] == ["ERROR:A defect", "Traceback (most recent call last):"]
    assert not steering(said.getvalue())
