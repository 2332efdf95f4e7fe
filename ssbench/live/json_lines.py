"""The state of a run for programs, once a second and at the end of each phase; ``--live-json``."""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ssbench.core.errors import SsbenchError
from ssbench.core.live import Observer, RunProgress
from ssbench.core.model import Phase, error_label
from ssbench.core.operations import row_of
from ssbench.live.console import tell

_EVERY_S = 1.0
#: IDLE: containers are made before the workers have jobs.
PHASES = {phase: phase.name.lower() for phase in Phase} | {Phase.IDLE: "containers"}


class StateObserver(Observer, ABC):
    """A base for observers that pass on states of a run: ``write`` is called with each.

    :param clock: monotonic, seconds.
    :param wall_clock: seconds since 1970.
    """

    wants_counts = True

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock, self._wall_clock = clock, wall_clock
        self._run: tuple[int, str] | None = None  # of a series
        self._phase = Phase.IDLE
        self._due_s = 0.0
        self._latest: RunProgress | None = None

    @abstractmethod
    def write(self, state: Mapping[str, Any]) -> None:
        """Pass on what ``state_of`` gives, without waiting."""

    def start_run(self, number: int, name: str) -> None:
        self._run = number, name

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self._phase, self._latest = phase, None
        self._due_s = self._clock() + _EVERY_S

    def update(self, progress: RunProgress) -> None:
        self._latest = progress
        now_s = self._clock()
        if now_s >= self._due_s:
            self._due_s = max(self._due_s + _EVERY_S, now_s)
            self._pass_on(progress)

    def end_phase(self) -> None:
        if self._latest is not None:
            self._pass_on(self._latest, over=True)
        self._latest = None

    def _pass_on(self, progress: RunProgress, *, over: bool = False) -> None:
        number, name = self._run or (None, None)
        state = state_of(self._wall_clock(), self._phase, progress, over=over)
        self.write({"run": number, "run_name": name, **state})


class LiveJson(StateObserver):
    """Writes to a file or a named pipe, and never waits for its reader: a line that a full pipe
    does not take is dropped, and ``dropped`` of the next says so. Where nothing more can be
    written, the run goes on, and a message at its end says why.

    :raises SsbenchError: the file can't be opened; a named pipe needs a reader.
    """

    def __init__(
        self,
        path: str,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(clock, wall_clock)
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o666)
        except OSError as error:
            raise SsbenchError(f"--live-json {path}: can't be written: {error.strerror}") from error
        self._rest = b""  # of a line that was written in part
        self._dropped = 0
        self._fault: OSError | None = None

    def __enter__(self) -> LiveJson:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._file)
        if self._fault and not isinstance(self._fault, BrokenPipeError):  # the reader has ended
            tell(f"--live-json {self._path}: is incomplete: {self._fault.strerror}")

    def write(self, state: Mapping[str, Any]) -> None:
        if self._fault is not None:
            return
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._file, self._rest) :]
            if self._rest:
                self._dropped += 1
                return
            line = f"{json.dumps({**state, 'dropped': self._dropped})}\n".encode("ascii")
            self._rest = line[os.write(self._file, line) :]
        except BlockingIOError:
            self._dropped += 1
        except OSError as error:
            self._fault = error


def state_of(
    time_s: float, phase: Phase, progress: RunProgress, *, over: bool = False
) -> dict[str, Any]:
    """The state of a phase as JSON values, by the names that docs/reference/programs explains.

    :param time_s: seconds since 1970.
    :param over: whether the phase has ended.
    """
    return {
        "time_s": round(time_s, 3),
        "phase": PHASES[phase],
        "over": over,
        "elapsed_s": round(progress.elapsed_s, 3),
        "remaining_s": None if over else _rounded(progress.remaining_s),
        "done": progress.done,
        "total": progress.total,
        "errors": progress.errors,
        "operations_per_s": round(progress.rate, 3),
        "due_per_s": progress.target_rate,
        "bytes_per_s": round(progress.bytes_rate, 3),
        "p50_s": _rounded(progress.p50_s),
        "p99_s": _rounded(progress.p99_s),
        "response_p50_s": _rounded(progress.response_p50_s),
        "response_p99_s": _rounded(progress.response_p99_s),
        "workers": progress.workers,
        "users": progress.users,
        "late": progress.late,
        "rate_missed": progress.rate_missed,
        "operations": {
            row_of(number).name: {
                "count": each.done,
                "errors": each.failed,
                "operations_per_s": round(each.rate, 3),
                "p50_s": _rounded(each.p50_s),
                "p99_s": _rounded(each.p99_s),
            }
            for number, each in sorted(progress.operations.items())
        },
        "errors_by_cause": {
            error_label(kind): count for kind, count in sorted(progress.errors_by_cause.items())
        },
        "errors_by_status": {
            str(status): count for status, count in sorted(progress.errors_by_status.items())
        },
        "workers_by_state": dict(Counter(each.state for each in progress.workers_seen)),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 9)
