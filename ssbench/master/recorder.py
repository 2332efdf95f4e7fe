"""Where results are recorded, until that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ssbench.core.columns import Schema
from ssbench.core.errors import MessageError, StatFileError
from ssbench.core.model import Phase
from ssbench.core.records import Record


class Recorder(Protocol):
    """Writes records and results: statfile.StatFileWriter."""

    def write(self, record: Record) -> None:
        """Write a record."""

    def append_results(self, phase: Phase, worker: int, schema: Schema, packed: bytes) -> None:
        """Write packed results."""

    def tick(self, now_s: float) -> None:
        """To be called some times a second."""


class SafeRecorder:
    """A Recorder around another one, or around none. After an error of that one nothing more is
    written: ``error`` says why, and the phase must end. A record that can't be encoded is left out.

    :param warn: called with the error, and with the first record that is left out.
    """

    def __init__(self, recorder: Recorder | None, warn: Callable[[str], None]) -> None:
        self._recorder = recorder
        self._warn = warn
        self.error: StatFileError | None = None
        self.left_out = 0  #: records that could not be encoded

    def __repr__(self) -> str:
        return f"<SafeRecorder {self._recorder} {self.error or ''}>"

    def begin(self, recorder: Recorder | None) -> None:
        """Record another run."""
        self._recorder, self.error, self.left_out = recorder, None, 0

    def write(self, record: Record) -> None:
        """Write a record."""
        if self._recorder and not self.error:
            self._try(self._recorder.write, record)

    def append_results(self, phase: Phase, worker: int, schema: Schema, packed: bytes) -> None:
        """Write packed results."""
        if self._recorder and not self.error:
            self._try(self._recorder.append_results, phase, worker, schema, packed)

    def tick(self, now_s: float) -> None:
        """To be called some times a second."""
        if self._recorder and not self.error:
            self._try(self._recorder.tick, now_s)

    def _try(self, write: Callable[..., None], *args: object) -> None:
        try:
            write(*args)
        except MessageError as error:
            self.left_out += 1
            if self.left_out == 1:
                self._warn(f"The stat file lacks {error}; further ones are not reported")
        except StatFileError as error:
            self.error = error
            self._warn(str(error))
