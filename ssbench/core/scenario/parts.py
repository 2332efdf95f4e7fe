"""The parts of a scenario: size classes, stages, groups of users, large objects."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ssbench.core.distributions import Pick
from ssbench.core.model import UNKNOWN_SIZE, Group, LargeObject, Profile, SizeClass, Stage
from ssbench.core.scenario.checks import (
    Key,
    ValidationErrors,
    member,
    read_keys,
    read_rows,
    suggest,
)
from ssbench.core.scenario.values import (
    MAX_CLASS_NAME,
    NO_PROFILE,
    SizeRange,
    any_text,
    between,
    class_name,
    crud_profile,
    operations,
    pick,
    size,
    text,
)
from ssbench.core.units import (
    count,
    count_or_none,
    kind,
    preview,
    rate,
    seconds,
    seconds_or_none,
    size_from,
    whole,
)

MAX_GROUPS = 64
_OF_TOP_LEVEL = "that of the top level"
_STAGE = '{"seconds": 30, "users": 8}'
_GROUP = '"puts": {"users": 5, "operations": {"create": 1}}'


def weights(meaning: str, of_names: str, default: str) -> dict[str, Key]:
    """The keys of a profile."""
    return {
        "crud_profile": Key(crud_profile, meaning, default, field="profile"),
        "operations": Key(operations, of_names, default, field="profile", by_name=True),
    }


# fmt: off
SIZE_KEYS: dict[str, Key] = {
    "name": Key(class_name,
        "The unique name of the class. Object names begin with it: ``tiny_000012``. At most "
        f"{MAX_CLASS_NAME} bytes, which leaves room for the rest of an object name.",
        example='"tiny"', of_header=any_text),
    "size_min": Key(size_from(0), "The smallest size.", "required unless ``size`` says it"),
    "size_max": Key(size_from(0),
        "The largest size. Without ``size``, sizes are uniform between ``size_min`` and "
        "``size_max``, both included.", "required unless ``size`` says it"),
    "size": Key(size,
        "One size, or a distribution of sizes: see `Sizes and picks`_.", "uniform"),
    "pick": Key(pick,
        "Which of the class's objects an operation uses: see `Sizes and picks`_.", _OF_TOP_LEVEL),
    **weights("Weights of the operations on this class.",
        "Weights by name, instead of ``crud_profile``.", _OF_TOP_LEVEL),
}
STAGE_KEYS: dict[str, Key] = {
    "seconds": Key(seconds,
        "The duration of the stage. The run lasts as long as all stages together.", example="30"),
    "users": Key(count, "Concurrent users.", "``user_count``"),
    "rate": Key(rate, "Target arrival rate. Either every stage has a rate, or none has.",
        "the scenario's ``rate``"),
    "warmup": Key(seconds_or_none,
        "The start of the stage that is in the stat file, but not in the report's figures, neither "
        "those of the stage nor those of the run. Shorter than the stage."),
}
GROUP_KEYS: dict[str, Key] = {
    "users": Key(count, "Concurrent users of this group.", example="5"),
    **weights("Weights of the group's operations.", "Weights by name.", "one of the two"),
}
LARGE_KEYS: dict[str, Key] = {
    "above": Key(size_from(0),
        "Objects of more bytes are stored in parts, others as one.", example='"5MiB"'),
    "segment": Key(size_from(1),
        "The size of a part; the last one may be smaller. S3 demands at least 5 MiB.",
        example='"5MiB"'),
    "kind": Key(text,
        "Swift: ``slo`` (static large objects, the default) or ``dlo`` (dynamic ones). S3: "
        "``multipart``.", "the store's usual one"),
    "parallel": Key(whole(1, 64),
        "Parts of one object that are uploaded, copied or deleted at once. Each user opens as many "
        "connections."),
}
# fmt: on


def read_sizes(
    given: Mapping[str, object], default: Profile | None, picked: Pick, faults: ValidationErrors
) -> tuple[SizeClass, ...]:
    """The size classes in the order of the file; () after an error.

    :param default: the profile of classes without one; None if the file has none.
    :param picked: the pick of classes without one.
    """
    example = '{"name": "tiny", "size_min": 0, "size_max": 4096}'
    rows = read_rows(given.get("sizes"), SIZE_KEYS, "sizes", example, faults, _read_range)
    first: dict[str, str] = {}  # name -> place
    for place, row in rows:
        if row.get("name") and first.setdefault(row["name"], place) != place:
            wrong = f"{preview(row['name'])} is the name of {first[row['name']]} as well"
            faults.add(f"{place}.name", wrong, "a unique name")
    names = [row.get("name") for _, row in rows] or [None]
    counts = _read_initial_files(given.get("initial_files"), names, faults)
    if default is None:
        _require_profiles(rows, counts, faults)
    if faults and not faults.of_header:
        return ()
    return tuple(
        SizeClass(
            row.get("name") or f"class {at}",
            UNKNOWN_SIZE if row.get("size_min") is None else row["size_min"],
            UNKNOWN_SIZE if row.get("size_max") is None else row["size_max"],
            row.get("profile") or default or NO_PROFILE,
            (counts or {}).get(row.get("name", ""), 0),
            row.get("distribution"),
            row.get("pick") or picked,
        )
        for at, (_, row) in enumerate(rows)
    )


def _read_range(row: dict[str, Any], place: str, faults: ValidationErrors) -> None:
    """Add what ``size`` says: bounds and distribution."""
    found: SizeRange | None = row.get("size", (None, None, None))
    if found is None:  # it has its error
        return
    for key, own, example in zip(("size_min", "size_max"), found, (4096, 65536), strict=False):
        if key not in row:
            row[key] = own
            if own is None and not faults.of_header:
                faults.add(f"{place}.{key}", "missing", f'as in "{key}": {example}')
        elif own is not None and row[key] not in (None, own):
            wrong = f"{row[key]} is not the {own} of size"
            faults.add(f"{place}.{key}", wrong, "leave it out")
    low, high = row["size_min"], row["size_max"]
    if low is None or high is None:
        return
    if low > high:
        faults.add(f"{place}.size_min", f"{low} is above size_max {high}", f"at most {high}")
    else:
        row["distribution"] = faults.check(f"{place}.size", partial(between, low, high), found[2])


def _read_initial_files(
    raw: object, names: Sequence[str | None], faults: ValidationErrors
) -> dict[str, int] | None:
    """Class name -> count; None after an error.

    :param names: of the classes; None for one whose name is wrong.
    """
    if faults.of_header and raw is None:
        return None
    if not isinstance(raw, dict):
        wrong = "missing" if raw is None else f"{preview(raw)} is {kind(raw)}"
        faults.add("initial_files", wrong, 'a count for each size, as in {"tiny": 100}')
        return None
    known = dict.fromkeys(name for name in names if name is not None)
    complete = (
        None not in names and not faults.of_header
    )  # otherwise an unknown name may be that of the wrong size
    before = len(faults.lines)
    counts: dict[str, int] = {}
    for name, value in raw.items():
        place = member("initial_files", name)
        if complete and name not in known:
            right = suggest(name, list(known)) if not faults.full else ""
            faults.add(place, "no size has this name", right)
        counts[name] = faults.check(place, count_or_none, value) or 0
    if faults.of_header:
        return counts
    sound = len(faults.lines) == before
    if sound and known and not any(counts.values()):
        faults.add("initial_files", "no size has any", "at least one count above 0")
    return counts if sound else None


def _require_profiles(
    rows: Sequence[tuple[str, Mapping[str, Any]]],
    counts: Mapping[str, int] | None,
    faults: ValidationErrors,
) -> None:
    """Add an error if a class with initial files has no profile, and there is no default."""
    without = [
        place
        for place, row in rows
        if "name" in row and "profile" not in row and (counts is None or counts.get(row["name"], 0))
    ]
    if without and not faults.of_header:
        some = ", ".join(without[:5]) + (", ..." if len(without) > 5 else "")
        right = "four weights here or in the size, as in [3, 4, 2, 2], or operations"
        faults.add("crud_profile", f"missing, and {some} has none of its own", right)


def read_stages(raw: object, faults: ValidationErrors) -> tuple[Stage, ...]:
    """The stages in their order; () if there are none, and after an error."""
    if raw is None:
        return ()
    before = len(faults.lines)
    rows = read_rows(raw, STAGE_KEYS, "stages", _STAGE, faults, _check_stage)
    if len(faults.lines) > before and not faults.of_header:
        return ()
    return tuple(
        Stage(
            row.get("seconds") or 0.0, row.get("users"), row.get("rate"), row.get("warmup") or 0.0
        )
        for _, row in rows
    )


def _check_stage(row: dict[str, Any], place: str, faults: ValidationErrors) -> None:
    if faults.of_header:
        return
    if not row.keys() & {"users", "rate"}:
        faults.add(place, "neither users nor rate", f"as in {_STAGE}")
    if (row.get("warmup") or 0) >= (row.get("seconds") or math.inf):
        wrong = f"{row['warmup']:g} s of a stage of {row['seconds']:g} s"
        faults.add(f"{place}.warmup", wrong, "less than the stage")


def read_groups(raw: object, faults: ValidationErrors) -> tuple[Group, ...]:
    """The groups of users in the order of the file; () if there are none, and after an error."""
    if raw is None:
        return ()
    before = len(faults.lines)
    if isinstance(raw, dict) and len(raw) > MAX_GROUPS:
        faults.add("groups", f"there are {len(raw)}", f"at most {MAX_GROUPS}")
        return ()
    rows = read_rows(raw, GROUP_KEYS, "groups", _GROUP, faults, _check_group)
    groups = []
    for name, (_, row) in zip(raw if isinstance(raw, dict) else (), rows, strict=False):
        if not name.strip():
            wrong = f"{preview(name)} is no name"
            faults.add("groups", wrong, f"a name for each, as in {{{_GROUP}}}")
        groups.append(Group(name, row.get("users") or 0, row.get("profile") or NO_PROFILE))
    return tuple(groups) if len(faults.lines) == before or faults.of_header else ()


def _check_group(row: dict[str, Any], place: str, faults: ValidationErrors) -> None:
    if "profile" not in row:
        faults.add(place, "no operations", 'as in "operations": {"create": 1}')


def read_large_object(raw: object, faults: ValidationErrors) -> LargeObject | None:
    """How large objects are stored; None: as one, and after an error."""
    right = 'an object like {"above": "5MiB", "segment": "5MiB"}'
    if raw is None or not faults.is_object(raw, "large_object", right):
        return None
    before = len(faults.lines)
    values = read_keys(raw, LARGE_KEYS, "large_object", faults)
    wrong = len(faults.lines) > before or not {"above", "segment"} <= values.keys()
    return None if wrong else LargeObject(**values)
