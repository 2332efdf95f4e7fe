"""What is made of looks at a master and its workers."""

from __future__ import annotations

import pytest

from benchmarks.bench.child import CommandError
from benchmarks.bench.crowd import Cost, Look, cost

#: Start, the first look that sees operations, another one, and two of an end.
LOOKS = [
    Look(0, 5.0, 1.0), Look(100, 5.1, 1.2), Look(600, 5.2, 1.45), Look(700, 5.9, 1.6),
    Look(700, 9.0, 9.0),
]  # fmt: skip


def test_only_what_was_done_between_two_looks_counts() -> None:
    found = cost(LOOKS)
    assert found == Cost(pytest.approx(200.0), pytest.approx(500.0))


def test_too_few_looks_give_no_figure() -> None:
    with pytest.raises(CommandError, match="1 looks at 700"):
        cost([LOOKS[0], LOOKS[1], LOOKS[3]])
