"""Taking a batch apart keeps every row, in one part."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.batches import split
from ssbench.core.model import ErrorKind, Operation
from tests.report import runs

kinds = st.tuples(
    st.sampled_from([Operation.CREATE, Operation.READ]), st.integers(0, 1), st.booleans()
)


@given(st.lists(kinds, min_size=1, max_size=20))
def test_each_row_is_in_the_part_of_its_kind(rows: list[tuple[Operation, int, bool]]) -> None:
    """Invariant: the parts have all rows once, and a part's rows are of its kind, in order."""
    batch = runs.batch(
        [
            runs.result(number, operation, size_class=cls, error=ErrorKind(int(failed)))
            for number, (operation, cls, failed) in enumerate(rows)
        ]
    )
    seen = []
    for (operation, cls), failed, pick in split(batch):
        numbers = list(pick(batch.column("number")))
        assert numbers == sorted(numbers)
        assert all(rows[number] == (operation, cls, failed) for number in numbers)
        seen += numbers
    assert sorted(seen) == list(range(len(rows)))
