from __future__ import annotations

from pathlib import Path

from benchmarks.bench.start import first_operation_at
from ssbench.core.model import Phase
from ssbench.core.records import PhaseRecord
from tests.statfile.samples import FOOTER, HEADER, batch, result, write_run


def test_the_first_operation_is_the_earliest_of_the_run(tmp_path: Path) -> None:
    rows = [result(1, start_ns=500_000_000), result(2, start_ns=250_000_000)]
    path = tmp_path / "run.stat.gz"
    write_run(path, [HEADER, PhaseRecord(Phase.RUN, 100.0, 1), batch(rows), FOOTER])
    assert first_operation_at(path) == 100.25
