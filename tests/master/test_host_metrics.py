"""What the master writes of machines and clocks, and when it warns."""

from __future__ import annotations

from collections.abc import Iterator

from ssbench.core.dispatch.workers import WorkerState
from ssbench.core.messages import Hello, Host
from ssbench.core.model import SECOND_NS, Phase
from ssbench.core.records import MASTER, HostRecord, Record
from ssbench.host.live import HostLive, Sample
from ssbench.master.recorder import HostMetricsRecorder

MS = SECOND_NS // 1000


class Live(HostLive):
    """Has the samples that a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.samples: list[Sample] = []

    def take(self) -> Iterator[Sample]:
        while self.samples:
            yield self.samples.pop(0)


class Scene:
    """A log, and a worker whose clock is 10 s ahead."""

    def __init__(self) -> None:
        self.live = Live()
        self.written: list[Record] = []
        self.warnings: list[str] = []
        self.log = HostMetricsRecorder(self.live, self.written.append, self.warnings.append)
        self.worker = WorkerState(3, Hello(7, 0, "w", 4, "h", 1, "1.0"), fresh_ns=0)
        self.worker.offset_ns = 10 * SECOND_NS
        self.worker.round_trip_ns = 2 * MS

    def enter(self) -> None:
        self.log.enter("run1", Phase.RUN, 100 * SECOND_NS)

    def tell(self, at_ns: int) -> None:
        self.log.on_host(self.worker, Host(7, at_ns, "boot", {"cpu_percent": 5.0}), 105 * SECOND_NS)


def test_the_masters_own_seconds_are_written_at_ticks_and_at_the_end() -> None:
    here = Scene()
    here.enter()
    assert here.live.wanted
    here.live.samples.append(Sample(101 * SECOND_NS, "boot", {"cpu_percent": 5.0}))
    here.log.tick()
    here.live.samples.append(Sample(102 * SECOND_NS, "boot", {"cpu_percent": 6.0}))
    here.log.leave()
    assert not here.live.wanted
    assert [(r.worker, r.at_s) for r in here.written if isinstance(r, HostRecord)] == [
        (MASTER, 1.0),
        (MASTER, 2.0),
    ]


def test_each_second_of_a_worker_is_recorded_once_and_none_of_the_future() -> None:
    """A file of a run doesn't grow by what a worker makes up."""
    here = Scene()
    here.enter()
    for _ in range(3):
        for at_s in (112, 112.2, 113, 111, 112, 200, 2**62 / SECOND_NS):
            here.tell(int(at_s * SECOND_NS))
    assert [r.at_s for r in here.written if isinstance(r, HostRecord)] == [2.0, 3.0]
    here.log.leave()
    here.enter()
    here.tell(112 * SECOND_NS)
    assert len(here.written) == 3


def test_late_metrics_belong_to_no_phase() -> None:
    here = Scene()
    here.tell(112 * SECOND_NS)  # none has begun
    here.enter()
    here.tell(109 * SECOND_NS)  # before it began
    here.worker.offset_ns = None
    here.tell(112 * SECOND_NS)  # nobody knows when
    here.log.leave()
    assert here.written == []


def test_the_loops_lag_counts_in_phases_only() -> None:
    here = Scene()
    here.log.late(SECOND_NS)
    assert here.live.lag.take() is None
    here.enter()
    here.log.late(SECOND_NS)
    assert here.live.lag.take() == (1.0, 1.0)
    assert repr(here.log) == "<HostMetricsRecorder RUN 0 workers>"
