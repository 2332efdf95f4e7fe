"""Profiles of a process that no run records: of a report, and of ``ssbench-worker -p``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ssbench.cli.console import tell
from ssbench.core.cpu_profile import CpuProfile, collapsed, hot_functions
from ssbench.core.text import plural
from ssbench.host.files import new_file
from ssbench.host.sampler import StackSampler

HOTTEST = 10


@contextmanager
def profiled(wanted: bool, what: str) -> Iterator[None]:
    """Sample the block, then say which functions took most CPU time."""
    sampler = StackSampler()
    if wanted:
        sampler.start()
    try:
        yield
    finally:
        profile = sampler.stop()
        if wanted:
            tell_profile(profile, what)


def tell_profile(profile: CpuProfile, what: str) -> None:
    """Write a profile to a new file; say where it is, and which functions are its hottest."""
    fd, path = new_file(f"ssbench-{what}-", ".stacks")
    with open(fd, "w", encoding="utf-8") as file:
        file.writelines(collapsed(what, profile.stacks))
    cpu_ns = sum(profile.stacks.values())
    lines = [
        f"Profile of the {what}: {path} (for speedscope or flamegraph.pl)",
        f"{cpu_ns / 1e9:.2f} s of CPU time in {plural(profile.samples, 'sample')};"
        f" sampling took {profile.overhead_ns / 1e6:.1f} ms more",
    ]
    for each in hot_functions(profile.stacks)[:HOTTEST]:
        lines.append(f"{100 * each.self_ns / cpu_ns:6.1f} %  {each.function}")
    tell("\n".join(lines))
