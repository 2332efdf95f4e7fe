from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.cli.options import new_stats_file
from ssbench.cli.worker_options import worker_id
from ssbench.core import option as types
from ssbench.core.errors import UsageError
from ssbench.storage.swift.options import parse_version

GOOD: list[tuple[Callable[[str], Any], str, Any]] = [
    (types.port, "1", 1),
    (types.port, "65535", 65535),
    (types.count, "1", 1),
    (types.count_or_none, "0", 0),
    (types.seed, "18446744073709551615", 2**64 - 1),
    (types.seconds, "2.5", 2.5),
    (types.seconds, "1e3", 1000.0),
    (types.seconds, "2h", 7200.0),
    (types.seconds, "500ms", 0.5),
    (types.seconds_or_none, "0", 0.0),
    (types.seconds_or_none, "0s", 0.0),
    (types.whole_seconds(0), "2h", 7200),
    (types.think_time, "100ms,2s", [0.1, 2.0]),
    (types.size, "65536", 65536),
    (types.size, "64k", 65536),
    (types.size, "10MiB", 10 << 20),
    (types.percentile, "99.9", 99.9),
    (types.percentile, "100", 100.0),
    (types.tolerance, "7.5", 7.5),
    (types.batch_size, "auto", None),
    (types.batch_size, "8", 8),
    (parse_version, "v3", "3"),
    (worker_id, "host-1", "host-1"),
    (new_stats_file, "a.stat", "a.stat.gz"),
    (new_stats_file, "no/such/folder/a", "no/such/folder/a.gz"),
    (new_stats_file, "a.stat.gz", "a.stat.gz"),
    (new_stats_file, "A.GZ", "A.GZ"),
    (new_stats_file, "/dev/null", "/dev/null"),
    (new_stats_file, "/dev", "/dev"),
    (new_stats_file, "folder/", "folder/"),
    (new_stats_file, "-", "-"),
    (new_stats_file, "", ""),
]
BAD: list[tuple[Callable[[str], Any], str, str]] = [
    (types.port, "0", "0 is out of range: give 1 to 65535"),
    (types.port, "65536", "65536 is out of range: give 1 to 65535"),
    (types.port, "http", "'http' is not a whole number: give 1 to 65535"),
    (types.count, "0", "0 is out of range: give a whole number of 1 or more"),
    (types.count, "9" * 20, f"{'9' * 20} is out of range: give 1 to 9007199254740991"),
    (types.count, "1.5", "'1.5' is not a whole number: give a whole number of 1 or more"),
    (
        types.seconds,
        "0",
        "0 is not a duration: give seconds above 0, as in 2.5, 500ms, 90s, 15m or 2h",
    ),
    (types.seconds, "inf", "'inf' is not a duration: give seconds above 0, as in 2.5"),
    (types.seconds, "nan", "'nan' is not a duration: give seconds above 0, as in 2.5"),
    (types.seconds, "2 weeks", "'2 weeks' is not a duration: give seconds above 0, as in 2.5"),
    (types.seconds_or_none, "-1", "'-1' is not a duration: give seconds, 0 or more, as in 2.5"),
    (types.seconds, "1e300", "1e300 is out of range: give at most 1,000,000,000 seconds"),
    (types.whole_seconds(0), "500ms", "500ms is out of range: give whole seconds, 0 or more"),
    (types.whole_seconds(1), "0", "0 is out of range: give whole seconds, 1 or more"),
    (types.size, "0", "'0' is not a size: give bytes above 0, as in 4096, 4k, 10MiB or 1.5GB"),
    (types.size, "4x", "'4x' is not a size: give bytes above 0, as in 4096, 4k, 10MiB"),
    (types.size, "1.0001k", "'1.0001k' is not a size"),
    (types.size, "1e300", "1e300 is out of range: give at most 9007199254740991 bytes"),
    (types.percentile, "0", "0 is not a percentile: give one above 0, at most 100"),
    (types.percentile, "100.1", "100.1 is not a percentile: give one above 0, at most 100"),
    (types.tolerance, "100", "100 is not a tolerance: give percent, above 0 and below 100"),
    (types.batch_size, "0", "'0': give auto, or a number of 1 or more"),
    (parse_version, "4", "auth version '4' is unknown"),
    (worker_id, "", "1 to 64 printable characters"),
    (worker_id, "a b", "1 to 64 printable characters"),
    (worker_id, "x" * 65, "1 to 64 printable characters"),
]


@pytest.mark.parametrize(("convert", "text", "value"), GOOD)
def test_valid_texts_are_converted(convert: Callable[[str], Any], text: str, value: Any) -> None:
    assert convert(text) == value


def test_only_names_of_regular_files_get_a_suffix(
    tmp_path: Path,
) -> None:
    plain, link, pipe = (tmp_path / name for name in ("plain", "link", "pipe"))
    plain.touch()
    link.symlink_to("plain")
    os.mkfifo(pipe)
    assert new_stats_file(str(plain)) == f"{plain}.gz"
    assert new_stats_file(str(link)) == str(link)  # it is refused later
    assert new_stats_file(str(pipe)) == str(pipe)


@pytest.mark.parametrize(("convert", "text", "message"), BAD)
def test_invalid_texts_are_rejected_with_what_would_be_valid(
    convert: Callable[[str], Any], text: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        convert(text)
    assert message in str(caught.value)


@given(st.sampled_from(sorted({row[0] for row in GOOD}, key=repr)), st.text(max_size=20))
def test_any_text_is_converted_or_rejected_with_a_message(
    convert: Callable[[str], Any], text: str
) -> None:
    """Invariant: a type returns a value or raises UsageError with a text, nothing else."""
    try:
        convert(text)
    except UsageError as e:
        words = str(e)
    else:
        return
    assert words
