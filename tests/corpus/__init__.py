"""Recorded inputs, small: what decoders are tried with. README.rst says whence."""

from __future__ import annotations

from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def recorded(folder: str) -> tuple[bytes, ...]:
    """The files of one folder, in the order of their names."""
    return tuple(path.read_bytes() for path in sorted((HERE / folder).iterdir()))
