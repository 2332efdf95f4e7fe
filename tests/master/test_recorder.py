"""What is kept of a run where a record of it can't be; test_master.py has files that fail."""

from __future__ import annotations

from pathlib import Path

from ssbench.core.model import Phase
from ssbench.core.records import ClockRecord, MarkRecord, RunHeader
from ssbench.master.recorder import SafeRecorder
from ssbench.statfile import read
from ssbench.statfile.writer import StatFileWriter

MARK = MarkRecord(0, "stage", 0, 1, None)


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
