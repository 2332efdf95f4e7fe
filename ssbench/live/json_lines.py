"""``--live-json``: the state of a run for programs, once a second and at the end of each phase."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from ssbench.core.errors import SsbenchError
from ssbench.live.watch import LiveState, Sink, state_map


class LiveJson(Sink):
    """Writes to a file or a named pipe, and never waits for its reader: a line that a full pipe
    does not take is dropped, and ``dropped`` of the next says so. Where nothing more can be
    written, the run goes on, and a message at its end says why.

    :param tell: called with that message.
    :raises SsbenchError: the file can't be opened; a named pipe needs a reader.
    """

    def __init__(self, path: str, tell: Callable[[str], None]) -> None:
        self._path, self._tell = path, tell
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            self._file = os.open(path, flags, 0o600)
        except OSError as error:
            raise SsbenchError(f"--live-json {path}: can't be written: {error.strerror}") from error
        self._rest = b""  # of a line that was written in part
        self._dropped = 0
        self._fault: OSError | None = None

    def show(self, state: LiveState) -> None:
        if self._fault is not None or state.progress is None:
            return
        try:
            if self._rest:
                self._rest = self._rest[os.write(self._file, self._rest) :]
            if self._rest:
                self._dropped += 1
                return
            values = {**state_map(state), "dropped": self._dropped}
            line = f"{json.dumps(values)}\n".encode("ascii")
            self._rest = line[os.write(self._file, line) :]
        except BlockingIOError:
            self._dropped += 1
        except OSError as error:
            self._fault = error

    def close(self) -> None:
        os.close(self._file)
        if self._fault and not isinstance(self._fault, BrokenPipeError):  # the reader has ended
            self._tell(f"--live-json {self._path}: is incomplete: {self._fault.strerror}")
