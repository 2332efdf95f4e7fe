"""What is made of samples at a master and its workers."""

from __future__ import annotations

import pytest

from benchmarks.bench.child import CommandError
from benchmarks.bench.simulated import Cost, Sample, cost

#: Start, the first sample that sees operations, another one, and two of an end.
LOOKS = [
    Sample(0, 5.0, 1.0), Sample(100, 5.1, 1.2), Sample(600, 5.2, 1.45), Sample(700, 5.9, 1.6),
    Sample(700, 9.0, 9.0),
]  # fmt: skip


def test_only_operations_between_two_samples_count() -> None:
    found = cost(LOOKS)
    assert found == Cost(pytest.approx(200.0), pytest.approx(500.0))


def test_too_few_samples_are_an_error() -> None:
    with pytest.raises(CommandError, match="only 1 samples during 700"):
        cost([LOOKS[0], LOOKS[1], LOOKS[3]])
