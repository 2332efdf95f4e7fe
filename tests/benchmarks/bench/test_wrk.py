"""What is read out of wrk's output."""

from __future__ import annotations

import pytest

from benchmarks.bench.child import CommandError
from benchmarks.bench.wrk import Wrk, parse

OUT = """Running 2s test @ http://127.0.0.1:40557/v1/AUTH_test/c/o
  1 threads and 64 connections
  123391 requests in 2.00s, 517.65MB read
SAYS 123391 2001344 542794547 {errors}
"""


def test_its_own_counters_count() -> None:
    said = parse(OUT.format(errors=0), 1.5)
    assert said == Wrk(123391, 2.001344, 1.5)
    assert said.us_a_request == pytest.approx(12.156, abs=0.001)
    assert said.per_s == pytest.approx(61654, abs=1)


@pytest.mark.parametrize(
    ("out", "word"),
    [
        (OUT.format(errors=3), "3 errors in 123391"),
        ("SAYS 0 2001344 0 0\n", "0 errors in 0"),
        ("unable to connect to 127.0.0.1:1 Connection refused\n", "refused"),
    ],
)
def test_a_run_with_errors_gives_no_figure(out: str, word: str) -> None:
    with pytest.raises(CommandError, match=word):
        parse(out, 1.0)
