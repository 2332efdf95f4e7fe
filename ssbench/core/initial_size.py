"""Sizes of initial objects, from (size class, number): the same in every run.

Not in ``naming``, which a command needs before it starts its workers: hashlib loads slowly.
"""

from __future__ import annotations

from hashlib import blake2b

from ssbench.core.model import SizeClass


def initial_size(size_class: SizeClass, number: int) -> int:
    """Size of an initial object in bytes, by the class's distribution."""
    spread = size_class.size_max - size_class.size_min + 1
    if spread == 1:
        return size_class.size_min
    digest = blake2b(f"{size_class.name}_{number}".encode(), digest_size=8).digest()
    value = int.from_bytes(digest, "big")
    if size_class.distribution is None:
        return size_class.size_min + value % spread
    return size_class.distribution.at((value >> 11) * 2.0**-53)
