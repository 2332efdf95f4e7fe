"""CPU time of reports of large stat files beside that of `zcat FILE | wc -c`; their memory, and the
files' sizes."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench import child, statfiles
from benchmarks.bench.cores import CLIENT
from benchmarks.bench.figure import Bound, Figure, at_most, below
from benchmarks.bench.statfiles import Shape

_LARGE = Shape(10_000_000)
#: Other kinds of files, with a tenth of the operations.
_OTHERS = {
    "batches of 8": Shape(1_000_000, rows=8),
    "open loop": Shape(1_000_000, rate=10_000),
    "with a cool-down": Shape(1_000_000, cooldown_s=10),
}
_MOST_ROUNDS = 3  #: a report of the large file takes seconds
_MEMORY_MB, _BYTES = 400.0, 40.0
_LARGE_BOUND, _OTHER_BOUND = at_most(2.5), at_most(4.0)
_WORDS = "report of {:,} operations"


class _Read(NamedTuple):
    ours_s: list[float]
    zcat_s: list[float]
    memory_mb: list[float]
    bytes_each: float


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    words = _WORDS.format(_LARGE.operations)
    large = _read(_LARGE, min(rounds, _MOST_ROUNDS))
    yield _times(words, large, _LARGE_BOUND)
    yield below(f"{words}, memory", "MB", large.memory_mb, _MEMORY_MB)
    yield below("file, an operation", "bytes", [large.bytes_each], _BYTES)
    for name, shape in _OTHERS.items():
        other = _read(shape, min(rounds, _MOST_ROUNDS))
        yield _times(f"{_WORDS.format(shape.operations)}, {name}", other, _OTHER_BOUND)
        yield below(f"file, an operation, {name}", "bytes", [other.bytes_each], _BYTES)


def _times(words: str, read: _Read, bound: Bound) -> Figure:
    return Figure(words, "s of CPU", read.ours_s, "zcat FILE | wc -c", read.zcat_s, bound)


def _read(shape: Shape, rounds: int) -> _Read:
    found = _Read([], [], [], 0.0)
    with tempfile.TemporaryDirectory(prefix="ssbench-reading-") as folder:
        path = Path(folder) / "large.stat.gz"
        statfiles.write(path, shape)
        command = [sys.executable, "-m", "ssbench.cli.master", "report-scenario", "-s", path]
        for _ in range(rounds):
            made = child.run(command, CLIENT)
            found.ours_s.append(made.cpu_s)
            found.memory_mb.append(made.memory_mb)
            read = child.run(["sh", "-c", f"zcat '{path}' | wc -c"], CLIENT)
            found.zcat_s.append(read.cpu_s)
        return found._replace(bytes_each=path.stat().st_size / shape.operations)
