"""The keys that a scenario may hold, and the reading of them: a row each in KEYS and SIZE_KEYS."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ssbench.core.model import CRUD, SizeClass
from ssbench.core.scenario.checks import (
    Fault,
    FaultList,
    duration,
    kind,
    near,
    number,
    seconds,
    shown,
    size,
    text,
    whole,
)
from ssbench.core.scenario.jsontext import member
from ssbench.core.scenario.keys import Key, read_keys
from ssbench.core.scenario.loading import arrivals, rate, think_time

Profile = tuple[float, float, float, float]

#: Profile of a class that has no initial files and no profile: no operation ever falls to it.
NO_PROFILE: Profile = (0.0, 0.0, 0.0, 0.0)

#: Bytes that naming puts behind a class's name: "_", a run's id, "_", a number.
OBJECT_SUFFIX_ROOM = 1 + 32 + 1 + 19
MAX_OBJECT_NAME = 1024  #: Swift's default of max_object_name_length, in bytes
MAX_CONTAINER_NAME = 256  #: Swift's default of max_container_name_length, in bytes
MAX_CONTAINERS = 10_000_000  #: every process holds all of their names
MAX_BLOCK = 1 << 30
MAX_SEED = 2**64 - 1

_POLICY = re.compile(r"[!-.0-~]+")


def crud_profile(raw: object) -> Profile:
    """Four weights, normalised to a sum of 1."""
    right = "four weights of 0 or more: CREATE, READ, UPDATE, DELETE, as in [3, 4, 2, 2]"
    if not isinstance(raw, list):
        raise Fault(f"{shown(raw)} is {kind(raw)}", right)
    if len(raw) != len(CRUD):
        raise Fault(f"{shown(raw)} has {len(raw)} entries", right)
    weights = [number(weight, right) for weight in raw]
    if not any(weights):
        raise Fault("all four weights are 0", "at least one above 0")
    return normalised(weights)


def normalised(weights: Sequence[float]) -> Profile:
    """Weights to shares with a sum of 1; shares come back as they are, to the last bit."""
    total = sum(weights)
    if total == math.inf:
        largest = max(weights)
        return normalised([weight / largest for weight in weights])
    if abs(total - 1) > 1e-9:
        weights = [weight / total for weight in weights]
    create, read, update, delete = weights
    return create, read, update, delete


def size_name(raw: object) -> str:
    """A class's name, which begins the names of its objects."""
    name = text(raw)
    room = MAX_OBJECT_NAME - OBJECT_SUFFIX_ROOM
    if len(name.encode()) > room:
        raise Fault(f"the name has {len(name.encode())} bytes", f"at most {room} bytes of UTF-8")
    # Such paths are rewritten on their way by clients and proxies.
    if any(part in ("", ".", "..") for part in name.split("/")[:-1]):
        raise Fault(f'{shown(name)} has a "/" in front, "//", "./" or "../"', "a plain name")
    return name


def container_base(raw: object) -> str:
    """What the names of containers begin with."""
    base = text(raw)
    if "/" in base:
        raise Fault(f"{shown(base)} holds a slash", "a name without: containers can't have one")
    if len(base.encode()) > MAX_CONTAINER_NAME - len("_000000"):
        raise Fault(f"the name has {len(base.encode())} bytes", "at most 249 bytes of UTF-8")
    return base


def policy(raw: object) -> str:
    """The name of a storage policy: it ends container names and travels in a header."""
    name = text(raw)
    if not _POLICY.fullmatch(name):
        right = "the name of a storage policy: ASCII without blanks and slashes"
        raise Fault(f"{shown(name)} is no name of a policy", right)
    return name


def delete_after(raw: object) -> int | None:
    """Whole seconds until objects expire; None (0 in the file) where they don't."""
    return whole(0)(duration(raw) if isinstance(raw, str) else raw) or None


_SIZE_BYTES = size(0)
_COUNT = whole(0)

SIZE_KEYS: dict[str, Key] = {
    "name": Key(size_name, required=True, example='"tiny"'),
    "size_min": Key(_SIZE_BYTES, required=True, example="4096"),
    "size_max": Key(_SIZE_BYTES, required=True, example="65536"),
    "crud_profile": Key(crud_profile),
}

#: OWN_READERS' keys aren't among these: their readers see to all of their form.
KEYS: dict[str, Key] = {
    "name": Key(text, required=True, example='"Small objects"'),
    "operation_count": Key(whole(1), option="-o"),
    "run_seconds": Key(seconds, option="-r"),
    "crud_profile": Key(crud_profile),
    "user_count": Key(whole(1), required=True, example="4", option="-u"),
    "container_base": Key(container_base, option="--container-base"),
    "container_count": Key(whole(1, MAX_CONTAINERS), option="-c"),
    "container_concurrency": Key(whole(1)),
    "delete_after": Key(delete_after, option="--delete-after"),
    "policy": Key(policy, option="--policy"),
    "block_size": Key(size(1, MAX_BLOCK), option="-b"),
    "seed": Key(whole(0, MAX_SEED), option="--seed"),
    "rate": Key(rate, option="--rate"),
    "arrivals": Key(arrivals, option="--arrivals"),
    "think_time": Key(think_time, option="--think-time"),
    "warmup": Key(duration, option="--warmup"),
    "cooldown": Key(duration, option="--cooldown"),
}
OWN_READERS = ("sizes", "initial_files", "stages")


def read_initial_files(
    raw: object, names: Sequence[str | None], faults: FaultList
) -> dict[str, int] | None:
    """Class name -> count; None where there is no telling.

    :param names: of the classes; None for one whose name is at fault.
    """
    if not isinstance(raw, dict):
        wrong = "missing" if raw is None else f"{shown(raw)} is {kind(raw)}"
        faults.add("initial_files", wrong, 'a count for each size, as in {"tiny": 100}')
        return None
    known = dict.fromkeys(name for name in names if name is not None)
    complete = None not in names  # else an unknown name may be that of the size at fault
    before = len(faults.lines)
    counts: dict[str, int] = {}
    for name, value in raw.items():
        place = member("initial_files", name)
        if complete and name not in known:
            right = near(name, list(known)) if not faults.full else ""
            faults.add(place, "there is no size of that name", right)
        counts[name] = faults.check(place, _COUNT, value) or 0
    sound = len(faults.lines) == before
    if sound and known and not any(counts.values()):
        faults.add("initial_files", "no size has any", "at least one count above 0")
    return counts if sound else None


def read_sizes(
    raw: object, initial_files: object, default: Profile | None, faults: FaultList
) -> tuple[SizeClass, ...]:
    """The size classes with their shares of the initial files, in the order of the file.

    :param default: the profile of classes without one; None where the file gives none.
    """
    if not isinstance(raw, list) or not raw:
        wrong = "missing" if raw is None else f"{shown(raw)} is {kind(raw)}"
        wrong = "the list is empty" if raw == [] else wrong
        faults.add("sizes", wrong, "a list of at least one size: {name, size_min, size_max}")
        read_initial_files(initial_files, [None], faults)
        return ()
    rows = [_read_size(item, f"sizes[{i}]", faults) for i, item in enumerate(raw)]
    names = [row.get("name") for row in rows]
    _refuse_twins(names, faults)
    counts = read_initial_files(initial_files, names, faults)
    if default is None:
        _want_profiles(raw, rows, counts, faults)
    if faults:
        return ()
    return tuple(
        SizeClass(
            row["name"],
            row["size_min"],
            row["size_max"],
            row.get("crud_profile") or default or NO_PROFILE,
            (counts or {}).get(row["name"], 0),
        )
        for row in rows
    )


def _read_size(raw: object, place: str, faults: FaultList) -> dict[str, Any]:
    if not isinstance(raw, dict):
        faults.add(place, f"{shown(raw)} is {kind(raw)}", "an object: {name, size_min, size_max}")
        return {}
    row = read_keys(raw, SIZE_KEYS, place, faults)
    low, high = row.get("size_min"), row.get("size_max")
    if low is not None and high is not None and low > high:
        faults.add(f"{place}.size_min", f"{low} is above size_max {high}", f"at most {high}")
    return row


def _refuse_twins(names: Sequence[str | None], faults: FaultList) -> None:
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if name is not None and first.setdefault(name, i) != i:
            wrong = f"{shown(name)} is the name of sizes[{first[name]}] as well"
            faults.add(f"sizes[{i}].name", wrong, "a name of its own")


def _want_profiles(
    raw: Sequence[object],
    rows: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int] | None,
    faults: FaultList,
) -> None:
    """Note it when a class that is used has no profile, and there is none for all."""
    without = [
        f"sizes[{i}]"
        for i, row in enumerate(rows)
        if "name" in row
        and "crud_profile" not in row
        and (counts is None or counts.get(row["name"], 0))
    ]
    if without:
        some = ", ".join(without[:5]) + (", ..." if len(without) > 5 else "")
        right = "four weights here or there, as in [3, 4, 2, 2]"
        faults.add("crud_profile", f"missing, and {some} has none of its own", right)
