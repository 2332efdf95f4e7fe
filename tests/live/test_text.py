"""Texts that the displays of a run share."""

from __future__ import annotations

from typing import Any

import pytest

from ssbench.core.live import RunProgress
from ssbench.core.model import ErrorKind
from ssbench.live.watch import error_causes, latencies, rate_text

CONNECT, RESET, STATUS, TLS = (
    int(kind) for kind in (ErrorKind.CONNECT, ErrorKind.RESET, ErrorKind.STATUS, ErrorKind.TLS)
)


@pytest.mark.parametrize(
    ("causes", "statuses", "texts"),
    [
        ({}, {}, []),
        ({RESET: 2, TLS: 1200}, {}, ["1,200 tls", "2 reset"]),
        ({STATUS: 9, RESET: 5}, {503: 7, 404: 2}, ["7 status 503", "5 reset", "2 status 404"]),
        ({250: 1}, {}, ["1 error 250"]),
        (
            {STATUS: 15, RESET: 1, TLS: 2},
            {500: 3, 503: 4, 404: 8},
            ["8 status 404", "4 status 503", "3 status 500", "2 tls", "1 of other causes"],
        ),
        (
            {RESET: 1, TLS: 2, CONNECT: 3},
            {503: 4},
            ["4 status 503", "3 connect", "2 tls", "1 reset"],
        ),
        (
            {RESET: 1000, TLS: 2000, CONNECT: 3000},
            {503: 4000, 404: 5000, 500: 600},
            ["5,000 status 404", "4,000 status 503", "3,000 connect", "2,000 tls",
             "1,600 of other causes"],
        ),
    ],
)  # fmt: skip
def test_the_most_frequent_causes_of_errors_stand_first(
    causes: dict[int, int], statuses: dict[int, int], texts: list[str]
) -> None:
    progress = RunProgress(1.0, 9, errors_by_cause=causes, errors_by_status=statuses)
    assert error_causes(progress) == texts


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "0/s"),
        ({"rate": 1234.5}, "1,234/s"),
        ({"rate": 118.7, "target_rate": 1200.5}, "119/s of 1,200.5/s due"),
        ({"target_rate": 0.25}, "0/s of 0.25/s due"),
    ],
)
def test_a_rate_is_beside_the_one_that_is_due(changes: dict[str, Any], text: str) -> None:
    assert rate_text(RunProgress(1.0, 9, **changes)) == text


def test_latencies() -> None:
    assert latencies(0.0123, 1.25) == ["p50 12.3 ms", "p99 1.25 s"]
