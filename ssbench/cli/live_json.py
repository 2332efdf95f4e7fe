"""``--live-json``: the state of a run as a JSON object in a line of each second."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from ssbench.cli.live_state import StateObserver
from ssbench.core.errors import SsbenchError


class LiveJson(StateObserver):
    """Writes to a file or a named pipe, and never waits for its reader: a line that a full pipe
    does not take is dropped, and ``dropped`` of the next says so.

    :raises SsbenchError: the file can't be opened; a named pipe needs a reader.
    """

    def __init__(
        self,
        path: str,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(clock, wall_clock)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o666)
        except OSError as error:
            raise SsbenchError(f"--live-json {path}: can't be written: {error.strerror}") from error
        self._rest = b""  # of a line that was written in part
        self._dropped = 0
        self._failed = False

    def __enter__(self) -> LiveJson:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._file)

    def write(self, state: Mapping[str, Any]) -> None:
        if self._failed:
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
        except OSError:  # no reader any more, or no space: the run goes on
            self._failed = True
