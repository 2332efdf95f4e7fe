"""The records of a run, in the order of a stat file: a header; then, in the order of their arrival,
workers, phases, marks, batches of results and host figures; a footer.

All are frozen structs except the batches, which are columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any

import msgpack
from msgspec import Meta, Struct

from ssbench.core.boundary import typed
from ssbench.core.columns import (
    RESULT_COLUMNS,
    batch_decoder,
    default_column,
    pack_results,
    unpack_named,
)
from ssbench.core.model import Phase

#: Infinities, NaN and huge numbers would spoil sums and times.
Finite = Annotated[float, Meta(ge=-1e18, le=1e18)]
Whole = Annotated[int, Meta(ge=0)]  #: a count
_MOST_DAMAGE = 100  #: lines
MASTER = -1  #: in place of a worker's index
MAX_ITEMS = 16384  #: of one array (msgpack allocates all of them before it reads the first)
MAX_TOTAL_ITEMS = 1 << 20  #: of all arrays and maps of one batch, or object of an old stat file
MAX_RECORD_ITEMS = 1 << 18  #: of all arrays and maps of a record, beside the packed results
_MISSING = object()


class RunHeader(Struct, frozen=True):
    """What is known before the first request."""

    run_id: str
    started_at: Finite  #: wall clock, seconds since 1970
    ssbench_version: str
    scenario_given: Mapping[str, Any]  #: the user's JSON as it was read
    scenario: Mapping[str, Any]  #: Scenario.to_dict(), overrides applied
    overrides: Mapping[str, Any]  #: what the command line changed: key -> value
    seed: int
    driver: str  #: "swift", "noop", ...
    hosts: Mapping[str, Any] = {}  #: facts of the master's machine
    versions: Mapping[str, str] = {}  #: python, gevent, zmq, ...
    verify: bool = False  #: the content of reads was checked
    operations: tuple[Any, ...] = ()  #: Operation.to_map() of each row that the run's process had
    names: Mapping[str, Any] = {}  #: StorageSettings.names of the run
    #: Where the load went: "urls", "region", "bucket", "path" (of a directory), "existing",
    #: CONTAINER[/PREFIX], and "identities", their names; those that the store has. {}: not known,
    #: or no store.
    store: Mapping[str, Any] = {}

    @property
    def unrecorded(self) -> frozenset[str]:
        """What all files of that version lack; of ssbench 0.3.9, as ``statfile.legacy`` reads it:
        the load's marks, containers of objects, the block size, bytes of READs, and when failures
        began."""
        if not self.run_id and self.ssbench_version.startswith("0."):
            return frozenset(
                {"load", "containers", "block size", "bytes read", "starts of failures"}
            )
        return frozenset()


class WorkerRecord(Struct, frozen=True):
    """A worker that took part; ``index`` is what batches of results name it by."""

    index: int
    worker_id: str
    host: str
    pid: int
    concurrency: int  #: most users; 0: a worker that only sends metrics (or a file of 0.3.9)
    version: str


class PhaseRecord(Struct, frozen=True):
    """The start of a phase. Offsets of its results count from ``started_at``."""

    phase: Phase
    started_at: Finite  #: wall clock, seconds since 1970
    users: int


class MarkRecord(Struct, frozen=True):
    """A moment of the run phase: a stage of the load begins, the number of users that run changes
    within a stage, a stage ends before a barrier, or the load ends.

    The first stage begins when the workers are connected, a little after the phase's start.
    """

    at_ns: int  #: offset from the phase's start
    name: str  #: "stage", "users", "pause" or "end"
    stage: Whole = 0  #: index of the stage that begins, goes on, or was the last
    users: Whole = 0  #: that were asked for; "users": that run from now on
    rate: Finite | None = None  #: operations a second; None: a closed loop
    asked: Whole | None = None  #: "users": that were asked for; None: as when the stage began


class ResultBatch(Struct, dict=True):
    """Results of one worker in one phase: packed columns by name, see core.columns.

    Nothing is unpacked or checked until it is used, as statistics unpack many batches at once.
    Malformed columns raise MessageError then.
    """

    phase: Phase
    worker: int
    count: int  #: of results, at least 1
    names: tuple[str, ...]  #: of the columns; unknown ones may be among them
    packed: bytes  #: msgpack of ``[count, column, ...]``
    #: Of merged runs: how much later than theirs the phase that its offsets count from began.
    later_ns: int = 0
    #: Of merged runs: the index among theirs of each storage URL; (): the same.
    urls: tuple[int, ...] = ()

    @classmethod
    def of_rows(cls, phase: Phase, worker: int, rows: Sequence[tuple[Any, ...]]) -> ResultBatch:
        """A batch of rows, as ``core.columns.pack_results`` takes them."""
        packed = pack_results(rows)
        names = tuple(RESULT_COLUMNS)[: len(packed) - 1]
        return cls(phase, worker, len(rows), names, msgpack.packb(packed))

    @cached_property
    def columns(self) -> Mapping[str, Any]:
        """The packed columns; unknown ones are unread."""
        _count, *columns = typed(batch_decoder(self.names).decode, self.packed, "malformed results")
        return dict(zip(self.names, columns, strict=True))

    def column(self, name: str) -> Sequence[Any]:
        """The values of a column, by the name of Result's field; defaults where it is missing."""
        packed = self.columns.get(name, _MISSING)
        if packed is _MISSING:
            packed = default_column(RESULT_COLUMNS[name], self.count)
        return unpack_named(name, packed, self.count)


class HostRecord(Struct, frozen=True):
    """A second's live figures of a machine and process; core.stats.host_metrics names them.

    Figures that the machine does not provide are missing.
    """

    worker: int  #: MASTER: the master's own
    at_s: Finite  #: end of that second: offset from the phase's start, by the master's clock
    figures: Mapping[str, Finite]
    phase: Phase = Phase.RUN
    host: str = ""
    boot_id: str = ""  #: the same for all processes of one machine; "" if unknown


class ClockRecord(Struct, frozen=True):
    """The clocks of a worker by the master's estimate, for the batches of the phase that follow."""

    worker: int
    phase: Phase
    #: To be added to the offsets in that worker's results: by so much its estimate of the phase's
    #: start was too late.
    shift_ns: int
    uncertainty_ns: int  #: error bound of it: half of the smallest round trip
    wall_ns: int | None = None  #: the worker's wall clock minus the master's, as uncertain


class ProfileRecord(Struct, frozen=True):
    """The CpuProfile of a process in the run phase."""

    worker: int  #: MASTER: the master's own
    stacks: Mapping[str, Whole]
    samples: Whole = 0
    overhead_ns: Whole = 0


class EventRecord(Struct, frozen=True):
    """What somebody marked while the run went on, by ``ssbench-master mark`` or on its page."""

    at_s: Finite  #: wall clock of the master, seconds since 1970
    text: str
    who: str = ""  #: name of the user, or "page"


class AddressRecord(Struct, frozen=True):
    """The addresses of the store that a worker's results of a phase number, from 1."""

    worker: int
    phase: Phase
    names: tuple[str, ...]


class RunFooter(Struct, frozen=True):
    """How the run ended. Absent if it was cut off."""

    ended_at: Finite  #: wall clock, seconds since 1970
    ended: str  #: "complete", "interrupted", "failed", "exhausted"
    reason: str  #: one line if ended isn't "complete"
    run_seconds: Finite  #: length of the run phase
    lost: Whole = 0  #: operations lost with their worker, not among the results
    refused: Whole = 0  #: stale or malformed result messages
    late: Whole = 0  #: operations that fell due and were never started (open loop)
    skipped: Mapping[str, Whole] = {}  #: operation name -> count
    workers_lost: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()  #: warnings that were shown during the run
    left_behind: Whole = 0  #: objects of ours that were not deleted, and are or may be in the store
    left_unknown: Whole = 0  #: those of them that were created or deleted with unknown outcome
    #: Operations sent in the run phase, without those that were returned unstarted: the results
    #: and the lost. None: unknown.
    sent: Whole | None = None


class Damage(list[str]):
    """What is missing or unreadable of a file, one line each: the first 100, and that there is
    more."""

    def note(self, fault: str) -> None:
        if len(self) <= _MOST_DAMAGE:
            self.append("and more" if len(self) == _MOST_DAMAGE else fault)


Record = (
    RunHeader
    | WorkerRecord
    | PhaseRecord
    | MarkRecord
    | ClockRecord
    | ResultBatch
    | HostRecord
    | ProfileRecord
    | EventRecord
    | AddressRecord
    | RunFooter
)
