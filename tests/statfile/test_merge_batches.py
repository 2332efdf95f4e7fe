"""Results that are put together keep their rows, their order, and their place among the marks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.model import Phase
from ssbench.core.records import ResultBatch
from ssbench.statfile import merge_batches as module
from ssbench.statfile.merge_batches import merge_batches
from ssbench.statfile.records import RESULTS, decode, encode, objects
from tests.statfile.samples import HOST, PHASE, packed, result


def item(first: int, rows: int, worker: int = 0) -> list[Any]:
    return [RESULTS, int(Phase.RUN), worker, packed([result(first + n) for n in range(rows)])]


def as_item(record: Any) -> Any:
    (found,) = objects([encode(record)], lambda fault: None)
    return found


MARK, HEARD = as_item(PHASE), as_item(HOST)
STEPS = st.lists(
    st.one_of(st.tuples(st.integers(1, 3), st.integers(0, 2)), st.just("mark"), st.just("host")),
    max_size=15,
)


@given(STEPS)
def test_each_workers_rows_come_once_in_order_and_pass_no_mark(steps: list[Any]) -> None:
    items, number = [], 1
    for step in steps:
        if isinstance(step, str):
            items.append(MARK if step == "mark" else HEARD)
        else:
            items.append(item(number, *step))
            number += step[0]
    assert rows_by_group(merge_batches(items)) == rows_by_group(items)


def rows_by_group(items: Any) -> list[dict[int, list[int]]]:
    """Worker -> numbers, anew after each mark."""
    found: list[dict[int, list[int]]] = [{}]
    for each in items:
        if each == MARK:
            found.append({})
        elif each != HEARD:
            batch = each if isinstance(each, ResultBatch) else decode(each)
            assert isinstance(batch, ResultBatch)
            found[-1].setdefault(batch.worker, []).extend(batch.column("number"))
    return found


def test_figures_of_machines_come_between_without_cutting() -> None:
    found = list(merge_batches([item(1, 2), HEARD, item(3, 2)]))
    assert [len(each) for each in found if isinstance(each, ResultBatch)] == [4]


def test_a_damaged_batch_comes_as_it_is_and_so_do_its_neighbours() -> None:
    items = [item(1, 2), [RESULTS, 2, 0, b"\x93rubbish"], item(3, 1)]
    assert list(merge_batches(items)) == items
    items = [item(1, 2), [RESULTS, 99, 0, items[0][3]]]
    assert list(merge_batches(items))[1:] == items[1:]


def test_objects_of_no_known_form_pass() -> None:
    odd: list[Any] = [None, [], 3, [RESULTS, 2, 0], [RESULTS, 2, 0, "text"], [99, {}]]
    assert list(merge_batches(odd)) == odd


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one worker, and of all together."""
    one = item(1, 10)
    monkeypatch.setattr(module, "ENOUGH", 3 * len(one[3]))
    monkeypatch.setattr(module, "MOST", 5 * len(one[3]))
    taken = 0

    def items(workers: int) -> Iterator[Any]:
        nonlocal taken
        for number in range(40):
            taken += 10
            yield item(1, 10, number % workers)

    for workers, most in ((1, 30), (40, 60)):
        taken = given_back = 0
        for batch in merge_batches(items(workers)):
            assert taken - given_back <= most
            given_back += len(batch)
        assert given_back == 400
