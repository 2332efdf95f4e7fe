"""Names and containers of the benchmark's objects, from (size class, number).

Names are a strategy (``NAMINGS``); ours is by run. Initial objects depend on nothing but the
scenario's classes, so that a second run finds them. Objects that a run creates carry the run's id,
so that two runs never meet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from functools import lru_cache
from typing import Protocol
from zlib import compress, decompressobj
from zlib import error as zlib_error

from msgspec.structs import replace

from ssbench.core.model import Job, SizeClass
from ssbench.core.scenario.values import KEY_NAMES, container_name
from ssbench.core.settings import StorageSettings

MARKER_HEADER = "X-Container-Meta-Ssbench"  #: on every container that we make
#: On every object that a run uploads: the id of that run.
RUN_HEADER = "X-Object-Meta-Ssbench-Run"
#: On objects that were updated: an initial one with it hasn't its initial content any more.
VERSION_HEADER = "X-Object-Meta-Ssbench-Version"
#: The number of the job that set an object's metadata last.
POST_HEADER = "X-Object-Meta-Ssbench-Post"
#: On large objects: how they are stored, and the bytes of a segment.
SEGMENTS_HEADER = "X-Object-Meta-Ssbench-Segments"
#: What follows an object's name in those of its segments: its version and an index.
SEGMENT_SUFFIX = "_[0-9]{1,9}_[0-9]{6}"
#: On objects whose bytes are not all random (core.content.content_mark): a run of other content
#: uploads its own. The name is that of the first kind, one repeated letter.
CONTENT_HEADER = "X-Object-Meta-Ssbench-Letters"
#: On initial objects that were uploaded with further headers (core.model.InitialHeaders): a run of
#: others uploads its own.
HEADERS_HEADER = "X-Object-Meta-Ssbench-Headers"
#: ``-p`` of cleanup-containers: containers of every storage policy, and those that name none.
ANY_POLICY = "*"
#: What ssbench 0.3.9 put behind the number where a scenario named no policy.
DEFAULT_POLICY = "default_policy"
MAX_NAMES_BYTES = 256 << 20  #: of all names that settings list
RUN_ID_BYTES = 5  #: of a run's id
_SEGMENT = re.compile(f"{SEGMENT_SUFFIX}$")
#: ``tiny_<run id>_000012``, with the id as group 1.
_CREATED = re.compile(r".*_([^_/]+)_[0-9]{6,10}", re.DOTALL)
_RUN_ID = re.compile(f"[0-9a-f]{{{2 * RUN_ID_BYTES}}}")
#: A name of HashedNaming: numbers have 53 bits.
_HASHED = re.compile("replay_[01][0-9a-f]{13}")
#: Containers that the numbers of HashedNaming tell apart.
HASHED_CONTAINERS = 128
#: No object has a number of more digits: numbers are 4 bytes.
_MOST_DIGITS = 10
_HIGHEST_SIX_DIGITS = 999_999
#: At the end of an object's name.
_NUMBER = re.compile(f"_([0-9]{{6,{_MOST_DIGITS}}})$")


def segment_name(name: str, version: int, index: int) -> str:
    """The name of a segment of a large object."""
    return f"{name}_{version}_{index:06d}"


def is_run_id(text: str) -> bool:
    """Whether a run may have this id: what ``RUN_ID_BYTES`` random bytes are in hexadecimal."""
    return _RUN_ID.fullmatch(text) is not None


class LeftAlone(Enum):
    """Why a container is not ours to delete."""

    OTHER_NAME = "not named by the base and a number of six digits"
    LONG_NUMBER = "the number has more than six digits, and there is no mark of ssbench"
    NAMES_A_POLICY = "something follows the number, and only -p POLICY selects such names"
    OTHER_POLICY = "not named for this policy"
    NO_POLICY = "no policy of this cluster follows the number, and there is no mark of ssbench"
    NO_MARK = "there is no mark of ssbench"


def container_parts(name: str, base: str) -> tuple[int, str | None] | None:
    """Number and policy of a container's name of this base; the inverse of ``container_name``.

    None for a name that no ``container_name`` of this base gives.
    """
    found = _container_pattern(base).fullmatch(name)
    return None if found is None else (int(found[1]), found[2])


@lru_cache(maxsize=16)
def _container_pattern(base: str) -> re.Pattern[str]:
    number = f"[0-9]{{6}}|[1-9][0-9]{{6,{_MOST_DIGITS - 1}}}"
    return re.compile(f"{re.escape(base)}_({number})(?:_([^/]+))?", re.DOTALL)


def why_not_ours(
    name: str,
    base: str,
    policy: str | None,
    policies: Collection[str],
    marked: Callable[[], bool],
    *,
    unmarked: bool = False,
) -> LeftAlone | None:
    """Why a container is not to be deleted; None if it may be. The rule of every clean-up.

    Ours is what carries our mark and is named by the base, an underscore and a number of at least
    six digits; behind them nothing, or an underscore and a storage policy.

    :param policy: None: only names without a policy; ``ANY_POLICY``: with any policy of the
        cluster's, or none; else names with just this one, whether the cluster knows it or not.
    :param policies: those of the cluster, aliases included.
    :param marked: whether the container carries our mark; asked only where that decides.
    :param unmarked: names of six digits need no mark, nor do those with a policy of the cluster:
        ssbench 0.3.9 set none.
    """
    parts = container_parts(name, base)
    if parts is None:
        return LeftAlone.OTHER_NAME
    number, suffix = parts
    if policy is None and suffix is not None:
        return LeftAlone.NAMES_A_POLICY
    if policy not in (None, ANY_POLICY, suffix):
        return LeftAlone.OTHER_POLICY
    known = {DEFAULT_POLICY, *map(str.casefold, policies)}
    if number > _HIGHEST_SIX_DIGITS:
        doubt = LeftAlone.LONG_NUMBER
    elif policy == ANY_POLICY and suffix is not None and suffix.casefold() not in known:
        doubt = LeftAlone.NO_POLICY
    elif unmarked:
        return None
    else:
        doubt = LeftAlone.NO_MARK
    return None if marked() else doubt


def has_dot_segment(name: str) -> bool:
    """Whether a path with this name in it may be taken for another: servers and proxies resolve
    segments ``.`` and ``..``, some of them after they have undone the quoting of slashes."""
    return not {".", ".."}.isdisjoint(name.split("/"))


#: Objects of the same number are so many containers apart in one class and the next.
CLASS_STEP = 7


class ObjectNaming:
    """Maps (size class, number) to object names for one run, and to the index of a container.

    :param key_names: a key of KEY_NAMES.
    :param slash: that separates folders in names.
    """

    def __init__(
        self,
        sizes: Sequence[SizeClass],
        run_id: str,
        container_count: int,
        key_names: str = "flat",
        slash: str = "/",
    ) -> None:
        self._count = container_count
        self._before = KEY_NAMES[key_names]
        self._slash = slash
        self._initial = [size.initial_files for size in sizes]
        self._initial_prefix = [f"{size.name}_" for size in sizes]
        self._created_prefix = [f"{size.name}_{run_id}_" for size in sizes]

    def container_index(self, size_class: int, number: int) -> int:
        """Which of the containers holds the object: numbers go round, classes are offset."""
        return (number + CLASS_STEP * size_class) % self._count

    def object(self, size_class: int, number: int) -> str:
        """``tiny_000012`` for an initial object, ``tiny_<run id>_000012`` for a created one."""
        if number < self._initial[size_class]:
            name = f"{self._initial_prefix[size_class]}{number:06d}"
        else:
            name = f"{self._created_prefix[size_class]}{number:06d}"
        return name if self._before is None else self._before(number, self._slash) + name

    def created_prefix(self, size_class: int) -> str:
        """What the names of all objects begin with that the run creates in a class; "": nothing."""
        return self._created_prefix[size_class] if self._before is None else ""

    def number(self, size_class: int, name: str) -> int | None:
        """The number of the object that has this name in the run; None for any other name."""
        found = _NUMBER.search(name)
        number = int(found[1]) if found else 0
        return number if found and self.object(size_class, number) == name else None

    def created_number(self, size_class: int, name: str) -> int | None:
        """The same of an object that the run creates; None for any other name."""
        number = self.number(size_class, name)
        return None if number is None or number < self._initial[size_class] else number


def run_id_in(name: str) -> str | None:
    """The run's id in the name of an object that a run created; None for any other name.

    That of an initial object of a class such as ``a_b`` gives what is no run's id: ``b``.
    """
    created = _CREATED.fullmatch(name)
    return created[1] if created else None


def may_be_object(name: str) -> bool:
    """Whether an object of any scenario and run may have this name."""
    return _NUMBER.search(name) is not None


def without_segment(name: str) -> str:
    """The name of the object that a segment belongs to; any other name unchanged."""
    return _SEGMENT.sub("", name)


Quote = Callable[[str], str]


class Naming(Protocol):
    """A strategy: where each object of a run is."""

    containers: Sequence[str]  #: the names of all containers

    def container_index(self, size_class: int, number: int) -> int:
        """Which of the containers holds the object: they take turns."""
        return number % len(self.containers)

    def container(self, size_class: int, number: int) -> str:
        """The name of the object's container."""
        return self.containers[self.container_index(size_class, number)]

    def object(self, size_class: int, number: int) -> str:
        """The object's name within it."""

    def path(self, job: Job) -> str:
        """``container/object`` of a job's object."""
        size_class, number = job.size_class, job.object
        container = self.containers[self.container_index(size_class, number)]
        return f"{container}/{self.object(size_class, number)}"

    def longest_object(self, size_class: int, last: int) -> str:
        """The longest name up to a number."""
        return self.object(size_class, last)


class RunNaming(ObjectNaming, Naming):
    """As ObjectNaming, with the names of all containers."""

    def __init__(self, settings: StorageSettings, quoted: Quote = str) -> None:
        sizes = [replace(size, name=quoted(size.name)) for size in settings.sizes]
        key_names = settings.names.get("key_names", "flat")
        count = settings.container_count
        super().__init__(sizes, quoted(settings.run_id), count, key_names, quoted("/"))
        base = quoted(settings.container_base)
        policy = quoted(settings.placement) if settings.placement else None
        self.containers = [container_name(base, index, policy) for index in range(count)]


class NumberedNaming(Naming):
    """A prefix and the number, over containers in turn: ``bench-12`` in container ``C2`` of ten.

    A single container has no number: ``C``. A suffix may follow: ``file_12.txt``.

    No two runs differ, so one command finds the objects of another.
    """

    def __init__(self, containers: Sequence[str], prefix: str, suffix: str = "") -> None:
        self.containers = containers
        self._prefix, self._suffix = prefix, suffix

    def object(self, size_class: int, number: int) -> str:
        return f"{self._prefix}{number}{self._suffix}"


class HashedNaming(Naming):
    """The number in hexadecimal, which is a hash; its low bits tell the container."""

    _PREFIX = "replay_"

    def __init__(self, containers: Sequence[str]) -> None:
        self.containers = containers

    def container_index(self, size_class: int, number: int) -> int:
        return number % HASHED_CONTAINERS % len(self.containers)

    def object(self, size_class: int, number: int) -> str:
        return f"{self._PREFIX}{number:014x}"

    def created_prefix(self, size_class: int) -> str:
        """As of ObjectNaming."""
        return self._PREFIX

    def number(self, size_class: int, name: str) -> int | None:
        """As of ObjectNaming."""
        return int(name[len(self._PREFIX) :], 16) if _HASHED.fullmatch(name) else None

    created_number = number  #: also of an object that was prepared for the run


class ListedNaming(Naming):
    """Exactly these names, distributed over the containers round-robin."""

    def __init__(self, containers: Sequence[str], names: Sequence[str]) -> None:
        self.containers = containers
        self._names = names

    def object(self, size_class: int, number: int) -> str:
        return self._names[number]

    def longest_object(self, size_class: int, last: int) -> str:
        return max(self._names, key=lambda name: len(name.encode()))


def _numbered(settings: StorageSettings, quoted: Quote) -> NumberedNaming:
    base, count = quoted(settings.container_base), settings.container_count
    containers = [base] if count == 1 else [f"{base}{index}" for index in range(count)]
    names = settings.names
    return NumberedNaming(containers, quoted(names["prefix"]), quoted(names.get("suffix", "")))


def _listed(settings: StorageSettings, quoted: Quote) -> ListedNaming:
    names = settings.names
    packed = names.get("packed_names")
    listed = names["names"] if packed is None else unpack_names(packed)
    return ListedNaming([*map(quoted, names["containers"])], [*map(quoted, listed)])


def pack_names(names: Sequence[str]) -> bytes:
    """Names for ``packed_names`` in StorageSettings.names, compressed to about a tenth."""
    return compress("\0".join(names).encode("utf-8", "surrogatepass"), 6)


def unpack_names(packed: bytes) -> list[str]:
    """The inverse of ``pack_names``, except that none are one empty name.

    :raises ValueError: for anything else, and for more than MAX_NAMES_BYTES.
    """
    unpacker = decompressobj()
    try:
        text = unpacker.decompress(packed, MAX_NAMES_BYTES)
    except zlib_error as error:
        raise ValueError("packed names that can't be read") from error
    if not unpacker.eof:
        raise ValueError("packed names that are cut off, or too long")
    return text.decode("utf-8", "surrogatepass").split("\0")


#: ``kind`` in StorageSettings.names -> strategy.
NAMINGS: dict[str, Callable[[StorageSettings, Quote], Naming]] = {
    "run": RunNaming,
    "numbered": _numbered,
    "hashed": lambda settings, quoted: HashedNaming(RunNaming(settings, quoted).containers),
    "listed": _listed,
}


def naming_of(settings: StorageSettings, quoted: Quote = str) -> Naming:
    """The strategy that the settings name.

    :param quoted: applied to each text that names are made of, once and not per object: numbers and
        underscores need no quoting, so a name made of quoted parts is the quoted name.
    :raises KeyError: the settings name no strategy, or lack what it needs.
    """
    return NAMINGS[settings.names.get("kind", "run")](settings, quoted)
