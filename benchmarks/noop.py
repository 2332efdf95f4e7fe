"""How many no-op operations a second go through master and workers.

    python benchmarks/noop.py [--runs 5]

The reference is ssbench 0.3.9, which needs Python 2 and can't run beside us: the range of figures
that it reached on a machine of two cores. The ratio is to the top of it. Figures of another
machine are worth nothing next to them. Exit status 1 where a row is below its bound.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

MASTER = Path(__file__).resolve().parent.parent / "bin" / "ssbench-master"


class Row(NamedTuple):
    """A setting, what 0.3.9 did with it (from, to), and how many times that is wanted."""

    options: str
    from_per_s: float
    to_per_s: float
    wanted: float


ROWS = (
    Row("-u 24 -o 30000 --workers 3 --batch-size 1", 8_900, 12_200, 3.0),
    Row("-u 24 -o 30000 --workers 3 --batch-size 8", 19_300, 20_700, 3.0),
    Row("-u 192 -o 200000 --workers 3 --batch-size 64", 39_000, 49_000, 3.0),
)


def measure(options: str) -> float:
    """Operations a second of one run."""
    command = [
        sys.executable, str(MASTER), "-q", "run-scenario", "-f", "very_small", "--noop",
        *options.split(),
    ]  # fmt: skip
    report = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r"Average requests per second: *([\d.]+)", report.stdout)
    if not found:
        raise RuntimeError(f"no rate in the report of {' '.join(command)}")
    return float(found[1])


def main() -> int:
    """Print the table; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each row [default: 5]")
    runs = parser.parse_args().runs
    # The rows in turn, so that all see the same moods of the machine.
    rates: dict[Row, list[float]] = {row: [] for row in ROWS}
    for _ in range(runs):
        for row in ROWS:
            rates[row].append(measure(row.options))
    print(f"{'no-op, operations a second':<46} {'min':>8} {'median':>8} {'max':>8}  ratio  wanted")
    missed = 0
    for row, values in rates.items():
        median = statistics.median(values)
        ratio = median / row.to_per_s
        missed += ratio < row.wanted
        print(
            f"{row.options:<46} {min(values):>8.0f} {median:>8.0f} {max(values):>8.0f}"
            f"  {ratio:>5.2f}  {row.wanted:>6.2f}{'' if ratio >= row.wanted else '  MISSED'}"
            f"  (0.3.9: {row.from_per_s} to {row.to_per_s})"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
