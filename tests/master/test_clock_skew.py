"""What the master makes of its workers' clocks: corrections, their bounds, warnings."""

from __future__ import annotations

import struct
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from ssbench.core.dispatch.workers import Workers, WorkerState
from ssbench.core.errors import MessageError
from ssbench.core.messages import ControlState, Heartbeat, Hello, Ready, decode, encode
from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.records import ClockRecord, Record
from ssbench.master.recorder import HostMetricsRecorder
from ssbench.statfile.format import encode_record

MS = SECOND_NS // 1000
RUN = "run1"


class Scene:
    """A master and a worker whose clocks are apart, and a network with ways of any length."""

    def __init__(self, apart_ns: int = 0, wall_apart_ns: int = 0) -> None:
        self.apart_ns, self.wall_apart_ns = apart_ns, wall_apart_ns
        self.workers = Workers()
        self.records: list[Record] = []
        self.warnings: list[str] = []
        self.clocks = HostMetricsRecorder(None, self.records.append, self.warnings.append)
        self.workers.receive(Hello(1, 0, "w", 4, "host", 4711, "1.0"), 0)
        self.worker: WorkerState = self.workers.present[1]

    def control_state(self, at_ns: int) -> ControlState:
        state = self.workers.control_state(at_ns, at_once=True)
        assert state is not None
        return state

    def heartbeat(self, at_ns: int, there_ns: int, back_ns: int) -> None:
        """A control state and its heartbeat; the wall clocks were set an hour after the monotonic
        ones."""
        serial = self.control_state(at_ns).serial
        worker_ns = at_ns + there_ns + self.apart_ns
        hour_ns = 3600 * SECOND_NS
        worker_wall_ns = at_ns + there_ns + hour_ns + self.wall_apart_ns
        back_at_ns = at_ns + there_ns + back_ns
        heartbeat = Heartbeat(1, serial, worker_ns, 0, 0, 0, 0, worker_wall_ns)
        self.workers.heartbeat(heartbeat, back_at_ns, back_at_ns + hour_ns)

    def begin(self, start_ns: int) -> None:
        """The worker takes the phase's start by what the master knows now."""
        self.clocks.enter(RUN, Phase.RUN, start_ns)
        assert self.worker.offset_ns is not None
        self.worker.origin_ns = start_ns + self.worker.offset_ns
        self.worker.ready = (RUN, Phase.RUN, False)


ways = st.integers(0, 200 * MS)


@given(st.integers(-(10**15), 10**15), st.lists(st.tuples(ways, ways), min_size=1, max_size=20))
def test_corrected_offsets_err_by_half_the_smallest_round_trip(
    apart_ns: int, trips: list[tuple[int, int]]
) -> None:
    here = Scene(apart_ns)
    here.heartbeat(0, *trips[0])
    here.begin(SECOND_NS)
    for number, trip in enumerate(trips[1:], 2):
        here.heartbeat(number * SECOND_NS, *trip)
    here.clocks.check_clock(here.worker)
    (record,) = here.records
    assert isinstance(record, ClockRecord)
    # A result of the worker at 5 s of the master's clock, as it counts, and corrected.
    origin_ns = here.worker.origin_ns
    assert origin_ns is not None
    reported_ns = 5 * SECOND_NS + apart_ns - origin_ns
    error_ns = reported_ns + record.shift_ns - 4 * SECOND_NS
    assert abs(error_ns) <= record.uncertainty_ns + 1
    # Round trips grow by 1 % with each heartbeat, so it may exceed the smallest by as much.
    smallest_ns = min(there + back for there, back in trips)
    assert record.uncertainty_ns <= smallest_ns * 1.01 ** len(trips) / 2 + len(trips)


def test_a_large_difference_of_wall_clocks_gives_one_warning() -> None:
    here = Scene(apart_ns=-5 * SECOND_NS, wall_apart_ns=1300 * MS)
    here.clocks.check_clock(here.worker)
    assert here.warnings == [], "nothing is known yet"
    here.heartbeat(0, MS, MS)
    assert here.worker.wall_offset_ns == 1300 * MS
    for _ in range(2):
        here.clocks.check_clock(here.worker)
    (said,) = here.warnings
    assert said.startswith(
        "The clock of worker w (host, pid 4711) is 1.3 s ahead of the master's: the report"
        " uses the master's time"
    )
    behind = Scene(wall_apart_ns=-7200 * SECOND_NS)
    behind.heartbeat(0, MS, MS)
    behind.clocks.check_clock(behind.worker)
    assert "is 120 minutes behind the master's" in behind.warnings[0]


# Hostile clocks -------------------------------------------------------------------------

_HEARTBEAT = struct.Struct("<qqqq")  # origin, monotonic clock, time held, wall clock
_EDGES = [(1 << 62) - 1, -(1 << 62) + 1, 0, 1, 1_700_000_000 * SECOND_NS]
CLOCKS = [
    b"".join(_HEARTBEAT.pack(a, b, max(a, 0), c) for c in _EDGES) for a in _EDGES for b in _EDGES
] + [_HEARTBEAT.pack(0, 1 << 61, 0, -(1 << 62) + 1) * 300]


def reckoned(data: bytes) -> None:
    """Invariant: whatever clocks a worker's messages carry, control states can be sent and read,
    and records of the clocks can be written."""
    here = Scene()
    here.clocks.enter(RUN, Phase.RUN, SECOND_NS)
    size, number = len(data) - len(data) % _HEARTBEAT.size, 0
    for number, (origin, clock, held, wall) in enumerate(_HEARTBEAT.iter_unpack(data[:size]), 1):
        now_ns = number * SECOND_NS
        state = decode(encode(here.control_state(now_ns)))
        assert isinstance(state, ControlState)
        heartbeat = Heartbeat(1, state.serial, clock, held, 0, 0, 0, wall)
        messages = [Ready(1, RUN, Phase.RUN, False, origin), heartbeat]
        for message in messages:
            with suppress(MessageError):
                _heard(here, decode(encode(message)), now_ns)
        here.clocks.check_clock(here.worker)
        assert all(map(encode_record, here.records))
        here.records.clear()
    assert decode(encode(here.control_state((number + 1) * SECOND_NS)))


def _heard(here: Scene, message: object, now_ns: int) -> None:
    if isinstance(message, Ready):
        here.worker.origin_ns, here.worker.ready = message.origin_ns, (RUN, Phase.RUN, False)
    elif isinstance(message, Heartbeat):
        here.workers.heartbeat(
            message, now_ns + SECOND_NS // 10, 1_700_000_000 * SECOND_NS + now_ns
        )
