from __future__ import annotations

import pytest

from ssbench.core.text import (
    bytes_text,
    clock_text,
    first_of,
    latency_text,
    parse_duration,
    parse_size,
    plural,
    printable,
    wrapped,
)


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
def test_control_characters_are_escaped(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_counts() -> None:
    assert plural(1, "object") == "1 object"
    assert plural(0, "object") == "0 objects"
    assert plural(12345, "object") == "12,345 objects"


def test_the_first_of_many_names() -> None:
    assert first_of(["a", "b"], 2) == "a, b"
    assert first_of(["a", "b", *["c"] * 1000], 2) == "a, b and 1,000 more"


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
    [
        (None, "-"), (0, "0.00 ms"), (3.4e-7, "0.34 µs"), (0.0000452, "0.05 ms"),
        (0.00045, "0.45 ms"), (0.0123, "12.3 ms"), (0.9996, "1.00 s"), (12.3, "12.30 s"),
    ],
)  # fmt: skip
def test_latencies(seconds: float | None, text: str) -> None:
    assert latency_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2.5", 2.5), ("1e3", 1000.0), ("0", 0.0), ("500ms", 0.5), ("250us", 0.00025),
        ("90s", 90.0), ("15m", 900.0), ("15min", 900.0), ("2h", 7200.0), ("1d", 86400.0),
        ("1h30m", 5400.0), ("1m0.5s", 60.5), ("2 H", 7200.0), (".5s", 0.5),
    ],
)  # fmt: skip
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096), ("1e3", 1000), ("4k", 4096), ("4K", 4096), ("4KiB", 4096), ("4kB", 4000),
        ("10M", 10 << 20), ("10MiB", 10 << 20), ("10MB", 10**7), ("1.5G", 3 << 29), ("0B", 0),
        ("1 GB", 10**9), ("0.1kB", 100),
    ],
)  # fmt: skip
def test_sizes(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text", ["", "s", "2 weeks", "5x", "1m1m", "30s1h", "1h 30m", "inf", "nan", "-2s", "1h30", "٣s"]
)
def test_texts_that_are_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"no number|finite|whole"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "k", "4x", "1.0001k", "1G1M", "-4k", "inf", "4 k i b", "1.5"])
def test_texts_that_are_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"no number|finite|whole"):
        parse_size(text)


def test_a_number_stays_with_its_unit_and_a_path_whole() -> None:
    text = "READ took 10.5 ms, 3 % more than /var/lib/ssbench.gz took"
    lines = ["READ took", "  10.5 ms, 3 %", "  more than", "  /var/lib/ssbench.gz", "  took"]
    assert wrapped(text, 17, indent="  ") == lines
    assert wrapped("/var/lib/ssbench", 10, "> ", broken=True) == ["> /var/lib", "/ssbench"]
    assert wrapped("", 10, "> ") == ["> "]
