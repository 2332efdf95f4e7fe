"""Runs rows of ssbench at size and prints a table; exit status 1 where a row has a fault.

    python -m benchmarks.scale                      the big rows (`make scale`)
    python -m benchmarks.scale --workers 1,4,16,64 --users 8,200,2000 --operations 100000

Given lists, every worker count runs with every user count. A fault is: an operation that failed,
was lost though no worker was killed, or isn't accounted for on both sides; a bound of memory that
is missed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

from benchmarks.scale.rows import Outcome, Row, run

#: What "big" means: the rows of `make scale`.
BIG = (
    Row(workers=256, users=20_000, operations=1_000_000),
    Row(workers=256, users=20_011, operations=200_000, batch_size=1),
    Row(workers=256, users=20_000, operations=200_000, pause_s=1.0, keyed=True),
    Row(workers=256, users=20_000, operations=200_000, pause_s=1.0, killed=2),
    Row(workers=8, users=400, operations=1_000_000, objects=10_000_000, memory_mb=600),
    Row(workers=8, users=400, operations=1_000_000, profile=(8, 1, 1, 0), memory_mb=600),
)

Cell = Callable[[Outcome], object]
COLUMNS: tuple[tuple[str, int, Cell], ...] = (
    ("workers", 7, lambda o: o.row.workers),
    ("users", 6, lambda o: o.row.users),
    ("objects", 8, lambda o: o.row.objects),
    ("batch", 5, lambda o: o.row.batch_size or "-"),
    ("sent", 8, lambda o: o.sent),
    ("= done", 8, lambda o: o.done),
    ("+ failed", 8, lambda o: o.failed),
    ("+ lost", 6, lambda o: o.lost),
    ("begun", 8, lambda o: o.begun),
    ("seconds", 7, lambda o: f"{o.seconds:.1f}"),
    ("ops/s", 7, lambda o: f"{o.done / o.seconds:.0f}" if o.seconds else "-"),
    ("master us/op", 12, lambda o: _us_an_operation(o)),
    ("master MB", 9, lambda o: f"{o.peak_mb:.0f}"),
    ("worker MB", 9, lambda o: f"{o.worker_mb:.1f}"),
    ("files", 5, lambda o: o.files),
)


def _us_an_operation(outcome: Outcome) -> str:
    stretch = outcome.stretches.get("run")
    return f"{stretch.cpu_s / outcome.done * 1e6:.1f}" if stretch and outcome.done else "-"


def show(outcome: Outcome) -> None:
    """A line of the table, what each stretch took, and the faults."""
    cells = [str(cell(outcome)).rjust(width) for _, width, cell in COLUMNS]
    print(*cells, sep="  ")
    stretches = [
        f"{name} {stretch.seconds:.1f} s, {stretch.memory_mb:.0f} MB, {stretch.cpu_s:.1f} s CPU"
        for name, stretch in outcome.stretches.items()
    ]
    print("         " + "; ".join(stretches))
    for fault in outcome.faults:
        print(f"         FAULT: {fault}")
    sys.stdout.flush()


def run_all(rows: Sequence[Row], keep: Path | None) -> int:
    """The table; gives how many rows have a fault."""
    print(*(name.rjust(width) for name, width, _ in COLUMNS), sep="  ", flush=True)
    bad = 0
    for number, row in enumerate(rows):
        place = Path(tempfile.mkdtemp(prefix="ssbench-scale-", dir=keep))
        outcome = run(row, place)
        show(outcome)
        bad += bool(outcome.faults)
        if outcome.faults:
            print(*(f"         {line}" for line in outcome.words[-20:]), sep="\n")
            print(f"         row {number + 1} left its files in {place}", flush=True)
        elif keep is None:
            shutil.rmtree(place)
    return bad


def main() -> int:
    """Print the table; gives the exit status."""
    rows, keep = _options()
    return 1 if run_all(rows, keep) else 0


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _options() -> tuple[Sequence[Row], Path | None]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=_numbers, help="how many, or a list of counts")
    parser.add_argument("--users", type=_numbers, default=[200], help="the same [default: 200]")
    parser.add_argument("--operations", type=int, default=100_000, help="[default: 100000]")
    parser.add_argument("--objects", type=int, default=100, help="initial ones [default: 100]")
    parser.add_argument("--batch-size", type=int, default=0, help="[default: the master's]")
    parser.add_argument("--profile", type=_numbers, default=[1, 6, 2, 1], help="C,R,U,D")
    parser.add_argument("--processes", type=int, default=8, help="for the workers [default: 8]")
    parser.add_argument("--pause", type=float, default=0.0, help="what an operation takes, s")
    parser.add_argument("--keyed", action="store_true", help="encrypt all traffic")
    parser.add_argument("--killed", type=int, default=0, help="processes to kill in mid-run")
    parser.add_argument("--memory", type=float, default=0.0, help="the master's bound in MB")
    parser.add_argument("--timeout", type=float, default=900.0, help="of a row, s [default: 900]")
    parser.add_argument("--keep", type=Path, help="a folder where files of all rows stay")
    chosen = parser.parse_args()
    if chosen.workers is None:
        return BIG, chosen.keep
    rows = [
        Row(
            workers,
            users,
            chosen.operations,
            objects=chosen.objects,
            batch_size=chosen.batch_size,
            profile=tuple(chosen.profile),
            processes=min(chosen.processes, workers),
            pause_s=chosen.pause,
            keyed=chosen.keyed,
            killed=chosen.killed,
            memory_mb=chosen.memory,
            timeout_s=chosen.timeout,
        )
        for workers, users in product(chosen.workers, chosen.users)
    ]
    return rows, chosen.keep


if __name__ == "__main__":
    sys.exit(main())
