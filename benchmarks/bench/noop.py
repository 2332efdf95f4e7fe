"""No-op operations per second of a master and three workers, on both cores.

The reference is ssbench 0.3.9, which needs Python 2 and can't run here: the range of rates that it
reached on a machine with two cores. The ratio is to the highest.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.bench.child import ROOT, CommandError
from benchmarks.bench.cores import CLIENT, TARGET, pinned
from benchmarks.bench.figure import Figure, at_least
from benchmarks.bench.ours import port_options

_TIMEOUT_S = 60.0
_RATE = re.compile(r"Average requests per second: *([\d.]+)")


class Setting(NamedTuple):
    """Options, the range of operations/s of 0.3.9 with them, and the wanted ratio."""

    options: str
    from_per_s: int
    to_per_s: int
    wanted: float


SETTINGS = (
    Setting("-u 24 -o 30000 --workers 3 --batch-size 1", 8_900, 12_200, 5.0),
    Setting("-u 24 -o 30000 --workers 3 --batch-size 8", 19_300, 20_700, 5.0),
    Setting("-u 192 -o 200000 --workers 3 --batch-size 64", 39_000, 49_000, 6.0),
)


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    rates = defaultdict[Setting, list[float]](list)
    for _ in range(rounds):
        for setting in SETTINGS:
            rates[setting].append(measure(setting.options))
    for setting, measured in rates.items():
        reference = f"ssbench 0.3.9, {setting.from_per_s:,} to {setting.to_per_s:,}"
        wanted = at_least(setting.wanted)
        yield Figure(setting.options, "/s", measured, reference, [setting.to_per_s], wanted)


def measure(options: str) -> float:
    """Operations/s of one run, from its report.

    :raises CommandError: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="ssbench-bench-") as folder, pinned(CLIENT, TARGET):
        command = [
            sys.executable, str(ROOT / "bin" / "ssbench-master"), "-q", "run-scenario",
            "-f", "very_small", "--noop", "-s", f"{folder}/noop.stat.gz",
            *map(str, port_options()), *options.split(),
        ]  # fmt: skip
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    found = _RATE.search(ended.stdout)
    if ended.returncode or not found:
        raise CommandError(f"run-scenario {options}: status {ended.returncode}: {ended.stderr}")
    return float(found[1])
