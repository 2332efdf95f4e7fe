from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import NONE_NS
from ssbench.core.operations import CREATE, OPERATIONS, READ
from ssbench.live.terminal import progress_chars

S = 1_000_000_000


def test_a_read_is_shown_by_its_first_byte_latency() -> None:
    assert progress_chars([[READ, READ], [0, 0], [5, S], [20 * S, 20 * S]]) == ".o"


def test_failures_are_shown_whatever_their_latency() -> None:
    assert progress_chars([[READ, CREATE], [1, 14], [NONE_NS, NONE_NS], [5, 20 * S]]) == "XX"


def test_no_results_are_no_characters() -> None:
    assert progress_chars([[], [], [], []]) == ""


@pytest.mark.parametrize("operation", [200, 300, -1, 2**40])
def test_unknown_operation_numbers_have_their_own_character(operation: int) -> None:
    assert progress_chars([[operation, READ], [0, 0], [1, 1], [1, 1]]) == "?."
    assert progress_chars([[operation, READ], [0, 0], [1, 1], [2 * S, 2 * S]]) == "?."


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(OPERATIONS.values())),
            st.just(0),
            st.integers(0, S - 1),
            st.integers(0, S - 1),
        )
    ),
)
def test_the_fast_path_agrees_with_the_slow_one(rows: list[tuple[int, int, int, int]]) -> None:
    """Invariant: a batch shows the same whether or not a slow result is among it."""
    slow = [*rows, (CREATE, 0, NONE_NS, 20 * S)]
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    packed = [array("B", columns[0]), *columns[1:]]
    assert progress_chars(packed) + "@" == progress_chars(list(zip(*slow, strict=True)))
