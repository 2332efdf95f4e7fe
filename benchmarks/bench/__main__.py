"""Measures ssbench beside references that run in the same minutes (`make bench`).

    python -m benchmarks.bench [ROW...] [--rounds 5] [--record]

Prints a table in Markdown: medians of interleaved runs with their spread, the ratio of the
medians, and the bound that it has to keep. Exit status 0: all bounds are kept; 1: one is missed;
2: none is, but a reference isn't installed or a row failed, so nothing is proven. What got worse by
more than 10 % against the recorded ratios (recorded.json) is pointed out, without changing the
status: they are of another day, perhaps of another machine.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import cores, table
from benchmarks.bench.child import CommandError
from benchmarks.bench.figure import Figure, at_most, not_run
from benchmarks.nginx import NginxError

#: Each is a module of this package with a ``run(rounds)`` that gives figures.
ROWS = (
    "small",
    "s3",
    "checksums",
    "webdav",
    "file",
    "master",
    "noop",
    "watch",
    "big",
    "tls",
    "reading",
    "start",
    "growth",
)
RECORD = Path(__file__).resolve().parent / "recorded.json"


def main() -> int:
    """Print the table; gives the exit status."""
    chosen = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and on the way out, all is cleared away
    recorded: dict[str, float] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    os.sched_setaffinity(0, {cores.TARGET})
    print(*_about(), *table.head(), sep="\n", flush=True)
    measured: list[tuple[str, Figure]] = []
    for row in chosen.rows or ROWS:
        for figure in _figures(row, chosen.rounds):
            measured.append((row, figure))
            before = recorded.get(table.name(row, figure))
            print(table.line(row, figure, before), flush=True)
    print("", *table.ending(measured, recorded), sep="\n")
    if chosen.record:
        recorded |= table.ratios(measured)
        RECORD.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    return table.status([figure for _, figure in measured])


def _figures(row: str, rounds: int) -> Iterator[Figure]:
    """Those of a row; where it fails, the other rows go on, and no success is claimed."""
    try:
        yield from importlib.import_module(f"benchmarks.bench.{row}").run(rounds)
    except (CommandError, NginxError) as error:
        print(f"{row} failed: {error}", file=sys.stderr, flush=True)
        yield not_run("the rest of the row", "", at_most(1.0), "failed: see above")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bench", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)} [all]")
    parser.add_argument("--rounds", type=int, default=5, help="of each row [default: 5]")
    parser.add_argument("--record", action="store_true", help="write recorded.json anew")
    chosen = parser.parse_args()
    for row in chosen.rows:
        if row not in ROWS:
            parser.error(f"no row {row}; there are {', '.join(ROWS)}")
    return chosen


def _about() -> Iterator[str]:
    few = "" if cores.enough() else "; ONE CORE ONLY: client and target share it"
    yield (
        f"{_processor()}, {os.cpu_count()} cores, Linux {platform.release()}, Python"
        f" {platform.python_version()}, load average {os.getloadavg()[0]:.1f}{few}\n"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
