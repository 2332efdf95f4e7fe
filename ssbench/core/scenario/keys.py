"""An object of JSON by its table of keys: which there may be, and what each may hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ssbench.core.scenario.checks import Check, ValidationErrors, suggest
from ssbench.core.scenario.jsontext import member


@dataclass(frozen=True, slots=True)
class KeyRule:
    """What a key may hold."""

    check: Check[Any]
    required: bool = False
    example: str = ""  #: of a required one
    option: str = ""  #: of the command line, that overrides it; the place of its faults


def read_keys(
    raw: Mapping[str, object],
    keys: Mapping[str, KeyRule],
    place: str,
    faults: ValidationErrors,
    others: Collection[str] = (),
) -> dict[str, Any]:
    """The values of the keys that are there; None for one at fault. null is as good as absent.

    :param others: keys that may be there and aren't read here.
    """
    known = list(dict.fromkeys([*keys, *others]))
    for name in raw:
        if name not in known:
            right = suggest(name, known) if not faults.full else ""
            faults.add(member(place, name), "unknown key", right)
    values = {}
    for name, key in keys.items():
        if raw.get(name) is not None:
            values[name] = faults.check(member(place, name), key.check, raw[name])
        elif key.required:
            faults.add(member(place, name), "missing", f'as in "{name}": {key.example}')
    return values
