"""cProfile files for ``--profile`` and ``-p``, and a text with their ten hottest functions."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ssbench.host.private_files import new_file

if TYPE_CHECKING:
    import cProfile


HOTTEST = 10


@contextmanager
def profiled(wanted: bool, what: str, say: Callable[[str], None]) -> Iterator[None]:
    """Profile the block, then say where the profile is and which functions took most time."""
    if not wanted:
        yield
        return
    import cProfile

    profile = cProfile.Profile()
    profile.enable()
    try:
        yield
    finally:
        profile.disable()
        say(save(profile, what))


def save(profile: cProfile.Profile, what: str) -> str:
    """Write a profile to a new file; returns text with its path and its hottest functions."""
    fd, path = new_file(f"ssbench-{what}-", ".prof")
    os.close(fd)
    profile.dump_stats(path)
    import pstats

    text = io.StringIO()
    stats = pstats.Stats(profile, stream=text)
    stats.strip_dirs().sort_stats("tottime").print_stats(HOTTEST)
    lines = [line.rstrip() for line in text.getvalue().splitlines() if line.strip()]
    return "\n".join([f"Profile of the {what}: {path} (python -m pstats reads it)", *lines])
