from __future__ import annotations

import io
import os

import pytest

from ssbench.live.terminal import Screen
from tests.fakes.terminal import FakeTerminal

XTERM = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("stream", "environ", "moves", "colour"),
    [
        (FakeTerminal(), XTERM, True, True),
        (FakeTerminal(), {**XTERM, "NO_COLOR": "1"}, True, False),
        (FakeTerminal(), {**XTERM, "NO_COLOR": ""}, True, True),
        (FakeTerminal(), {"TERM": "dumb"}, False, False),
        (io.StringIO(), XTERM, False, False),
    ],
)
def test_screen_capabilities(
    stream: io.StringIO, environ: dict[str, str], moves: bool, colour: bool
) -> None:
    screen = Screen(stream, environ)
    assert (screen.moves_cursor, screen.isatty(), screen.colour) == (moves, moves, colour)


def test_writing_to_a_closed_stream_is_no_error() -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    stream.close()
    screen.line("hello")
    assert screen.gone
    assert not screen.ready()
    Screen(stream).line("hello")


def test_a_broken_pipe_is_no_error_then_or_at_exit() -> None:
    reader, writer = os.pipe()
    stream = open(writer, "w")  # noqa: SIM115  # closed below, which would fail
    screen = Screen(stream, XTERM)
    assert screen.ready()
    os.close(reader)
    screen.line("hello")
    assert screen.gone
    screen.line("hello again")
    stream.write("and others may write to it")
    stream.close()


def test_a_non_blocking_descriptor_drops_text_and_stays_open() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    stream = open(os.dup(writer), "w")  # noqa: SIM115  # drained before it is closed
    screen = Screen(stream, XTERM)
    for _ in range(100):
        screen.write("x" * 4096)
    assert not screen.gone
    os.read(reader, 1 << 20)
    stream.close()
    os.close(reader)
    os.close(writer)
