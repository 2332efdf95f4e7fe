"""The worker workers: members, freshness, clocks, users."""

from __future__ import annotations

import cProfile
import struct
import tracemalloc
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.dispatch import workers as workers_module
from ssbench.core.dispatch.workers import (
    MAX_NAMES,
    MAX_REFUSED,
    WorkerJoined,
    Workers,
    WorkerState,
    split_groups,
)
from ssbench.core.messages import (
    MAX_NAME,
    Bye,
    ControlState,
    Expired,
    Heartbeat,
    Hello,
    decode,
    encode,
)
from ssbench.core.model import SECOND_NS
from ssbench.core.settings import MAX_WORKERS, Credentials, StorageSettings

MS = SECOND_NS // 1000


def hello(incarnation: int, worker_id: str = "w", *, previous: int = 0, pid: int = 4711) -> Hello:
    return Hello(incarnation, previous, worker_id, 4, "host", pid, "1.0")


def registered(
    workers: Workers, incarnation: int, worker_id: str = "w", now_ns: int = 0
) -> WorkerState:
    workers.receive(hello(incarnation, worker_id), now_ns)
    return workers.present[incarnation]


def bye(workers: Workers, incarnation: int) -> None:
    workers.receive(Bye(incarnation, ""), 0)


def sent(workers: Workers, now_ns: int = 0) -> ControlState:
    """The control state that is sent now."""
    state = workers.control_state(now_ns, at_once=True)
    assert state is not None
    return state


def answer(
    workers: Workers,
    incarnation: int,
    *,
    there_ns: int = 0,
    back_ns: int = 0,
    hold_ns: int = 0,
    offset_ns: int = 0,
    idle_ns: int = 0,
    at_ns: int = 0,
) -> None:
    """A control state at ``at_ns`` and its heartbeat, each of which took so long."""
    serial = sent(workers, at_ns).serial
    left_ns = at_ns + there_ns + hold_ns
    heartbeat = Heartbeat(incarnation, serial, left_ns + offset_ns, hold_ns, idle_ns, 0, 0)
    workers.heartbeat(heartbeat, left_ns + back_ns)


def received(workers: Workers) -> ControlState:
    """The control state that workers receive."""
    decoded = decode(encode(sent(workers)))
    assert isinstance(decoded, ControlState)
    return decoded


# Clock offsets ---------------------------------------------------------------------------


trips = st.lists(
    st.tuples(st.integers(0, 50 * MS), st.integers(0, 50 * MS), st.integers(0, MS)), min_size=1
)


@given(trips, st.integers(-(10**15), 10**15))
def test_the_offset_errs_by_half_a_round_trip_at_most(
    ways: list[tuple[int, int, int]], offset_ns: int
) -> None:
    """Invariant: the error is at most half the smallest round trip (which fades by 1 %)."""
    workers = Workers()
    worker = registered(workers, 1)
    for second, (there_ns, back_ns, hold_ns) in enumerate(ways):
        answer(
            workers, 1, at_ns=second * SECOND_NS, there_ns=there_ns, back_ns=back_ns,
            hold_ns=hold_ns, offset_ns=offset_ns,
        )  # fmt: skip
    smallest = min(there_ns + back_ns for there_ns, back_ns, _ in ways)
    assert worker.offset_ns is not None
    allowed = (smallest * 1.011 ** len(ways) + 2 * len(ways)) / 2 + 1
    assert abs(worker.offset_ns - offset_ns) <= allowed


extreme = st.sampled_from([-(2**62) + 1, -1, 0, 1, 2**62 - 1])
span = st.sampled_from([0, 1, 2**62 - 1])


@given(extreme, span, extreme)
def test_any_heartbeat_leaves_the_control_state_packable(
    worker_ns: int, hold_ns: int, now_ns: int
) -> None:
    """Invariant: what decode lets through gives an offset that encode can carry."""
    workers = Workers()
    registered(workers, 1)
    serial = sent(workers, now_ns % (1 << 50)).serial
    heartbeat = decode(encode(Heartbeat(1, serial, worker_ns, hold_ns, 0, 0, 0)))
    assert isinstance(heartbeat, Heartbeat)
    workers.heartbeat(heartbeat, now_ns % (1 << 50) + 5)
    assert received(workers).workers.keys() == {1}


# Floods of hellos ------------------------------------------------------------------------


def test_repeated_hellos_of_one_name_displace_no_worker() -> None:
    """With 600 of them, the control state was too long for any worker to read."""
    workers = Workers()
    registered(workers, 1, "w")
    long = "\N{ROLLING ON THE FLOOR LAUGHING}" * (MAX_NAME // 4)
    for incarnation in range(2, 5000):
        workers.receive(Hello(incarnation, 0, long, 4, long, 1, long), incarnation)
    assert set(received(workers).workers) == {1, 2}
    assert len(workers.refused) == MAX_REFUSED
    sent(workers, 60 * SECOND_NS)
    assert workers.refused == {}


def test_hellos_of_endless_names_use_bounded_memory_and_time() -> None:
    """20,000 took 451 MB. Work is counted in calls: the machine's speed does not matter."""
    workers = Workers()
    registered(workers, 1, "w")
    tracemalloc.start()
    try:
        with cProfile.Profile() as profile:
            for number in range(2, 20_000):
                name = f"{number:0{MAX_NAME}}"
                workers.receive(Hello(number, 0, name, 4, name, 1, name), number)
        assert tracemalloc.get_traced_memory()[0] < 30e6
    finally:
        tracemalloc.stop()
    assert sum(each.callcount for each in profile.getstats()) < 20_000 * 100
    assert len(workers.present) == MAX_WORKERS
    assert 1 in received(workers).workers
    assert len(encode(received(workers))) < 1_000_000


def test_whatever_changes_how_often_control_states_take_a_small_share() -> None:
    """A thousand newcomers a second were as many control states, each of which named all."""
    workers = Workers()
    registered(workers, 1, "w")
    answer(workers, 1)
    sent_ns = list[int]()
    for ms in range(3000):
        workers.receive(hello(ms + 2, f"x{ms}"), ms * MS)
        if workers.control_state(ms * MS):
            sent_ns.append(ms)
    assert len(workers.present) == MAX_WORKERS
    assert 0 < len([ms for ms in sent_ns if ms >= 2000]) < 30
    assert workers.charge(1, len(sent_ns)), "each earns its heartbeat"


def test_a_worker_saves_a_limited_part_of_what_it_is_due() -> None:
    """Or one that is silent for hours could send for hours."""
    workers = Workers()
    registered(workers, 1, "w")
    workers.earned += 10**9
    assert workers.charge(1, 262_144)
    assert not workers.charge(1, 1)
    assert not workers.charge(2, 1), "it is not present"


def test_a_dropped_worker_returns_as_another_incarnation_only() -> None:
    workers = Workers()
    registered(workers, 1)
    bye(workers, 1)
    for incarnation, joins in ((1, False), (2, True)):
        events = workers.receive(hello(incarnation), 10 * SECOND_NS)
        assert [type(event) for event in events] == [WorkerJoined] * joins


def test_workers_that_come_and_go_use_bounded_memory() -> None:
    with (
        mock.patch.object(workers_module, "MAX_NAMES", 20),
        mock.patch.object(workers_module, "MAX_DEPARTED", 8),
    ):
        workers = Workers()
        tracemalloc.start()
        try:
            for number in range(1, 4000):
                if number == 1000:
                    before = tracemalloc.get_traced_memory()[0]
                name = f"w{number if number % 3 else 0}"
                workers.receive(hello(2 * number, name, pid=number), number * SECOND_NS)
                workers.receive(hello(2 * number + 1, name), number * SECOND_NS)  # is refused
                bye(workers, 2 * number)
                sent(workers, number * SECOND_NS)
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
        mock.patch.object(workers_module, "MAX_WORKERS", 5),
        mock.patch.object(workers_module, "MAX_NAMES", 20),
        mock.patch.object(workers_module, "MAX_REFUSED", 4),
        mock.patch.object(workers_module, "MAX_DEPARTED", 8),
    ):
        workers, now_ns = Workers(), 0
        size = len(data) - len(data) % _HELLO.size
        for name, incarnation, previous, what, ms in _HELLO.iter_unpack(data[:size]):
            now_ns += ms * 1_000_000
            if what == 0:
                bye(workers, incarnation)
            elif what == 1:
                sent(workers, now_ns)
                assert set(received(workers).workers) == set(workers.present)
            else:
                for event in workers.receive(
                    hello(incarnation, f"w{name}", previous=previous), now_ns
                ):
                    here = event.worker in workers.present.values()
                    assert here is isinstance(event, WorkerJoined)
            names = [worker.hello.worker_id for worker in workers.present.values()]
            assert len(names) == len(set(names)) <= 5
            assert len(workers.refused) <= 4
        assert set(received(workers).workers) == set(workers.present)


def test_with_groups_each_worker_with_users_has_users_of_each() -> None:
    assert split_groups((5, 3), {1: 10, 2: 10}) == [{1: 3, 2: 2}, {1: 1, 2: 2}]
    assert split_groups((9, 1), {1: 4, 2: 8}) == [{2: 7}, {2: 1}], "what is above is not assigned"
    assert split_groups((2, 2), {1: 1, 2: 1}) == [{}, {}]
    (few, many) = split_groups((2, 30), dict.fromkeys(range(4), 10))
    assert few.keys() == many.keys()
    assert set(few.values()) == {1}


def test_a_repeated_hello_is_handled_once_a_second() -> None:
    workers = Workers()
    newcomers = 0
    for number in range(1, 10_000):
        workers.receive(hello(number, previous=number - 1), number * SECOND_NS // 1000)
        newcomers += number in workers.present
        bye(workers, number)
    assert 10 < newcomers < 40


def test_a_worker_has_users_once_it_answers_a_control_state() -> None:
    workers = Workers()
    worker = registered(workers, 1)
    assert worker.concurrency == 0
    answer(workers, 1)
    assert worker.concurrency == 4


def test_newcomers_have_a_limited_rate_in_all() -> None:
    """A thousand a second, each with a name of its own and gone at once."""
    assert (MAX_WORKERS, MAX_NAMES, MAX_REFUSED) == (2048, 16384, 256)
    workers, joined = Workers(), 0
    for ms in range(1, 10_001):
        workers.receive(hello(ms, f"x{ms}"), ms * MS)
        joined += ms in workers.present
        bye(workers, ms)
    assert 2048 <= joined <= 2048 + 20 * 10


def test_a_silent_rejected_worker_is_forgotten() -> None:
    workers = Workers()
    registered(workers, 1)
    workers.receive(hello(2), SECOND_NS)
    workers.receive(hello(2), 2 * SECOND_NS)
    answer(workers, 1, at_ns=8 * SECOND_NS)
    workers.receive(hello(3), 9 * SECOND_NS)
    for now_ns, left in [(12 * SECOND_NS, {2, 3}), (13 * SECOND_NS, {3}), (20 * SECOND_NS, set())]:
        answer(workers, 1, at_ns=now_ns)
        assert workers.refused.keys() == left


def test_a_worker_that_was_here_comes_back_through_a_flood_of_hellos() -> None:
    workers = Workers()
    registered(workers, 1, "w")
    for number in range(2, 4000):
        workers.receive(hello(number, f"x{number}"), 0)
    workers.receive(hello(5000, "w", previous=1), 0)
    assert 5000 in workers.present


def test_a_worker_is_replaced_only_by_one_that_has_its_secret() -> None:
    """Control states show its incarnation to all others."""
    workers = Workers()
    workers.receive(hello(1, "a")._replace(secret=b"a" * 16), 0)
    workers.receive(hello(2, "b", previous=1)._replace(secret=b"b" * 16), 0)
    assert set(workers.present) == {1, 2}
    workers.receive(hello(3, "a", previous=1)._replace(secret=b"a" * 16), 0)
    assert set(workers.present) == {2, 3}


def test_only_the_expiry_of_the_newest_token_asks_for_a_login() -> None:
    workers = Workers(StorageSettings(credentials=(Credentials(2, None, {}),)))
    registered(workers, 1)
    workers.receive(Expired(1, 1), 0)
    assert not workers.renewal_wanted
    workers.receive(Expired(1, 2), 0)
    assert workers.renewal_wanted
