"""Samples the memory of processes every second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.soak.slope import Sample, slope

MB = 1_000_000
TEN_MINUTES_S = 600.0


class Usage(NamedTuple):
    """Bytes, of /proc/PID/smaps_rollup.

    What is judged is ``own``: anonymous memory, heaps and stacks. The other three hold pages of
    libraries as well, and move by megabytes when anybody else on the host starts or ends who maps
    the same libraries: such a page is "unique" to the last one who has it.
    """

    own: int
    uss: int
    pss: int
    rss: int


_FIELDS = {
    "Anonymous": "own",
    "Private_Clean": "uss",
    "Private_Dirty": "uss",
    "Pss": "pss",
    "Rss": "rss",
}


def usage(rollup: str) -> Usage:
    """Parse a process's smaps_rollup; all 0 for an ending process."""
    sums = dict.fromkeys(Usage._fields, 0)
    for line in rollup.splitlines():
        name, _, rest = line.partition(":")
        if name in _FIELDS:
            sums[_FIELDS[name]] += int(rest.split()[0]) * 1024
    return Usage(**sums)


@dataclass
class Track:
    """Samples of one process, by wall-clock time."""

    name: str
    pid: int
    samples: list[tuple[float, Usage]] = field(default_factory=list)

    def of(self, kind: str, from_s: float, to_s: float) -> list[Sample]:
        """One field of Usage, between two times."""
        return [(at, getattr(u, kind)) for at, u in self.samples if from_s <= at <= to_s]

    def growth(self, kind: str, from_s: float, to_s: float) -> float | None:
        """Growth in bytes per ten minutes; None if there are too few samples."""
        per_s = slope(self.of(kind, from_s, to_s))
        return None if per_s is None else per_s * TEN_MINUTES_S


def save(tracks: Iterable[Track], path: Path) -> None:
    """All samples, as CSV."""
    with path.open("w", encoding="ascii") as file:
        print("process", "pid", "at", *Usage._fields, sep=",", file=file)
        for track in tracks:
            for at, usage in track.samples:
                print(track.name, track.pid, f"{at:.1f}", *usage, sep=",", file=file)


class Memory:
    """Samples all added processes until they end."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.tracks: list[Track] = []
        self._alive: list[Track] = []
        self._clock = clock

    def watch(self, name: str, pid: int) -> None:
        """Start sampling this process."""
        track = Track(name, pid)
        self.tracks.append(track)
        self._alive.append(track)

    def sample(self) -> None:
        """Take one sample of each."""
        for track in list(self._alive):
            try:
                now = usage(Path(f"/proc/{track.pid}/smaps_rollup").read_text(encoding="ascii"))
            except OSError:
                self._alive.remove(track)
                continue
            if now.own:
                track.samples.append((self._clock(), now))
