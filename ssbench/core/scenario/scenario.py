"""A scenario: what a run does. Read from JSON; command-line options override it.

The annotations of ``Scenario`` and of its base ``StorageKeys`` declare the keys, those of its parts
are in ``parts``;
``docs/reference/scenarios.rst`` is made of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any

from msgspec.structs import asdict, replace

from ssbench.core import units
from ssbench.core.arrivals import MODELS
from ssbench.core.hiding import Hiding
from ssbench.core.model import (
    STAMPED,
    ContentMix,
    Group,
    InitialHeaders,
    Phase,
    Profile,
    SizeClass,
    Stage,
)
from ssbench.core.operations import (
    CRUD,
    OPERATIONS,
    Body,
    Effect,
    Operation,
    Parameter,
    Target,
    of_phase,
    operation_named,
    parameters_of,
    row_of,
)
from ssbench.core.option import LOAD, WHAT, think_time
from ssbench.core.picks import SHUFFLE, UNIFORM, Pick
from ssbench.core.scenario import parts, values
from ssbench.core.scenario.checks import (
    Check,
    Key,
    ValidationErrors,
    keys_of,
    options_of_keys,
    overriding,
    read_keys,
)
from ssbench.core.scenario.storage_keys import StorageKeys
from ssbench.core.scenario.syntax import read_object
from ssbench.core.text import bytes_text, plural, printable


class Scenario(Hiding, StorageKeys, frozen=True, eq=False):
    """A valid scenario. source, given, overrides and places do not count for equality.

    Of ``operation_count`` and ``run_seconds`` at most one is set, and exactly one after
    ``resolve``.
    """

    HIDDEN = ("given",)

    # fmt: off
    name: Annotated[str, Key(values.text,
        "The name of the scenario in the report and in the stat file's name.",
        example='"Small objects"', of_header=values.any_text)]
    #: In the file's order, profiles normalised.
    sizes: Annotated[tuple[SizeClass, ...], Key(None,
        "The size classes, at least one: see `In a size`_.", "required")]
    user_count: Annotated[int, Key(units.count,
        "Concurrent users: the number of operations in flight. Start workers with enough "
        "concurrency.",
        "required here, as ``-u``, or by ``stages`` or ``groups``", example="4",
        option=overriding("-u --user-count --users", WHAT,
            "concurrent users", name="users", brief="concurrent users"))]
    operation_count: Annotated[int | None, Key(units.count,
        "The run ends after this number of operations.", "see `Precedence`_",
        option=overriding("-o --op-count", WHAT,
            "number of operations; overrides the scenario's run length",
            name="operations", exclusive="length", brief="number of operations"))] = None
    run_seconds: Annotated[float | None, Key(units.seconds,
        "The run ends after this time.", "see `Precedence`_",
        option=overriding("-r --run-seconds --duration", WHAT,
            "duration of the run; overrides the scenario's run length, and -o",
            name="seconds", exclusive="length", brief="length of the run, as in 90 or 15m"))] = None
    container_concurrency: Annotated[int, Key(units.count,
        "The number of containers to create concurrently before the run.")] = 10
    #: Seconds; None: objects don't expire.
    delete_after: Annotated[int | None, Key(values.delete_after,
        "Uploaded objects expire after this time (``X-Delete-After``); 0 for never.",
        "0",
        option=overriding("--delete-after", WHAT,
            "let the store expire objects after this time, 0 for never",
            type=units.expiry, metavar="SECONDS"))] = None
    policy: Annotated[str | None, Key(values.policy,
        "The storage policy of the containers. The cluster must have it.",
        "the cluster's",
        option=overriding("-p --policy", WHAT,
            "storage policy of the containers", metavar="POLICY"))] = None
    seed: Annotated[int | None, Key(units.seed,
        "The same seed gives the same operations, sizes and names. Initial objects do not depend "
        "on the seed.", "random for each run",
        option=overriding("--seed", WHAT,
            "seed of an earlier run, to repeat its random choices", metavar="NUMBER"))] = None
    rate: Annotated[float | None, Key(units.rate,
        "Target arrival rate (open loop), independent of the store: see `The load`_.",
        "none: a closed loop",
        option=overriding("--rate", LOAD,
            "target arrival rate in operations/s (open loop)"))] = None
    #: A name of MODELS; "replayed".
    arrivals: Annotated[str, Key(values.one_of(MODELS, "an arrival model"),
        "Open loop: evenly spaced or random arrivals.",
        of_header=values.any_text,
        option=overriding("--arrivals", LOAD,
            "open loop: evenly spaced (uniform) or random (poisson) arrivals [default: uniform]",
            type=str, choices=tuple(MODELS)))] = "uniform"
    #: Seconds, least and longest.
    think_time: Annotated[tuple[float, float] | None, Key(values.think_time,
        "Closed loop: how long a user pauses after each operation; of two numbers, uniform "
        "between them.", "0",
        option=overriding("--think-time", LOAD,
            "closed loop: pause of a user after each operation; MIN,MAX for a random pause",
            type=think_time, metavar="SECONDS"))] = None
    #: As the file has them; they make up run_seconds.
    stages: Annotated[tuple[Stage, ...], Key(None,
        "Parts of the run, each with its own load: see `In a stage`_.", "none")] = ()
    #: Of users, user_count in all.
    groups: Annotated[tuple[Group, ...], Key(None,
        "Groups of users with operations of their own: see `Groups of users`_.",
        "none: all users are alike")] = ()
    #: Of the operations in use (operations.Parameter), all of them.
    parameters: Mapping[str, int | str] = {}
    warmup: Annotated[float, Key(units.seconds_or_none,
        "The start of the run that is in the stat file, but not in the report's figures: see "
        "`What counts`_.",
        option=overriding("--warmup", LOAD,
            "warm-up: time at the start of the run that statistics exclude"))] = 0.0
    cooldown: Annotated[float, Key(units.seconds_or_none,
        "The same for the end of the run.",
        option=overriding("--cooldown", LOAD,
            "cool-down: time at the end of the run that statistics exclude"))] = 0.0
    #: A key of values.KEY_NAMES.
    key_names: Annotated[str, Key(values.one_of(values.KEY_NAMES, "a form of names"),
        "The form of the objects' names. ``flat``: ``tiny_000012``. ``hashed``: behind four "
        "hexadecimal digits that differ from one object to the next, ``6a99-tiny_000012``. "
        "``deep``: below three levels of a hundred folders each, "
        "``12/00/00/tiny_000012``.")] = "flat"
    bandwidth: Annotated[int | None, Key(units.size_from(1),
        "Bytes of objects that all users together send and receive per second at most. Each "
        "worker has a share of it, as of the users. An operation starts once its bytes are within "
        "the share: transfers themselves are not slowed down, and no latency includes the wait. "
        "With a ``rate``, operations that it delays start late.",
        "unlimited",
        option=overriding("--bandwidth", LOAD,
            "limit on the bytes per second that all users together send and receive, such as "
            "100MB [default: no limit]"))] = None
    #: By name; or of one operation, by its name, and theirs.
    headers: Annotated[Mapping[str, str | Mapping[str, str]], Key(values.headers,
        "Further request headers: see `Requests`_.", "none", by_name=True)] = {}
    #: By name.
    populate_headers: Annotated[Mapping[str, str], Key(values.populate_headers,
        "Further headers of the uploads of initial objects: see `Requests`_.", "none")] = {}
    compressible: Annotated[float, Key(units.share,
        "The share of the content that a store which compresses can save: see `Content`_.")] = 0.0
    compressible_block: Annotated[int, Key(values.content_block(512),
        "Each block of this size compresses by that share.")] = 4096
    duplicate: Annotated[float, Key(units.share,
        "The share of the content that a store which stores equal blocks once can save: see "
        "`Content`_.")] = 0.0
    duplicate_block: Annotated[int, Key(values.content_block(STAMPED),
        "The size of the equal blocks, counted from the start of each object.")] = 4096
    thresholds: Annotated[tuple[str, ...], Key(values.conditions,
        "Conditions that each run must meet, as of ``--threshold``, which adds to them: see "
        "`thresholds <../how-to/comparing.rst#thresholds-threshold>`__.", "none")] = ()
    # fmt: on
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
        check_condition: Callable[[str, str], object] | None = None,
        **overrides: object,
    ) -> Scenario:
        """The scenario of a text with values of the command line; None: not given.

        :param places: key -> where it was given, for errors; of others it is the key itself.
        :param check_condition: of the text and the place of one of ``thresholds``; raises
            UsageError.

        Overridden keys may be missing in the text (``user_count``). Either limit (operation_count,
        run_seconds) replaces those of the text; of both, run_seconds counts.

        :raises ScenarioError: with every error of the text and of the overrides, also if there is
            no limit.
        """
        own = {key: places.get(key, key) for key in overrides}
        return cls._read(text, source, overrides, own, check_condition)

    @property
    def load(self) -> tuple[Stage, ...]:
        """The stages with users, rates and groups filled in, and where barriers are; a scenario
        without stages has one.

        Its ``seconds`` are infinite if operation_count ends the run. Stages with operations of
        their own have groups of their own, one at least; the others share those of the scenario.
        """
        seconds = math.inf if self.run_seconds is None else self.run_seconds
        several = any(stage.is_apart for stage in self.stages)
        found: list[Stage] = []
        count, shared = 0, -1  # groups so far, and the first of those that stages share
        for at, stage in enumerate(self.stages or (Stage(seconds),)):
            is_apart = stage.is_apart
            after_apart = at > 0 and self.stages[at - 1].is_apart
            barrier = at > 0 and (stage.barrier or is_apart or after_apart)
            stage = self._filled(stage, several)
            if is_apart or shared < 0:
                first, count = count, count + len(stage.groups)
                shared = shared if is_apart else first
            else:
                first = shared
            found.append(replace(stage, barrier=barrier, first_group=first))
        return tuple(found)

    def _filled(self, stage: Stage, with_groups: bool) -> Stage:
        """A stage with the scenario's values for those that it lacks."""
        users, rate = stage.users or self.user_count, stage.rate or self.rate
        groups = stage.groups
        if not groups and self.groups and not stage.profile:
            groups = self.groups
        elif not groups and with_groups:
            groups = (Group(stage.name, users, stage.profile, rate, stage.users_to, stage.rate_to),)
        groups = tuple(
            replace(
                each,
                sizes=each.sizes or stage.sizes,
                pick=each.pick or stage.pick or (SHUFFLE if stage.epochs else None),
            )
            for each in groups
        )
        if groups:
            users, rates = sum(group.users for group in groups), [group.rate for group in groups]
            rate = sum(each or 0.0 for each in rates) if all(rates) else None
        return replace(stage, users=users, rate=rate, groups=groups)

    def stage_name(self, index: int) -> str:
        """Of a stage, for reports: ``stage 2`` where it has no name."""
        name = self.stages[index].name if index < len(self.stages) else ""
        return name or f"stage {index + 1}"

    @property
    def crowds(self) -> tuple[Group, ...]:
        """The groups of all stages, by index; () if all users are alike. Their names say of which
        stage they are, if not of all."""
        found: dict[int, Group] = {}
        stages = self.load
        apart = any(stage.is_apart for stage in self.stages)
        for at, stage in enumerate(stages):
            for index, group in enumerate(stage.groups, stage.first_group):
                label = self.stage_name(at)
                if apart and self.stages[at].is_apart:
                    own = f"{label}/{group.name}" if self.stages[at].groups else label
                    group = replace(group, name=own)
                elif apart and not self.groups:  # of these stages together
                    names = [found[index].name, label] if index in found else [label]
                    found[index] = replace(group, name=", ".join(names))
                found.setdefault(index, group)
        return tuple(found[at] for at in sorted(found))

    @property
    def most_users(self) -> int:
        """The highest number of users in any stage."""
        return max(stage.most_users for stage in self.load)

    @property
    def has_barriers(self) -> bool:
        """Whether a stage waits for the end of the one before."""
        return any(stage.barrier for stage in self.load)

    @property
    def has_own_profiles(self) -> bool:
        """Whether groups or stages say all operations, so that size classes say none."""
        return bool(self.groups) or parts.all_have_operations(self.stages)

    def warmup_of(self, stage: int) -> float:
        """Seconds of a stage's beginning that don't count."""
        return self.stages[stage].warmup if stage < len(self.stages) else 0.0

    @property
    def operations(self) -> set[int]:
        """The operations of all profiles in use."""
        crowds = self.crowds
        of_classes = not crowds or any(not group.profile for group in crowds)
        profiles = [each.profile for each in self.sizes if each.initial_files and of_classes]
        profiles += [group.profile for group in crowds]
        return {operation for profile in profiles for operation, _ in profile}

    @property
    def uses_versions(self) -> bool:
        """Whether operations need to know the versions of objects."""
        return any(row_of(each).target is Target.VERSION for each in self.operations)

    @property
    def profile(self) -> Profile:
        """The operations of all classes, by their initial objects."""
        alike = not any(size.initial_files for size in self.sizes)
        return values.mix((size.initial_files or alike, size.profile) for size in self.sizes)

    @property
    def mix(self) -> ContentMix | None:
        """What a store can save of the content; None: nothing."""
        if not self.compressible and not self.duplicate:
            return None
        return ContentMix(
            self.compressible, self.compressible_block, self.duplicate, self.duplicate_block
        )

    @property
    def keeps_initial_objects(self) -> bool:
        """Whether a run changes none of them: none is updated, deleted or expires."""
        effects = {row_of(operation).effect for operation in self.operations}
        return self.delete_after is None and not effects & {Effect.REPLACES, Effect.REMOVES}

    def to_dict(self) -> dict[str, object]:
        """The scenario as it is run, as JSON values; ``from_json`` makes an equal one of it."""
        found = {
            key: value
            for key, value in asdict(self).items()
            if key in KEYS and value != _LEFT_OUT.get(key)
        }
        found |= self.parameters
        own = self.sizes
        if self.has_own_profiles:
            own = tuple(replace(each, profile=()) for each in own)
        found["sizes"] = [_size_to_dict(size) for size in own]
        found["initial_files"] = {size.name: size.initial_files for size in self.sizes}
        if self.stages:
            found["stages"] = [self._stage_to_dict(stage) for stage in self.stages]
        if self.groups:
            found["groups"] = self._groups_to_dict(self.groups)
        if self.large_object:
            found["large_object"] = {k: v for k, v in asdict(self.large_object).items() if v != ""}
        if self.large_read:
            found["large_read"] = asdict(self.large_read)
        if self.object_lock:
            found["object_lock"] = asdict(self.object_lock)
        if self.think_time:
            found["think_time"] = [*self.think_time]
        if not self.load[0].rate:
            del found["arrivals"]
        return found

    def _stage_to_dict(self, stage: Stage) -> dict[str, object]:
        found: dict[str, object] = {
            key: value
            for key in ("name", "seconds", "operation_count", "epochs", "warmup", "barrier")
            if (value := getattr(stage, key)) and value != math.inf
        }
        if stage.groups:
            found["groups"] = self._groups_to_dict(stage.groups)
        return found | self._users_to_dict(stage)

    def _groups_to_dict(self, groups: Sequence[Group]) -> dict[str, object]:
        return {group.name: self._users_to_dict(group) for group in groups}

    def _users_to_dict(self, of: Stage | Group) -> dict[str, object]:
        """What stages and groups have alike."""
        found: dict[str, object] = {}
        for key, value, to in (("users", of.users, of.users_to), ("rate", of.rate, of.rate_to)):
            if value:
                found[key] = value if to is None else [value, to]
        if of.profile:
            found |= values.profile_keys(of.profile)
        if of.sizes:
            found["sizes"] = {self.sizes[at].name: weight for at, weight in of.sizes}
        if of.pick:
            found["pick"] = values.pick_to_json(of.pick)
        return found

    def header_lines(self) -> tuple[tuple[int, str], ...]:
        """Number and further header lines, each with its CRLF, of each operation that has some.

        A header of one operation replaces that of all operations. Requests for initial objects have
        those of all operations that ``populate_headers`` does not replace.
        """
        of_all = {name: value for name, value in self.headers.items() if isinstance(value, str)}
        replaced = {name.lower() for name in self.populate_headers}
        found = []
        for row in map(row_of, OPERATIONS):
            lines: dict[str, str] = {}  # by the header's name in lower case
            if row.phase is Phase.POPULATE:
                lines |= {
                    name.lower(): f"{name}: {value}\r\n" for name, value in of_all.items()
                    if name.lower() not in replaced
                }  # fmt: skip
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

    def initial_headers(self) -> InitialHeaders:
        """What uploads of initial objects have beside ``header_lines``."""
        made_with = {n.lower(): v for n, v in self.headers.items() if isinstance(v, str)}
        made_with |= {name.lower(): value for name, value in self.populate_headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.populate_headers.items())
        if self.checksum not in ("none", "md5"):  # which the store keeps with the object
            made_with["(checksum)"] = self.checksum
        text = "".join(f"{name}: {value}\n" for name, value in sorted(made_with.items()))
        mark = sha256(text.encode()).hexdigest()[:_MARK_DIGITS] if made_with else ""
        return InitialHeaders(lines, mark)

    def summary(self) -> str:
        """One line: sizes, initial objects, operations, length, users."""
        used = [size for size in self.sizes if size.initial_files] or self.sizes
        total = sum(size.initial_files for size in used)
        sizes = ", ".join(f"{printable(size.name)} {_size_range(size)}" for size in used)
        shares = dict.fromkeys(OPERATIONS, 0.0) | dict(self.profile)
        crud = "/".join(f"{100 * shares[each]:.0f}" for each in CRUD)
        others = [row for row in of_phase(Phase.RUN) if row not in CRUD and shares[row]]
        mix = ", ".join([f"CRUD {crud} %", *(f"{o.name} {100 * shares[o]:.0f} %" for o in others)])
        what = [sizes, plural(total, "initial object"), mix, self._length()]
        users = plural(self.user_count, "user")
        if self.groups:
            groups = ", ".join(f"{printable(group.name)} {group.users}" for group in self.groups)
            users += f" ({groups})"
        return "; ".join([*what, users])

    def _length(self) -> str:
        if self.run_seconds is not None:
            return f"{self.run_seconds:g} s"
        if self.operation_count is not None:
            return plural(self.operation_count, "operation")
        if self.stages:
            return plural(len(self.stages), "stage")
        return "no length"

    @classmethod
    def of_header(
        cls,
        header: Mapping[str, Any],
        known: Mapping[int, Operation] = OPERATIONS,
        faults: ValidationErrors | None = None,
    ) -> Scenario:
        """The scenario of a stat file's header, of any release and perhaps damaged: what is missing
        or impossible has its default, a name "", a size UNKNOWN_SIZE, and another number 0.

        :param known: the rows of the header's operations.
        :param faults: what is impossible is added.
        """
        faults = ValidationErrors("scenario", of_header=known) if faults is None else faults
        found = {
            key: value for key, value in _read_file(header, faults).items() if value is not None
        }
        return cls(**{"name": "", "user_count": 0, **found})

    @classmethod
    def _read(
        cls,
        text: str | bytes,
        source: str,
        overrides: Mapping[str, object] | None,
        places: Mapping[str, str],
        check_condition: Callable[[str, str], object] | None = None,
    ) -> Scenario:
        given_places = {key: places[key] for key in places if (overrides or {})[key] is not None}
        faults = ValidationErrors(source, given_places)
        given = read_object(text, faults)
        changes = _read_overrides(overrides or {}, faults)
        limited = _one_limit(changes)
        found: dict[str, Any] = {}
        if given is not None:
            found = _read_file(given, faults, changes) | limited
            there = {key: value for key, value in found.items() if value is not None}
            parts.check_container_names({**_DEFAULTS, **there}, faults)
            parts.check_checksum({**_DEFAULTS, **there}, faults)
            found |= parts.check_load(found, changes, faults)
            parts.check_groups(given, found, changes, faults)
            if check_condition:
                for at, condition in enumerate(there.get("thresholds", ())):
                    faults.check_text(f"thresholds[{at}]", check_condition, condition)
            if overrides is not None:
                parts.check_limit(faults, given, overrides)
        faults.raise_any()
        counting = {key: value for key, value in limited.items() if value is not None}
        scenario = cls(
            **found, source=source, given=given or {}, overrides=counting, places=faults.places
        )
        parts.check_versions(asdict(scenario), scenario.operations, faults)
        faults.raise_any()
        return scenario


_MARK_DIGITS = 16  #: of InitialHeaders.mark
_NOT_COMPARED = ("source", "given", "overrides", "places")
_DEFAULTS: Mapping[str, Any] = asdict(Scenario("", (), 0))
#: By which the header of a run leaves a key out; None: of others.
_LEFT_OUT = {
    key: _DEFAULTS[key]
    for key in (
        "stages", "groups", "warmup", "cooldown", "key_names", "headers",
        "populate_headers", "checksum", "checksum_in", "keep_alive",
        "expect_continue", "versioning", "object_lock", "compressible", "compressible_block",
        "duplicate", "duplicate_block", "thresholds",
    )
}  # fmt: skip
#: Those that only the size classes have, with what is for all of them.
_OF_CLASSES = {
    **parts.weights(
        "Only the proportion of the weights counts: ``[3, 4, 2, 2]`` means 27 % CREATE, 36 % READ, "
        "18 % UPDATE, 18 % DELETE. At least one is above 0.",
        'Weights by name, for any of the `Operations`_: ``{"read": 8, "head": 1, "post": 1}``. '
        "Replaces ``crud_profile``; a scenario cannot have both at the same level.",
        "one of the two, unless each size in use has its own",
    ),
    "pick": Key(
        values.pick,
        "Which of the existing objects an operation uses: see `Sizes and picks`_.",
        "uniform",
    ),
    "initial_files": Key(
        None,
        "The number of objects of each size class when the run begins. Operations are divided "
        "among the classes in the same proportion: a class that is missing here, or has 0, takes "
        "no part in the run. At least one count must be above 0.",
        "required",
    ),
}
#: All but those of operations.
KEYS: Mapping[str, Key] = {**_OF_CLASSES, **keys_of(Scenario)}
#: Those that override keys of a scenario.
OPTIONS = options_of_keys(Scenario)


def option_places() -> dict[str, str]:
    """Key -> the option that overrides it, with the key where they differ."""
    places = {}
    for row in OPTIONS:
        same = f"--{row.scenario_key.replace('_', '-')}"
        is_same = row.flags[-1] == same
        places[row.scenario_key] = same if is_same else f"{row.flags[0]} ({row.scenario_key})"
    return places


def parameter_keys() -> dict[str, Key]:
    """The keys of all operations' parameters. A driver's module may have registered some."""
    known = parameters_of(of_phase(Phase.RUN))
    return {key: Key(_parameter_check(each), each.meaning) for key, each in known.items()}


def _parameter_check(parameter: Parameter) -> Check[int | str]:
    if isinstance(parameter.default, int):
        return (units.size_from if parameter.is_size else units.whole)(
            parameter.low, parameter.high
        )
    return lambda raw: values.short(values.text(raw) if raw != "" else "", "text", parameter.high)


def _read_file(
    given: Mapping[str, object], faults: ValidationErrors, overridden: Collection[str] = ()
) -> dict[str, Any]:
    """Scenario's fields from the file. Those that are overridden may be missing."""
    wanted = {key: KEYS[key] for key in KEYS if key not in overridden or given.get(key) is not None}
    if given.get("user_count") is None and (
        parts.have_users(given.get("stages")) or given.get("groups") is not None
    ):
        wanted.pop("user_count", None)
    parameters = parameter_keys()
    found = _one_limit(read_keys(given, wanted, "", faults, {*KEYS, *parameters}))
    profile = found.pop("profile") or values.NO_PROFILE if "profile" in found else None
    picked: Pick = found.pop("pick", None) or UNIFORM
    own = parts.has_own_profiles(given)
    sizes = parts.read_sizes(given, values.NO_PROFILE if own else profile, picked, faults)
    groups = found["groups"] = parts.read_groups(given.get("groups"), sizes, faults)
    stages = found["stages"] = parts.read_stages(given.get("stages"), sizes, faults)
    if own:  # then other profiles are faults
        profile = values.mix(
            (of.users or 1, of.profile) for of in groups or [
                each for stage in stages for each in stage.groups or (stage,)
            ]
        )  # fmt: skip
        sizes = tuple(replace(each, profile=profile) for each in sizes)
    if groups:
        found.setdefault("user_count", sum(group.users for group in groups) or None)
    found["sizes"] = sizes
    found["large_object"] = parts.read_large_object(given.get("large_object"), faults)
    found["large_read"] = parts.read_large_read(given.get("large_read"), faults)
    found["object_lock"] = parts.read_object_lock(given.get("object_lock"), faults)
    there = {key: given[key] for key in parameters if key in given}
    found["parameters"] = read_keys(there, parameters, "", faults)
    if not faults.of_header:
        parts.check_large_object(found["large_object"], sizes, faults)
        crowds = [of.profile for of in groups] + [of.profile for of in stages]
        crowds += [of.profile for stage in stages for of in stage.groups]
        found["parameters"] = parts.check_parameters(
            found["parameters"], sizes, [each for each in crowds if each], faults
        )
    return found


def _read_overrides(overrides: Mapping[str, object], faults: ValidationErrors) -> dict[str, Any]:
    """The valid ones.

    :raises TypeError: an unknown key, or one that has no override.
    """
    changes = {}
    for name, raw in overrides.items():
        check = KEYS[name].check if name in KEYS and name not in _OF_CLASSES else None
        if check is None:
            raise TypeError(f"{name} cannot be overridden")
        if raw is not None:
            changes[name] = faults.check_option(faults.places[name], check, raw)
    return changes


def _one_limit(found: Mapping[str, Any]) -> dict[str, Any]:
    """The values with the limit that counts; the other limit is None, also for lower levels."""
    if found.get("run_seconds") is not None:
        return {**found, "operation_count": None}
    if found.get("operation_count") is not None:
        return {**found, "run_seconds": None}
    return dict(found)


def _size_to_dict(size: SizeClass) -> dict[str, object]:
    row: dict[str, object] = {
        "name": size.name,
        "size_min": size.size_min,
        "size_max": size.size_max,
    }
    if size.distribution is not None:
        row["size"] = values.size_to_json(size.distribution)
    if size.pick != UNIFORM:
        row["pick"] = values.pick_to_json(size.pick)
    return (
        row if size.profile == values.NO_PROFILE else {**row, **values.profile_keys(size.profile)}
    )


def _size_range(size: SizeClass) -> str:
    low, high = _size(size.size_min), _size(size.size_max)
    return low if low == high else f"{low} - {high}"


def _size(count: int) -> str:
    return bytes_text(count).replace(".0 ", " ")
