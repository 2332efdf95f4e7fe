from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.soak.memory import MB, Memory, Usage, save, usage

ROLLUP = """\
55a5c8e1b000-7ffd5d9f6000 ---p 00000000 00:00 0                          [rollup]
Rss:               10000 kB
Pss:                8000 kB
Pss_Dirty:          5000 kB
Shared_Clean:       3000 kB
Private_Clean:      2000 kB
Private_Dirty:      5000 kB
Anonymous:          4000 kB
"""


def test_usage_of_a_process() -> None:
    kib = 1024
    assert usage(ROLLUP) == Usage(own=4000 * kib, uss=7000 * kib, pss=8000 * kib, rss=10000 * kib)


def test_an_ending_process_uses_nothing() -> None:
    assert usage("") == Usage(0, 0, 0, 0)


def test_running_processes_are_sampled_until_they_end() -> None:
    memory = Memory(clock=iter(range(100)).__next__)
    memory.watch("us", os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        memory.watch("other", other.pid)
        memory.sample()
    held = mmap.mmap(-1, 20 * MB, mmap.MAP_PRIVATE)  # malloc might have it already
    for page in range(0, len(held), mmap.PAGESIZE):
        held[page] = 1
    memory.sample()
    us, gone = memory.tracks
    grown = us.samples[1][1].own - us.samples[0][1].own
    assert len(held) * 0.8 < grown < len(held) * 1.5
    assert len(gone.samples) == 1


def test_samples_are_kept_as_csv(tmp_path: Path) -> None:
    memory = Memory(clock=lambda: 12.0)
    memory.watch("us", os.getpid())
    memory.sample()
    save(memory.tracks, tmp_path / "memory.csv")
    head, row = (tmp_path / "memory.csv").read_text().splitlines()
    assert head == "process,pid,at,own,uss,pss,rss"
    assert row.startswith(f"us,{os.getpid()},12.0,")
