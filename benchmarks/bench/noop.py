"""No-op operations per second of a master and three workers, on both cores.

References of the same minutes: the same messages between bare sockets (peers/pushpull.py), and
ssbench 0.3.9, where a Python 2.7 on PATH has it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench.child import ROOT, CommandError, Completed
from benchmarks.bench.cores import CLIENT, TARGET, pinned
from benchmarks.bench.figure import Bound, Figure, at_least, not_run
from benchmarks.bench.ours import port_options
from benchmarks.bench.peers.run import parse

_TIMEOUT_S = 60.0
_RATE = re.compile(r"Average requests per second: *([\d.]+)")
_SOCKETS, _OLD = "bare PUSH and PULL", "ssbench 0.3.9"


class Setting(NamedTuple):
    """Of a run, and the wanted ratios to both references."""

    users: int
    operations: int
    batch: int
    of_sockets: Bound
    of_old: Bound

    @property
    def options(self) -> str:
        return f"-u {self.users} -o {self.operations} --workers 3 --batch-size {self.batch}"


#: Medians of five rounds, nothing else running, twice: 0.121 and 0.145, 0.168 and 0.157, 0.103 and
#: 0.120. The bounds are three quarters of the lower ones. At load averages of 22 to 24 the medians
#: were down to 0.052, 0.083 and 0.039.
SETTINGS = (
    Setting(24, 30_000, 1, at_least(0.09), at_least(5)),
    Setting(24, 30_000, 8, at_least(0.12), at_least(5)),
    Setting(192, 200_000, 64, at_least(0.077), at_least(6)),
)


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    rates = defaultdict[tuple[Setting, str], list[float]](list)
    old = old_program()
    for _ in range(rounds):
        for setting in SETTINGS:
            rates[setting, "ours"].append(measure(setting.options))
            rates[setting, _SOCKETS].append(sockets(setting))
            if old:
                rates[setting, _OLD].append(measure(setting.options, [old]))
    for setting in SETTINGS:
        ours = rates[setting, "ours"]
        yield Figure(
            setting.options, "/s", ours, _SOCKETS, rates[setting, _SOCKETS], setting.of_sockets
        )
        if old:
            yield Figure(setting.options, "/s", ours, _OLD, rates[setting, _OLD], setting.of_old)
        else:
            why = "no python2.7 on PATH has it"
            yield not_run(setting.options, _OLD, setting.of_old, why, optional=True)


def old_program() -> str | None:
    """The ssbench-master of 0.3.9: beside a python2.7 that imports ssbench."""
    python = shutil.which("python2.7")
    if (
        python
        and not subprocess.run([python, "-c", "import ssbench"], capture_output=True).returncode
    ):
        return shutil.which("ssbench-master", path=str(Path(python).parent))
    return None


def sockets(setting: Setting) -> float:
    """Operations/s whose messages bare sockets carry.

    :raises CommandError: it failed.
    """
    module = "benchmarks.bench.peers.pushpull"
    out = _output([sys.executable, "-m", module, str(setting.batch), str(setting.users)])
    return parse(Completed(out, 0, 0)).per_s


def measure(
    options: str, program: Sequence[str] = (sys.executable, str(ROOT / "bin" / "ssbench-master"))
) -> float:
    """Operations/s of one run, from its report.

    :raises CommandError: it failed.
    """
    with tempfile.TemporaryDirectory(prefix="ssbench-bench-") as folder:
        out = _output([
            *program, "-q", "run-scenario", "-f", str(ROOT / "scenarios" / "very_small.scenario"),
            "--noop", "-s", f"{folder}/noop.stat.gz", *map(str, port_options()), *options.split(),
        ])  # fmt: skip
    found = _RATE.search(out)
    if not found:
        raise CommandError(f"run-scenario {options}: no rate in its report: {out}")
    return float(found[1])


def _output(command: Sequence[str]) -> str:
    with pinned(CLIENT, TARGET):
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    if ended.returncode:
        raise CommandError(f"{' '.join(command)}: status {ended.returncode}: {ended.stderr}")
    return ended.stdout
