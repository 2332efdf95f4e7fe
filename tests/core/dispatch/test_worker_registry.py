"""The worker registry: members, freshness, clocks, users."""

from __future__ import annotations

import struct
import time
import tracemalloc
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.dispatch import worker_registry as registry_module
from ssbench.core.dispatch.worker_registry import (
    MAX_REFUSED,
    MAX_WORKERS,
    SILENT_NS,
    WorkerRegistry,
    WorkerState,
    split,
    split_groups,
)
from ssbench.core.messages import MAX_NAME, ControlState, Heartbeat, Hello, decode, encode
from ssbench.core.model import SECOND_NS
from tests.fakes.control_states import IDLE

MS = SECOND_NS // 1000


def hello(incarnation: int, worker_id: str = "w", *, previous: int = 0) -> Hello:
    return Hello(incarnation, previous, worker_id, 4, "host", 4711, "1.0")


def registered(
    registry: WorkerRegistry, incarnation: int, worker_id: str = "w", now_ns: int = 0
) -> WorkerState:
    worker, _ = registry.register(hello(incarnation, worker_id), now_ns)
    assert worker is not None
    return worker


def answer(
    registry: WorkerRegistry,
    incarnation: int,
    *,
    there_ns: int = 0,
    back_ns: int = 0,
    hold_ns: int = 0,
    offset_ns: int = 0,
    idle_ns: int = 0,
    at_ns: int = 0,
    jobs: int = 0,
) -> None:
    """A control state at ``at_ns`` and its heartbeat, each of which took so long."""
    serial = registry.control_state_sent(at_ns)
    left_ns = at_ns + there_ns + hold_ns
    heartbeat = Heartbeat(incarnation, serial, left_ns + offset_ns, hold_ns, idle_ns, 0, jobs)
    registry.heartbeat(heartbeat, left_ns + back_ns)


def received(registry: WorkerRegistry) -> ControlState:
    """The control state that workers receive."""
    refused = dict(registry.refused)
    control_state = IDLE._replace(workers=registry.assignments(), refused=refused)
    decoded = decode(encode(control_state))
    assert isinstance(decoded, ControlState)
    return decoded


# Members ---------------------------------------------------------------------------------


def test_a_worker_is_registered_once() -> None:
    registry = WorkerRegistry(10)
    worker = registered(registry, 1)
    assert worker.name == "w (host, pid 4711)"
    assert registry.register(hello(1), 1) == (None, [])
    assert repr(registry) == "<WorkerRegistry 1 workers for 0 users>"


def test_a_second_worker_of_one_name_is_rejected_while_the_first_is_alive() -> None:
    registry = WorkerRegistry(10)
    first = registered(registry, 1)
    assert registry.register(hello(2), SILENT_NS - 1) == (None, [])
    assert registry.refused == {2: 'the worker id "w" is taken by w (host, pid 4711)'}
    second, replaced = registry.register(hello(2), SILENT_NS)
    assert second is not None
    assert replaced == [first]
    assert list(registry.workers) == [2]
    assert registry.refused == {}


def test_a_returning_worker_keeps_its_index() -> None:
    registry = WorkerRegistry(10)
    first, other = registered(registry, 1), registered(registry, 2, "other")
    second, replaced = registry.register(hello(3, previous=1), 1)
    assert second is not None
    assert replaced == [first]
    assert (first.index, other.index, second.index) == (0, 1, 0)


def test_a_silent_rejected_worker_is_forgotten() -> None:
    registry = WorkerRegistry(10)
    registered(registry, 1)
    registry.register(hello(2), SECOND_NS)
    registry.register(hello(2), 2 * SECOND_NS)
    answer(registry, 1, at_ns=8 * SECOND_NS)
    registry.register(hello(3), 9 * SECOND_NS)
    for now_ns, left in [(12 * SECOND_NS, {2, 3}), (13 * SECOND_NS, {3}), (20 * SECOND_NS, set())]:
        answer(registry, 1, at_ns=now_ns)
        assert registry.refused.keys() == left


def test_a_leaving_rejected_worker_is_forgotten() -> None:
    registry = WorkerRegistry(10)
    registered(registry, 1)
    registry.register(hello(2), 1)
    assert registry.remove(2) is None
    assert registry.refused == {}


def test_a_rejection_fits_the_control_state() -> None:
    registry = WorkerRegistry(10)
    long = "w" * MAX_NAME
    for incarnation in (1, 2):
        long_hello = Hello(incarnation, 0, long, 4, long, 1, long)
        registry.register(long_hello, 0)
    assert 2 in received(registry).refused


def test_a_leaving_worker_is_removed() -> None:
    registry = WorkerRegistry(10)
    registry.users = 8
    registered(registry, 1, "a")
    registered(registry, 2, "b")
    assert registry.concurrency == 8
    assert registry.assignments() == {1: (4, None), 2: (4, None)}
    gone = registry.remove(1)
    assert gone is not None
    assert registry.assignments() == {2: (4, None)}
    assert (registry.assigned_users, registry.workers_with_users) == (4, 1)
    assert registry.remove(1) is None


def test_a_lost_worker_returns_under_a_new_incarnation_only() -> None:
    registry = WorkerRegistry(10)
    registered(registry, 1)
    registry.remove(1)
    assert registry.register(hello(1), 1) == (None, [])
    registered(registry, 2)
    registry.register(hello(3, previous=2), 2)
    assert registry.register(hello(2), 3) == (None, [])
    assert list(registry.workers) == [3]


def test_a_phase_starts_with_all_workers_and_ends_with_those_that_have_users() -> None:
    """One without users could still receive jobs: its socket may be open from the last phase."""
    registry = WorkerRegistry(10)
    registry.users = 1
    first, second = registered(registry, 1, "a"), registered(registry, 2, "b")
    busy, idle = (first, second) if first.users else (second, first)
    busy.ready = ("run", 2, False)
    assert not registry.all_ready("run", 2)
    assert registry.ready_count("run", 2) == (1, 2)
    idle.ready = ("run", 2, False)
    assert registry.all_ready("run", 2)
    assert not registry.all_ready("run", 3)
    assert not registry.all_ready("run", 2, stopped=True)
    busy.ready = ("run", 2, True)
    assert registry.all_ready("run", 2, stopped=True)


def test_no_phase_waits_for_a_worker_that_is_leaving() -> None:
    registry = WorkerRegistry(10)
    registered(registry, 1, "a").ready = ("run", 2, False)
    registered(registry, 2, "b")
    assert registry.ready_count("run", 2) == (1, 2)
    registry.leave(2)
    assert registry.ready_count("run", 2) == (1, 1)
    assert registry.all_ready("run", 2)


# Freshness -------------------------------------------------------------------------------


def test_freshness_is_that_of_the_echoed_control_state() -> None:
    registry = WorkerRegistry(10.5)
    worker = registered(registry, 1)
    answer(registry, 1, at_ns=5 * SECOND_NS, back_ns=20 * SECOND_NS)
    assert worker.fresh_ns == 5 * SECOND_NS
    assert registry.overdue(15_500 * MS) == []
    assert registry.overdue(15_500 * MS + 1) == [worker]


def test_a_worker_with_a_blocked_loop_is_not_fresh() -> None:
    registry = WorkerRegistry(10)
    worker = registered(registry, 1)
    answer(registry, 1, at_ns=5 * SECOND_NS, idle_ns=10 * SECOND_NS)
    assert worker.fresh_ns == 0
    answer(registry, 1, at_ns=6 * SECOND_NS, idle_ns=9 * SECOND_NS)
    assert worker.fresh_ns == 6 * SECOND_NS


def test_an_echo_of_an_unknown_control_state_is_ignored() -> None:
    registry = WorkerRegistry(10)
    worker = registered(registry, 1)
    for serial in (0, 1, 1 << 60, -1):
        message = Heartbeat(1, serial, 0, 0, 0, 0, 0)
        assert registry.heartbeat(message, 9 * SECOND_NS) is None
    assert (worker.fresh_ns, worker.offset_ns) == (0, None)
    assert registry.heartbeat(Heartbeat(2, 1, 0, 0, 0, 0, 0), 0) is None


def test_an_echo_counts_once() -> None:
    registry = WorkerRegistry(10)
    worker = registered(registry, 1)
    serial = registry.control_state_sent(0)
    assert registry.heartbeat(Heartbeat(1, serial, 5, 0, 0, 0, 0), 0) is worker
    assert registry.heartbeat(Heartbeat(1, serial, 9, 0, 0, 0, 0), 0) is None
    assert worker.offset_ns == 5


def test_old_control_states_are_forgotten() -> None:
    registry = WorkerRegistry(1e6)
    worker = registered(registry, 1)
    serials = [registry.control_state_sent(n * SECOND_NS) for n in range(1000)]
    registry.heartbeat(Heartbeat(1, serials[0], 0, 0, 0, 0, 0), 1000 * SECOND_NS)
    assert worker.answered_serial == 0
    registry.heartbeat(Heartbeat(1, serials[-1], 0, 0, 0, 0, 0), 1000 * SECOND_NS)
    assert worker.fresh_ns == 999 * SECOND_NS


def test_the_time_since_a_worker_became_empty() -> None:
    registry = WorkerRegistry(10)
    worker = registered(registry, 1)
    answer(registry, 1, at_ns=1 * SECOND_NS, jobs=3)
    assert (worker.jobs, worker.empty_since_ns) == (3, None)
    answer(registry, 1, at_ns=2 * SECOND_NS)
    answer(registry, 1, at_ns=3 * SECOND_NS)
    assert (worker.jobs, worker.empty_since_ns) == (0, 2 * SECOND_NS)
    answer(registry, 1, at_ns=4 * SECOND_NS, jobs=1)
    assert worker.empty_since_ns is None


# Clock offsets ---------------------------------------------------------------------------


def test_the_offset_is_taken_from_the_smallest_round_trip() -> None:
    registry = WorkerRegistry(10)
    worker = registered(registry, 1)
    offset = -123 * SECOND_NS
    trips = [(40 * MS, 2 * MS), (1 * MS, 1 * MS), (2 * MS, 30 * MS)]
    for second, (there_ns, back_ns) in enumerate(trips):
        answer(
            registry, 1, at_ns=second * SECOND_NS, there_ns=there_ns, back_ns=back_ns,
            hold_ns=7 * MS, offset_ns=offset,
        )  # fmt: skip
    assert worker.offset_ns == offset
    assert registry.assignments() == {1: (0, offset)}


trips = st.lists(
    st.tuples(st.integers(0, 50 * MS), st.integers(0, 50 * MS), st.integers(0, MS)), min_size=1
)


@given(trips, st.integers(-(10**15), 10**15))
def test_the_offset_errs_by_half_a_round_trip_at_most(
    ways: list[tuple[int, int, int]], offset_ns: int
) -> None:
    """Invariant: the error is at most half the smallest round trip (which fades by 1 %)."""
    registry = WorkerRegistry(10)
    worker = registered(registry, 1)
    for second, (there_ns, back_ns, hold_ns) in enumerate(ways):
        answer(
            registry, 1, at_ns=second * SECOND_NS, there_ns=there_ns, back_ns=back_ns,
            hold_ns=hold_ns, offset_ns=offset_ns,
        )  # fmt: skip
    smallest = min(there_ns + back_ns for there_ns, back_ns, _ in ways)
    assert worker.offset_ns is not None
    allowed = (smallest * 1.011 ** len(ways) + 2 * len(ways)) / 2 + 1
    assert abs(worker.offset_ns - offset_ns) <= allowed


def test_a_drifting_clock_is_followed() -> None:
    registry = WorkerRegistry(10)
    worker = registered(registry, 1)
    answer(registry, 1, at_ns=0, there_ns=MS // 10, back_ns=MS // 10)
    for second in range(1, 1000):
        drift_ns = second * 10_000  # 10 ppm
        answer(
            registry,
            1,
            at_ns=second * SECOND_NS,
            there_ns=MS,
            back_ns=MS,
            offset_ns=drift_ns,
        )
    assert worker.offset_ns is not None
    assert abs(worker.offset_ns - 999 * 10_000) < 3 * MS


extreme = st.sampled_from([-(2**62) + 1, -1, 0, 1, 2**62 - 1])
span = st.sampled_from([0, 1, 2**62 - 1])


@given(extreme, span, extreme)
def test_any_heartbeat_leaves_the_control_state_packable(
    worker_ns: int, hold_ns: int, now_ns: int
) -> None:
    """Invariant: what decode lets through gives an offset that encode can carry."""
    registry = WorkerRegistry(10)
    registered(registry, 1)
    serial = registry.control_state_sent(now_ns % (1 << 50))
    heartbeat = decode(encode(Heartbeat(1, serial, worker_ns, hold_ns, 0, 0, 0)))
    assert isinstance(heartbeat, Heartbeat)
    registry.heartbeat(heartbeat, now_ns % (1 << 50) + 5)
    assert received(registry).workers.keys() == {1}


# Allocation of users ---------------------------------------------------------------------

capacities = st.dictionaries(st.integers(1, 99), st.integers(0, 200), max_size=12)


@given(st.integers(0, 3000), capacities)
def test_users_are_split_in_proportion(users: int, capacity: dict[int, int]) -> None:
    """Invariant: all users that workers can run are assigned, no worker gets more than it can run,
    and each share is within 1 of its proportion."""
    shares = split(users, capacity)
    total = sum(capacity.values())
    assert shares.keys() == capacity.keys()
    assert sum(shares.values()) == min(users, total)
    for key, share in shares.items():
        assert 0 <= share <= capacity[key]
        assert abs(share - min(users, total) * capacity[key] / max(total, 1)) < 1


def test_equal_workers_differ_by_one_at_most() -> None:
    assert sorted(split(10, {1: 64, 2: 64, 3: 64}).values()) == [3, 3, 4]
    assert split(10, {1: 64, 2: 64, 3: 64}) == split(10, {1: 64, 2: 64, 3: 64})


# Floods of hellos ------------------------------------------------------------------------


def test_repeated_hellos_of_one_name_displace_no_worker() -> None:
    """With 600 of them, the control state was too long for any worker to read."""
    registry = WorkerRegistry(10)
    registered(registry, 1, "w")
    long = "\N{ROLLING ON THE FLOOR LAUGHING}" * (MAX_NAME // 4)
    for incarnation in range(2, 5000):
        registry.register(Hello(incarnation, 0, long, 4, long, 1, long), incarnation)
    assert set(received(registry).workers) == {1, 2}
    assert len(registry.refused) == MAX_REFUSED
    registry.control_state_sent(60 * SECOND_NS)
    assert registry.refused == {}


def test_hellos_of_endless_names_use_bounded_memory_and_time() -> None:
    """20,000 took 451 MB."""
    registry = WorkerRegistry(10)
    registered(registry, 1, "w")
    tracemalloc.start()
    began_s = time.process_time()
    try:
        for number in range(2, 20_000):
            name = f"{number:0{MAX_NAME}}"
            registry.register(Hello(number, 0, name, 4, name, 1, name), number)
        assert tracemalloc.get_traced_memory()[0] < 30e6
    finally:
        tracemalloc.stop()
    assert time.process_time() - began_s < 60
    assert len(registry.workers) == MAX_WORKERS
    assert 1 in received(registry).workers
    assert len(encode(received(registry))) < 1_000_000


def test_a_repeated_hello_is_handled_once_a_second() -> None:
    registry = WorkerRegistry(10)
    newcomers = 0
    for number in range(1, 10_000):
        worker, _ = registry.register(
            hello(number, previous=number - 1), number * SECOND_NS // 1000
        )
        newcomers += worker is not None
        registry.remove(number)
    assert 10 < newcomers < 40


def test_workers_that_come_and_go_use_bounded_memory() -> None:
    with (
        mock.patch.object(registry_module, "MAX_NAMES", 20),
        mock.patch.object(registry_module, "MAX_DEPARTED", 8),
    ):
        registry = WorkerRegistry(10)
        tracemalloc.start()
        try:
            for number in range(1, 4000):
                if number == 1000:
                    before = tracemalloc.get_traced_memory()[0]
                name = f"w{number if number % 3 else 0}"
                registry.register(hello(2 * number, name), number * SECOND_NS)
                registry.register(hello(2 * number + 1, name), number * SECOND_NS)  # is refused
                registry.remove(2 * number)
                registry.control_state_sent(number * SECOND_NS)
            assert tracemalloc.get_traced_memory()[0] - before < 20_000
        finally:
            tracemalloc.stop()


_HELLO = struct.Struct("<BBBBQ")  # worker id, incarnation, previous, what, milliseconds
HELLOS = [
    b"".join(_HELLO.pack(n % names, n % 251, n % back, n % 7, 5) for n in range(300))
    for names in (1, 3, 250)
    for back in (1, 2, 200)
]


def bounded(data: bytes) -> None:
    """Invariant: whatever hellos, byes and time there are, a name has at most one worker, control
    states can be read, and nothing in them grows beyond its bound."""
    with (
        mock.patch.object(registry_module, "MAX_WORKERS", 5),
        mock.patch.object(registry_module, "MAX_NAMES", 20),
        mock.patch.object(registry_module, "MAX_REFUSED", 4),
        mock.patch.object(registry_module, "MAX_DEPARTED", 8),
    ):
        registry, now_ns = WorkerRegistry(10), 0
        size = len(data) - len(data) % _HELLO.size
        for name, incarnation, previous, what, ms in _HELLO.iter_unpack(data[:size]):
            now_ns += ms * 1_000_000
            if what == 0:
                registry.remove(incarnation)
            elif what == 1:
                registry.control_state_sent(now_ns)
                assert set(received(registry).workers) == set(registry.workers)
            else:
                worker, replaced = registry.register(
                    hello(incarnation, f"w{name}", previous=previous), now_ns
                )
                assert worker is None or registry.workers[incarnation] is worker
                assert not any(other in registry.workers.values() for other in replaced)
            names = [worker.hello.worker_id for worker in registry.workers.values()]
            assert len(names) == len(set(names)) <= 5
            assert len(registry.refused) <= 4
        assert set(received(registry).workers) == set(registry.workers)


def test_with_groups_each_worker_with_users_has_users_of_each() -> None:
    assert split_groups((5, 3), {1: 10, 2: 10}) == [{1: 3, 2: 2}, {1: 1, 2: 2}]
    assert split_groups((9, 1), {1: 4, 2: 8}) == [{2: 7}, {2: 1}], "what is above is not assigned"
    assert split_groups((2, 2), {1: 1, 2: 1}) == [{}, {}]
    (few, many) = split_groups((2, 30), dict.fromkeys(range(4), 10))
    assert few.keys() == many.keys()
    assert set(few.values()) == {1}


def test_users_by_group_stand_in_the_control_state_only_with_groups() -> None:
    registry = WorkerRegistry(10.0)
    registry.register(Hello(7, 0, "w", 9, "host", 1, "1.0"), 0)
    registry.users, registry.groups = 6, (4, 2)
    registry.allocate_users()
    assert registry.group_assignments() == {7: (4, 2)}
    assert (registry.assignments()[7][0], registry.assigned_groups) == (6, [4, 2])
    registry.users = 0
    registry.allocate_users()
    assert (registry.group_assignments(), registry.assigned_groups) == ({}, [0, 0])
    registry.users, registry.groups = 5, ()
    registry.allocate_users()
    assert (registry.group_assignments(), registry.assigned_groups) == ({}, [5])
