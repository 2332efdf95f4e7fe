"""The load of a scenario: stages, groups of users, and the keys that must agree with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from ssbench.core.model import Group, Profile, Stage
from ssbench.core.scenario.checks import KeyRule, ValidationErrors, member, read_keys
from ssbench.core.scenario.fields import (
    NO_PROFILE,
    PROFILE_KEYS,
    crud_profile,
    one_profile,
    operations,
    profile,
)
from ssbench.core.units import kind, preview, rate, seconds, seconds_or_none, whole

MAX_GROUPS = 64

STAGE_KEYS: dict[str, KeyRule] = {
    "seconds": KeyRule(
        seconds,
        "The duration of the stage. The run lasts as long as all stages together.",
        required=True,
        example="30",
    ),
    "users": KeyRule(whole(1), "Concurrent users.", default="``user_count``"),
    "rate": KeyRule(
        rate,
        "Target arrival rate. Either every stage has a rate, or none has.",
        default="the scenario's ``rate``",
    ),
    "warmup": KeyRule(
        seconds_or_none,
        "The start of the stage that is in the stat file, but not in the report's figures, neither "
        "those of the stage nor those of the run. Shorter than the stage.",
    ),
}

GROUP_KEYS: dict[str, KeyRule] = {
    "users": KeyRule(whole(1), "Concurrent users of this group.", required=True, example="5"),
    "crud_profile": KeyRule(
        crud_profile, "Weights of the group's operations.", default="this or ``operations``"
    ),
    "operations": KeyRule(operations, "Weights by name.", default="this or ``crud_profile``"),
}


def read_stages(raw: object, faults: ValidationErrors) -> tuple[Stage, ...]:
    """The stages in their order; () if there are none, and after an error."""
    if raw is None:
        return ()
    if not isinstance(raw, list) or not raw:
        wrong = "the list is empty" if raw == [] else f"{preview(raw)} is {kind(raw)}"
        faults.add("stages", wrong, 'a list like [{"seconds": 30, "users": 8}]')
        return ()
    before = len(faults.lines)
    rows = []
    for index, item in enumerate(raw):
        place = f"stages[{index}]"
        if not faults.is_object(item, place, '{"seconds": 30, "users": 8}'):
            continue
        row = read_keys(item, STAGE_KEYS, place, faults)
        if row and not (row.keys() & {"users", "rate"}):
            faults.add(place, "neither users nor rate", 'as in {"seconds": 30, "users": 8}')
        if (row.get("warmup") or 0) >= (row.get("seconds") or math.inf):
            wrong = f"{row['warmup']:g} s of a stage of {row['seconds']:g} s"
            faults.add(f"{place}.warmup", wrong, "less than the stage")
        rows.append(row)
    if len(faults.lines) > before:
        return ()
    return tuple(
        Stage(row["seconds"], row.get("users"), row.get("rate"), row.get("warmup", 0.0))
        for row in rows
    )


def have_users(raw: object) -> bool:
    """Whether all raw stages have users."""
    if not isinstance(raw, list) or not raw:
        return False
    return all(isinstance(row, dict) and row.get("users") is not None for row in raw)


def read_groups(raw: object, faults: ValidationErrors) -> tuple[Group, ...]:
    """The groups of users in the order of the file; () if there are none, or all are wrong."""
    if raw is None:
        return ()
    example = '{"puts": {"users": 5, "operations": {"create": 1}}}'
    if not isinstance(raw, dict) or not raw:
        wrong = "the object is empty" if raw == {} else f"{preview(raw)} is {kind(raw)}"
        faults.add("groups", wrong, f"an object like {example}")
        return ()
    if len(raw) > MAX_GROUPS:
        faults.add("groups", f"there are {len(raw)}", f"at most {MAX_GROUPS}")
        return ()
    before = len(faults.lines)
    groups = []
    for name, item in raw.items():
        place = member("groups", name)
        if not name.strip():
            faults.add("groups", f"{preview(name)} is no name", f"a name for each, as in {example}")
            continue
        if not faults.is_object(item, place, f"an object, as in {example}"):
            continue
        row = read_keys(item, GROUP_KEYS, place, faults)
        profile = one_profile(row, item, place, faults)
        if profile is None:
            faults.add(place, "no operations", 'as in "operations": {"create": 1}')
        groups.append(Group(name, row.get("users") or 0, profile or NO_PROFILE))
    return tuple(groups) if len(faults.lines) == before else ()


def mix(groups: Sequence[Group]) -> Profile:
    """The profile that the groups have together if all operations take the same time."""
    weights: dict[int, float] = {}
    for group in groups:
        for operation, share in group.profile:
            weights[operation] = weights.get(operation, 0.0) + share * group.users
    return profile(weights)


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
    if not groups:
        return
    users = sum(group.users for group in groups)
    if "user_count" in overrides:
        faults.add_to(["user_count"], "the groups have users of their own", "leave it out")
    elif values.get("user_count") not in (None, users):
        wrong = f"{values['user_count']} is not the {users} users of the groups"
        faults.add("user_count", wrong, "leave it out")
    if values.get("stages") or values.get("rate"):
        faults.add_to(["groups", "rate"], "there are stages or a rate as well", "one of them")
    sizes = given.get("sizes")
    places = [("", given)]
    places += [
        (f"sizes[{at}]", size)
        for at, size in enumerate(sizes if isinstance(sizes, list) else ())
        if isinstance(size, dict)
    ]
    for place, item in places:
        for key in PROFILE_KEYS:
            if item.get(key) is not None:
                wrong = "the groups have operations of their own"
                faults.add(member(place, key), wrong, "leave it out")


def check_load(
    values: Mapping[str, Any], overrides: Mapping[str, Any], faults: ValidationErrors
) -> dict[str, Any]:
    """Check the keys of the load against each other; returns what the stages imply.

    :param values: checked values of file and command line; wrong ones are None or absent.
    :param overrides: those of the command line.
    """
    stages: tuple[Stage, ...] = values.get("stages") or ()
    implied: dict[str, Any] = {}
    if stages:
        implied = _of_stages(stages, values, overrides, faults)
    values = {**values, **implied}
    rates = [stage.rate or values.get("rate") for stage in stages] or [values.get("rate")]
    if any(rates) and not all(rates):
        faults.add("stages", "some have a rate and some have none", "a rate for all or for none")
    if any(rates) and values.get("think_time"):
        keys = ["think_time", "rate"]
        faults.add_to(keys, "an open loop (rate) has no think time", "one of the two")
    if "arrivals" in values and values["arrivals"] not in (None, "uniform") and not any(rates):
        faults.add_to(["arrivals"], "arrivals need a rate", "a rate, as in 500")
    _check_window(values, faults)
    return implied


def _of_stages(
    stages: tuple[Stage, ...],
    values: Mapping[str, Any],
    overrides: Mapping[str, Any],
    faults: ValidationErrors,
) -> dict[str, Any]:
    total_s = sum(stage.seconds for stage in stages)
    right = "leave it out: the stages have durations"
    if values.get("operation_count") is not None:
        faults.add_to(["operation_count"], "the stages end the run by time", right)
    if values.get("run_seconds") not in (None, total_s):
        wrong = f"{values['run_seconds']:g} is not the {total_s:g} s of the stages"
        faults.add_to(["run_seconds"], wrong, right)
    for key, own in (("user_count", "users"), ("rate", "rate")):
        if key in overrides and any(getattr(stage, own) for stage in stages):
            words = f"the stages have {own.removesuffix('s')}s of their own"
            faults.add_to([key], words, "leave it out")
    users = [stage.users for stage in stages if stage.users]
    most = max([*users, *([values["user_count"]] if values.get("user_count") else [])], default=0)
    needed = {} if not most or values.get("user_count") else {"user_count": most}
    return {"run_seconds": total_s, "operation_count": None, **needed}


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
