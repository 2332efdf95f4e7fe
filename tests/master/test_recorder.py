"""What is kept of a run, and what becomes of it where it can't be kept."""

from __future__ import annotations

from pathlib import Path

from ssbench.core.columns import RESULT_SCHEMAS, Schema
from ssbench.core.errors import StatFileError
from ssbench.core.model import Phase
from ssbench.core.records import ClockRecord, MarkRecord, Record, RunHeader
from ssbench.master.recorder import SafeRecorder
from ssbench.statfile import read
from ssbench.statfile.writer import StatFileWriter

MARK = MarkRecord(0, "stage", 0, 1, None)


class Disk:
    """A recorder that holds so many things."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.kept: list[object] = []

    def _keep(self, what: object) -> None:
        if len(self.kept) == self.room:
            raise StatFileError("run.stat.gz: no space left on device")
        self.kept.append(what)

    def write(self, record: Record) -> None:
        self._keep(record)

    def append_results(self, phase: Phase, worker: int, schema: Schema, packed: bytes) -> None:
        self._keep((phase, worker, packed))

    def tick(self, now_s: float) -> None:
        self._keep(now_s)


def keep_one_of_each(recorder: SafeRecorder) -> None:
    recorder.write(MARK)
    recorder.append_results(Phase.RUN, 3, RESULT_SCHEMAS[0], b"packed")
    recorder.tick(1.5)


def test_after_a_failure_nothing_more_is_written_and_one_warning_is_shown() -> None:
    for room in range(3):
        disk, said = Disk(room), list[str]()
        recorder = SafeRecorder(disk, said.append)
        keep_one_of_each(recorder)
        disk.room = 9
        keep_one_of_each(recorder)
        assert len(disk.kept) == room
        assert said == [str(recorder.error)] == ["run.stat.gz: no space left on device"]


def test_a_record_that_cannot_be_written_is_left_out_and_ends_nothing(tmp_path: Path) -> None:
    said = list[str]()
    with StatFileWriter.create(tmp_path / "stat.gz") as writer:
        recorder = SafeRecorder(writer, said.append)
        recorder.write(RunHeader("r", 1.0, "1", {}, {}, {}, 1, "noop"))
        for _ in range(3):
            recorder.write(ClockRecord(0, Phase.RUN, 1 << 70, 0))
        recorder.write(MARK)
    assert (recorder.error, recorder.left_out) == (None, 3)
    assert len(said) == 1
    assert "a record that can't be written" in said[0]
    with read(tmp_path / "stat.gz") as records:
        assert [type(record) for record in records] == [RunHeader, MarkRecord]
