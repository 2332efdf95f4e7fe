from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


@pytest.mark.parametrize(
    ("shown", "texts"),
    [
        (bytes_text, {0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_999: "1.0 MB",
                      5 * 10**9: "5.0 GB"}),
        (clock_text, {-1: "0:00", 7.9: "0:07", 61: "1:01", 3723: "1:02:03"}),
        (latency_text, {None: "-", 0: "0.00 ms", 3.4e-7: "0.34 µs", 0.0000452: "0.05 ms",
                        0.00045: "0.45 ms", 0.0123: "12.3 ms", 0.9996: "1.00 s", 12.3: "12.30 s"}),
        (lambda count: plural(count, "object"), {1: "1 object", 0: "0 objects",
                                                 12345: "12,345 objects"}),
        (lambda names: first_of(names.split(), 2), {"a b": "a, b",
                                                    "a b" + " c" * 1000: "a, b and 1,000 more"}),
    ],
    ids=["bytes", "spans", "latencies", "counts", "names"],
)  # fmt: skip
def test_values_as_people_read_them(shown: Callable[[Any], str], texts: dict[Any, str]) -> None:
    assert {value: shown(value) for value in texts} == texts


@pytest.mark.parametrize(
    ("parse", "values"),
    [
        (parse_duration, {
            "2.5": 2.5, "1e3": 1000.0, "0": 0.0, "500ms": 0.5, "250us": 0.00025, "90s": 90.0,
            "15m": 900.0, "15min": 900.0, "2h": 7200.0, "1d": 86400.0, "1h30m": 5400.0,
            "1m0.5s": 60.5, "2 H": 7200.0, ".5s": 0.5,
        }),
        (parse_size, {
            "4096": 4096, "1e3": 1000, "4k": 4096, "4K": 4096, "4KiB": 4096, "4kB": 4000,
            "10M": 10 << 20, "10MiB": 10 << 20, "10MB": 10**7, "1.5G": 3 << 29, "0B": 0,
            "1 GB": 10**9, "0.1kB": 100,
        }),
    ],
)  # fmt: skip
def test_texts_with_units(parse: Callable[[str], float], values: dict[str, float]) -> None:
    assert {text: parse(text) for text in values} == values


@pytest.mark.parametrize(
    ("parse", "texts"),
    [
        (parse_duration, ["", "s", "2 weeks", "5x", "1m1m", "30s1h", "1h 30m", "inf", "nan", "-2s",
                          "1h30", "٣s"]),
        (parse_size, ["", "k", "4x", "1.0001k", "1G1M", "-4k", "inf", "4 k i b", "1.5"]),
    ],
)  # fmt: skip
def test_texts_without_a_value(parse: Callable[[str], float], texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=r"no number|finite|whole"):
            parse(text)


def test_a_number_stays_with_its_unit_and_a_path_whole() -> None:
    text = "READ took 10.5 ms, 3 % more than /var/lib/ssbench.gz took"
    lines = ["READ took", "  10.5 ms, 3 %", "  more than", "  /var/lib/ssbench.gz", "  took"]
    assert wrapped(text, 17, indent="  ") == lines
    assert wrapped("/var/lib/ssbench", 10, "> ", broken=True) == ["> /var/lib", "/ssbench"]
    assert wrapped("", 10, "> ") == ["> "]
