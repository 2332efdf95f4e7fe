"""All requests of a log: their order, what they do to objects, and the sizes of these."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.commands.replay.access_log import DELETED_BEFORE, NO_NAMES, RequestLog, Requests
from ssbench.commands.replay.formats import UNKNOWN, LeftOut, LoggedRequest
from ssbench.core.naming import HASHED_CONTAINERS
from ssbench.core.operations import CREATE, DELETE, HEAD, LIST, RANGE_READ, READ, UPDATE

SECOND = 10**9
PUT, GET, PART = "PUT OBJECT", "GET OBJECT", "GET OBJECT 206"
REMOVE, STAT = "DELETE OBJECT", "HEAD OBJECT"


def request(what: str, name: str = "o", at_s: float = 0.0, moved: int = UNKNOWN) -> LoggedRequest:
    size = UNKNOWN if what == PART else moved
    return LoggedRequest(what, b"c", name.encode(), round(at_s * SECOND), size, moved, UNKNOWN)


def log_of(*rows: LoggedRequest) -> RequestLog:
    log = RequestLog()
    for row in rows:
        log.add(row)
    return log


def arranged(*rows: LoggedRequest) -> Requests:
    return log_of(*rows).arrange()


def initial(found: Requests) -> list[int]:
    return [size for size in found.initial.tolist() if size != UNKNOWN]


def test_an_upload_makes_an_object_or_replaces_it() -> None:
    found = arranged(
        request(PUT, "a", 0, 5), request(PUT, "a", 1, 6), request(REMOVE, "a", 2),
        request(PUT, "a", 3, 7), request(GET, "b", 0.5, 9), request(PUT, "b", 1.5, 4),
    )  # fmt: skip
    assert found.operations.tolist() == [CREATE, READ, UPDATE, UPDATE, DELETE, CREATE]
    assert found.sizes.tolist() == [5, 9, 6, 4, 6, 7]
    assert initial(found) == [9]


def test_requests_of_a_whole_second_are_spread_over_it() -> None:
    found = arranged(*(request(GET, "a", at, 1) for at in (7, 7, 7, 7, 8, 9, 9)))
    assert found.at_ns.tolist() == [at * SECOND for at in (7, 7.25, 7.5, 7.75, 8, 9, 9.5)]
    assert found.most_within(SECOND) == 4


def test_the_size_of_an_object_is_the_largest_that_is_known() -> None:
    part = arranged(request(PART, moved=70), request(STAT, at_s=1), request(GET, at_s=2, moved=100))
    assert part.sizes.tolist() == [100, 100, 100]
    assert part.moved.tolist() == [70, UNKNOWN, 100]
    assert part.operations.tolist() == [RANGE_READ, HEAD, READ]
    before_upload = arranged(request(GET, at_s=0.5, moved=100), request(PUT, at_s=1, moved=7))
    assert before_upload.sizes.tolist() == [100, 7]


def test_objects_of_unknown_size_have_the_median_of_others() -> None:
    found = arranged(
        request(STAT, "a"), request(GET, "b", 1, 10), request(GET, "c", 1, 30),
        request(GET, "d", 1, 1000),
    )  # fmt: skip
    assert found.sizes[0] == 30
    assert arranged(request(STAT, "a")).sizes.tolist() == [0]


def test_requests_for_deleted_objects_are_left_out() -> None:
    log = log_of(request(REMOVE), request(GET, at_s=1, moved=5), request(PUT, at_s=2, moved=5))
    found = log.arrange()
    assert found.operations.tolist() == [DELETE, CREATE]
    assert log.left_out == {DELETED_BEFORE: 1}


def test_requests_on_containers_have_no_object_and_bulk_deletes_only_if_they_are_wanted() -> None:
    listing, bulk = (
        LoggedRequest(what, b"c", b"", 0, UNKNOWN, UNKNOWN, UNKNOWN)
        for what in ("GET BUCKET", "POST MULTI_OBJECT_DELETE")
    )
    log = log_of(bulk, listing)
    found = log.arrange()
    assert (found.operations.tolist(), found.without_object) == ([LIST], {LIST: 1})
    assert (initial(found), found.objects.tolist(), log.left_out) == ([], [0], {NO_NAMES: 1})
    assert len(log_of(bulk, listing).arrange(with_sets=True)) == 2


def test_limits_of_time_and_number() -> None:
    log = RequestLog(1 * SECOND, 3 * SECOND, 2)
    for at in range(4):
        log.add(request(GET, "o", at, 1))
    log.add(request(GET, "o", 1, 1))
    log.add(LeftOut("login", 2 * SECOND))
    log.add(LeftOut("login", 3 * SECOND))
    assert len(log) == 2
    assert log.left_out == {"outside --start and --end": 3, "beyond --max-requests": 1, "login": 1}


def test_numbers_follow_from_names_and_tell_containers_apart() -> None:
    rows = [
        LoggedRequest(GET, container, name, 0, 1, 1, UNKNOWN)
        for container in (b"c", b"d") for name in (b"a", b"b")
    ]  # fmt: skip
    found = arranged(*rows)
    numbers = [int(found.objects[slot]) for slot in found.slots]
    assert len({*numbers}) == 4
    assert [number % HASHED_CONTAINERS for number in numbers] == [0, 0, 1, 1]
    assert all(HASHED_CONTAINERS <= number < 1 << 53 for number in numbers)
    again = arranged(*rows)
    assert found.objects.tolist() == again.objects.tolist()
    assert log_of(*rows).container_count == 2


def test_many_containers_share_numbers() -> None:
    log = log_of(*(LoggedRequest(GET, b"%d" % n, b"o", 0, 1, 1, UNKNOWN) for n in range(5000)))
    assert log.container_count == HASHED_CONTAINERS
    numbers = log.arrange().objects % HASHED_CONTAINERS
    assert {*numbers.tolist()} == {*range(HASHED_CONTAINERS)}


@given(
    st.lists(
        st.tuples(
            st.sampled_from([PUT, GET, PART, REMOVE, STAT, "COPY OBJECT"]), st.sampled_from("abc"),
            st.integers(-1, 50),
        ),
        min_size=1, max_size=30,
    )
)  # fmt: skip
def test_requests_do_what_a_store_with_the_initial_objects_would_do(
    rows: list[tuple[str, str, int]],
) -> None:
    given_rows = [
        request(what, name, 0.5 + at, max(size, 0) if what == PART else size)
        for at, (what, name, size) in enumerate(rows)
    ]
    log = log_of(*given_rows)
    found = log.arrange()
    there = {slot for slot, size in enumerate(found.initial.tolist()) if size != UNKNOWN}
    columns = (found.operations.tolist(), found.slots.tolist(), found.sizes.tolist())
    for (operation, slot, size), moved in zip(
        zip(*columns, strict=True), found.moved.tolist(), strict=True
    ):
        assert (slot in there) == (operation != CREATE)
        assert size >= max(moved, 0)
        if operation == CREATE:
            there.add(slot)
        elif operation == DELETE:
            there.remove(slot)
    assert len(found) + log.left_out.total() == len(rows)


@pytest.mark.parametrize("exponent", [0.6, 1.0, 1.4])
def test_the_exponent_of_zipf_s_law_is_found(exponent: float) -> None:
    rng = Random(1)
    names = [str(rank) for rank in range(300)]
    weights = [(rank + 1) ** -exponent for rank in range(300)]
    reads = [request(GET, name, 0.5, 1) for name in rng.choices(names, weights, k=20_000)]
    found = arranged(*reads).zipf_exponent()
    assert found is not None
    assert abs(found - exponent) < 0.1


def test_a_popularity_that_is_not_well_measured_is_none() -> None:
    rng = Random(1)
    names = [str(n) for n in range(100)]
    uniform = [request(GET, rng.choice(names), 0.5, 1) for _ in range(20_000)]
    assert arranged(*uniform).zipf_exponent() is None
    assert arranged(*uniform[:500]).zipf_exponent() is None, "too few reads"
    two_kinds = [request(GET, rng.choice(names[:50] if n % 10 else names), 0.5, 1)
                 for n in range(20_000)]  # fmt: skip
    assert arranged(*two_kinds).zipf_exponent() is None, "another law"
