"""The size classes of a scenario, their initial objects, and how large objects are stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ssbench.core.distributions import UNIFORM, Pick
from ssbench.core.model import LargeObject, Profile, SizeClass
from ssbench.core.scenario.checks import KeyRule, ValidationErrors, member, read_keys, suggest, text
from ssbench.core.scenario.draw_keys import pick_key, read_size, size_key
from ssbench.core.scenario.fields import NO_PROFILE, crud_profile, one_profile, operations
from ssbench.core.units import ValidationError, kind, preview, size_from, whole

#: Bytes that naming appends to a class's name: "_", a run's id, "_", a number.
OBJECT_SUFFIX_LENGTH = 1 + 32 + 1 + 19
MAX_OBJECT_NAME = 1024  #: Swift's default of max_object_name_length, in bytes
#: Of a class's name, behind that of another: its objects are named like segments of that one's.
_LIKE_A_SEGMENT = "_([0-9a-f]{10}_)?[0-9]{6,10}_[0-9]{1,9}"
_SIZE_BYTES = size_from(0)
_COUNT = whole(0)
_OF_TOP_LEVEL = "that of the top level"


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


LARGE_KEYS: dict[str, KeyRule] = {
    "above": KeyRule(
        size_from(0),
        "Objects of more bytes are stored in parts, others as one.",
        required=True,
        example='"5MiB"',
    ),
    "segment": KeyRule(
        size_from(1),
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
        whole(1, 64),
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
