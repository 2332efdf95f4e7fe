"""What a run keeps, until it can't be kept any more."""

from __future__ import annotations

from collections.abc import Callable

from ssbench.core.errors import MessageError, StatFileError
from ssbench.core.model import Phase
from ssbench.core.records import Record
from ssbench.master.phases import Recorder


class SafeRecorder:
    """A Recorder around another one, or around none. Where that one fails nothing more is written:
    ``error`` says why, and it is for whoever runs the phase to end it in good order. A record that
    can't be encoded is left out, and ends nothing.

    :param warn: told of the failure, and of the first record left out.
    """

    def __init__(self, recorder: Recorder | None, warn: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._warn = warn
        self.error: StatFileError | None = None
        self.left_out = 0  #: records that couldn't be encoded

    def __repr__(self) -> str:
        return f"<SafeRecorder {self._recorder} {self.error or ''}>"

    def begin(self, recorder: Recorder | None) -> None:
        """Keep another run."""
        self._recorder, self.error, self.left_out = recorder, None, 0

    def write(self, record: Record) -> None:
        """Keep a record."""
        if self._recorder and not self.error:
            self._keep(self._recorder.write, record)

    def append_results(self, phase: Phase, worker: int, packed: bytes) -> None:
        """Keep packed results."""
        if self._recorder and not self.error:
            self._keep(self._recorder.append_results, phase, worker, packed)

    def tick(self, now_s: float) -> None:
        """Time passes: a good moment to write."""
        if self._recorder and not self.error:
            self._keep(self._recorder.tick, now_s)

    def _keep(self, write: Callable[..., None], *args: object) -> None:
        try:
            write(*args)
        except MessageError as error:
            self.left_out += 1
            if self.left_out == 1:
                self._warn(f"The stat file lacks {error}; more such records are left out untold")
        except StatFileError as error:
            self.error = error
            self._warn(str(error))
