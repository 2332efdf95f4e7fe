"""A scenario: what a run does. Read from JSON; command-line options override it.

``docs/reference/scenarios.rst`` is the reference of the keys; ``fields``, ``size_keys`` and
``load_keys`` read them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict, replace

from ssbench.core.distributions import UNIFORM
from ssbench.core.hiding import Hiding
from ssbench.core.model import Group, LargeObject, Phase, SizeClass, Stage
from ssbench.core.naming import container_name
from ssbench.core.operations import (
    CRUD,
    OPERATIONS,
    Body,
    Effect,
    of_phase,
    operation_named,
    row_of,
)
from ssbench.core.scenario.checks import ValidationErrors, read_keys
from ssbench.core.scenario.draw_keys import pick_to_json, size_to_json
from ssbench.core.scenario.fields import (
    KEYS,
    MAX_CONTAINER_NAME,
    NO_PROFILE,
    OWN_READERS,
    PROFILE_KEYS,
    check_parameters,
    one_profile,
    parameter_keys,
    profile_keys,
)
from ssbench.core.scenario.jsontext import read_object
from ssbench.core.scenario.load_keys import (
    check_groups,
    check_load,
    have_users,
    mix,
    read_groups,
    read_stages,
)
from ssbench.core.scenario.size_keys import check_large_object, read_large_object, read_sizes
from ssbench.core.text import bytes_text, plural, printable
from ssbench.core.units import preview


class Scenario(Hiding, frozen=True, eq=False):
    """A valid scenario. source, given, overrides and places do not count for equality.

    Of ``operation_count`` and ``run_seconds`` at most one is set, and exactly one after
    ``resolve``.
    """

    HIDDEN = ("given",)

    name: str
    sizes: tuple[SizeClass, ...]  #: in the file's order, profiles normalised
    user_count: int
    operation_count: int | None = None
    run_seconds: float | None = None
    container_base: str = "ssbench"
    container_count: int = 100
    container_concurrency: int = 10
    delete_after: int | None = None  #: seconds; None: objects don't expire
    policy: str | None = None  #: None: the cluster's default
    block_size: int = 65536  #: bytes
    seed: int | None = None  #: None: the run draws one
    rate: float | None = None  #: operations a second that fall due; None: a closed loop
    arrivals: str = "uniform"  #: how they are spaced: a name of pacing.MODELS
    think_time: tuple[float, float] | None = None  #: seconds, least and longest, of closed users
    stages: tuple[Stage, ...] = ()  #: as the file has them; they make up run_seconds
    groups: tuple[Group, ...] = ()  #: of users, user_count in all; (): all users are alike
    large_object: LargeObject | None = None  #: objects that are stored in parts; None: none
    #: Of the operations in use (operations.Parameter), all of them.
    parameters: Mapping[str, int | str] = {}
    warmup: float = 0.0  #: seconds at the start that don't count
    cooldown: float = 0.0  #: seconds at the end that don't count
    key_names: str = "flat"  #: a key of naming.KEY_NAMES
    bandwidth: int | None = None  #: bytes/s of all users together; None: any number
    #: Further request headers, by name; or of one operation, by its name, and theirs.
    headers: Mapping[str, str | Mapping[str, str]] = {}
    keep_alive: bool = True  #: a connection serves several requests
    expect_continue: bool = False  #: uploads wait for 100 Continue
    source: str = "scenario"
    given: Mapping[str, object] = {}
    overrides: Mapping[str, object] = {}
    places: Mapping[str, str] = {}  #: key -> where it was overridden

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scenario):
            return NotImplemented
        return self._compared == other._compared

    def __hash__(self) -> int:
        return hash((self.name, self.sizes, self.user_count, self.stages))

    @property
    def _compared(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name not in _NOT_COMPARED}

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "scenario") -> Scenario:
        """The scenario of a text, which may lack operation_count and run_seconds.

        :param source: the name of the file, for errors.
        :raises ScenarioError: with every error of the text.
        """
        return cls._read(text, source, None, {})

    @classmethod
    def resolve(
        cls,
        text: str | bytes,
        source: str = "scenario",
        *,
        places: Mapping[str, str] = {},
        **overrides: object,
    ) -> Scenario:
        """The scenario of a text with values of the command line; None: not given.

        :param places: key -> where it was given, for errors; of others it is the key's option.

        Overridden keys may be missing in the text (``user_count``). Either limit (operation_count,
        run_seconds) replaces those of the text; of both, run_seconds counts.

        :raises ScenarioError: with every error of the text and of the overrides, also if there is
            no limit.
        """
        own = {key: place for key in overrides if (place := places.get(key) or _option(key))}
        return cls._read(text, source, overrides, own)

    @property
    def load(self) -> tuple[Stage, ...]:
        """The stages with users and rates filled in; a scenario without stages has one.

        Its ``seconds`` are infinite if operation_count ends the run.
        """
        seconds = math.inf if self.run_seconds is None else self.run_seconds
        return tuple(
            replace(stage, users=stage.users or self.user_count, rate=stage.rate or self.rate)
            for stage in self.stages or (Stage(seconds),)
        )

    @property
    def most_users(self) -> int:
        """The highest number of users in any stage."""
        return max(stage.users or 0 for stage in self.load)

    @property
    def operations(self) -> set[int]:
        """The operations of all profiles in use."""
        profiles = [size.profile for size in self.sizes if size.initial_files and not self.groups]
        profiles += [group.profile for group in self.groups]
        return {operation for profile in profiles for operation, _ in profile}

    @property
    def keeps_initial_objects(self) -> bool:
        """Whether a run changes none of them: none is updated, deleted or expires."""
        effects = {row_of(operation).effect for operation in self.operations}
        return self.delete_after is None and not effects & {Effect.REPLACES, Effect.REMOVES}

    def to_dict(self) -> dict[str, object]:
        """The scenario as it is run, as JSON values; ``from_json`` makes an equal one of it."""
        named = {name: value for name, value in asdict(self).items() if name in KEYS}
        values = {key: value for key, value in named.items() if value is not None}
        values |= self.parameters
        values["sizes"] = [_size_to_dict(size) for size in self.sizes]
        values["initial_files"] = {size.name: size.initial_files for size in self.sizes}
        if self.stages:
            values["stages"] = [
                {k: v for k, v in asdict(stage).items() if v} for stage in self.stages
            ]
        if self.groups:
            values["sizes"] = [_size_to_dict(replace(size, profile=())) for size in self.sizes]
            values["groups"] = {
                group.name: {"users": group.users, **profile_keys(group.profile)}
                for group in self.groups
            }
        if self.large_object:
            values["large_object"] = {k: v for k, v in asdict(self.large_object).items() if v != ""}
        if self.think_time:
            values["think_time"] = [*self.think_time]
        if not self.load[0].rate:
            del values["arrivals"]
        rare = ("key_names", "headers", "keep_alive", "expect_continue", "warmup", "cooldown")
        for key in rare:
            if values[key] == _DEFAULTS[key]:
                del values[key]
        return values

    def header_lines(self) -> tuple[tuple[int, str], ...]:
        """Number and further header lines, each with its CRLF, of each operation that has some.

        A header of one operation replaces that of all operations.
        """
        of_all = {name: value for name, value in self.headers.items() if isinstance(value, str)}
        found = []
        for row in map(row_of, OPERATIONS):
            lines: dict[str, str] = {}  # by the header's name in lower case
            if row.phase is Phase.RUN:
                own = [
                    headers for name, headers in self.headers.items()
                    if not isinstance(headers, str) and operation_named(name) == row
                ]  # fmt: skip
                for headers in (of_all, *own):
                    lines |= {name.lower(): f"{name}: {headers[name]}\r\n" for name in headers}
                if self.expect_continue and row.body is Body.SENT:
                    lines["expect"] = "Expect: 100-continue\r\n"
            if not self.keep_alive:
                lines["connection"] = "Connection: close\r\n"
            if lines:
                found.append((int(row), "".join(lines.values())))
        return tuple(found)

    def summary(self) -> str:
        """One line: sizes, initial objects, operations, length, users."""
        used = [size for size in self.sizes if size.initial_files]
        total = sum(size.initial_files for size in used)
        sizes = ", ".join(f"{printable(size.name)} {_size_range(size)}" for size in used)
        shares: defaultdict[int, float] = defaultdict(float)
        for size in used:
            for operation, share in size.profile:
                shares[operation] += share * size.initial_files / total
        crud = "/".join(f"{100 * shares[each]:.0f}" for each in CRUD)
        others = [row for row in of_phase(Phase.RUN) if row not in CRUD and shares[row]]
        mix = ", ".join([f"CRUD {crud} %", *(f"{o.name} {100 * shares[o]:.0f} %" for o in others)])
        parts = [sizes, plural(total, "initial object"), mix, self._length()]
        users = plural(self.user_count, "user")
        if self.groups:
            groups = ", ".join(f"{printable(group.name)} {group.users}" for group in self.groups)
            users += f" ({groups})"
        return "; ".join([*parts, users])

    def _length(self) -> str:
        if self.run_seconds is not None:
            return f"{self.run_seconds:g} s"
        if self.operation_count is not None:
            return plural(self.operation_count, "operation")
        return "no length"

    @classmethod
    def _read(
        cls,
        text: str | bytes,
        source: str,
        overrides: Mapping[str, object] | None,
        places: Mapping[str, str],
    ) -> Scenario:
        given_places = {key: places[key] for key in places if (overrides or {})[key] is not None}
        faults = ValidationErrors(source, given_places)
        given = read_object(text, faults)
        changes = _read_overrides(overrides or {}, faults)
        values: dict[str, Any] = {}
        if given is not None:
            values = _read_file(given, changes, faults) | _one_limit(changes)
            _check_container_names(values, faults)
            values |= check_load(values, changes, faults)
            check_groups(given, values, changes, faults)
            if overrides is not None:
                _check_limit(faults, given, overrides)
        faults.raise_any()
        return cls(
            **values, source=source, given=given or {}, overrides=changes, places=faults.places
        )


_NOT_COMPARED = ("source", "given", "overrides", "places")
_DEFAULTS: Mapping[str, Any] = asdict(Scenario("", (), 0))


def _read_file(
    given: Mapping[str, object], changes: Mapping[str, object], faults: ValidationErrors
) -> dict[str, Any]:
    """Scenario's fields from the file. Those that the command line overrides may be missing."""
    wanted = {key: KEYS[key] for key in KEYS if key not in changes or given.get(key) is not None}
    if given.get("user_count") is None and (
        have_users(given.get("stages")) or given.get("groups") is not None
    ):
        wanted.pop("user_count", None)
    own = parameter_keys()
    values = _one_limit(read_keys(given, wanted, "", faults, {*OWN_READERS, *KEYS, *own}))
    default = one_profile(values, given, "", faults)
    groups = read_groups(given.get("groups"), faults)
    if given.get("groups") is not None:  # then other profiles are faults
        default = mix(groups) if groups else NO_PROFILE
        values.setdefault("user_count", sum(group.users for group in groups) or None)
    values["groups"] = groups
    pick = values.pop("pick", None) or UNIFORM
    values["sizes"] = read_sizes(
        given.get("sizes"), given.get("initial_files"), default, faults, pick
    )
    values["stages"] = read_stages(given.get("stages"), faults)
    values["large_object"] = read_large_object(given.get("large_object"), faults)
    check_large_object(values["large_object"], values["sizes"], faults)
    there = read_keys({key: given[key] for key in own if key in given}, own, "", faults)
    values["parameters"] = check_parameters(there, values["sizes"], groups, faults)
    return values


def _read_overrides(overrides: Mapping[str, object], faults: ValidationErrors) -> dict[str, Any]:
    """The valid ones.

    :raises TypeError: an unknown key, or one that has no override.
    """
    changes = {}
    for name, raw in overrides.items():
        if name not in KEYS or name in (*PROFILE_KEYS, "pick"):
            raise TypeError(f"{name} cannot be overridden")
        if raw is not None:
            changes[name] = faults.check_option(faults.places[name], KEYS[name].check, raw)
    return changes


def _option(key: str) -> str:
    """The option that overrides a key, and the key itself where they differ."""
    option = KEYS[key].option or key if key in KEYS else key
    return option if option.lstrip("-").replace("-", "_") == key else f"{option} ({key})"


def _one_limit(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the limit that counts; the other limit is None, also for lower levels."""
    if values.get("run_seconds") is not None:
        return {**values, "operation_count": None}
    if values.get("operation_count") is not None:
        return {**values, "run_seconds": None}
    return dict(values)


def _check_limit(faults: ValidationErrors, *levels: Mapping[str, object]) -> None:
    # Raw values: a wrong limit has its error already.
    keys = ("operation_count", "run_seconds", "stages")
    limits = [level.get(key) for level in levels for key in keys]
    if all(limit is None for limit in limits):
        wrong = "missing, and run_seconds as well"
        faults.add("operation_count", wrong, "one of them here, or -o COUNT or -r SECONDS")


def _check_container_names(values: Mapping[str, Any], faults: ValidationErrors) -> None:
    sound = {**_DEFAULTS} | {key: value for key, value in values.items() if value is not None}
    last = sound["container_count"] - 1
    name = container_name(sound["container_base"], last, sound["policy"])
    if len(name.encode()) > MAX_CONTAINER_NAME:
        wrong = f"container names like {preview(name)} have {len(name.encode())} bytes"
        right = f"at most {MAX_CONTAINER_NAME}, number and policy included"
        faults.add_to(["container_base", "policy", "container_count"], wrong, right)


def _size_to_dict(size: SizeClass) -> dict[str, object]:
    row: dict[str, object] = {
        "name": size.name,
        "size_min": size.size_min,
        "size_max": size.size_max,
    }
    if size.distribution is not None:
        row["size"] = size_to_json(size.distribution)
    if size.pick != UNIFORM:
        row["pick"] = pick_to_json(size.pick)
    return row if size.profile == NO_PROFILE else {**row, **profile_keys(size.profile)}


def _size_range(size: SizeClass) -> str:
    low, high = _size(size.size_min), _size(size.size_max)
    return low if low == high else f"{low} - {high}"


def _size(count: int) -> str:
    return bytes_text(count).replace(".0 ", " ")
