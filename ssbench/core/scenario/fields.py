"""The keys of a scenario: a row each in KEYS, with its check.

Those in a size class are in size_keys, those in a stage or a group of users in load_keys.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.core.model import Group, Phase, Profile, SizeClass
from ssbench.core.naming import KEY_NAMES
from ssbench.core.operations import (
    CRUD,
    Operation,
    Parameter,
    of_phase,
    operation_named,
    parameters_of,
    row_of,
)
from ssbench.core.scenario.checks import Check, KeyRule, ValidationErrors, member, suggest, text
from ssbench.core.scenario.draw_keys import pick_key
from ssbench.core.text import MAX_SEED
from ssbench.core.units import (
    ValidationError,
    expiry,
    kind,
    number,
    preview,
    rate,
    seconds,
    seconds_or_none,
    size_from,
    whole,
)

#: Of a class without initial files and profile: it gets no operations.
NO_PROFILE: Profile = ()
#: At one place at most one of them.
PROFILE_KEYS = ("crud_profile", "operations")

MAX_CONTAINER_NAME = 256  #: Swift's default of max_container_name_length, in bytes
MAX_CONTAINERS = 10_000_000  #: every process has all names in memory
MAX_BLOCK = 1 << 30
ARRIVALS = ("uniform", "poisson")  #: pacing.MODELS

MAX_HEADER = 4096  #: characters of a header's value
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_SECRET_HEADER = re.compile(
    r"auth(?!or\b)|token|secret|passw|cookie|credential|signature|(api|access|encryption|customer)-?key",
    re.IGNORECASE,
)
_OWN_HEADER = re.compile(
    r"host|connection|keep-alive|content-(length|type|range|md5)|transfer-encoding|te|trailer|upgrade"
    r"|expect|range|user-agent|date|if-none-match|x-copy-from|x-fresh-metadata|x-delete-(after|at)"
    r"|x-trans-id-extra|x-object-meta-ssbench.*|x-http-method.*|destination|overwrite|depth|if"
    r"|x-amz-(copy-source.*|metadata-directive|date|content-sha256|meta-ssbench.*)",
    re.IGNORECASE,
)
_POLICY = re.compile(r"[!-.0-~]+")


def crud_profile(raw: object) -> Profile:
    """Four weights: the short form for the operations of CRUD."""
    names = ", ".join(row.name for row in CRUD)
    right = f"four weights of 0 or more: {names}, as in [3, 4, 2, 2]"
    if not isinstance(raw, list):
        raise ValidationError(f"{preview(raw)} is {kind(raw)}", right)
    if len(raw) != len(CRUD):
        raise ValidationError(f"{preview(raw)} has {len(raw)} entries", right)
    weights = [number(weight, right) for weight in raw]
    if not any(weights):
        raise ValidationError("all four weights are 0", "at least one above 0")
    return profile(dict(zip(map(int, CRUD), weights, strict=True)))


def operations(raw: object) -> Profile:
    """Weights by the name of an operation, in any case."""
    right = 'a weight of 0 or more for each operation, as in {"read": 9, "head": 1}'
    if not isinstance(raw, dict):
        raise ValidationError(f"{preview(raw)} is {kind(raw)}", right)
    weights: dict[int, float] = {}
    for name, weight in raw.items():
        row = _operation(name)
        if int(row) in weights:
            raise ValidationError(f"{preview(name)} is given twice", "each operation once")
        weights[int(row)] = number(weight, right)
    if not any(weights.values()):
        raise ValidationError(
            "all weights are 0" if raw else "the object is empty", "at least one above 0"
        )
    return profile(weights)


def _operation(name: str) -> Operation:
    row = operation_named(name)
    if row is None:
        known = [each.name.lower() for each in of_phase(Phase.RUN)]
        raise ValidationError(f"there is no operation {preview(name)}", suggest(name, known))
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


def profile_keys(shares: Profile) -> dict[str, object]:
    """The keys of a scenario for a profile: ``crud_profile`` if that is enough."""
    by_operation = dict(shares)
    if by_operation.keys() <= {*CRUD}:
        return {"crud_profile": [by_operation.get(each, 0.0) for each in CRUD]}
    names = {int(row): row.name.lower() for row in of_phase(Phase.RUN)}
    return {"operations": {names[each]: share for each, share in shares}}


def one_profile(
    values: dict[str, Any], raw: Mapping[str, object], place: str, faults: ValidationErrors
) -> Profile | None:
    """Removes the profile from checked values and returns it; NO_PROFILE after an error.

    :param raw: the object that the values were read from.
    """
    found = [values.pop(key, None) for key in PROFILE_KEYS]
    there = [key for key in PROFILE_KEYS if raw.get(key) is not None]
    if len(there) > 1:
        faults.add(member(place, "operations"), "crud_profile is given as well", "one of the two")
    if not there:
        return None
    return found[0] or found[1] or NO_PROFILE


def container_base(raw: object) -> str:
    """The start of the containers' names."""
    base = text(raw)
    if "/" in base:
        raise ValidationError(f"{preview(base)} has a slash", "a name without slashes")
    if len(base.encode()) > MAX_CONTAINER_NAME - len("_000000"):
        raise ValidationError(
            f"the name has {len(base.encode())} bytes", "at most 249 bytes of UTF-8"
        )
    return base


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


def flag(raw: object) -> bool:
    """A check for true and false."""
    if not isinstance(raw, bool):
        raise ValidationError(f"{preview(raw)} is {kind(raw)}", "true or false")
    return raw


def headers(raw: object) -> dict[str, str | dict[str, str]]:
    """Further request headers: of all operations, or of one, by its name."""
    right = 'names and values, as in {"X-Debug": "1", "read": {"X-Newest": "true"}}'
    if not isinstance(raw, dict):
        raise ValidationError(f"{preview(raw)} is {kind(raw)}", right)
    found: dict[str, str | dict[str, str]] = {}
    for name, value in raw.items():
        if not isinstance(value, dict):
            found[name] = _header(name, value, right)
            continue
        _operation(name)
        found[name] = {each: _header(each, text, right) for each, text in value.items()}
    of_all = [name for name, value in found.items() if isinstance(value, str)]
    for names in (of_all, *(value for value in found.values() if isinstance(value, dict))):
        _check_distinct(names)
    return found


def _check_distinct(names: Iterable[str]) -> None:
    seen: dict[str, str] = {}  # by the name in lower case
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            wrong = f"{preview(other)} and {preview(name)} are one header"
            raise ValidationError(wrong, "leave one of them out")


def _header(name: str, value: object, right: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        raise ValidationError(f"{preview(name)} is no name of a header", right)
    if _SECRET_HEADER.search(name):
        wrong = f"{preview(name)} is for credentials, and a scenario is stored with the results"
        raise ValidationError(wrong, "leave it out: the store's options have credentials")
    if _OWN_HEADER.fullmatch(name):
        raise ValidationError(f"ssbench itself sets {preview(name)}", "leave it out")
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
            raise ValidationError(f"{preview(raw)} has {len(raw)} entries", right)
        least, longest = map(_PAUSE, raw)
        if least > longest:
            raise ValidationError(f"{preview(raw)} has the longer one first", right)
    else:
        least = longest = _PAUSE(raw)
    return (least, longest) if longest else None


def unchecked(raw: object) -> object:
    return raw


#: All but those of OWN_READERS.
KEYS: dict[str, KeyRule] = {
    "name": KeyRule(
        text,
        "The name of the scenario in the report and in the stat file's name.",
        required=True,
        example='"Small objects"',
    ),
    "operation_count": KeyRule(
        whole(1),
        "The run ends after this number of operations.",
        default="see `Precedence`_",
        option="-o",
    ),
    "run_seconds": KeyRule(
        seconds, "The run ends after this time.", default="see `Precedence`_", option="-r"
    ),
    "crud_profile": KeyRule(
        crud_profile,
        "Only the proportion of the weights counts: ``[3, 4, 2, 2]`` means 27 % CREATE, 36 % READ, "
        "18 % UPDATE, 18 % DELETE. At least one is above 0.",
        default="required unless each size in use has its own",
    ),
    "operations": KeyRule(
        operations,
        'Weights by name, for any of the `Operations`_: ``{"read": 8, "head": 1, "post": 1}``. '
        "Replaces ``crud_profile``; a scenario cannot have both at the same level.",
        default="``crud_profile``",
    ),
    "pick": KeyRule(
        pick_key,
        "Which of the existing objects an operation uses: see `Sizes and picks`_.",
        default="uniform",
    ),
    "user_count": KeyRule(
        whole(1),
        "Concurrent users: the number of operations in flight. Start workers with enough "
        "concurrency.",
        default="required here, as ``-u``, or by ``stages`` or ``groups``",
        required=True,
        example="4",
        option="-u",
    ),
    "container_base": KeyRule(
        container_base,
        "The start of the containers' names: ``ssbench_000061``; with a policy, "
        f"``ssbench_000061_gold``. No slashes; at most {MAX_CONTAINER_NAME} bytes including number "
        "and policy.",
        option="--container-base",
    ),
    "container_count": KeyRule(
        whole(1, MAX_CONTAINERS),
        "The number of containers over which the objects are spread.",
        option="-c",
    ),
    "container_concurrency": KeyRule(
        whole(1), "The number of containers to create concurrently before the run."
    ),
    "delete_after": KeyRule(
        delete_after,
        "Uploaded objects expire after this time (``X-Delete-After``); 0 for never.",
        default="0",
        option="--delete-after",
    ),
    "policy": KeyRule(
        policy,
        "The storage policy of the containers. The cluster must have it.",
        default="the cluster's",
        option="--policy",
    ),
    "block_size": KeyRule(
        size_from(1, MAX_BLOCK),
        "Objects are sent and received in pieces of this size.",
        option="-b",
    ),
    "seed": KeyRule(
        whole(0, MAX_SEED),
        "The same seed gives the same operations, sizes and names. Initial objects do not depend "
        "on the seed.",
        default="random for each run",
        option="--seed",
    ),
    "rate": KeyRule(
        rate,
        "Target arrival rate (open loop), independent of the store: see `The load`_.",
        default="none: a closed loop",
        option="--rate",
    ),
    "arrivals": KeyRule(
        one_of(ARRIVALS, "an arrival model"),
        "Open loop: evenly spaced or random arrivals.",
        option="--arrivals",
    ),
    "think_time": KeyRule(
        think_time,
        "Closed loop: how long a user pauses after each operation; of two numbers, uniform between "
        "them.",
        default="0",
        option="--think-time",
    ),
    "warmup": KeyRule(
        seconds_or_none,
        "The start of the run that is in the stat file, but not in the report's figures: see "
        "`What counts`_.",
        option="--warmup",
    ),
    "cooldown": KeyRule(seconds_or_none, "The same for the end of the run.", option="--cooldown"),
    "bandwidth": KeyRule(
        size_from(1),
        "Bytes of objects that all users together send and receive per second at most. Each worker "
        "has a share of it, as of the users. An operation starts once its bytes are within the "
        "share: transfers themselves are not slowed down, and no latency includes the wait. With "
        "a ``rate``, operations that it delays start late.",
        default="unlimited",
        option="--bandwidth",
    ),
    "headers": KeyRule(headers, "Further request headers: see `Requests`_.", default="none"),
    "keep_alive": KeyRule(flag, "Whether a connection serves several requests: see `Requests`_."),
    "expect_continue": KeyRule(
        flag, "Whether uploads ask before they send the object: see `Requests`_."
    ),
    "key_names": KeyRule(
        one_of(KEY_NAMES, "a form of names"),
        "The form of the objects' names. ``flat``: ``tiny_000012``. ``hashed``: behind four "
        "hexadecimal digits that differ from one object to the next, ``6a99-tiny_000012``. "
        "``deep``: below three levels of a hundred folders each, ``12/00/00/tiny_000012``.",
    ),
}
#: Keys that functions of their own read and check.
OWN_READERS: dict[str, KeyRule] = {
    "sizes": KeyRule(unchecked, "The size classes, at least one: see `In a size`_.", required=True),
    "initial_files": KeyRule(
        unchecked,
        "The number of objects of each size class when the run begins. Operations are divided "
        "among the classes in the same proportion: a class that is missing here, or has 0, takes "
        "no part in the run. At least one count must be above 0.",
        required=True,
    ),
    "stages": KeyRule(
        unchecked,
        "Parts of the run, each with its own load: see `In a stage`_.",
        default="none",
    ),
    "groups": KeyRule(
        unchecked,
        "Groups of users with operations of their own: see `Groups of users`_.",
        default="none: all users are alike",
    ),
    "large_object": KeyRule(
        unchecked,
        "How objects above a size are stored in parts: see `In a large object`_.",
        default="none: each object is stored as one",
    ),
}


def parameter_keys() -> dict[str, KeyRule]:
    """The keys of all operations' parameters. A driver's module may have registered some."""
    known = parameters_of(of_phase(Phase.RUN))
    return {key: KeyRule(_parameter_check(each), each.meaning) for key, each in known.items()}


def _parameter_check(parameter: Parameter) -> Check[int | str]:
    if isinstance(parameter.default, int):
        return (size_from if parameter.is_size else whole)(parameter.low, parameter.high)

    def check(raw: object) -> str:
        value = raw if raw == "" else text(raw)
        assert isinstance(value, str)  # nosec B101 # for the type checker
        if len(value.encode()) > parameter.high:
            wrong = f"the text has {len(value.encode())} bytes"
            raise ValidationError(wrong, f"at most {parameter.high} bytes of UTF-8")
        return value

    return check


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
