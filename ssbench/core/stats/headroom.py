"""Whether the load generator was the bottleneck of a run, by the metrics of its hosts.

An event loop that uses a whole core, or would if it got one, is at its limit, and measures itself.
Each worker and the master are judged second by second, without warm-ups and cool-down.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from math import isnan
from statistics import fmean
from typing import TYPE_CHECKING

from msgspec import Struct

from ssbench.core.model import Phase
from ssbench.core.records import HostRecord
from ssbench.core.stats.budget import Budget
from ssbench.core.stats.host_metrics import (
    OF_HOST,
    HostKey,
    HostSeconds,
    HostSeries,
    HostUse,
    MeanMax,
)
from ssbench.core.text import plural

if TYPE_CHECKING:
    from ssbench.core.stats.run_records import RunRecords

#: Of a core that a loop uses, or would use if it got one. Above it, work waits several times longer
#: than it takes.
FULL_PERCENT = 85.0
_FULL_NETWORK_PERCENT = 90.0  #: of an interface's speed
#: Of a second in which the loop was runnable but had no core: every operation waits with it.
_WAITING_PERCENT = 25.0
_LATE_S = 0.01  #: mean lateness of a loop's timers
_SHORT_PERCENT = 5.0  #: of memory that is available
_OTHERS_PERCENT = 50.0  #: of all cores, used by other processes
MOST_OF_THE_TIME = 0.5
#: The metrics by which a process is judged.
_OF_PROCESS = (
    "loop_cpu_percent", "process_cpu_percent", "loop_waiting_percent", "loop_lag_mean_s",
)  # fmt: skip
_SOME_OF_THE_TIME = 0.05


class Cause(Enum):
    """The resource that was short."""

    CORE = "core"  #: the loop used a whole core
    CORES = "cores"  #: it was runnable, but others used the host's cores
    LATE = "late"  #: it stood still although a core was free
    NETWORK = "network"  #: an interface was full
    MEMORY = "memory"  #: little was available


class Headroom(Enum):
    """Whether the load generator could have done more; the values are those of JSON."""

    UNKNOWN = "unknown"  #: no metrics
    ENOUGH = "room"
    AT_TIMES = "limit at times"  #: a resource was short, for less than half of the time
    NONE = "limit"


class Bottleneck(Enum):
    """Whose limit the throughput of a run was, the gravest first; the values are those of JSON."""

    NO_STORE = "no store"  #: ssbench measured itself
    GENERATOR = "load generator"
    GENERATOR_AT_TIMES = "load generator at times"
    OTHERS = "other processes"  #: they used most of the cores of a host of ssbench
    BEHIND = "rate missed"  #: an open loop fell behind its rate: a slow store, or few users
    UNKNOWN = "unknown"  #: no metrics of the hosts
    RATE = "rate kept"  #: an open loop kept up with its rate
    CLOSED_LOOP = "store or users"


class ProcessId(Struct, frozen=True):
    """A worker or the master."""

    worker_id: str  #: "" for the master
    host: str


class Shortage(Struct, frozen=True):
    """A resource that was short for some of the time."""

    who: ProcessId
    cause: Cause
    value: float  #: average in these seconds: percent; LATE: seconds
    seconds: int  #: in which it was short
    of_seconds: int  #: that were judged

    @property
    def share(self) -> float:
        return self.seconds / self.of_seconds


class HostLoad(Struct, frozen=True):
    """Use of the cores of a host of master or workers, on average over the seconds that count."""

    host: str
    cpu_percent: float  #: of all cores, by any process
    #: Of all cores, by processes other than master, workers and the temporary store.
    other_percent: float
    waiting_percent: float  #: of the time, for the event loop that waited most for a core

    store_percent: float | None = None  #: of all cores, by the temporary store that ssbench runs

    @property
    def taken(self) -> bool:
        """Whether other processes used most of the cores."""
        return self.cpu_percent >= FULL_PERCENT and self.other_percent >= _OTHERS_PERCENT


class HeadroomVerdict(Struct, frozen=True):
    """The judgement on all processes; None: not measured."""

    headroom: Headroom
    findings: Sequence[Shortage] = ()  #: by share of the time, then by value, the highest first
    busiest: ProcessId | None = None  #: the process whose event loop used most of a core
    busiest_loop_percent: float | None = None  #: of a core, on average
    busiest_core_percent: float | None = None  #: the busiest core of each second, on average
    loop_lag_max_s: float | None = None
    hosts: Sequence[HostLoad] = ()  #: the busiest first
    #: Operations that failed because a worker's host had no descriptor, port or memory left.
    own_failures: int = 0
    workers_gone: bool = False  #: at some time all of them were, so no user ran


class ProcessSeries(Struct, frozen=True):
    """The seconds of one process that count."""

    who: ProcessId
    series: HostSeries
    spans_s: Sequence[tuple[float, float]]

    def values(self, name: str) -> list[float]:
        """One metric in these seconds."""
        return self.series.values(name, self.spans_s)


def judge(
    processes: Sequence[ProcessSeries], own_failures: int = 0, *, workers_gone: bool = False
) -> HeadroomVerdict:
    """The judgement on all processes.

    :param own_failures: operations that failed because their worker's host lacked resources.
    :param workers_gone: at some time all were, for however short: the master may notice late.
    """
    processes = [process for process in processes if _loops(process)]
    failed = own_failures > 0 or workers_gone
    if not processes:
        headroom = Headroom.NONE if failed else Headroom.UNKNOWN
        return HeadroomVerdict(headroom, own_failures=own_failures, workers_gone=workers_gone)
    findings = [finding for process in processes for finding in _of_process(process)]
    findings += [
        finding for process, _all in _machines(processes) for finding in _of_machine(process)
    ]
    findings = [finding for finding in findings if finding.share >= _SOME_OF_THE_TIME]
    findings.sort(key=lambda finding: (-finding.share, -finding.value))
    headroom = Headroom.ENOUGH
    if findings:
        most = findings[0].share >= MOST_OF_THE_TIME
        headroom = Headroom.NONE if most else Headroom.AT_TIMES
    if failed:
        headroom = Headroom.NONE
    means = {process.who: _mean(_loops(process)) for process in processes}
    busiest = max(means, key=lambda who: means[who])
    cores = [_mean(process.values("cpu_busiest_core_percent")) for process in processes]
    lags = [lag for process in processes for lag in process.values("loop_lag_max_s")]
    return HeadroomVerdict(
        headroom, findings, busiest, means[busiest], max(cores) if cores else None,
        max(lags, default=None), _host_loads(processes), own_failures,
        workers_gone,
    )  # fmt: skip


def _loops(process: ProcessSeries) -> list[float]:
    """The loop's share of a core; that of the process if threads can't be distinguished."""
    return process.values("loop_cpu_percent") or process.values("process_cpu_percent")


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _of_process(process: ProcessSeries) -> Iterator[Shortage]:
    seconds = 0
    found: defaultdict[Cause, list[float]] = defaultdict(list)
    for row in process.series.rows(_OF_PROCESS, process.spans_s):
        loop, whole_process, waited_percent, late_s = (
            0.0 if isnan(value) else value for value in row
        )
        seconds += 1
        used_percent = whole_process if isnan(row[0]) else loop
        if waited_percent >= _WAITING_PERCENT:
            found[Cause.CORES].append(waited_percent)
        elif used_percent + waited_percent >= FULL_PERCENT:
            found[Cause.CORE].append(used_percent)
        elif late_s >= _LATE_S:
            found[Cause.LATE].append(late_s)
    for cause, values in found.items():
        yield Shortage(process.who, cause, _mean(values), len(values), seconds)


def _of_machine(process: ProcessSeries) -> Iterator[Shortage]:
    rows: Mapping[Cause, tuple[str, float, float]] = {
        Cause.NETWORK: ("network_busiest_percent", _FULL_NETWORK_PERCENT, float("inf")),
        Cause.MEMORY: ("memory_available_percent", 0.0, _SHORT_PERCENT),
    }
    for cause, (name, low, high) in rows.items():
        known = process.values(name)
        values = [value for value in known if low <= value < high]
        if values:
            yield Shortage(process.who, cause, _mean(values), len(values), len(known))


def _machines(
    processes: Sequence[ProcessSeries],
) -> Iterator[tuple[ProcessSeries, list[ProcessSeries]]]:
    """For each host the process with most seconds, and all: each of them reports on the host."""
    machines: defaultdict[str, list[ProcessSeries]] = defaultdict(list)
    for process in processes:
        machines[process.series.boot_id or process.who.host].append(process)
    for of_machine in machines.values():
        yield max(of_machine, key=lambda process: len(_loops(process))), of_machine


def _host_loads(processes: Sequence[ProcessSeries]) -> list[HostLoad]:
    """The load of each host with metrics of its cores, the busiest first."""
    found = []
    for speaker, of_machine in _machines(processes):
        busy, cores = speaker.values("cpu_percent"), speaker.values("cores")
        if busy and cores:
            busy_percent = fmean(busy)
            ours = sum(_mean(process.values("process_cpu_percent")) for process in of_machine)
            waiting = max(_mean(process.values("loop_waiting_percent")) for process in of_machine)
            stores = [values for p in of_machine if (values := p.values("store_cpu_percent"))]
            of_store = sum(map(_mean, stores)) / max(cores) if stores else None
            others = max(busy_percent - ours / max(cores) - (of_store or 0.0), 0.0)
            found.append(HostLoad(speaker.who.host, busy_percent, others, waiting, of_store))
    return sorted(found, key=lambda load: -load.cpu_percent)


class Hosts:
    """The metrics of the processes and hosts of a run, in the run phase."""

    def __init__(self, run: RunRecords, budget: Budget) -> None:
        self._run = run
        self._budget = budget
        self._processes: dict[int, HostSeries] = {}  # by the worker's index
        self._machines: dict[HostKey, HostSeries] = {}
        self._seconds = HostSeconds()

    def __repr__(self) -> str:
        return f"<Hosts {len(self._machines)} hosts, {len(self._processes)} processes>"

    def add(self, record: HostRecord) -> None:
        index, host = record.worker, (record.host, record.boot_id)
        if record.phase is Phase.RUN and self._budget.keeps("hosts", (index, record.host)):
            self._processes.setdefault(index, HostSeries()).add(record)
            if self._seconds.is_new(record):
                self._machines.setdefault(host, HostSeries(OF_HOST)).add(record)

    def processes(self, *, of_load: bool = False) -> list[ProcessSeries]:
        """The metrics of the master and of each worker.

        :param of_load: without workers that only send metrics.
        """
        return [
            ProcessSeries(
                # Below 0: a master.
                ProcessId(self._run.worker_id(index) if index >= 0 else "", series.host),
                series,
                self._run.spans_s,
            )
            for index, series in sorted(self._processes.items())
            if not of_load or self._makes_load(index)
        ]

    def machines(self) -> dict[str, HostSeries]:
        """The metrics of each host, by its name."""
        return {key[0] or "host": each for key, each in sorted(self._machines.items())}

    def use(self) -> list[HostUse]:
        """What each host did in the seconds that count, by the hosts' names."""
        processes: defaultdict[HostKey, list[int]] = defaultdict(list)
        for index, of_process in self._processes.items():
            processes[of_process.host, of_process.boot_id].append(index)
        found = []
        for key, series in sorted(self._machines.items()):
            values = {name: series.values(name, self._run.spans_s) for name in OF_HOST}
            figures = {name: MeanMax(fmean(v), max(v)) for name, v in values.items() if v}
            found.append(HostUse(key[0], self._role(processes[key]), figures))
        return found

    def _role(self, here: Sequence[int]) -> str:
        """Which processes ran on a host."""
        workers = [index for index in filter(self._makes_load, here) if index >= 0]
        masters = sum(index < 0 for index in here)
        found = [plural(masters, "master") if masters > 1 else "master"] if masters else []
        found += [plural(len(workers), "worker")] if workers else []
        return ", ".join(found) or "metrics only"

    def _makes_load(self, index: int) -> bool:
        worker = self._run.workers.get(index)
        return worker is None or bool(worker.concurrency)
