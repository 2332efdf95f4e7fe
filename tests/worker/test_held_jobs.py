"""Completed operations are packed as their rows would be."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.hiding import Secrets
from ssbench.core.model import NONE_NS, RESULT_NUMBERS, UNCERTAIN_NS, Job, Result, Timing
from ssbench.core.operations import OPERATIONS, READ
from ssbench.worker.held_jobs import Completed, pack_completed, rows_of
from tests.fakes.batches import unpack_results

ORIGIN_NS = 1000
NO_SECRETS = Secrets()
NUMBER = st.integers(0, 2**40)
DURATION = st.integers(0, 2**34)
JOBS = st.builds(
    Job,
    *[NUMBER, st.sampled_from(list(map(int, OPERATIONS))), st.integers(0, 3)],
    *[NUMBER, NUMBER, NUMBER, st.just(NONE_NS) | NUMBER],
    *[st.just(()) | st.tuples(NUMBER), st.just(()) | st.tuples(NUMBER), st.just(0) | NUMBER],
)
IDS = st.just(b"tx0" + b"a" * 31) | st.binary(max_size=9).map(lambda text: text.replace(b"\n", b""))


@st.composite
def done(draw: st.DrawFn) -> Completed:
    job, start = draw(JOBS), draw(st.integers(ORIGIN_NS, 2**50))
    moments = [start + draw(DURATION)] * 3
    if draw(st.booleans()):
        moments = [start + draw(DURATION) for _ in moments]
    if draw(st.booleans()):  # read late
        moments[0] = -moments[0]
    if draw(st.booleans()):
        moments[1] = -moments[1]
    numbers = [draw(NUMBER), 200, draw(IDS), draw(NUMBER), draw(NUMBER)]
    if draw(st.booleans()):
        numbers += [draw(NUMBER), (200, 404), draw(NUMBER), draw(NUMBER)]
    if draw(st.booleans()):
        numbers += [0, (), 0, 0][len(numbers) - 5 :]
        numbers += [(3, 1, 0, 7, 8, 9), draw(IDS), draw(IDS)]
    return job, start, Timing(*moments, *numbers)


#: No number twice: a column of one number only in rows of several is refused when it is read.
INTS = st.just(()) | st.lists(NUMBER, max_size=3, unique=True).map(tuple)
ROWS = st.tuples(
    *[st.integers(-(2**62), 2**62)] * RESULT_NUMBERS, IDS, st.text(max_size=9), NUMBER, INTS, INTS,
    NUMBER, NUMBER, NUMBER, NUMBER, INTS, IDS, IDS,
).map(Result._make)  # fmt: skip


def unpacked(finished: list[Completed], secrets: Secrets = NO_SECRETS) -> list[tuple[Any, ...]]:
    packed = msgpack.unpackb(
        msgpack.packb(pack_completed(finished, ORIGIN_NS, secrets)), strict_map_key=False
    )
    return list(zip(*unpack_results(packed), strict=True))


@given(st.lists(done(), min_size=1, max_size=20))
def test_successes_are_packed_as_their_rows_would_be(finished: list[Completed]) -> None:
    assert unpacked(finished) == rows_of(finished, ORIGIN_NS)


@given(st.lists(done() | ROWS, min_size=1, max_size=10))
def test_failures_between_successes_are_packed(finished: list[Completed]) -> None:
    assert unpacked(finished) == rows_of(finished, ORIGIN_NS)


@pytest.mark.parametrize("field", ["transaction_id", "part_id", "version_id"])
@pytest.mark.parametrize("fails", [False, True])
def test_secrets_that_a_store_sent_back_are_masked(field: str, *, fails: bool) -> None:
    secrets = Secrets({"token": "AUTH_tk0123456789", "region": "region-one"})
    jobs = [Job(n, READ, 0, 0, 0, 0, 5) for n in range(3)]
    ids = [b"tx1", b"tx AUTH_tk0123456789", b"region-one"]
    finished: list[Completed] = [
        (
            job,
            1200,
            Timing(1500, 1500, 1700, 100, 200, parts=(1, 0, 0, 7))._replace(**{field: each}),
        )
        for job, each in zip(jobs, ids, strict=True)
    ]
    if fails:
        (row,) = rows_of(finished[:1], ORIGIN_NS)
        said = "not an HTTP/1.1 response: 'HTTP/1.1 999 AUTH_tk01234567'"
        finished[0] = row._replace(error=7, detail=said)
    found = [Result._make(row) for row in unpacked(finished, secrets)]
    assert [getattr(each, field) for each in found] == [b"tx1", b"***", b"region-one"]
    shown = "not an HTTP/1.1 response: 'HTTP/1.1 999 ***"
    assert [each.detail for each in found] == [shown * fails, "", ""]


def test_times_of_late_reads_are_uncertain() -> None:
    jobs = [Job(n, operation, 0, 0, 0, 0, 5) for n, operation in enumerate(OPERATIONS)]
    late = [(job, 1200, Timing(-1500, -1600, 1700, 100, 200)) for job in jobs]
    for row in map(Result._make, [*rows_of(late, ORIGIN_NS), *unpacked(late)]):
        received = OPERATIONS[row.operation].receives
        first_ns = UNCERTAIN_NS if received else NONE_NS
        assert (row.headers_ns, row.first_byte_ns, row.last_byte_ns) == (-2, first_ns, 500)


def test_a_wall_clock_step_gives_no_negative_durations() -> None:
    job = Job(0, READ, 0, 0, 0, 0, 5)
    before = (job, 1200, Timing(1100, 1150, 1190, 100, 200))
    for finished in ([before], [before, (job, 1200, Timing(1300, 1400, 1500, 100, 200))]):
        assert unpacked(finished) == rows_of(finished, ORIGIN_NS)
        row = Result._make(unpacked(finished)[0])
        assert (row.headers_ns, row.first_byte_ns, row.last_byte_ns) == (-2, -2, 0)


def test_starts_far_apart_have_a_base_near_them() -> None:
    """The master refuses a batch whose columns begin below what can be."""
    clock_ns = 7_200_000_000_000
    starts = [clock_ns + 9, clock_ns + 5_000_000_009]
    done = [
        (Job(n, int(READ), 0, 0, 0, 5), at_ns, Timing(at_ns + 90, at_ns + 90, at_ns + 90, 5, 200))
        for n, at_ns in enumerate(starts, 1)
    ]
    packed = pack_completed(done, clock_ns)
    base, _code, _items = packed[1 + Result._fields.index("start_ns")]
    assert base >= 0
    assert list(unpack_results(packed)[Result._fields.index("start_ns")]) == [9, 5_000_000_009]
