"""Observers of a run, and the state they are given: the state of a phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from ssbench.core.model import Phase

if TYPE_CHECKING:
    from ssbench.core.records import RunHeader

#: States of workers that need attention, the gravest first.
ATTENTION = ("gone", "silent", "connecting")


class OperationProgress(NamedTuple):
    """Of one operation; the rate and the percentiles are those of successes in the last seconds."""

    done: int  #: successes
    failed: int
    rate: float = 0.0
    p50_s: float | None = None
    p99_s: float | None = None


class WorkerProgress(NamedTuple):
    """Of one worker."""

    name: str
    #: "connecting", "running", "spare" (no users), "stopped", "silent", "gone" or "metrics only"
    state: str
    users: int
    jobs: int  #: queued or in flight
    cpu_percent: float | None  #: of its process, in per cent of one core; None: unknown


class RunProgress(Struct, frozen=True):
    """The state of a phase."""

    elapsed_s: float  #: since the load began: not while workers connect
    done: int
    total: int | None = None  #: None if the phase ends by time
    errors: int = 0
    rate: float = 0.0  #: operations/s, over the last seconds
    #: Latency percentiles over the last seconds, here and below: of a sample at high rates, and
    #: None if no observer wants counts.
    p50_s: float | None = None
    p99_s: float | None = None
    remaining_s: float | None = None
    workers: int = 0
    users: int = 0
    target_rate: float | None = None  #: target arrival rate in operations/s; None in a closed loop
    late: int = 0  #: operations past their due time that have not started
    rate_missed: bool = False  #: more of an open loop falls due than completes
    #: by the operation's number; {} if no observer wants counts
    operations: Mapping[int, OperationProgress] = {}
    #: ErrorKind -> failed operations; {} if no observer wants it
    errors_by_cause: Mapping[int, int] = {}
    #: HTTP status -> failed operations, of those with ErrorKind.STATUS; {} likewise
    errors_by_status: Mapping[int, int] = {}
    #: number of an object whose upload takes long -> bytes sent so far
    moving: Mapping[int, int] = {}
    bytes_rate: float = 0.0  #: bytes/s, over the last seconds; 0 if no observer wants counts
    response_p50_s: float | None = None  #: response times of an open loop, over the last seconds
    response_p99_s: float | None = None
    #: operations/s and bytes/s of each of the last seconds, oldest first
    history: Sequence[tuple[float, float]] = ()
    workers_seen: Sequence[WorkerProgress] = ()  #: () if no observer wants counts
    #: Latencies of the successes of the phase so far: (operation, size class) -> bucket of
    #: core.progress_tracker -> number. At high rates the numbers are those of a sample, in
    #: proportion. {} if no observer wants counts.
    latencies: Mapping[tuple[int, int], Mapping[int, int]] = {}
    #: Response times likewise, of all operations of an open loop.
    responses: Mapping[int, int] = {}


def by_attention(workers: Sequence[WorkerProgress]) -> list[WorkerProgress]:
    """Those that need attention first."""
    ranks = {state: rank for rank, state in enumerate(ATTENTION)}
    return sorted(workers, key=lambda worker: ranks.get(worker.state, len(ranks)))


class Observer:
    """What may watch a run: a progress display, a live page, a program that uses ssbench.

    Ignores everything; subclasses override what they need.

    Called by the master's loop, which waits meanwhile: return within milliseconds, and raise
    nothing. A run may have any number of observers, also none.
    """

    wants_results = False  #: call ``results``
    #: Fill operations, errors by cause, bytes, latencies and workers in ``RunProgress``.
    wants_counts = False

    def describe_run(self, header: RunHeader) -> None:
        """A run begins, with this header of its stat file."""

    def start_run(self, number: int, name: str) -> None:
        """A run of a series begins; not called for a single run.

        :param number: from 1.
        :param name: what it differs in from the others, such as ``users 8``.
        """

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        """A phase begins.

        :param total: operations that it has; None if it ends by time.
        :param title: what to show instead of the phase's usual name.
        """

    def results(self, columns: Sequence[Sequence[int]]) -> None:
        """A batch of results of the run: columns operation, error, first_byte_ns, last_byte_ns."""

    def update(self, progress: RunProgress) -> None:
        """The state of the phase, about twice a second."""

    def wait_for(self, text: str) -> None:
        """What the master waits for; "" when the wait is over. Called many times per second."""

    def info(self, text: str) -> None:
        """A message on the course of the run that is no warning."""

    def message(self, text: str) -> None:
        """Something that the user should know."""

    def end_phase(self) -> None:
        """The phase is over."""
