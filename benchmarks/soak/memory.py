"""What processes have in memory, second by second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import psutil

from benchmarks.soak.slope import Sample, slope

MB = 1_000_000
TEN_MINUTES_S = 600.0


class Usage(NamedTuple):
    """Bytes. USS, what only this process has, is what would be free without it."""

    rss: int
    pss: int
    uss: int


@dataclass
class Track:
    """One process, and what it used when (wall clock)."""

    name: str
    process: psutil.Process
    samples: list[tuple[float, Usage]] = field(default_factory=list)

    def of(self, kind: str, from_s: float, to_s: float) -> list[Sample]:
        """One of the figures of Usage between two moments."""
        return [(at, getattr(u, kind)) for at, u in self.samples if from_s <= at <= to_s]

    def growth(self, kind: str, from_s: float, to_s: float) -> float | None:
        """Bytes in ten minutes; None where it was watched too shortly."""
        per_s = slope(self.of(kind, from_s, to_s))
        return None if per_s is None else per_s * TEN_MINUTES_S


def save(tracks: Iterable[Track], path: Path) -> None:
    """All samples, as CSV."""
    with path.open("w", encoding="ascii") as file:
        print("process,pid,at,rss,pss,uss", file=file)
        for track in tracks:
            for at, usage in track.samples:
                print(track.name, track.process.pid, f"{at:.1f}", *usage, sep=",", file=file)


class Memory:
    """Samples all processes that it was told of, for as long as they live."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.tracks: list[Track] = []
        self._alive: list[Track] = []
        self._clock = clock

    def watch(self, name: str, pid: int) -> None:
        """From now on."""
        track = Track(name, psutil.Process(pid))
        self.tracks.append(track)
        self._alive.append(track)

    def sample(self) -> None:
        """One sample of each."""
        for track in list(self._alive):
            try:
                info = track.process.memory_full_info()
            except psutil.Error:
                self._alive.remove(track)
                continue
            if info.uss:  # not of one that is ending
                track.samples.append((self._clock(), Usage(info.rss, info.pss, info.uss)))
