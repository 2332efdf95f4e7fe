"""Who is here: the master's list of workers, their shares of the users and their clocks.

A pure machine: feed it messages and the time, ask it what the next beat says. Times are
nanoseconds of the master's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ssbench.core.messages import MAX_TEXT, Hello, Pulse, in_reach

SECOND = 1_000_000_000
#: A namesake may take a worker's place when that one's newest answer is older than this.
SILENT_NS = 3 * SECOND
_BEATS_REMEMBERED = 128


@dataclass(slots=True, eq=False)
class Worker:
    """One incarnation of a worker, and how well it is."""

    index: int  #: its number in the stat file
    hello: Hello
    fresh_ns: int  #: when the newest beat that it answered was sent
    users: int = 0  #: its share
    offset_ns: int | None = None  #: its clock minus the master's
    round_trip_ns: int = 0  #: the smallest seen; what the offset was taken from
    wall_offset_ns: int | None = None  #: its wall clock minus the master's; None: not known
    origin_ns: int | None = None  #: what it takes for the phase's start, on its clock
    beat: int = 0  #: serial of the newest beat that it answered
    #: the newest Ready: run, phase, and whether it has stopped there
    ready: tuple[str, int, bool] = ("", 0, False)
    jobs: int = 0  #: what it had by its newest pulse: queued, in flight, not yet reported
    empty_since_ns: int | None = None  #: since when its pulses say that it has none

    @property
    def name(self) -> str:
        """``worker-3 (bench-host-02, pid 4711)``."""
        return f"{self.hello.worker_id} ({self.hello.host}, pid {self.hello.pid})"

    @property
    def uncertainty_ns(self) -> int:
        """How wrong the offsets may be: a beat and its answer may differ in their ways."""
        return self.round_trip_ns // 2


class Roster:
    """The workers that are here, by incarnation."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_ns = int(timeout_s * SECOND)
        self.workers: dict[int, Worker] = {}
        self.refused: dict[int, str] = {}  #: incarnation -> why
        self.users = 0  #: to be shared out
        self.shared = 0  #: of these, how many there are workers for
        self.sharing = 0  #: how many workers have a share
        self.serial = 0  #: of the newest beat
        self._sent_ns: dict[int, int] = {}  # when each remembered beat went out
        self._indices: dict[str, int] = {}
        self._gone: set[int] = set()  # incarnations that don't come back
        self._refused_ns: dict[int, int] = {}  # when each of the refused said hello last

    def __repr__(self) -> str:
        return f"<Roster {len(self.workers)} workers for {self.users} users>"

    @property
    def concurrency(self) -> int:
        """How many users those who are here can be."""
        return sum(worker.hello.concurrency for worker in self.workers.values())

    def beat_sent(self, now_ns: int) -> int:
        """A beat goes out now; gives its serial."""
        self.serial += 1
        self._sent_ns[self.serial] = now_ns
        self._sent_ns.pop(self.serial - _BEATS_REMEMBERED, None)
        self._forget_refused(now_ns)
        return self.serial

    def _forget_refused(self, now_ns: int) -> None:
        """Who is refused says hello once a second. One that died can't say bye, and would be in
        every beat from then on."""
        for incarnation, hello_ns in list(self._refused_ns.items()):
            if now_ns - hello_ns > max(self.timeout_ns, SILENT_NS):
                del self._refused_ns[incarnation]
                self.refused.pop(incarnation, None)

    def greet(self, hello: Hello, now_ns: int) -> tuple[Worker | None, list[Worker]]:
        """A worker said hello.

        Gives the worker if it is new here (None: known already, or refused) and those
        that it replaces: its own earlier incarnation, or a silent one of the same id.
        One that was given up has to come back as another: what it held is accounted for.
        """
        if hello.incarnation in self.workers or hello.incarnation in self._gone:
            return None, []
        namesakes = [
            worker
            for worker in self.workers.values()
            if worker.hello.worker_id == hello.worker_id
            or worker.hello.incarnation == hello.previous
        ]
        for other in namesakes:
            replaced = other.hello.incarnation == hello.previous
            if not replaced and now_ns - other.fresh_ns < SILENT_NS:
                reason = f'the worker id "{hello.worker_id}" is taken by {other.name}'
                # A beat with a longer text would be refused, and by every worker.
                self.refused[hello.incarnation] = reason[:MAX_TEXT]
                self._refused_ns[hello.incarnation] = now_ns
                return None, []
        for other in namesakes:
            del self.workers[other.hello.incarnation]
            self._gone.add(other.hello.incarnation)
        self.refused.pop(hello.incarnation, None)
        index = self._indices.setdefault(hello.worker_id, len(self._indices))
        worker = Worker(index, hello, fresh_ns=now_ns)
        self.workers[hello.incarnation] = worker
        self.share_out()
        return worker, namesakes

    def pulse(self, pulse: Pulse, now_ns: int, wall_ns: int = 0) -> Worker | None:
        """A heartbeat arrived; None where it is nobody's here, or answers no beat, or one again.

        :param wall_ns: the wall clock, now; 0: not known.

        Fresh is judged by the beat that it answers, not by its arrival: an answer that waited
        in a buffer says nothing of now. One whose event loop stands still is not fresh either.
        A beat is answered once: what comes again is nobody's heartbeat. Clocks that no message
        could carry the difference of stay unknown.
        """
        worker = self.workers.get(pulse.incarnation)
        sent_ns = self._sent_ns.get(pulse.beat)
        if worker is None or sent_ns is None or pulse.beat <= worker.beat:
            return None
        worker.beat = pulse.beat
        worker.jobs = pulse.queued + pulse.busy
        if worker.jobs:
            worker.empty_since_ns = None
        elif worker.empty_since_ns is None:
            worker.empty_since_ns = now_ns
        if pulse.hub_idle_ns < self.timeout_ns:
            worker.fresh_ns = max(worker.fresh_ns, sent_ns)
        round_trip_ns = max(now_ns - sent_ns - max(pulse.hold_ns, 0), 0)
        worker.round_trip_ns += worker.round_trip_ns // 100 + 1  # clocks drift: old trips fade
        if worker.offset_ns is None or round_trip_ns < worker.round_trip_ns:
            worker.round_trip_ns = round_trip_ns
            worker.offset_ns = in_reach(pulse.worker_ns - (now_ns - round_trip_ns // 2))
        if pulse.wall_ns and wall_ns and worker.offset_ns is not None:
            # Each side knows exactly how far its two clocks are apart, so this is as good as the
            # offset of the monotonic ones, and notices at once when a wall clock is set.
            apart_ns = (pulse.wall_ns - pulse.worker_ns) - (wall_ns - now_ns)
            worker.wall_offset_ns = in_reach(apart_ns + worker.offset_ns)
        return worker

    def leave(self, incarnation: int) -> Worker | None:
        """A worker is gone, by its own word or ours; None where it wasn't here."""
        self.refused.pop(incarnation, None)
        worker = self.workers.pop(incarnation, None)
        if worker is not None:
            self._gone.add(incarnation)
            self.share_out()
        return worker

    def overdue(self, now_ns: int) -> list[Worker]:
        """Workers without a sign of life for the time-out: to be given up."""
        return [w for w in self.workers.values() if now_ns - w.fresh_ns > self.timeout_ns]

    def share_out(self) -> None:
        """Split the users over the workers in proportion to their concurrency."""
        capacities = {i: worker.hello.concurrency for i, worker in self.workers.items()}
        shares = split(self.users, capacities)
        for incarnation, users in shares.items():
            self.workers[incarnation].users = users
        self.shared = sum(shares.values())
        self.sharing = sum(1 for users in shares.values() if users)

    def shares(self) -> dict[int, tuple[int, int | None]]:
        """What the beat says to each worker: users and clock offset."""
        return {i: (worker.users, worker.offset_ns) for i, worker in self.workers.items()}

    def all_ready(self, run: str, phase: int, *, stopped: bool = False) -> bool:
        """Whether every worker with users is connected for the phase (or has stopped in it)."""
        return all(w.ready == (run, phase, stopped) for w in self.workers.values() if w.users)

    def ready_count(self, run: str, phase: int) -> tuple[int, int]:
        """How many workers with users are connected for the phase, and how many there are."""
        wanted = [w.ready == (run, phase, False) for w in self.workers.values() if w.users]
        return sum(wanted), len(wanted)


def split(users: int, capacities: Mapping[int, int]) -> dict[int, int]:
    """Share ``users`` out in proportion to the capacities, and never above one of them.

    By largest remainder, so that shares of equal workers differ by one at most; what is above
    the sum of the capacities stays unshared.
    """
    total = sum(capacities.values())
    users = min(users, total)
    if not users:
        return dict.fromkeys(capacities, 0)
    shares = {key: users * capacity // total for key, capacity in capacities.items()}
    left = users - sum(shares.values())
    for key in _by_remainder(users, total, capacities)[:left]:
        shares[key] += 1
    return shares


def _by_remainder(users: int, total: int, capacities: Mapping[int, int]) -> list[int]:
    keys: Iterable[int] = capacities
    return sorted(keys, key=lambda key: -(users * capacities[key] % total))
