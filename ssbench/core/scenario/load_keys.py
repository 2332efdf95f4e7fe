"""The keys of a scenario that say how hard, and when: rates, stages, think time, what counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from ssbench.core.model import Stage
from ssbench.core.scenario.checks import (
    ValidationError,
    ValidationErrors,
    duration,
    integer,
    kind,
    number,
    preview,
    seconds,
)
from ssbench.core.scenario.keys import KeyRule, read_keys

ARRIVALS = ("uniform", "poisson")  #: pacing.MODELS
MAX_RATE = 10_000_000


def rate(raw: object) -> float:
    """Operations a second."""
    right = f"a number of operations a second, above 0 and at most {MAX_RATE:,}"
    value = number(raw, right)
    if not 0 < value <= MAX_RATE:
        raise ValidationError(f"{preview(raw)} is no rate", right)
    return value


def arrivals(raw: object) -> str:
    """How the operations of a rate are spaced."""
    if raw not in ARRIVALS:
        raise ValidationError(f"{preview(raw)} is no way to arrive", '"uniform" or "poisson"')
    return str(raw)


def think_time(raw: object) -> tuple[float, float] | None:
    """The least and the longest pause of a user; None for none."""
    right = 'a number of seconds, or two: [least, longest]; also with units, as in "500ms"'
    if isinstance(raw, list | tuple):
        if len(raw) != 2:
            raise ValidationError(f"{preview(raw)} has {len(raw)} entries", right)
        least, longest = (duration(entry, right) for entry in raw)
        if least > longest:
            raise ValidationError(f"{preview(raw)} begins with the longer one", right)
    else:
        least = longest = duration(raw, right)
    return (least, longest) if longest else None


STAGE_KEYS: dict[str, KeyRule] = {
    "seconds": KeyRule(seconds, required=True, example="30"),
    "users": KeyRule(integer(1)),
    "rate": KeyRule(rate),
    "warmup": KeyRule(duration),
}


def read_stages(raw: object, faults: ValidationErrors) -> tuple[Stage, ...]:
    """The stages in their order; () where there are none, or all is at fault."""
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
        if not isinstance(item, dict):
            faults.add(place, f"{preview(item)} is {kind(item)}", '{"seconds": 30, "users": 8}')
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
    """Whether raw stages say themselves how many users there are."""
    if not isinstance(raw, list) or not raw:
        return False
    return all(isinstance(row, dict) and row.get("users") is not None for row in raw)


def check_load(
    values: Mapping[str, Any], overrides: Mapping[str, Any], faults: ValidationErrors
) -> dict[str, Any]:
    """Hold the keys of the load against each other; gives what the stages imply.

    :param values: checked ones, the command line's among them; those at fault are None or absent.
    :param overrides: those of the command line.
    """
    stages: tuple[Stage, ...] = values.get("stages") or ()
    implied: dict[str, Any] = {}
    if stages:
        implied = _of_stages(stages, values, overrides, faults)
    values = {**values, **implied}
    rates = [stage.rate or values.get("rate") for stage in stages] or [values.get("rate")]
    if any(rates) and not all(rates):
        faults.add("stages", "some have a rate and some have none", "one for all, or for none")
    if any(rates) and values.get("think_time"):
        faults.add("think_time", "users don't think where there is a rate", "one of the two")
    if "arrivals" in values and values["arrivals"] not in (None, "uniform") and not any(rates):
        faults.add("arrivals", "without a rate nothing arrives", "a rate, as in 500")
    _check_window(values, faults)
    return implied


def _of_stages(
    stages: tuple[Stage, ...],
    values: Mapping[str, Any],
    overrides: Mapping[str, Any],
    faults: ValidationErrors,
) -> dict[str, Any]:
    total_s = sum(stage.seconds for stage in stages)
    right = "leave it out: the stages say how long"
    if values.get("operation_count") is not None:
        faults.add("operation_count", "there are stages, which are of time", right)
    if values.get("run_seconds") not in (None, total_s):
        wrong = f"{values['run_seconds']:g} is not the {total_s:g} s of the stages"
        faults.add("run_seconds", wrong, right)
    for key, own, option in (("user_count", "users", "-u"), ("rate", "rate", "--rate")):
        if key in overrides and any(getattr(stage, own) for stage in stages):
            words = f"they have {own.removesuffix('s')}s of their own"
            faults.add(f"stages ({option})", words, f"leave out {option}")
    users = [stage.users for stage in stages if stage.users]
    most = max([*users, *([values["user_count"]] if values.get("user_count") else [])], default=0)
    needed = {} if not most or values.get("user_count") else {"user_count": most}
    return {"run_seconds": total_s, "operation_count": None, **needed}


def _check_window(values: Mapping[str, Any], faults: ValidationErrors) -> None:
    """Something of the run must be left to count."""
    warmup, cooldown = (values.get(key) or 0 for key in ("warmup", "cooldown"))
    run_s = values.get("run_seconds")
    if run_s is None or not warmup + cooldown:
        return
    if warmup + cooldown >= run_s:
        wrong = f"with cooldown it is {warmup + cooldown:g} s of a run of {run_s:g} s"
        faults.add("warmup", wrong, "together less than the run")
    elif not _is_left(values.get("stages") or (), warmup, run_s - cooldown):
        wrong = "with cooldown and those of the stages nothing of the run is left to count"
        faults.add("warmup", wrong, "shorter ones")


def _is_left(stages: Sequence[Stage], low_s: float, high_s: float) -> bool:
    """Whether any stage counts in that part of the run."""
    ends = list(accumulate(stage.seconds for stage in stages))
    return not stages or any(
        max(low_s, end_s - stage.seconds + stage.warmup) < min(high_s, end_s)
        for stage, end_s in zip(stages, ends, strict=True)
    )
