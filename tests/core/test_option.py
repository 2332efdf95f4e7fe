from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.cli.worker_options import worker_id
from ssbench.core import option as types
from ssbench.core.errors import UsageError
from ssbench.runner.config import new_stats_file
from ssbench.storage.swift.options import parse_version

GOOD: list[tuple[Callable[[str], Any], str, Any]] = [
    (types.think_time, "100ms,2s", [0.1, 2.0]),
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
    (types.batch_size, "0", "'0': give auto, or a number of 1 or more"),
    (parse_version, "4", "auth version '4' is unknown"),
    (worker_id, "", "1 to 64 printable characters"),
    (worker_id, "a b", "1 to 64 printable characters"),
    (worker_id, "x" * 65, "1 to 64 printable characters"),
]


@pytest.mark.parametrize(("convert", "text", "value"), GOOD)
def test_valid_texts_are_converted(convert: Callable[[str], Any], text: str, value: Any) -> None:
    assert convert(text) == value


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
