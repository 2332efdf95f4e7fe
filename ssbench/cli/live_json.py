"""``--live-json``: the state of a run, for programs, as a JSON object in a line of each second."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from ssbench.core.errors import SsbenchError
from ssbench.core.live import RunProgress
from ssbench.core.model import ErrorKind, Phase
from ssbench.core.observer import SilentObserver
from ssbench.core.operations import row_of

_EVERY_S = 1.0
#: IDLE: containers are made before the workers have jobs.
_NAMES = {phase: phase.name.lower() for phase in Phase} | {Phase.IDLE: "containers"}


class LiveJson(SilentObserver):
    """Writes to a file or a named pipe, and never waits for its reader: a line that a full pipe
    does not take is dropped, and ``dropped`` of the next says so.

    :raises SsbenchError: the file can't be opened; a named pipe needs a reader.
    """

    wants_counts = wants_latencies = True

    def __init__(
        self,
        path: str,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock, self._wall_clock = clock, wall_clock
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o666)
        except OSError as error:
            raise SsbenchError(f"--live-json {path}: can't be written: {error.strerror}") from error
        self._rest = b""  # of a line that was written in part
        self._dropped = 0
        self._failed = False
        self._phase = Phase.IDLE
        self._due_s = 0.0
        self._latest: RunProgress | None = None

    def __enter__(self) -> LiveJson:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._file)

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self._phase, self._latest = phase, None
        self._due_s = self._clock() + _EVERY_S

    def update(self, progress: RunProgress) -> None:
        self._latest = progress
        now_s = self._clock()
        if now_s >= self._due_s:
            self._due_s = max(self._due_s + _EVERY_S, now_s)
            self._write(progress, over=False)

    def end_phase(self) -> None:
        if self._latest is not None:
            self._write(self._latest, over=True)
        self._latest = None

    def _write(self, progress: RunProgress, *, over: bool) -> None:
        if self._failed:
            return
        state = {
            "time_s": round(self._wall_clock(), 3),
            "phase": _NAMES[self._phase],
            "over": over,
            "elapsed_s": round(progress.elapsed_s, 3),
            "remaining_s": _rounded(progress.remaining_s),
            "done": progress.done,
            "total": progress.total,
            "errors": progress.errors,
            "operations_per_s": round(progress.rate, 3),
            "due_per_s": progress.target_rate,
            "p50_s": _rounded(progress.p50_s),
            "p99_s": _rounded(progress.p99_s),
            "workers": progress.workers,
            "users": progress.users,
            "late": progress.late,
            "operations": {
                row_of(number).name: {"count": count, "errors": errors}
                for number, (count, errors) in sorted(progress.operations.items())
            },
            "errors_by_cause": {
                _cause(kind): count for kind, count in sorted(progress.errors_by_cause.items())
            },
            "dropped": self._dropped,
        }
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._file, self._rest) :]
            if self._rest:
                self._dropped += 1
                return
            line = f"{json.dumps(state)}\n".encode("ascii")
            self._rest = line[os.write(self._file, line) :]
        except BlockingIOError:
            self._dropped += 1
        except OSError:  # no reader any more, or no space: the run goes on
            self._failed = True


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 9)


def _cause(kind: int) -> str:
    return ErrorKind(kind).label if kind in set(ErrorKind) else f"error {kind}"
