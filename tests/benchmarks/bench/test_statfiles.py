from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bench import statfiles
from benchmarks.bench.statfiles import Shape
from ssbench.core.records import ResultBatch
from ssbench.runner.results import read_stats
from ssbench.statfile import read


@pytest.mark.parametrize("rate", [None, 5_000.0])
def test_a_generated_file_has_the_requested_operations(
    rate: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statfiles, "_UNIT", 100)
    path = tmp_path / "made.stat.gz"
    statfiles.write(path, Shape(300, rows=8, rate=rate))
    stats = read_stats(str(path))
    assert stats.run.complete
    assert stats.unaccounted == 0
    assert stats.total().operations == 300
    assert bool(stats.total().response.histogram.count) == bool(rate)
    with read(path) as records:
        batches = [record for record in records if isinstance(record, ResultBatch)]
    ids = [each for batch in batches for each in batch.column("transaction_id")]
    numbers = [each for batch in batches for each in batch.column("number")]
    assert len(set(ids)) == 300
    assert sorted(numbers) == list(range(1, 301))
    assert max(batch.count for batch in batches) == 8
