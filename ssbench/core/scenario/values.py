"""The values of a scenario's keys: profiles, names, headers, pauses, sizes and picks.

Each function reads a JSON value, and raises ValidationError for a wrong one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from msgspec.structs import replace

from ssbench.core.distributions import Distribution, LogNormal, SizeBins
from ssbench.core.errors import UsageError
from ssbench.core.model import MAX_CONTENT_BLOCK, Phase, Profile
from ssbench.core.operations import CRUD, OPERATIONS, Operation, of_phase, operation_named
from ssbench.core.picks import PICKS, UNIFORM, Pick
from ssbench.core.scenario.checks import Check, suggest
from ssbench.core.units import (
    N,
    Unit,
    ValidationError,
    expiry,
    kind,
    number,
    preview,
    seconds_or_none,
    size_from,
)

V = TypeVar("V")

#: Of a class without initial files and profile: it gets no operations.
NO_PROFILE: Profile = ()


#: Bytes that naming appends to a class's name: "_", a run's id, "_", a number.
OBJECT_SUFFIX_LENGTH = 1 + 32 + 1 + 19
MAX_CLASS_NAME = 1024 - OBJECT_SUFFIX_LENGTH  #: Swift's default of max_object_name_length, in bytes
MAX_CONTAINER_NAME = 256  #: Swift's default of max_container_name_length, in bytes
MAX_CONTAINERS = 10_000_000  #: every process has all names in memory
MAX_BLOCK = 1 << 30
#: Of objects, as SDKs send them.
CHECKSUMS = ("none", "crc32c", "crc64nvme", "sha256", "md5")
CHECKSUM_PLACES = ("header", "trailer")

MAX_CONDITIONS = 100
MAX_HEADER = 4096  #: characters of a header's value
# As text: most runs need none of them, and compiling costs a millisecond.
_HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}"
_PRIVATE_HEADER = (
    r"(?i)auth(?!or\b)|token|secret|passw|cookie|credential|signature"
    r"|(api|access|encryption|customer)-?key"
)
_OWN_HEADER = (
    r"(?i)host|connection|keep-alive|content-(length|type|range|md5)|transfer-encoding|te|trailer|upgrade"
    r"|expect|range|user-agent|date|if-none-match|x-copy-from|x-fresh-metadata|x-delete-(after|at)"
    r"|x-trans-id-extra|x-object-meta-ssbench.*|x-http-method.*|destination|overwrite|depth|if"
    r"|x-amz-(copy-source.*|metadata-directive|date|content-sha256|meta-ssbench.*)"
)
#: A scenario may be from elsewhere: with these, its objects would be, and show, other data of the
#: account, or a proxy would serve another path.
_OTHER_DATA_HEADER = (
    r"(?i)x-symlink-.*|x-object-manifest|x-copy-from-.*|x-backend-.*|x-(original|rewrite)-ur[il]"
    r"|x-method-override"
)
_POLICY = re.compile(r"[!-.0-~]+")


def of_type(raw: object, wanted: type[V], right: str) -> V:
    """:raises ValidationError: another type of JSON value."""
    if not isinstance(raw, wanted):
        raise ValidationError(f"{preview(raw)} is {kind(raw)}", right)
    return raw


def text(raw: object) -> str:
    """One or more printable characters that UTF-8 can encode."""
    right = "a string of one or more printable characters"
    found = of_type(raw, str, right)
    if not found:
        raise ValidationError("the string is empty", right)
    if any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in found):
        raise ValidationError(f"{preview(raw)} has a control character", right)
    if any(0xD800 <= ord(c) < 0xE000 for c in found):
        raise ValidationError(
            f"{preview(raw)} has half a surrogate pair", "characters that UTF-8 can encode"
        )
    return found


def any_text(raw: object) -> str:
    return of_type(raw, str, "a string")


def conditions(raw: object) -> tuple[str, ...]:
    """Texts; their grammar is that of ``core.stats.thresholds``."""
    right = 'a list like ["p99(READ) < 50ms", "errors < 0.1%"]'
    found = [text(each) for each in of_type(raw, list, right)]
    if len(found) > MAX_CONDITIONS:
        raise ValidationError(f"there are {len(found)}", f"at most {MAX_CONDITIONS}")
    return tuple(dict.fromkeys(found))


def short(words: str, noun: str, most: int) -> str:
    """:raises ValidationError: more bytes."""
    if len(words.encode()) > most:
        wrong = f"the {noun} has {len(words.encode())} bytes"
        raise ValidationError(wrong, f"at most {most} bytes of UTF-8")
    return words


def class_name(raw: object) -> str:
    """A size class's name, with which the names of its objects begin."""
    name = short(text(raw), "name", MAX_CLASS_NAME)
    # Clients and proxies rewrite such paths.
    if any(part in ("", ".", "..") for part in name.split("/")[:-1]):
        raise ValidationError(
            f'{preview(name)} has a "/" in front, "//", "./" or "../"', "a plain name"
        )
    return name


def _entries(raw: Sequence[object]) -> str:
    return "1 entry" if len(raw) == 1 else f"{len(raw)} entries"


def crud_profile(raw: object) -> Profile:
    """Four weights: the short form for the operations of CRUD."""
    names = ", ".join(row.name for row in CRUD)
    right = f"four weights of 0 or more: {names}, as in [3, 4, 2, 2]"
    weights = [number(weight, right) for weight in of_type(raw, list, right)]
    if len(weights) != len(CRUD):
        raise ValidationError(f"{preview(raw)} has {_entries(weights)}", right)
    if not any(weights):
        raise ValidationError("all four weights are 0", "at least one above 0")
    return profile(dict(zip(map(int, CRUD), weights, strict=True)))


def operations(raw: object, known: Mapping[int, Operation] = OPERATIONS) -> Profile:
    """Weights by the name of an operation, in any case."""
    right = 'a weight of 0 or more for each operation, as in {"read": 9, "head": 1}'
    weights: dict[int, float] = {}
    for name, weight in of_type(raw, dict, right).items():
        row = _operation(name, known)
        if int(row) in weights:
            raise ValidationError(f"{preview(name)} is given twice", "each operation once")
        weights[int(row)] = number(weight, right)
    if not any(weights.values()):
        raise ValidationError(
            "all weights are 0" if raw else "the object is empty", "at least one above 0"
        )
    return profile(weights)


def _operation(name: str, known: Mapping[int, Operation] = OPERATIONS) -> Operation:
    row = operation_named(name, known)
    if row is None:
        names = [each.name.lower() for each in of_phase(Phase.RUN)]
        raise ValidationError(f"there is no operation {preview(name)}", suggest(name, names))
    return row


def profile(weights: Mapping[int, float]) -> Profile:
    """Shares with a sum of 1 from weights that are not all 0; shares stay as they are."""
    total = sum(weights.values())
    if total == math.inf:
        largest = max(weights.values())
        return profile({each: weight / largest for each, weight in weights.items()})
    by = total if abs(total - 1) > 1e-9 else 1.0
    shares = ((each, weight / by) for each, weight in sorted(weights.items()))
    return tuple((each, share) for each, share in shares if share)


def mix(profiles: Iterable[tuple[float, Profile]]) -> Profile:
    """The mean of profiles, each with its weight; NO_PROFILE if all weights are 0."""
    weights: dict[int, float] = {}
    for weight, shares in profiles:
        for operation, share in shares:
            weights[operation] = weights.get(operation, 0.0) + share * weight
    return profile(weights) if any(weights.values()) else NO_PROFILE


def profile_keys(shares: Profile) -> dict[str, object]:
    """The keys of a scenario for a profile: ``crud_profile`` if that is enough."""
    by_operation = dict(shares)
    if by_operation.keys() <= {*CRUD}:
        return {"crud_profile": [by_operation.get(each, 0.0) for each in CRUD]}
    names = {int(row): row.name.lower() for row in of_phase(Phase.RUN)}
    return {"operations": {names[each]: share for each, share in shares}}


def class_weights(raw: object) -> dict[str, float]:
    """Weights by the name of a size class."""
    right = 'a weight for each size, as in {"tiny": 9, "large": 1}'
    weights = {n: number(weight, right) for n, weight in of_type(raw, dict, right).items()}
    if not any(weights.values()):
        raise ValidationError(f"{preview(raw)} has none above 0", right)
    return {name: weight for name, weight in weights.items() if weight}


def groups_of_stage(raw: object) -> dict[str, Any]:
    """The groups of a stage, each still to be read."""
    return of_type(raw, dict, 'an object like {"puts": {"users": 5, "operations": {"create": 1}}}')


def ramp(unit: Unit[N]) -> Check[N | tuple[N, N]]:
    """A number, or the first and the last of a ramp."""
    what = f"{unit.what}, or two: [first, last]"

    def check(raw: object) -> N | tuple[N, N]:
        if not isinstance(raw, list):
            return replace(unit, what=what)(raw)
        if len(raw) != 2:
            raise ValidationError(f"{preview(raw)} has {_entries(raw)}", what)
        first, last = map(unit, raw)
        return first if first == last else (first, last)

    return check


def container_base(raw: object) -> str:
    """The start of the containers' names."""
    base = text(raw)
    if "/" in base:
        raise ValidationError(f"{preview(base)} has a slash", "a name without slashes")
    return short(base, "name", MAX_CONTAINER_NAME - len("_000000"))


def container_name(base: str, index: int, policy: str | None = None) -> str:
    """``ssbench_000061``, and ``ssbench_000061_gold`` under policy ``gold``."""
    suffix = f"_{policy}" if policy else ""
    return f"{base}_{index:06d}{suffix}"


def container_option(option: str, name: str) -> None:
    """:raises UsageError: no container can have this name."""
    try:
        container_base(name)
    except ValidationError as error:
        raise UsageError(f"{option}: {error}") from error


def policy(raw: object) -> str:
    """The name of a storage policy, which ends container names and is sent in a header."""
    name = text(raw)
    if not _POLICY.fullmatch(name):
        right = "the name of a storage policy: ASCII without blanks and slashes"
        raise ValidationError(f"{preview(name)} is not the name of a policy", right)
    return name


def delete_after(raw: object) -> int | None:
    """Whole seconds until objects expire; None (0 in the file): never."""
    return expiry(raw) or None


#: ``key_names`` of a scenario -> what comes before an object's name, from its number and the slash.
#: Neighbouring numbers get different prefixes, or other folders.
KEY_NAMES: dict[str, Callable[[int, str], str] | None] = {
    "flat": None,
    "hashed": lambda number, slash: f"{(number * 0x9E3779B1 >> 16) & 0xFFFF:04x}-",
    "deep": lambda number, slash: (
        f"{number % 100:02d}{slash}{number // 100 % 100:02d}{slash}"
        f"{number // 10_000 % 100:02d}{slash}"
    ),
}


def content_block(low: int) -> Check[int]:
    """The blocks in which a store saves content: a power of two from ``low`` to 128 KiB."""
    bytes_ = size_from(low, MAX_CONTENT_BLOCK)

    def check(raw: object) -> int:
        found = bytes_(raw)
        if found & (found - 1):
            raise ValidationError(f"{preview(raw)} is not a power of two", "as in 4096 or 64k")
        return found

    return check


#: Of an object lock, as S3 names them in capitals.
LOCK_MODES = ("governance", "compliance")


def flag(raw: object) -> bool:
    """A check for true and false."""
    return of_type(raw, bool, "true or false")


def headers(
    raw: object, known: Mapping[int, Operation] = OPERATIONS
) -> dict[str, str | dict[str, str]]:
    """Further request headers: of all operations, or of one, by its name."""
    right = 'names and values, as in {"X-Debug": "1", "read": {"X-Newest": "true"}}'
    found: dict[str, str | dict[str, str]] = {}
    for name, value in of_type(raw, dict, right).items():
        if not isinstance(value, dict):
            found[name] = _header(name, value, right)
            continue
        _operation(name, known)
        found[name] = {each: _header(each, text, right) for each, text in value.items()}
    _check_distinct(name for name, value in found.items() if isinstance(value, str))
    for value in found.values():
        _check_distinct(value if isinstance(value, dict) else ())
    return found


def populate_headers(raw: object) -> dict[str, str]:
    """Further headers of the uploads of initial objects."""
    right = 'names and values, as in {"x-amz-storage-class": "STANDARD_IA"}'
    found = {n: _header(n, value, right) for n, value in of_type(raw, dict, right).items()}
    _check_distinct(found)
    return found


def _check_distinct(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}  # by the name in lower case
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            wrong = f"{preview(other)} and {preview(name)} are one header"
            raise ValidationError(wrong, "leave one of them out")


def _header(name: str, value: object, right: str) -> str:
    if not re.fullmatch(_HEADER_NAME, name):
        raise ValidationError(f"{preview(name)} is no name of a header", right)
    if re.search(_PRIVATE_HEADER, name):
        wrong = f"{preview(name)} is for credentials, and a scenario is stored with the results"
        raise ValidationError(wrong, "leave it out: the store's options have credentials")
    if re.fullmatch(_OWN_HEADER, name):
        raise ValidationError(f"ssbench itself sets {preview(name)}", "leave it out")
    if name.lower() == "x-amz-object-lock-legal-hold":
        wrong = f"{preview(name)} has no end, so no clean-up could delete the objects"
        raise ValidationError(wrong, "leave it out: object_lock locks for some seconds")
    if re.fullmatch(_OTHER_DATA_HEADER, name):
        wrong = f"{preview(name)} can refer to other data of the account"
        raise ValidationError(wrong, "leave it out: a run uses its own objects only")
    if not (isinstance(value, str) and value.isascii() and value.isprintable()):
        raise ValidationError(f"{preview(value)} is no value of {name}", "printable ASCII")
    if len(value) > MAX_HEADER:
        raise ValidationError(f"{name} has {len(value)} characters", f"at most {MAX_HEADER}")
    return value


def one_of(names: Collection[str], what: str) -> Check[str]:
    """A check for one of these names."""

    def check(raw: object) -> str:
        if not isinstance(raw, str) or raw not in names:
            right = " or ".join(", ".join(map(preview, names)).rsplit(", ", 1))
            raise ValidationError(f"{preview(raw)} is not {what}", right)
        return raw

    return check


_PAUSE = replace(seconds_or_none, what="a number of seconds, or two: [least, longest]")


def think_time(raw: object) -> tuple[float, float] | None:
    """The shortest and the longest pause of a user; None: no pauses."""
    right = f'{_PAUSE.what}; also with units, as in "500ms"'
    if isinstance(raw, list | tuple):
        if len(raw) != 2:
            raise ValidationError(f"{preview(raw)} has {_entries(raw)}", right)
        least, longest = map(_PAUSE, raw)
        if least > longest:
            raise ValidationError(f"{preview(raw)} has the longer one first", right)
    else:
        least = longest = _PAUSE(raw)
    return (least, longest) if longest else None


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
_PICK = ", ".join(f'"{name}"' for name in PICKS) + ', or with an exponent: {"zipf": 1.2}'


#: Smallest and largest size; None: those of the class, which a log-normal distribution takes.
SizeRange = tuple[int | None, int | None, Distribution | None]


def size(raw: object) -> SizeRange:
    """One size, or a distribution of sizes."""
    if not isinstance(raw, dict):
        low = _BYTES(raw)
        return low, low, None
    if len(raw) != 1:
        raise ValidationError(f"{preview(raw)} has {len(raw)} keys", f"one of {_SIZE}")
    ((name, value),) = raw.items()
    if name not in _SIZES:
        wrong = f"there is no distribution {preview(name)}"
        raise ValidationError(wrong, suggest(name, list(_SIZES)))
    return _SIZES[name](value)


def _uniform(raw: object) -> SizeRange:
    low, high = _row(raw, "uniform", _BYTES, _BYTES)
    if low > high:
        raise ValidationError(f"{low} is above {high}", "the smaller size first")
    return low, high, None


def _log_normal(raw: object) -> SizeRange:
    right = '{"median": SIZE, "sigma": NUMBER}, with size_min and size_max beside it'
    if not isinstance(raw, dict) or raw.keys() != {"median", "sigma"}:
        raise ValidationError(f'"log_normal": {preview(raw)} is not its two keys', right)
    median = size_from(1)(raw["median"])
    sigma = number(raw["sigma"], f"a number above 0, at most {MAX_SIGMA:g}")
    if not 0 < sigma <= MAX_SIGMA:
        raise ValidationError(f"sigma {sigma:g} is out of range", f"above 0, at most {MAX_SIGMA:g}")
    return None, None, LogNormal(float(median), sigma, 0, 0)


def between(low: int, high: int, distribution: LogNormal | SizeBins | None) -> Distribution | None:
    """The distribution within a class's bounds.

    :raises ValidationError: hardly any of its sizes are.
    """
    if not isinstance(distribution, LogNormal):
        return distribution
    found = replace(distribution, low=low, high=high)
    if found.share < _LEAST_SHARE:
        wrong = f"hardly any size is from {low} to {high} bytes"
        raise ValidationError(wrong, "a median near them, or a larger sigma")
    return found


def _list(raw: object) -> SizeRange:
    return _bins([(size, size, weight) for size, weight in _rows(raw, "list", _BYTES, _weight)])


def _histogram(raw: object) -> SizeRange:
    rows = _rows(raw, "histogram", _BYTES, _BYTES, _weight)
    for at, (begin, end, _weight_of) in enumerate(rows):
        if begin >= end:
            raise ValidationError(f"histogram[{at}] ends at {end}", f"above its begin, {begin}")
    for at, (before, row) in enumerate(pairwise(rows), 1):
        if row[0] < before[1]:
            wrong = f"histogram[{at}] begins at {row[0]}"
            raise ValidationError(wrong, f"at least {before[1]}, where the one before it ends")
    return _bins([(begin, end - 1, weight) for begin, end, weight in rows])


def _bins(bins: list[tuple[int, int, float]]) -> SizeRange:
    used = tuple(each for each in bins if each[2])
    if not used:
        raise ValidationError("all weights are 0", "at least one above 0")
    low, high = min(each[0] for each in used), max(each[1] for each in used)
    return low, high, SizeBins(used) if low < high else None


def _weight(raw: object) -> float:
    weight = number(raw, "a weight of 0 or more")
    if weight and not _LEAST_WEIGHT <= weight <= 1 / _LEAST_WEIGHT:
        right = f"0, or a weight from {_LEAST_WEIGHT:g} to {1 / _LEAST_WEIGHT:g}"
        raise ValidationError(f"{preview(raw)} is out of range", right)
    return weight


def _rows(raw: object, name: str, *checks: Check[Any]) -> list[list[Any]]:
    if not isinstance(raw, list) or not 1 <= len(raw) <= MAX_BINS:
        wrong = _entries(raw) if isinstance(raw, list) else kind(raw)
        raise ValidationError(f'"{name}" is {wrong}', f"a list of 1 to {MAX_BINS} entries")
    return [_row(row, f"{name}[{at}]", *checks) for at, row in enumerate(raw)]


def _row(raw: object, place: str, *checks: Check[Any]) -> list[Any]:
    if not isinstance(raw, list) or len(raw) != len(checks):
        raise ValidationError(f"{place}: {preview(raw)}", f"a list of {len(checks)}, as in {_SIZE}")
    return [check(value) for check, value in zip(checks, raw, strict=True)]


_SIZES: Mapping[str, Callable[[object], SizeRange]] = {
    "fixed": lambda raw: size(_BYTES(raw)),
    "uniform": _uniform,
    "log_normal": _log_normal,
    "list": _list,
    "histogram": _histogram,
}


def size_to_json(distribution: Distribution) -> dict[str, object]:
    """The value of ``size`` that ``size`` makes the distribution of."""
    if isinstance(distribution, LogNormal):
        return {"log_normal": {"median": distribution.median, "sigma": distribution.sigma}}
    bins = distribution.bins
    if all(low == high for low, high, _weight_of in bins):
        return {"list": [[low, weight] for low, _high, weight in bins]}
    return {"histogram": [[low, high + 1, weight] for low, high, weight in bins]}


def pick(raw: object) -> Pick:
    """Which object an operation picks."""
    name, exponent = raw, DEFAULT_EXPONENT
    if isinstance(raw, dict) and len(raw) == 1:
        ((name, value),) = raw.items()
        exponent = number(value, _PICK)
        if name in PICKS and name not in _BY_ZIPF:
            raise ValidationError(f"{preview(name)} has no exponent", f'"{name}"')
        if not 0 < exponent <= MAX_EXPONENT:
            right = f"a number above 0, at most {MAX_EXPONENT:g}"
            raise ValidationError(f"the exponent {exponent:g} is out of range", right)
    if not isinstance(name, str):
        raise ValidationError(f"{preview(raw)} is {kind(raw)}", _PICK)
    if name not in PICKS:
        raise ValidationError(f"there is no pick {preview(name)}", suggest(name, [*PICKS]))
    return Pick(name, exponent if name in _BY_ZIPF else UNIFORM.exponent)


def pick_to_json(chosen: Pick) -> object:
    """The value of ``pick`` that ``pick`` makes the same of."""
    return {chosen.kind: chosen.exponent} if chosen.kind in _BY_ZIPF else chosen.kind
