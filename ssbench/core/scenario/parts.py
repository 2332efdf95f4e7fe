"""The parts of a scenario (size classes, stages, groups of users, large objects), and the rules
between its keys."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from ssbench.core.model import (
    UNKNOWN_SIZE,
    Group,
    LargeObject,
    LargeRead,
    ObjectLock,
    Phase,
    Profile,
    SizeClass,
    Stage,
)
from ssbench.core.operations import Effect, Target, of_phase, parameters_of, row_of
from ssbench.core.picks import Pick
from ssbench.core.scenario.checks import (
    Key,
    ValidationErrors,
    member,
    read_keys,
    read_rows,
    suggest,
)
from ssbench.core.scenario.values import (
    LOCK_MODES,
    MAX_CLASS_NAME,
    MAX_CONTAINER_NAME,
    NO_PROFILE,
    SizeRange,
    any_text,
    between,
    class_name,
    class_weights,
    container_name,
    crud_profile,
    flag,
    groups_of_stage,
    one_of,
    operations,
    pick,
    ramp,
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
#: Of a class's name, behind that of another: its objects are named like segments of that one's.
_LIKE_A_SEGMENT = "_([0-9a-f]{10}_)?[0-9]{6,10}_[0-9]{1,9}"
_OF_TOP_LEVEL = "that of the top level"
_OF_SCENARIO = "those of the scenario"
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
    "name": Key(text, "The name of the stage in reports.", "its number"),
    "seconds": Key(seconds,
        "The duration of the stage. Each stage has a duration, a number of operations, or epochs.",
        "none"),
    "operation_count": Key(count, "The stage ends after this number of operations.", "none"),
    "epochs": Key(count,
        "The stage ends when each object has had its turn so often: those of its size classes "
        "that exist when it begins.", "none"),
    "users": Key(ramp(count), "Concurrent users.", "``user_count``"),
    "rate": Key(ramp(rate), "Target arrival rate. Either every stage has a rate, or none has.",
        "the scenario's ``rate``"),
    "warmup": Key(seconds_or_none,
        "The start of the stage that is in the stat file, but not in the report's figures, neither "
        "those of the stage nor those of the run. Shorter than the stage."),
    **weights("Weights of the operations in this stage, on all its size classes.",
        "Weights by name, instead of ``crud_profile``.", _OF_SCENARIO),
    "sizes": Key(class_weights, "The size classes that the stage uses, with their weights.",
        "all, by their initial objects"),
    "pick": Key(pick, "Which of the existing objects an operation uses: see `Sizes and picks`_.",
        "that of the size; ``shuffle`` with ``epochs``"),
    "groups": Key(groups_of_stage, "Groups of users of this stage: see `Groups of users`_.",
        _OF_SCENARIO),
    "barrier": Key(flag,
        "Whether the stage begins only when all operations of the one before have ended, and "
        "workers are connected for its users. That wait counts for no stage.",
        "true beside a stage with operations, sizes, groups or an end of its own, otherwise false"),
}
GROUP_KEYS: dict[str, Key] = {
    "users": Key(ramp(count), "Concurrent users of this group.", example="5"),
    "rate": Key(ramp(rate),
        "Target arrival rate of this group. Either every group has a rate, or none has.",
        "none: a closed loop"),
    **weights("Weights of the group's operations.", "Weights by name.", "one of the two"),
    "sizes": Key(class_weights, "The size classes that the group uses, with their weights.",
        "all, by their initial objects"),
    "pick": Key(pick, "Which of the existing objects an operation uses: see `Sizes and picks`_.",
        "that of the size"),
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
READ_KEYS: dict[str, Key] = {
    "segment": Key(size_from(1),
        "The size of a part; the last one may be smaller.", example='"8MiB"'),
    "above": Key(size_from(1),
        "Objects of more bytes are read in parts, others by one request. It is at least "
        "``segment``.", "``segment``"),
    "parallel": Key(whole(1, 64),
        "Parts of one object that are read at once. Each user opens as many connections."),
}
LOCK_KEYS: dict[str, Key] = {
    "seconds": Key(lambda raw: math.ceil(seconds(raw)),
        "For how long after its upload a version can't be deleted.", example="60"),
    "mode": Key(one_of(LOCK_MODES, "a mode"),
        "``governance``: users with a permission of their own can end it earlier; ``compliance``: "
        "nobody can."),
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
    counts = _read_initial_files(given.get("initial_files"), names, faults, has_own_profiles(given))
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
    raw: object, names: Sequence[str | None], faults: ValidationErrors, may_be_empty: bool
) -> dict[str, int] | None:
    """Class name -> count; None after an error.

    :param names: of the classes; None for one whose name is wrong.
    :param may_be_empty: stages say which objects they create.
    """
    if raw is None and (faults.of_header or may_be_empty):
        return None if faults.of_header else {}
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
    if sound and known and not any(counts.values()) and not may_be_empty:
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


def read_stages(
    raw: object, sizes: Sequence[SizeClass], faults: ValidationErrors
) -> tuple[Stage, ...]:
    """The stages in their order; () if there are none, and after an error."""
    if raw is None:
        return ()
    before = len(faults.lines)
    rows = read_rows(raw, STAGE_KEYS, "stages", _STAGE, faults, _check_stage)
    stages = []
    for place, row in rows:
        ends_itself = row.get("operation_count") or row.get("epochs")
        stages.append(
            Stage(
                row.get("seconds") or (math.inf if ends_itself else 0.0),
                warmup=row.get("warmup") or 0.0,
                name=row.get("name") or "",
                operation_count=row.get("operation_count"),
                epochs=row.get("epochs"),
                barrier=bool(row.get("barrier")),
                groups=read_groups(row.get("groups"), sizes, faults, f"{place}.groups"),
                **_of_users(row, place, sizes, faults),
            )
        )
    if len(faults.lines) > before and not faults.of_header:
        return ()
    return tuple(stages)


_ENDS = ("operation_count", "epochs")


def _of_users(
    row: Mapping[str, Any], place: str, sizes: Sequence[SizeClass], faults: ValidationErrors
) -> dict[str, Any]:
    """What stages and groups have alike: users, rate, operations, and their objects."""
    (users, users_to), (rate_of, rate_to) = (
        value if isinstance(value := row.get(key), tuple) else (value, None)
        for key in ("users", "rate")
    )
    known = {each.name: at for at, each in enumerate(sizes)}
    chosen: Mapping[str, float] = row.get("sizes") or {}
    for name in chosen if sizes and not faults.of_header else ():
        if name not in known:
            right = suggest(name, list(known))
            faults.add(member(f"{place}.sizes", name), "no size has this name", right)
    return {
        "users": users, "users_to": users_to, "rate": rate_of, "rate_to": rate_to,
        "profile": row.get("profile") or NO_PROFILE,
        "sizes": tuple((known[name], weight) for name, weight in chosen.items() if name in known),
        "pick": row.get("pick"),
    }  # fmt: skip


def _check_stage(row: dict[str, Any], place: str, faults: ValidationErrors) -> None:
    if faults.of_header:
        return
    ends = [key for key in ("seconds", *_ENDS) if key in row]
    if not ends:
        wrong = "missing, as are operation_count and epochs"
        faults.add(f"{place}.seconds", wrong, 'as in "seconds": 30')
    for key in ends[1:] if all(row[each] for each in ends) else ():
        faults.add(f"{place}.{key}", f"{ends[0]} is given as well", "one of them")
    for key in ("users", "rate"):
        if isinstance(row.get(key), tuple) and "seconds" not in ends:
            faults.add(f"{place}.{key}", "a ramp needs a duration", 'as in "seconds": 30')
    if (row.get("warmup") or 0) >= (row.get("seconds") or math.inf):
        wrong = f"{row['warmup']:g} s of a stage of {row['seconds']:g} s"
        faults.add(f"{place}.warmup", wrong, "less than the stage")
    if row.get("warmup") and "seconds" not in ends:
        faults.add(f"{place}.warmup", "the stage has no duration", "leave it out")


def read_groups(
    raw: object, sizes: Sequence[SizeClass], faults: ValidationErrors, place: str = "groups"
) -> tuple[Group, ...]:
    """The groups of users in the order of the file; () if there are none, and after an error."""
    if raw is None:
        return ()
    before = len(faults.lines)
    if isinstance(raw, dict) and len(raw) > MAX_GROUPS:
        faults.add(place, f"there are {len(raw)}", f"at most {MAX_GROUPS}")
        return ()
    rows = read_rows(raw, GROUP_KEYS, place, _GROUP, faults, _check_group)
    groups = []
    for name, (at, row) in zip(raw if isinstance(raw, dict) else (), rows, strict=False):
        if not name.strip():
            wrong = f"{preview(name)} is no name"
            faults.add(place, wrong, f"a name for each, as in {{{_GROUP}}}")
        of_users = _of_users(row, at, sizes, faults)
        groups.append(Group(name, **{**of_users, "users": of_users["users"] or 0}))
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


def read_object_lock(raw: object, faults: ValidationErrors) -> ObjectLock | None:
    """How uploads are locked; None: not, and after an error."""
    right = 'an object like {"seconds": 60, "mode": "governance"}'
    if raw is None or not faults.is_object(raw, "object_lock", right):
        return None
    before = len(faults.lines)
    values = read_keys(raw, LOCK_KEYS, "object_lock", faults)
    return ObjectLock(**values) if len(faults.lines) == before and "seconds" in values else None


def read_large_read(raw: object, faults: ValidationErrors) -> LargeRead | None:
    """How READs get large objects; None: as one, and after an error."""
    right = 'an object like {"segment": "8MiB", "parallel": 8}'
    if raw is None or not faults.is_object(raw, "large_read", right):
        return None
    before = len(faults.lines)
    values = read_keys(raw, READ_KEYS, "large_read", faults)
    if len(faults.lines) > before or "segment" not in values:
        return None
    values.setdefault("above", values["segment"])
    if values["above"] < values["segment"]:
        wrong = f"{values['above']} is less than segment ({values['segment']})"
        faults.add("large_read.above", wrong, "at least as much, or leave it out")
    return LargeRead(**values)


def have_users(raw: object) -> bool:
    """Whether all raw stages have users."""
    if not isinstance(raw, list) or not raw:
        return False
    return all(
        isinstance(row, dict) and (row.get("users") is not None or row.get("groups") is not None)
        for row in raw
    )


def has_own_profiles(given: Mapping[str, object]) -> bool:
    """Whether the groups, or all stages, of a file have operations."""
    stages = given.get("stages")
    if given.get("groups") is not None:
        return True
    keys = ("crud_profile", "operations", "groups")
    return (
        bool(stages)
        and isinstance(stages, list)
        and all(
            isinstance(row, dict) and any(row.get(key) is not None for key in keys)
            for row in stages
        )
    )


def all_have_operations(stages: Sequence[Stage]) -> bool:
    return bool(stages) and all(stage.profile or stage.groups for stage in stages)


def check_groups(
    given: Mapping[str, object],
    values: Mapping[str, Any],
    overrides: Mapping[str, Any],
    faults: ValidationErrors,
) -> None:
    """Check other keys against the groups of users.

    :param given: the file's keys, not checked.
    """
    groups: Sequence[Group] = values.get("groups") or ()
    stages: Sequence[Stage] = values.get("stages") or ()
    users = sum(group.users for group in groups)
    if groups and "user_count" in overrides:
        faults.add_to(["user_count"], "the groups have users of their own", "leave it out")
    elif groups and not stages and values.get("user_count") not in (None, users):
        wrong = f"{values['user_count']} is not the {users} users of the groups"
        faults.add("user_count", wrong, "leave it out")
    if groups and values.get("rate"):
        faults.add_to(["groups", "rate"], "the groups have rates of their own", "leave it out")
    for at, stage in enumerate(stages):
        if stage.groups or (groups and not stage.profile):
            for key in ("users", "rate", "profile", "sizes", "pick"):
                own = stage.groups or key in ("users", "rate")
                if getattr(stage, key) and own:
                    key = "operations" if key == "profile" else key
                    wrong = f"the groups have {key} of their own"
                    faults.add(f"stages[{at}].{key}", wrong, "leave it out")
    for place, each in ((f"groups.{g.name}", g) for g in groups if not stages):
        for key in ("users", "rate"):
            if getattr(each, f"{key}_to") is not None and values.get("run_seconds") is None:
                faults.add(member(place, key), "a ramp needs a duration", "run_seconds or stages")
    who = "groups" if groups else "stages" if all_have_operations(stages) else ""
    sizes = given.get("sizes")
    sizes = sizes if isinstance(sizes, list) and who else []
    for place, item in (("", given), *((f"sizes[{at}]", each) for at, each in enumerate(sizes))):
        for key in ("crud_profile", "operations") if who else ():
            if isinstance(item, dict) and item.get(key) is not None:
                wrong = f"the {who} have operations of their own"
                faults.add(member(place, key), wrong, "leave it out")


def check_load(
    values: Mapping[str, Any], overrides: Mapping[str, Any], faults: ValidationErrors
) -> dict[str, Any]:
    """Check the keys of the load against each other; returns what the stages imply.

    :param values: checked values of file and command line; wrong ones are None or absent.
    :param overrides: those of the command line.
    """
    stages: tuple[Stage, ...] = values.get("stages") or ()
    groups: tuple[Group, ...] = values.get("groups") or ()
    implied: dict[str, Any] = {}
    if stages:
        implied = _of_stages(stages, values, overrides, faults)
    values = {**values, **implied}
    rates = [
        of.rate or (None if own else values.get("rate"))
        for stage in stages or (Stage(1.0),)
        for own in [stage.groups or (() if stage.profile else groups)]
        for of in own or (stage,)
    ]
    if any(rates) and not all(rates):
        place = "groups" if groups and not stages else "stages"
        faults.add(place, "some have a rate and some have none", "a rate for all or for none")
    if any(rates) and values.get("think_time"):
        keys = ["think_time", "rate"]
        faults.add_to(keys, "an open loop (rate) has no think time", "one of the two")
    if "arrivals" in values and values["arrivals"] not in (None, "uniform") and not any(rates):
        faults.add_to(["arrivals"], "arrivals need a rate", "a rate, as in 500")
    _check_crowds(stages, groups, faults)
    _check_window(values, faults)
    return implied


def _check_crowds(
    stages: Sequence[Stage], groups: Sequence[Group], faults: ValidationErrors
) -> None:
    """Check the groups of all stages together, and what ends a stage."""
    many = sum(len(stage.groups or groups) or 1 for stage in stages if stage.is_apart)
    if many > MAX_GROUPS:
        faults.add("stages", f"they have {many} groups of users", f"at most {MAX_GROUPS} in all")
    for at, stage in enumerate(stages):
        for of in stage.groups or (stage,) if stage.epochs else ():
            for row in (row_of(operation) for operation, _share in of.profile):
                if row.target is not Target.OBJECT or row.effect is Effect.CREATES:
                    wrong = f"{row.name.lower()} does not use one object that exists"
                    right = "operations that do, such as read and delete, or operation_count"
                    faults.add(f"stages[{at}].epochs", wrong, right)
            if of.pick and of.pick.kind not in ("shuffle", "round_robin"):
                wrong = f"with pick {of.pick.kind} objects have no turns"
                faults.add(f"stages[{at}].epochs", wrong, 'pick "shuffle" or "round_robin"')


def _of_stages(
    stages: tuple[Stage, ...],
    values: Mapping[str, Any],
    overrides: Mapping[str, Any],
    faults: ValidationErrors,
) -> dict[str, Any]:
    total_s = sum(stage.seconds for stage in stages)
    right = "leave it out: the stages have durations or numbers of operations"
    if values.get("operation_count") is not None:
        faults.add_to(["operation_count"], "the stages end the run by time", right)
    if values.get("run_seconds") not in (None, total_s):
        known = f"the {total_s:g} s" if total_s < math.inf else "the end"
        wrong = f"{values['run_seconds']:g} is not {known} of the stages"
        faults.add_to(["run_seconds"], wrong, right)
    for key, own in (("user_count", "users"), ("rate", "rate")):
        if key in overrides and any(
            getattr(each, own) for stage in stages for each in (stage, *stage.groups)
        ):
            words = f"the stages have {own.removesuffix('s')}s of their own"
            faults.add_to([key], words, "leave it out")
    users = [stage.most_users for stage in stages if stage.most_users]
    most = max([*users, *([values["user_count"]] if values.get("user_count") else [])], default=0)
    needed = {} if not most or values.get("user_count") else {"user_count": most}
    # The waits between stages come on top of their durations.
    waits = any(stage.is_apart or stage.barrier for stage in stages)
    return {"run_seconds": None if waits else total_s, "operation_count": None, **needed}


_WINDOW = ("warmup", "cooldown", "run_seconds")


def _check_window(values: Mapping[str, Any], faults: ValidationErrors) -> None:
    """Some of the run must be outside of warm-up and cool-down."""
    warmup, cooldown = (values.get(key) or 0 for key in ("warmup", "cooldown"))
    run_s = values.get("run_seconds")
    if run_s is None or not warmup + cooldown:
        return
    if warmup + cooldown >= run_s:
        wrong = f"warm-up and cool-down are {warmup + cooldown:g} s of a run of {run_s:g} s"
        faults.add_to(_WINDOW, wrong, "together less than the run")
    elif not _is_left(values.get("stages") or (), warmup, run_s - cooldown):
        wrong = "warm-up, cool-down and those of the stages exclude the whole run"
        faults.add_to(_WINDOW, wrong, "shorter ones")


def _is_left(stages: Sequence[Stage], low_s: float, high_s: float) -> bool:
    """Whether any stage has a part between these times that counts."""
    ends = list(accumulate(stage.seconds for stage in stages))
    return not stages or any(
        max(low_s, end_s - stage.seconds + stage.warmup) < min(high_s, end_s)
        for stage, end_s in zip(stages, ends, strict=True)
    )


def check_parameters(
    given: Mapping[str, int | str],
    sizes: Sequence[SizeClass],
    crowds: Sequence[Profile],
    faults: ValidationErrors,
) -> dict[str, int | str]:
    """The parameters of the operations in use, with defaults for those that aren't given.

    :param crowds: the operations of groups of users and of stages.
    """
    none_first = not any(size.initial_files for size in sizes)
    used = {size.name: size.profile for size in sizes if size.initial_files or none_first}
    numbers = {each for profile in used.values() for each, _ in profile}
    numbers |= {each for profile in crowds for each, _ in profile}
    parameters = parameters_of(numbers)
    for key in given:
        if sizes and key not in parameters:
            names = [row.name.lower() for row in of_phase(Phase.RUN) if key in parameters_of([row])]
            wrong = "the scenario has no operation that uses it"
            faults.add(key, wrong, f"leave it out, or add {' or '.join(names)} to the operations")
    for at, each in enumerate(sizes):
        for row in map(row_of, numbers if crowds else [n for n, _ in each.profile]):
            if each.name in used and each.size_min < row.least_size:
                wrong = f"{each.size_min} is too small for {row.name.lower()}"
                faults.add(f"sizes[{at}].size_min", wrong, f"at least {row.least_size}")
    return {key: given.get(key, each.default) for key, each in parameters.items()}


def check_large_object(
    large: LargeObject | None, sizes: Sequence[SizeClass], faults: ValidationErrors
) -> None:
    """Add an error for each class whose objects are named like segments of another class's."""
    names = [each.name for each in sizes if large]
    for at, name in enumerate(names):
        if any(re.fullmatch(re.escape(other) + _LIKE_A_SEGMENT, name) for other in names):
            wrong = f"objects of {preview(name)} would be named like segments of another size's"
            faults.add(f"sizes[{at}].name", wrong, "another name")
    for at, each in enumerate(sizes):
        if large and large.count(each.size_max):
            for row in (row_of(number) for number, _share in each.profile):
                if row.conditional:
                    wrong = f"{row.name} can't make objects in parts"
                    faults.add(f"sizes[{at}]", wrong, "smaller objects, or no large_object")


def check_versions(found: Mapping[str, Any], used: Iterable[int], faults: ValidationErrors) -> None:
    """Add an error where operations on versions, or a lock, can't be what they say.

    :param used: the operations of the scenario.
    """
    rows = [*map(row_of, sorted(used))]
    of_versions = [row for row in rows if row.target is Target.VERSION]
    names = " and ".join(row.name.lower() for row in of_versions)
    locked = found["object_lock"]
    if (of_versions or locked) and not found["versioning"]:
        what = f"{names} has" if of_versions else "object_lock has"
        faults.add("versioning", f"false, and {what} no effect without versions", "true")
    makes = {Effect.REPLACES, Effect.REMOVES}
    if of_versions and not makes & {row.effect for row in rows}:
        wrong = f"nothing makes older versions, which {names} is for"
        faults.add("operations", wrong, "update or delete as well")
    if of_versions and found["delete_after"] is not None:
        faults.add("delete_after", f"versions expire, too, which {names} is for", "leave it out")
    if locked and any(row.effect is Effect.PRUNES for row in rows):
        wrong = "the store would refuse each delete_version of what is locked"
        faults.add("object_lock", wrong, "one of the two")
    if locked and found["large_object"]:
        faults.add("object_lock", "objects in parts are not locked", "no large_object")


def check_checksum(found: Mapping[str, Any], faults: ValidationErrors) -> None:
    """Add an error for a trailer of what has none."""
    if found["checksum_in"] == "trailer" and found["checksum"] in ("none", "md5"):
        wrong = f"checksum {found['checksum']} has no trailer"
        faults.add(
            "checksum_in", wrong, "crc32c, crc64nvme or sha256 as checksum, or no checksum_in"
        )


def check_limit(faults: ValidationErrors, *levels: Mapping[str, object]) -> None:
    # Raw values: a wrong limit has its error already.
    keys = ("operation_count", "run_seconds", "stages")
    limits = [level.get(key) for level in levels for key in keys]
    if all(limit is None for limit in limits):
        wrong = "missing, and run_seconds as well"
        faults.add("operation_count", wrong, "one of them here, or -o COUNT or -r SECONDS")


def check_container_names(values: Mapping[str, Any], faults: ValidationErrors) -> None:
    """Add an error if the last container has too long a name."""
    last = values["container_count"] - 1
    name = container_name(values["container_base"], last, values["policy"])
    if len(name.encode()) > MAX_CONTAINER_NAME:
        wrong = f"container names like {preview(name)} have {len(name.encode())} bytes"
        right = f"at most {MAX_CONTAINER_NAME}, number and policy included"
        faults.add_to(["container_base", "policy", "container_count"], wrong, right)
