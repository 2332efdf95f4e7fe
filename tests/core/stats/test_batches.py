"""Taking a batch apart keeps every row, in one part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import NONE_NS, ErrorKind, Phase, Result
from ssbench.core.operations import CREATE, READ, Operation
from ssbench.core.records import PhaseRecord, Record, ResultBatch
from ssbench.core.stats.batches import MOST_WAITING_ROWS, gathered, shifted, split
from tests.report import runs

kinds = st.tuples(st.sampled_from([CREATE, READ]), st.integers(0, 1), st.booleans())


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
    for part in split(batch):
        numbers = list(part.column("number"))
        assert numbers == sorted(numbers)
        assert all(rows[number] == (*part.group, part.failed) for number in numbers)
        seen += numbers
    assert sorted(seen) == list(range(len(rows)))


def test_shifting_moves_what_says_when_and_nothing_else() -> None:
    due = runs.result(1, READ, start_ns=50, due_ns=40)
    rows = [due, runs.result(2, READ, start_ns=60)]
    moved = shifted(runs.batch(rows), -45)
    assert list(moved.column("start_ns")) == [5, 15]
    assert list(moved.column("due_ns")) == [-5, NONE_NS]
    same = set(Result._fields) - {"start_ns", "due_ns"}
    assert all(moved.column(name) == runs.batch(rows).column(name) for name in same)
    closed = runs.batch(rows[1:])
    assert shifted(closed, 7).column("due_ns") is closed.column("due_ns")


sizes = st.lists(st.tuples(st.integers(1, 300), st.integers(0, 1), st.booleans()), max_size=12)


@given(sizes)
def test_gathering_keeps_every_row_in_its_place(batches: list[tuple[int, int, bool]]) -> None:
    """Invariant: each worker's rows come once, in order, and not across another record."""
    records: list[Record] = []
    number = 0
    for rows, worker, phase_before in batches:
        if phase_before:
            records.append(PhaseRecord(Phase.RUN, float(number), 1))
        numbers = range(number, number + rows)
        records.append(runs.batch([runs.result(n, READ) for n in numbers], worker_index=worker))
        number += rows
    assert rows_by_stretch(gathered(records)) == rows_by_stretch(records)


def rows_by_stretch(records: Iterable[Record]) -> list[dict[int, list[int]]]:
    """Worker -> numbers, anew after each record that is no batch."""
    stretches: list[dict[int, list[int]]] = [{}]
    for record in records:
        if isinstance(record, ResultBatch):
            stretches[-1].setdefault(record.worker, []).extend(record.column("number"))
        else:
            stretches.append({})
    return stretches


def test_small_batches_become_few() -> None:
    records = [runs.batch([runs.result(n, READ)]) for n in range(1000)]
    assert len(list(gathered(records))) == 1


def test_many_workers_small_batches_do_not_pile_up() -> None:
    rows = 500
    one = runs.batch([runs.result(n, READ) for n in range(rows)])
    workers = 4 * MOST_WAITING_ROWS // rows
    taken = 0

    def records() -> Iterator[Record]:
        nonlocal taken
        for worker in range(workers):
            taken += rows
            yield ResultBatch(Phase.RUN, worker, one.columns)

    given_back = 0
    for batch in gathered(records()):
        assert taken - given_back <= MOST_WAITING_ROWS + 2 * rows
        given_back += len(batch) if isinstance(batch, ResultBatch) else 0
    assert given_back == workers * rows


def test_the_response_time_counts_from_the_due_time() -> None:
    rows = [
        runs.result(1, READ, due_ns=10, start_ns=30, last_byte_ns=5),
        runs.result(2, READ, start_ns=30, last_byte_ns=5),
    ]
    (part,) = split(runs.batch(rows))
    assert part.responses
    assert part.responses.values_ns == [25, NONE_NS]
    assert part.ends_ns == [35, 35]
    (closed,) = split(runs.batch(rows[1:]))
    assert not closed.responses


def test_ids_of_a_part_are_its_rows_own() -> None:
    rows = [
        runs.result(n, READ, transaction_id=b"tx%d" % n, error=ErrorKind(n % 2)) for n in range(6)
    ]
    for part in split(runs.batch(rows)):
        wanted = [b"tx%d" % number for number in part.column("number")]
        assert list(part.transaction_ids) == list(part.column("transaction_id")) == wanted
        assert list(part.transaction_ids[1:]) == wanted[1:]


def test_columns_that_nothing_is_added_to_stay_as_they_are() -> None:
    batch = runs.batch([runs.result(1, READ, start_ns=60)])
    moved = shifted(batch, 7)
    assert len(moved.columns) == len(batch.columns)
    assert [list(column) for column in moved.columns[-2:]] == [list(c) for c in batch.columns[-2:]]
