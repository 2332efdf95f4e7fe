"""Names, containers and initial sizes of the benchmark's objects, from (size class, number).

Initial objects depend on nothing but the scenario's classes, so that a second run finds them.
Objects that a run creates carry the run's id, so that two runs never meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from ssbench.core.model import SizeClass

MARKER_HEADER = "X-Container-Meta-Ssbench"  #: on every container that we make
#: On objects that were updated: an initial one with it hasn't its initial content any more.
VERSION_HEADER = "X-Object-Meta-Ssbench-Version"
#: On objects of one repeated letter (--compressible): a run of random ones uploads its own.
LETTERS_HEADER = "X-Object-Meta-Ssbench-Letters"
#: A name of more digits is nobody's: numbers are 4 bytes.
_MOST_DIGITS = 10


def container_name(base: str, index: int, policy: str | None = None) -> str:
    """``ssbench_000061``, and ``ssbench_000061_gold`` under policy ``gold``."""
    suffix = f"_{policy}" if policy else ""
    return f"{base}_{index:06d}{suffix}"


def initial_size(size_class: SizeClass, number: int) -> int:
    """Size of an initial object in bytes: uniform over the class, the same in every run."""
    spread = size_class.size_max - size_class.size_min + 1
    if spread == 1:
        return size_class.size_min
    digest = blake2b(f"{size_class.name}_{number}".encode(), digest_size=8).digest()
    return size_class.size_min + int.from_bytes(digest, "big") % spread


class Naming:
    """Maps (size class, number) to container and object names for one run."""

    def __init__(
        self,
        sizes: Sequence[SizeClass],
        run_id: str,
        container_base: str,
        container_count: int,
        policy: str | None = None,
    ) -> None:
        self.containers = [
            container_name(container_base, index, policy) for index in range(container_count)
        ]
        self._count = container_count
        self._initial = [size.initial_files for size in sizes]
        self._initial_prefix = [f"{size.name}_" for size in sizes]
        self._created_prefix = [f"{size.name}_{run_id}_" for size in sizes]

    def container_index(self, size_class: int, number: int) -> int:
        """Which of ``containers`` holds the object: numbers go round, classes are offset."""
        return (number + 7 * size_class) % self._count

    def container(self, size_class: int, number: int) -> str:
        """The name of the object's container."""
        return self.containers[(number + 7 * size_class) % self._count]

    def object(self, size_class: int, number: int) -> str:
        """``tiny_000012`` for an initial object, ``tiny_<run id>_000012`` for a created one."""
        if number < self._initial[size_class]:
            return f"{self._initial_prefix[size_class]}{number:06d}"
        return f"{self._created_prefix[size_class]}{number:06d}"

    def created_prefix(self, size_class: int) -> str:
        """What the names of all objects begin with that the run creates in a class."""
        return self._created_prefix[size_class]

    def created_number(self, size_class: int, name: str) -> int | None:
        """The number of the object that the run creates under this name; None for any other."""
        digits = name.removeprefix(self._created_prefix[size_class])
        if not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:
            return None
        number = int(digits)
        return number if self.object(size_class, number) == name else None
