"""Files with O_DIRECT beside fio (psync): the same sizes, block sizes, jobs and file system.

fio opens and closes each file for each operation, as we do. 4 KiB are compared by operations/s,
4 MiB by MB/s. Debian: ``apt-get install fio``.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.bench import ours
from benchmarks.bench.child import ROOT, CommandError
from benchmarks.bench.cores import CLIENT, pinned
from benchmarks.bench.figure import Bound, Figure, at_least, not_run
from benchmarks.bench.ours import Load

_USERS, _SECONDS, _TIMEOUT_S = 4, 3, 60
_NOT_HERE = "not run: apt-get install fio"
_PLACE = ROOT / ".bench"  # on a disk; `make clean` removes what a killed runner left


class _Size(NamedTuple):
    octets: int
    files: int
    unit: str
    bound: Bound

    def rate(self, per_s: float) -> float:
        """Operations/s, or MB/s, of so many operations/s."""
        return per_s if self.unit == "/s" else per_s * self.octets / 1e6


_SIZES = {
    "4 KiB": _Size(4096, 256, "/s", at_least(0.8)),
    "4 MiB": _Size(4 << 20, 16, "MB/s", at_least(0.95)),
}


def run(rounds: int) -> Iterator[Figure]:
    """All figures of the row."""
    for name, size in _SIZES.items():
        title = f"{name} READ, O_DIRECT"
        if shutil.which("fio") is None:
            yield not_run(title, "fio", size.bound, _NOT_HERE)
            continue
        mine, theirs = [], []
        _PLACE.mkdir(exist_ok=True)
        for _ in range(rounds):
            with tempfile.TemporaryDirectory(prefix="ssbench-file-", dir=_PLACE) as folder:
                mine.append(size.rate(_ours(size, Path(folder))))
            with tempfile.TemporaryDirectory(prefix="ssbench-fio-", dir=_PLACE) as folder:
                theirs.append(size.rate(_fio(size, Path(folder))))
        yield Figure(title, size.unit, mine, "fio", theirs, size.bound)


def _ours(size: _Size, folder: Path) -> float:
    """Our operations/s."""
    options = ("--direct", "--io-buffer", size.octets)
    load = Load(
        str(folder), ours.GET, size.octets, _USERS, _SECONDS, size.files,
        options=options, store="file",
    )  # fmt: skip
    return ours.run(load).per_s


def _fio(size: _Size, folder: Path) -> float:
    """fio's operations/s.

    :raises CommandError: it failed.
    """
    command = [
        "fio", "--name=read", f"--directory={folder}", "--ioengine=psync", "--rw=read",
        "--direct=1", f"--bs={size.octets}", f"--filesize={size.octets}",
        f"--nrfiles={size.files // _USERS}", "--openfiles=1", "--file_service_type=roundrobin",
        f"--numjobs={_USERS}", "--thread", "--time_based", f"--runtime={_SECONDS}",
        "--group_reporting", "--output-format=json",
    ]  # fmt: skip
    with pinned(CLIENT):
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S
        )
    if ended.returncode:
        raise CommandError(f"fio: status {ended.returncode}: {ended.stderr.strip()}")
    return float(json.loads(ended.stdout)["jobs"][0]["read"]["iops"])
