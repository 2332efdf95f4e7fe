"""The rules between the keys of a scenario."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from ssbench.core.model import Group, LargeObject, Phase, SizeClass, Stage
from ssbench.core.naming import container_name
from ssbench.core.operations import of_phase, parameters_of, row_of
from ssbench.core.scenario.checks import ValidationErrors, member
from ssbench.core.scenario.values import MAX_CONTAINER_NAME
from ssbench.core.units import preview

#: Of a class's name, behind that of another: its objects are named like segments of that one's.
_LIKE_A_SEGMENT = "_([0-9a-f]{10}_)?[0-9]{6,10}_[0-9]{1,9}"


def have_users(raw: object) -> bool:
    """Whether all raw stages have users."""
    if not isinstance(raw, list) or not raw:
        return False
    return all(isinstance(row, dict) and row.get("users") is not None for row in raw)


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
    sizes = sizes if isinstance(sizes, list) else []
    for place, item in (("", given), *((f"sizes[{at}]", size) for at, size in enumerate(sizes))):
        for key in ("crud_profile", "operations"):
            if isinstance(item, dict) and item.get(key) is not None:
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


def check_parameters(
    given: Mapping[str, int | str],
    sizes: Sequence[SizeClass],
    groups: Sequence[Group],
    faults: ValidationErrors,
) -> dict[str, int | str]:
    """The parameters of the operations in use, with defaults for those that aren't given."""
    used = {size.name: size.profile for size in sizes if size.initial_files}
    numbers = {each for profile in used.values() for each, _ in profile}
    numbers |= {each for group in groups for each, _ in group.profile}
    parameters = parameters_of(numbers)
    for key in given:
        if sizes and key not in parameters:
            names = [row.name.lower() for row in of_phase(Phase.RUN) if key in parameters_of([row])]
            wrong = "the scenario has no operation that uses it"
            faults.add(key, wrong, f"leave it out, or add {' or '.join(names)} to the operations")
    for at, each in enumerate(sizes):
        for row in map(row_of, numbers if groups else [n for n, _ in each.profile]):
            if each.initial_files and each.size_min < row.least_size:
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
