from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import count

import gevent
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.errors import AuthError, SsbenchError, StorageError
from ssbench.core.model import ErrorKind
from ssbench.core.naming import container_name
from ssbench.storage.base import ContainerEntry
from ssbench.upkeep.cleanup import delete, matching, plan
from ssbench.upkeep.deletions import GIVE_UP_AFTER, CleanupResult
from tests.fakes.memory_storage import MemoryStorage, MemoryStore, status_error


def no_sleep(seconds: float) -> None:
    pass


def filled(store: MemoryStore, containers: int = 3, objects: int = 25) -> MemoryStorage:
    for index in range(containers):
        names = [f"tiny_{number:06d}" for number in range(objects)]
        store.add(container_name("ssbench", index), *names, size=10)
    return MemoryStorage(store)


def delete_all(storage: MemoryStorage, concurrency: int = 4) -> CleanupResult:
    return delete(storage, plan(storage, "ssbench"), concurrency, sleep=no_sleep)


@pytest.mark.parametrize(
    ("name", "policy", "ours"),
    [
        ("ssbench_000061", None, True),
        ("ssbench_999999", None, True),
        ("ssbench_1000000", None, True),
        ("ssbench_12345678", None, True),
        ("ssbench_000061_gold", None, False),
        ("ssbench_000061_gold", "gold", True),
        ("ssbench_000061_golden", "gold", False),
        ("ssbench_000061", "gold", False),
        ("ssbench_000061_gold", "*", True),
        ("ssbench_000061_default_policy", "*", True),
        ("ssbench_000061_default_policy", "default_policy", True),
        ("ssbench_000061", "*", True),
        ("ssbench_000061_", "*", False),
        ("ssbench_000061gold", "*", False),
        ("ssbench_backup", "*", False),
        ("ssbenchmark_000001", "*", False),
        ("ssbench_0000611", "*", False),
        ("ssbench_0100000", "*", False),
        ("ssbench_00061", "*", False),
        ("ssbench_000061\n", "*", False),
        ("ssbench_٠٠٠٠٦١", "*", False),
        ("xssbench_000061", "*", False),
        ("SSBENCH_000061", "*", False),
        ("ssbench_00006a", "*", False),
        ("ssbench_000061_g.ld", "g.ld", True),
        ("ssbench_000061_gold", "g.ld", False),
    ],
)
def test_which_containers_are_ours(name: str, policy: str | None, ours: bool) -> None:
    assert matching(name, "ssbench", policy) is ours


def test_a_base_is_taken_to_the_letter() -> None:
    assert matching("s.bench+_000001", "s.bench+")
    assert not matching("ssbenchh_000001", "s.bench+")


@given(st.text(min_size=1), st.integers(0, 10**8), st.none() | st.text(min_size=1), st.booleans())
def test_what_a_run_makes_is_found_again(
    base: str, index: int, policy: str | None, any_policy: bool
) -> None:
    """Invariant: every name that naming makes matches under its policy, and under ``*``."""
    assert matching(container_name(base, index, policy), base, "*" if any_policy else policy)


@given(st.text("ssbench_0169-gold\n", max_size=20))
def test_what_matches_is_a_name_that_a_run_makes(name: str) -> None:
    """Invariant: without a policy, only what naming could have made matches."""
    digits = name.removeprefix("ssbench_")
    made = digits.isdigit() and container_name("ssbench", int(digits)) == name
    assert matching(name, "ssbench") is made


def test_a_plan_reads_every_page_and_only_takes_ours() -> None:
    store = MemoryStore(listing_limit=3)
    storage = filled(store, containers=10, objects=2)
    for neighbour in ("ssbench_backup", "ssbenchmark_000001", "ssbench_000001_gold", "aaa"):
        store.add(neighbour, "precious")
    planned = plan(storage, "ssbench")
    assert [entry.name for entry in planned] == [container_name("ssbench", i) for i in range(10)]
    assert {(entry.object_count, entry.bytes_used) for entry in planned} == {(2, 20)}
    assert [e.name for e in plan(storage, "ssbench", "gold")] == ["ssbench_000001_gold"]
    assert len(plan(storage, "ssbench", "*")) == 11


def test_a_plan_tries_again_and_tells_what_is_final() -> None:
    storage = filled(MemoryStore())
    storage.store.fail("list_containers", status_error(503))
    assert len(plan(storage, "ssbench", sleep=no_sleep)) == 3
    storage.store.fail("list_containers", status_error(403))
    with pytest.raises(StorageError, match="403"):
        plan(storage, "ssbench")


def test_a_listing_that_does_not_advance_is_no_endless_loop() -> None:
    class Stuck(MemoryStorage):
        def list_containers(self, prefix: str, marker: str, limit: int) -> list[ContainerEntry]:
            return [ContainerEntry("ssbench_000001", 0, 0)]

    with pytest.raises(SsbenchError, match="ssbench_000001"):
        plan(Stuck(), "ssbench")


@pytest.mark.parametrize("bulk", [None, 4, 10_000])
def test_all_objects_of_all_pages_go_and_neighbours_stay(bulk: int | None) -> None:
    store = MemoryStore(listing_limit=7, bulk_delete_max=bulk)
    storage = filled(store)
    store.add("ssbench_backup", "precious")
    seen: list[tuple[int, int]] = []
    clock = count(100.0, 2.0)
    result = delete(
        storage,
        plan(storage, "ssbench"),
        4,
        lambda done, total: seen.append((done, total)),
        clock=lambda: next(clock),
    )
    assert (result.objects, result.containers, result.ok) == (75, 3, True)
    assert (result.seconds, result.rate(result.objects)) == (2.0, 37.5)
    assert list(store.containers) == ["ssbench_backup"]
    assert seen[-1] == (78, 78)
    assert (store.count("bulk_delete") > 0) is (bulk is not None)
    assert (store.count("delete_object") > 0) is (bulk is None)


def test_progress_counts_what_the_account_does_not_know_of_yet() -> None:
    store = MemoryStore(listing_limit=10)
    storage = filled(store, containers=1)
    seen: list[tuple[int, int]] = []
    stale = [ContainerEntry("ssbench_000000", 0, 0)]
    delete(storage, stale, 1, lambda done, total: seen.append((done, total)))
    assert (seen[0], seen[10], seen[-1]) == ((1, 11), (11, 21), (26, 26))


def test_requests_in_flight_never_exceed_the_concurrency() -> None:
    store = MemoryStore(pause=lambda: gevent.sleep(0))
    result = delete_all(filled(store, containers=8), concurrency=5)
    assert result.ok
    assert store.most_in_flight == 5


def test_one_big_container_uses_all_of_the_concurrency() -> None:
    store = MemoryStore(pause=lambda: gevent.sleep(0))
    assert delete_all(filled(store, containers=1, objects=50), concurrency=6).ok
    assert store.most_in_flight == 6


def test_nothing_to_delete_is_fine() -> None:
    result = delete(MemoryStorage(), [])
    assert result.ok
    assert result.rate(0) == 0.0


def test_what_a_bulk_delete_leaves_is_deleted_singly() -> None:
    store = MemoryStore(bulk_delete_max=100)
    storage = filled(store, containers=1)
    store.fail("bulk_delete", status_error(405))
    assert delete_all(storage).objects == 25
    assert store.count("delete_object") == 25


def test_passing_failures_are_tried_again() -> None:
    storage = filled(MemoryStore(), containers=1)
    for method in ("list_objects", "delete_object", "delete_container"):
        storage.store.fail(method, status_error(503), StorageError(ErrorKind.RESET, "reset"))
    assert delete_all(storage).ok


@pytest.mark.parametrize("bulk", [None, 10])
def test_an_object_that_will_not_go_is_counted_with_an_example(bulk: int | None) -> None:
    store = MemoryStore(bulk_delete_max=bulk)
    storage = filled(store)
    store.refuse("delete_object", "tiny_000003", status_error(403))
    result = delete_all(storage)
    assert not result.ok
    assert (result.objects, result.failed_objects) == (72, 3)
    assert (result.containers, result.failed_containers) == (0, 3)
    assert any("/tiny_000003: the store answered 403" in line for line in result.examples)
    assert len(result.examples) <= 5


def test_a_lagging_listing_is_read_again() -> None:
    store = MemoryStore()
    storage = filled(store, containers=1)
    store.fail("delete_container", status_error(409))
    pauses: list[float] = []

    def straggler(seconds: float) -> None:
        pauses.append(seconds)
        store.add("ssbench_000000", "came late")

    result = delete(storage, plan(storage, "ssbench"), 4, sleep=straggler)
    assert result.ok
    assert result.objects == 26
    assert pauses == [0.5]


def test_a_container_that_somebody_keeps_filling_is_given_up() -> None:
    store = MemoryStore()
    storage = filled(store, containers=1)
    store.refuse("delete_container", "ssbench_000000", status_error(409))
    result = delete_all(storage)
    assert result.failed_containers == 1
    assert "still not empty" in result.examples[0]


def test_a_container_that_is_gone_by_now_counts_as_gone() -> None:
    result = delete(MemoryStorage(), [ContainerEntry("ssbench_000000", 3, 30)])
    assert result.ok
    assert (result.containers, result.objects) == (1, 0)


def test_a_store_that_refuses_everything_is_not_asked_for_ever() -> None:
    store = MemoryStore()
    storage = filled(store, containers=2, objects=500)
    for number in range(500):
        store.refuse("delete_object", f"tiny_{number:06d}", status_error(403))
    result = delete_all(storage)
    assert not result.ok
    assert "failures in a row" in result.given_up
    assert store.count("delete_object") <= GIVE_UP_AFTER + 8


def test_the_token_is_renewed_once() -> None:
    store = MemoryStore()
    storage = filled(store)
    planned = plan(storage, "ssbench")
    store.tokens = {"new"}
    serials = count(1)
    result = delete(storage, planned, 4, renew=lambda: ("new", next(serials)))
    assert result.ok
    assert storage.token_serial == 1


def test_a_token_that_cannot_be_renewed_ends_it() -> None:
    store = MemoryStore()
    storage = filled(store, containers=50)
    planned = plan(storage, "ssbench")
    store.tokens = set()

    def renew() -> tuple[str, int]:
        raise AuthError("wrong password")

    result = delete(storage, planned, 2, renew=renew)
    assert result.given_up == "the store refuses our token: wrong password"
    assert result.left > 40
    assert not result.ok


def test_what_was_done_is_told_when_the_user_stops_it() -> None:
    store = MemoryStore(pause=lambda: gevent.sleep(0))
    storage = filled(store, containers=20)
    done: list[int] = []
    result = delete(
        storage,
        plan(storage, "ssbench"),
        4,
        lambda gone, total: done.append(gone),
        stopping=lambda: len(done) >= 30,
    )
    assert result.interrupted
    assert not result.ok
    assert 30 <= result.objects + result.containers <= 34
    assert result.left == 20 - result.containers
    assert store.in_flight == 0


def interrupting(after: int) -> Iterator[None]:
    yield from (None for _ in range(after))
    raise KeyboardInterrupt


@pytest.mark.parametrize("bulk", [None, 5])
def test_ctrl_c_gives_back_what_was_done(
    bulk: int | None, capfd: pytest.CaptureFixture[str]
) -> None:
    store = MemoryStore(bulk_delete_max=bulk)
    storage = filled(store, containers=20)
    planned = plan(storage, "ssbench")
    script = interrupting(20)
    store.pause = lambda: next(script, None)
    result = delete(storage, planned, 4)
    assert result.interrupted
    assert result.left > 0
    assert result.objects > 0
    assert capfd.readouterr().err == ""


def test_a_real_ctrl_c_while_the_store_is_waited_for() -> None:
    store = MemoryStore(pause=lambda: gevent.sleep(0.001))
    storage = filled(store, containers=20)
    planned = plan(storage, "ssbench")
    gevent.spawn_later(0.02, os.kill, os.getpid(), signal.SIGINT)
    result = delete(storage, planned, 4)
    assert result.interrupted
    assert result.left > 0
    assert 0 < result.objects < 500


def test_names_in_examples_do_not_steer_the_terminal() -> None:
    store = MemoryStore()
    store.add("ssbench_000000", "evil\x1b[2J")
    store.refuse("delete_object", "evil\x1b[2J", status_error(403))
    assert "\x1b" not in "".join(delete_all(MemoryStorage(store)).examples)
