"""The keys of a scenario: a row each in KEYS, SIZE_KEYS, STAGE_KEYS and GROUP_KEYS."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from ssbench.core.distributions import UNIFORM, Pick
from ssbench.core.errors import UsageError
from ssbench.core.model import Group, LargeObject, Phase, Profile, SizeClass, Stage
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
from ssbench.core.scenario.checks import (
    Check,
    KeyRule,
    ValidationError,
    ValidationErrors,
    duration,
    integer,
    kind,
    member,
    number,
    preview,
    read_keys,
    seconds,
    size,
    suggest,
    text,
)
from ssbench.core.scenario.draw_keys import pick_key, read_size, size_key

#: Of a class without initial files and profile: it gets no operations.
NO_PROFILE: Profile = ()
#: At one place at most one of them.
PROFILE_KEYS = ("crud_profile", "operations")

#: Bytes that naming appends to a class's name: "_", a run's id, "_", a number.
OBJECT_SUFFIX_LENGTH = 1 + 32 + 1 + 19
MAX_OBJECT_NAME = 1024  #: Swift's default of max_object_name_length, in bytes
MAX_CONTAINER_NAME = 256  #: Swift's default of max_container_name_length, in bytes
MAX_CONTAINERS = 10_000_000  #: every process has all names in memory
MAX_BLOCK = 1 << 30
MAX_SEED = 2**64 - 1
MAX_GROUPS = 64
ARRIVALS = ("uniform", "poisson")  #: pacing.MODELS
MAX_RATE = 10_000_000

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


def size_name(raw: object) -> str:
    """A class's name, with which the names of its objects begin."""
    name = text(raw)
    most = MAX_OBJECT_NAME - OBJECT_SUFFIX_LENGTH
    if len(name.encode()) > most:
        raise ValidationError(
            f"the name has {len(name.encode())} bytes", f"at most {most} bytes of UTF-8"
        )
    # Clients and proxies rewrite such paths.
    if any(part in ("", ".", "..") for part in name.split("/")[:-1]):
        raise ValidationError(
            f'{preview(name)} has a "/" in front, "//", "./" or "../"', "a plain name"
        )
    return name


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
    right = 'a whole number of seconds from 0 up, or a string with a unit, as in "2h"'
    return integer(0, right=right)(duration(raw) if isinstance(raw, str) else raw) or None


def rate(raw: object) -> float:
    """Operations a second."""
    right = f"a number of operations a second, above 0 and at most {MAX_RATE:,}"
    value = number(raw, right)
    if not 0 < value <= MAX_RATE:
        raise ValidationError(f"{preview(raw)} is not a rate", right)
    return value


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
    return found


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
        if raw not in names:
            right = " or ".join(", ".join(map(preview, names)).rsplit(", ", 1))
            raise ValidationError(f"{preview(raw)} is not {what}", right)
        return str(raw)

    return check


def think_time(raw: object) -> tuple[float, float] | None:
    """The shortest and the longest pause of a user; None: no pauses."""
    right = 'a number of seconds, or two: [least, longest]; also with units, as in "500ms"'
    if isinstance(raw, list | tuple):
        if len(raw) != 2:
            raise ValidationError(f"{preview(raw)} has {len(raw)} entries", right)
        least, longest = (duration(entry, right) for entry in raw)
        if least > longest:
            raise ValidationError(f"{preview(raw)} has the longer one first", right)
    else:
        least = longest = duration(raw, right)
    return (least, longest) if longest else None


#: Of a class's name, behind that of another: its objects are named like segments of that one's.
_LIKE_A_SEGMENT = "_([0-9a-f]{10}_)?[0-9]{6,10}_[0-9]{1,9}"
LARGE_KEYS: dict[str, KeyRule] = {
    "above": KeyRule(
        size(0),
        "Objects of more bytes are stored in parts, others as one.",
        required=True,
        example='"5MiB"',
    ),
    "segment": KeyRule(
        size(1),
        "The size of a part; the last one may be smaller. S3 demands at least 5 MiB.",
        required=True,
        example='"5MiB"',
    ),
    "kind": KeyRule(
        text,
        "Swift: ``slo`` (static large objects, the default) or ``dlo`` (dynamic ones). S3: "
        "``multipart``.",
        default="the store's usual one",
    ),
    "parallel": KeyRule(
        integer(1, 64),
        "Parts of one object that are uploaded, copied or deleted at once. Each user opens as many "
        "connections.",
    ),
}


def read_large_object(raw: object, faults: ValidationErrors) -> LargeObject | None:
    """How large objects are stored; None: as one, and after an error."""
    if raw is None:
        return None
    right = 'an object like {"above": "5MiB", "segment": "5MiB"}'
    if not faults.is_object(raw, "large_object", right):
        return None
    before = len(faults.lines)
    values = read_keys(raw, LARGE_KEYS, "large_object", faults)
    return LargeObject(**values) if len(faults.lines) == before else None


def check_large_object(
    large: LargeObject | None, sizes: Sequence[SizeClass], faults: ValidationErrors
) -> None:
    """Add an error for each class whose objects are named like segments of another class's."""
    names = [each.name for each in sizes if large]
    for at, name in enumerate(names):
        if any(re.fullmatch(re.escape(other) + _LIKE_A_SEGMENT, name) for other in names):
            wrong = f"objects of {preview(name)} would be named like segments of another size's"
            faults.add(f"sizes[{at}].name", wrong, "another name")


def unchecked(raw: object) -> object:
    return raw


_SIZE_BYTES = size(0)
_COUNT = integer(0)
_OF_TOP_LEVEL = "that of the top level"

SIZE_KEYS: dict[str, KeyRule] = {
    "name": KeyRule(
        size_name,
        "The unique name of the class. Object names begin with it: ``tiny_000012``. At most "
        f"{MAX_OBJECT_NAME - OBJECT_SUFFIX_LENGTH} bytes, which leaves room for the rest of an "
        "object name.",
        required=True,
        example='"tiny"',
    ),
    "size_min": KeyRule(
        _SIZE_BYTES, "The smallest size.", default="required unless ``size`` says it"
    ),
    "size_max": KeyRule(
        _SIZE_BYTES,
        "The largest size. Without ``size``, sizes are uniform between ``size_min`` and "
        "``size_max``, both included.",
        default="required unless ``size`` says it",
    ),
    "size": KeyRule(
        size_key,
        "One size, or a distribution of sizes: see `Sizes and picks`_.",
        default="uniform",
    ),
    "pick": KeyRule(
        pick_key,
        "Which of the class's objects an operation uses: see `Sizes and picks`_.",
        default=_OF_TOP_LEVEL,
    ),
    "crud_profile": KeyRule(
        crud_profile, "Weights of the operations on this class.", default=_OF_TOP_LEVEL
    ),
    "operations": KeyRule(
        operations, "Weights by name, instead of ``crud_profile``.", default=_OF_TOP_LEVEL
    ),
}

STAGE_KEYS: dict[str, KeyRule] = {
    "seconds": KeyRule(
        seconds,
        "The duration of the stage. The run lasts as long as all stages together.",
        required=True,
        example="30",
    ),
    "users": KeyRule(integer(1), "Concurrent users.", default="``user_count``"),
    "rate": KeyRule(
        rate,
        "Target arrival rate. Either every stage has a rate, or none has.",
        default="the scenario's ``rate``",
    ),
    "warmup": KeyRule(
        duration,
        "The start of the stage that is in the stat file, but not in the report's figures, neither "
        "those of the stage nor those of the run. Shorter than the stage.",
    ),
}

#: All but those of OWN_READERS.
KEYS: dict[str, KeyRule] = {
    "name": KeyRule(
        text,
        "The name of the scenario in the report and in the stat file's name.",
        required=True,
        example='"Small objects"',
    ),
    "operation_count": KeyRule(
        integer(1),
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
        integer(1),
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
        integer(1, MAX_CONTAINERS),
        "The number of containers over which the objects are spread.",
        option="-c",
    ),
    "container_concurrency": KeyRule(
        integer(1), "The number of containers to create concurrently before the run."
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
        size(1, MAX_BLOCK), "Objects are sent and received in pieces of this size.", option="-b"
    ),
    "seed": KeyRule(
        integer(0, MAX_SEED),
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
        duration,
        "The start of the run that is in the stat file, but not in the report's figures: see "
        "`What counts`_.",
        option="--warmup",
    ),
    "cooldown": KeyRule(duration, "The same for the end of the run.", option="--cooldown"),
    "bandwidth": KeyRule(
        size(1),
        "Bytes of objects that all users together send and receive per second at most. Each worker "
        "has a share of it, as of the users. Users pause after an operation, before its bytes "
        "exceed the share: transfers themselves are not slowed down, and no latency includes a "
        "pause. At the start each user may be ahead by one object. With a ``rate``, operations "
        "that it delays start late.",
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
        return (size if parameter.is_size else integer)(parameter.low, parameter.high)

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


def read_initial_files(
    raw: object, names: Sequence[str | None], faults: ValidationErrors
) -> dict[str, int] | None:
    """Class name -> count; None after an error.

    :param names: of the classes; None for one whose name is wrong.
    """
    if not isinstance(raw, dict):
        wrong = "missing" if raw is None else f"{preview(raw)} is {kind(raw)}"
        faults.add("initial_files", wrong, 'a count for each size, as in {"tiny": 100}')
        return None
    known = dict.fromkeys(name for name in names if name is not None)
    complete = None not in names  # otherwise an unknown name may be that of the wrong size
    before = len(faults.lines)
    counts: dict[str, int] = {}
    for name, value in raw.items():
        place = member("initial_files", name)
        if complete and name not in known:
            right = suggest(name, list(known)) if not faults.full else ""
            faults.add(place, "no size has this name", right)
        counts[name] = faults.check(place, _COUNT, value) or 0
    sound = len(faults.lines) == before
    if sound and known and not any(counts.values()):
        faults.add("initial_files", "no size has any", "at least one count above 0")
    return counts if sound else None


def read_sizes(
    raw: object,
    initial_files: object,
    default: Profile | None,
    faults: ValidationErrors,
    pick: Pick = UNIFORM,
) -> tuple[SizeClass, ...]:
    """The size classes in the order of the file; () after an error.

    :param default: the profile of classes without one; None if the file has none.
    :param pick: of classes without one.
    """
    if not isinstance(raw, list) or not raw:
        wrong = "missing" if raw is None else f"{preview(raw)} is {kind(raw)}"
        wrong = "the list is empty" if raw == [] else wrong
        faults.add("sizes", wrong, "a list of at least one size: {name, size_min, size_max}")
        read_initial_files(initial_files, [None], faults)
        return ()
    rows = [_read_size(item, f"sizes[{i}]", faults) for i, item in enumerate(raw)]
    names = [row.get("name") for row in rows]
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        if name is not None and first.setdefault(name, i) != i:
            wrong = f"{preview(name)} is the name of sizes[{first[name]}] as well"
            faults.add(f"sizes[{i}].name", wrong, "a unique name")
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
            row.get("profile") or default or NO_PROFILE,
            (counts or {}).get(row["name"], 0),
            row.get("distribution"),
            row.get("pick") or pick,
        )
        for row in rows
    )


def _read_size(raw: object, place: str, faults: ValidationErrors) -> dict[str, Any]:
    if not faults.is_object(raw, place, "an object: {name, size_min, size_max}"):
        return {}
    row = read_keys(raw, SIZE_KEYS, place, faults)
    own = one_profile(row, raw, place, faults)
    if own is not None:
        row["profile"] = own
    if raw.get("size") is None or row.get("size") is not None:  # else it has its error
        read_size(row, place, faults)
    return row


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


GROUP_KEYS: dict[str, KeyRule] = {
    "users": KeyRule(integer(1), "Concurrent users of this group.", required=True, example="5"),
    "crud_profile": KeyRule(
        crud_profile, "Weights of the group's operations.", default="this or ``operations``"
    ),
    "operations": KeyRule(operations, "Weights by name.", default="this or ``crud_profile``"),
}


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
        faults.add("groups (-u)", "they have users of their own", "leave out -u")
    elif values.get("user_count") not in (None, users):
        wrong = f"{values['user_count']} is not the {users} users of the groups"
        faults.add("user_count", wrong, "leave it out")
    if values.get("stages") or values.get("rate"):
        faults.add("groups", "there are stages or a rate as well", "one of them")
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


def _want_profiles(
    raw: Sequence[object],
    rows: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int] | None,
    faults: ValidationErrors,
) -> None:
    """Add an error if a class with initial files has no profile, and there is no default."""
    without = [
        f"sizes[{i}]"
        for i, row in enumerate(rows)
        if "name" in row and "profile" not in row and (counts is None or counts.get(row["name"], 0))
    ]
    if without:
        some = ", ".join(without[:5]) + (", ..." if len(without) > 5 else "")
        right = "four weights here or in the size, as in [3, 4, 2, 2], or operations"
        faults.add("crud_profile", f"missing, and {some} has none of its own", right)


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
        faults.add("think_time", "an open loop (rate) has no think time", "one of the two")
    if "arrivals" in values and values["arrivals"] not in (None, "uniform") and not any(rates):
        faults.add("arrivals", "arrivals need a rate", "a rate, as in 500")
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
        faults.add("operation_count", "the stages end the run by time", right)
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
    """Some of the run must be outside of warm-up and cool-down."""
    warmup, cooldown = (values.get(key) or 0 for key in ("warmup", "cooldown"))
    run_s = values.get("run_seconds")
    if run_s is None or not warmup + cooldown:
        return
    if warmup + cooldown >= run_s:
        wrong = f"with cooldown it is {warmup + cooldown:g} s of a run of {run_s:g} s"
        faults.add("warmup", wrong, "together less than the run")
    elif not _is_left(values.get("stages") or (), warmup, run_s - cooldown):
        wrong = "with cooldown and those of the stages it excludes the whole run"
        faults.add("warmup", wrong, "shorter ones")


def _is_left(stages: Sequence[Stage], low_s: float, high_s: float) -> bool:
    """Whether any stage has a part between these times that counts."""
    ends = list(accumulate(stage.seconds for stage in stages))
    return not stages or any(
        max(low_s, end_s - stage.seconds + stage.warmup) < min(high_s, end_s)
        for stage, end_s in zip(stages, ends, strict=True)
    )
