"""The keys that say how objects are drawn: ``size`` and ``pick``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ssbench.core.distributions import UNIFORM, Distribution, LogNormal, Pick, SizeBins
from ssbench.core.scenario.checks import Check, ValidationErrors, member, suggest
from ssbench.core.units import ValidationError, kind, number, preview, size_from

MAX_BINS = 256  #: of a distribution of sizes; each control state has all of them
#: Of Zipf's law: above, even of two objects the second is hardly ever picked.
MAX_EXPONENT = 10.0
MAX_SIGMA = 10.0
#: YCSB's exponent: a tenth of a million objects gets 83 % of the operations.
DEFAULT_EXPONENT = 0.99
#: The part of a log-normal distribution that must be within its bounds.
_LEAST_SHARE = 1e-6
_LEAST_WEIGHT = 1e-100  #: of a size, and the reciprocal of the largest: their sums are finite

_BYTES = size_from(0)
_SIZE = (
    '{"fixed": SIZE}, {"uniform": [SIZE, SIZE]}, {"log_normal": {"median": SIZE, "sigma": 1.5}}, '
    '{"list": [[SIZE, WEIGHT], ...]} or {"histogram": [[FROM, TO, WEIGHT], ...]}'
)
_BY_ZIPF = ("zipf", "newest_first")
_PICKS = ("uniform", "round_robin", *_BY_ZIPF)
_PICK = '"uniform", "round_robin", "zipf", "newest_first", or with an exponent: {"zipf": 1.2}'


class ReadSize(NamedTuple):
    """What the key ``size`` says. A log-normal one takes its bounds from the class."""

    low: int | None
    high: int | None
    make: Callable[[int, int], Distribution | None]  #: from the bounds; may raise ValidationError


def size_key(raw: object) -> ReadSize:
    """A distribution of sizes."""
    if not isinstance(raw, dict):
        low = _BYTES(raw)
        return ReadSize(low, low, lambda low, high: None)
    if len(raw) != 1:
        raise ValidationError(f"{preview(raw)} has {len(raw)} keys", f"one of {_SIZE}")
    ((name, value),) = raw.items()
    if name not in _SIZES:
        wrong = f"there is no distribution {preview(name)}"
        raise ValidationError(wrong, suggest(name, list(_SIZES)))
    return _SIZES[name](value)


def _uniform(raw: object) -> ReadSize:
    low, high = _row(raw, "uniform", _BYTES, _BYTES)
    if low > high:
        raise ValidationError(f"{low} is above {high}", "the smaller size first")
    return ReadSize(low, high, lambda low, high: None)


def _log_normal(raw: object) -> ReadSize:
    right = '{"median": SIZE, "sigma": NUMBER}, with size_min and size_max beside it'
    if not isinstance(raw, dict) or raw.keys() != {"median", "sigma"}:
        raise ValidationError(f'"log_normal": {preview(raw)} is not its two keys', right)
    median = size_from(1)(raw["median"])
    sigma = number(raw["sigma"], f"a number above 0, at most {MAX_SIGMA:g}")
    if not 0 < sigma <= MAX_SIGMA:
        raise ValidationError(f"sigma {sigma:g} is out of range", f"above 0, at most {MAX_SIGMA:g}")

    def make(low: int, high: int) -> Distribution:
        made = LogNormal(float(median), sigma, low, high)
        if made.share < _LEAST_SHARE:
            wrong = f"hardly any size is from {low} to {high} bytes"
            raise ValidationError(wrong, "a median near them, or a larger sigma")
        return made

    return ReadSize(None, None, make)


def _list(raw: object) -> ReadSize:
    rows = [_row(row, f"list[{at}]", _BYTES, _weight) for at, row in _rows(raw, "list")]
    return _bins([(bytes_, bytes_, weight) for bytes_, weight in rows])


def _histogram(raw: object) -> ReadSize:
    rows = [
        _row(row, f"histogram[{at}]", _BYTES, _BYTES, _weight)
        for at, row in _rows(raw, "histogram")
    ]
    for at, (begin, end, _weight_of) in enumerate(rows):
        if begin >= end:
            raise ValidationError(f"histogram[{at}] ends at {end}", f"above its begin, {begin}")
    for at, (before, row) in enumerate(pairwise(rows), 1):
        if row[0] < before[1]:
            wrong = f"histogram[{at}] begins at {row[0]}"
            raise ValidationError(wrong, f"at least {before[1]}, where the one before it ends")
    return _bins([(begin, end - 1, weight) for begin, end, weight in rows])


def _bins(bins: list[tuple[int, int, float]]) -> ReadSize:
    used = tuple(each for each in bins if each[2])
    if not used:
        raise ValidationError("all weights are 0", "at least one above 0")
    low, high = min(each[0] for each in used), max(each[1] for each in used)
    made = SizeBins(used) if low < high else None
    return ReadSize(low, high, lambda low, high: made)


def _weight(raw: object) -> float:
    weight = number(raw, "a weight of 0 or more")
    if weight and not _LEAST_WEIGHT <= weight <= 1 / _LEAST_WEIGHT:
        right = f"0, or a weight from {_LEAST_WEIGHT:g} to {1 / _LEAST_WEIGHT:g}"
        raise ValidationError(f"{preview(raw)} is out of range", right)
    return weight


def _rows(raw: object, name: str) -> list[tuple[int, object]]:
    if not isinstance(raw, list) or not 1 <= len(raw) <= MAX_BINS:
        wrong = f"{len(raw)} entries" if isinstance(raw, list) else kind(raw)
        raise ValidationError(f'"{name}" is {wrong}', f"a list of 1 to {MAX_BINS} entries")
    return list(enumerate(raw))


def _row(raw: object, place: str, *checks: Check[Any]) -> list[Any]:
    if not isinstance(raw, list) or len(raw) != len(checks):
        raise ValidationError(f"{place}: {preview(raw)}", f"a list of {len(checks)}, as in {_SIZE}")
    return [check(value) for check, value in zip(checks, raw, strict=True)]


_SIZES: Mapping[str, Callable[[object], ReadSize]] = {
    "fixed": lambda raw: size_key(_BYTES(raw)),
    "uniform": _uniform,
    "log_normal": _log_normal,
    "list": _list,
    "histogram": _histogram,
}


def read_size(row: dict[str, Any], place: str, faults: ValidationErrors) -> None:
    """Replaces ``size`` of a class's checked keys by its bounds and ``distribution``."""
    found: ReadSize | None = row.pop("size", None)
    bounds = (None, None) if found is None else (found.low, found.high)
    for key, own, example in zip(("size_min", "size_max"), bounds, (4096, 65536), strict=True):
        if key not in row:
            row[key] = own
            if own is None:
                faults.add(member(place, key), "missing", f'as in "{key}": {example}')
        elif own is not None and row[key] not in (None, own):
            wrong = f"{row[key]} is not the {own} of size"
            faults.add(member(place, key), wrong, "leave it out")
    low, high = row["size_min"], row["size_max"]
    if low is None or high is None:
        return
    if low > high:
        faults.add(member(place, "size_min"), f"{low} is above size_max {high}", f"at most {high}")
    elif found is not None:
        make = found.make
        row["distribution"] = faults.check(member(place, "size"), lambda _: make(low, high), None)


def size_to_json(distribution: Distribution) -> dict[str, object]:
    """The value of ``size`` that ``size_key`` makes the distribution of."""
    if isinstance(distribution, LogNormal):
        return {"log_normal": {"median": distribution.median, "sigma": distribution.sigma}}
    bins = distribution.bins
    if all(low == high for low, high, _weight_of in bins):
        return {"list": [[low, weight] for low, _high, weight in bins]}
    return {"histogram": [[low, high + 1, weight] for low, high, weight in bins]}


def pick_key(raw: object) -> Pick:
    """Which object an operation picks."""
    name, exponent = raw, DEFAULT_EXPONENT
    if isinstance(raw, dict) and len(raw) == 1:
        ((name, value),) = raw.items()
        exponent = number(value, _PICK)
        if name in _PICKS and name not in _BY_ZIPF:
            raise ValidationError(f"{preview(name)} has no exponent", f'"{name}"')
        if not 0 < exponent <= MAX_EXPONENT:
            right = f"a number above 0, at most {MAX_EXPONENT:g}"
            raise ValidationError(f"the exponent {exponent:g} is out of range", right)
    if not isinstance(name, str):
        raise ValidationError(f"{preview(raw)} is {kind(raw)}", _PICK)
    if name not in _PICKS:
        raise ValidationError(f"there is no pick {preview(name)}", suggest(name, _PICKS))
    return Pick(name, exponent if name in _BY_ZIPF else UNIFORM.exponent)


def pick_to_json(pick: Pick) -> object:
    """The value of ``pick`` that ``pick_key`` makes the same of."""
    return {pick.kind: pick.exponent} if pick.kind in _BY_ZIPF else pick.kind
