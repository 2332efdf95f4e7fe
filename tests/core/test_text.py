from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.text import bytes_text, clock_text, latency_text, plural, printable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("ssbench_000061_gold", "ssbench_000061_gold"),
        ("größe 日本", "größe 日本"),
        ("a\x1b[2Jb\n", "a\\x1b[2Jb\\n"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udcff", "\\udcff"),
    ],
)
def test_names_from_outside_do_not_steer_the_terminal(raw: str, shown: str) -> None:
    assert printable(raw) == shown


@given(st.text(st.characters()))
def test_printable_is_one_line_that_can_be_encoded(text: str) -> None:
    """Invariant: whatever comes in, one line without control characters goes out."""
    shown = printable(text)
    shown.encode()
    assert len(shown.splitlines()) <= 1
    assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in shown)


def test_counts() -> None:
    assert plural(1, "object") == "1 object"
    assert plural(0, "object") == "0 objects"
    assert plural(12345, "object") == "12,345 objects"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_999, "1.0 MB"), (5 * 10**9, "5.0 GB")],
)
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0:00"), (7.9, "0:07"), (61, "1:01"), (3723, "1:02:03")]
)
def test_spans(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.00045, "0.45 ms"), (0.0123, "12.3 ms"), (0.9996, "1.00 s"), (12.3, "12.30 s")],
)
def test_latencies(seconds: float | None, text: str) -> None:
    assert latency_text(seconds) == text
