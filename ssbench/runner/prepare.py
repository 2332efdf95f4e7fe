"""Preparation of the store: checks a scenario against its limits, and makes containers.

A container named ``<base>_000061`` (with a policy's suffix) is ours if it carries our mark, and
becomes ours if it is empty. One that holds objects and has no mark may be another user's: it is
rejected by name unless the user allows it (containers of ssbench 0.3.9 have no mark). So is one
under another storage policy than the scenario's, because the run would measure that policy.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from ssbench.core.errors import SsbenchError, StorageError
from ssbench.core.model import ErrorKind, SizeClass, Stage
from ssbench.core.naming import Naming, naming_of
from ssbench.core.operations import parameters_of
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.settings import StorageSettings
from ssbench.core.text import bytes_text, plural, printable
from ssbench.runner.containers import for_each
from ssbench.storage.base import StateAdmin, StoreAdmin, StoreLimits, StoreState
from ssbench.storage.registry import FREE_SPACE, row_of
from ssbench.storage.retrying_client import RetryingClient

#: Objects that a run without an operation count is assumed to create when names are checked.
_OPEN_END = 10**9

RESULT_BYTES = 40  #: of an operation in a stat file: 34 to 38 were measured
_LEAST_FREE = 50_000_000  #: bytes, for the other records of a stat file
_UNKNOWN_STATE = StoreState()
_QUANTILES = 200  #: whose mean is that of a distribution

#: Status, or kind of error, -> what it means here, and what to do.
_HINTS: Mapping[int | ErrorKind, str] = {
    401: "the token was refused: get a new one, or give user and key",
    403: "this user may not make containers there: give it a role (Swift: admin or swiftoperator),"
    " a policy (S3) or permissions (WebDAV) that allow it",
    404: "nothing is there: is the storage URL, or path, right?",
    413: "the account is full: raise its quota, or delete objects",
    503: "the store is overloaded, or too few of its servers can be reached: see its logs",
    507: "the store has no space left: add or free disks",
    ErrorKind.CONNECT: "is the storage URL right, and does the store run?",
    ErrorKind.CONNECT_TIMEOUT: "is the storage URL right, and does a firewall drop packets?",
    ErrorKind.NAME_LOOKUP: "is the storage URL right, and does this host's DNS know the name?",
    ErrorKind.NETWORK_TIMEOUT: "is the store overloaded or stuck? See its logs",
    ErrorKind.DISCONNECTED: "is the storage URL right: its port, and http or https?",
    ErrorKind.PROTOCOL: "is the storage URL right: its port, and http or https?",
}


class Check(Struct, frozen=True):
    """What is wrong with a scenario for a store. With a fault, the run must not start."""

    faults: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check(
    limits: StoreLimits, scenario: Scenario, naming: Naming, state: StoreState = _UNKNOWN_STATE
) -> Check:
    """Check names and sizes against what the store states.

    :param naming: of the run's containers and objects.
    """
    faults = [*_long_names(limits, scenario, naming), *_big_objects(limits, scenario)]
    faults += [*_large_parameters(limits, scenario), *_large_objects(limits, scenario)]
    if scenario.versioning and limits.versions is False:
        faults.append("versioning: this store keeps no versions of objects (object_versioning)")
    space = check_space(state, scenario)
    return Check(tuple(faults), (space,) if space else ())


def check_policy(limits: StoreLimits, policy: str | None) -> Check:
    """Whether the store has a storage policy; None: the default one."""
    if policy is None:
        return Check()
    if limits.policies is None:
        text = f'the store doesn\'t list its storage policies: whether it has "{policy}"'
        return Check(warnings=(f"{text} is known once the first container is made",))
    if policy.casefold() in map(str.casefold, limits.policies):
        return Check()
    names = ", ".join(printable(name) for name in limits.policies) or "none"
    return Check((f'the store has no storage policy "{policy}"; those it has: {names}',))


def check_store(storage: StoreAdmin, settings: StorageSettings, scenario: Scenario) -> Check:
    """Check a scenario against what the store states and has left; the store is not changed.

    Each fault begins with its place: the scenario's source, or the option that overrides it.

    :raises SsbenchError: the store can't be asked for its limits.
    """
    try:
        limits = storage.limits()
    except StorageError as error:
        raise SsbenchError(explained(error)) from error
    reports_space = FREE_SPACE in row_of(settings.driver).features
    state = state_of(storage) if reports_space else _UNKNOWN_STATE
    found = check(limits, scenario, naming_of(settings), state)
    policy = check_policy(limits, scenario.policy)
    place = scenario.places.get("policy", scenario.source)
    faults = [f"{scenario.source}: {fault}" for fault in found.faults]
    faults += [f"{place}: {fault}" for fault in policy.faults]
    return Check(tuple(faults), policy.warnings + found.warnings)


def state_of(storage: StoreAdmin) -> StoreState:
    """What the store reports of itself; all None where it refuses, or has no such thing."""
    if isinstance(storage, StateAdmin):
        with suppress(StorageError):  # only advice depends on it
            return storage.state()
    return _UNKNOWN_STATE


def check_space(state: StoreState, scenario: Scenario) -> str:
    """A warning if the initial objects need more space than is left in the store; else ""."""
    needed = round(sum(size.initial_files * mean_size(size) for size in scenario.sizes))
    if state.free_bytes is None or needed <= state.free_bytes:
        return ""
    return (
        f"the initial objects take {bytes_text(needed)}, and the store has"
        f" {bytes_text(state.free_bytes)} left for this user: delete objects, raise the quota, or"
        " lower initial_files (those of an earlier run are used again)"
    )


def check_results_space(path: str, scenario: Scenario | None) -> str:
    """A warning if the results may need more space than is free; else "".

    :param path: of the stat file, or its folder.
    :param scenario: None: of an unknown length.
    """
    try:
        found = os.statvfs(path)
    except OSError:  # only advice depends on it
        return ""
    free = found.f_bavail * found.f_frsize
    needed = _LEAST_FREE + RESULT_BYTES * (expected_operations(scenario) if scenario else 0)
    if needed <= free:
        return ""
    return (
        f"{path}: {bytes_text(free)} are free, and the results may need {bytes_text(needed)}:"
        " delete old results, or put them elsewhere with -s"
    )


def expected_operations(scenario: Scenario) -> int:
    """Operations of a run; without a count or a rate, 0: not known."""
    if scenario.operation_count is not None:
        return scenario.operation_count
    objects = sum(size.initial_files for size in scenario.sizes)
    return round(sum(_expected_in(stage, objects) for stage in scenario.load))


def _expected_in(stage: Stage, objects: int) -> float:
    if stage.operation_count or stage.epochs:
        return stage.operation_count or objects * (stage.epochs or 0)
    half_s = stage.seconds / 2
    return (stage.rate_at(half_s) or 0.0) * stage.seconds if math.isfinite(half_s) else 0.0


def mean_size(size: SizeClass) -> float:
    """Bytes of an object of the class, on average."""
    if size.distribution is None:
        return (size.size_min + size.size_max) / 2
    middles = ((step + 0.5) / _QUANTILES for step in range(_QUANTILES))
    return sum(map(size.distribution.at, middles)) / _QUANTILES


def make_containers(
    client: RetryingClient,
    names: Sequence[str],
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    policy: str | None = None,
    use_existing: bool = False,
    changing: Callable[[], None] | None = None,
) -> None:
    """Make missing containers, ``client.concurrency`` at once; calls ``progress(done, total)``.

    :param policy: that of the storage's settings, for error messages.
    :param use_existing: also use containers that hold objects and have no mark.
    :param changing: called before each request that changes the store; may raise.
    :raises SsbenchError: a container can't be made. Those made before stay for the next run.
    """
    storage = client.storage

    def make(name: str) -> None:
        try:
            if changing and storage.concurrency == "threads":
                # Called here: what it changes belongs to this thread.
                if _is_to_change(client, name):
                    changing()
                found = client.call(storage.make_container, name)
            else:
                found = client.call(storage.make_container, name, changing)
        except StorageError as error:
            raise SsbenchError(_why_not_made(storage, name, policy, error)) from error
        if not (found is None or use_existing or found.marked or found.object_count == 0):
            raise SsbenchError(_not_ours(name, found.object_count))

    for_each(client, make, names, lambda done: progress(done, len(names)))


def check_marks(
    client: RetryingClient,
    names: Sequence[str],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Check that containers whose objects a run changes are ours; missing ones are no error.

    :raises SsbenchError: one has no mark, or that can't be seen.
    """

    def check_mark(name: str) -> None:
        try:
            is_ours = client.call(client.storage.owns, name)
        except StorageError as error:
            if error.status == 404:
                return
            raise SsbenchError(
                f'container "{printable(name)}": can\'t see whether ssbench made it:'
                f" {printable(error.detail)}; --use-existing uses it without this check"
            ) from error
        if not is_ours:
            raise SsbenchError(_not_ours(name, None))

    for_each(client, check_mark, names, lambda done: progress(done, len(names)))


def _is_to_change(client: RetryingClient, name: str) -> bool:
    """Whether ``make_container`` would create the container or set our mark."""
    try:
        found = client.call(client.storage.container_info, name)
    except StorageError as error:
        return error.status == 404
    return not found.marked and found.object_count == 0


def _not_ours(name: str, object_count: int | None) -> str:
    held = "may hold objects, or versions of deleted ones"
    if object_count is not None:
        held = f"holds {plural(object_count, 'object')}"
    return (
        f'container "{printable(name)}" {held}, and nothing says that ssbench made it (it has'
        " no mark of ours): choose another name (container_base), or use it with --use-existing"
    )


def _why_not_made(storage: StoreAdmin, name: str, policy: str | None, error: StorageError) -> str:
    if error.status != 409:
        return f'container "{printable(name)}" could not be made: {explained(error)}'
    wanted = f'"{policy}"' if policy else "the default one"
    return (
        f'container "{printable(name)}" already exists under {_policy_of(storage, name)},'
        f" not {wanted}: choose another name (container_base), or delete it with cleanup-containers"
    )


def explained(error: StorageError) -> str:
    """The error, with what is likely wrong, where that is known."""
    hint = _HINTS.get(error.status or error.kind)
    return printable(error.detail) + (f" ({hint})" if hint else "")


def _policy_of(storage: StoreAdmin, name: str) -> str:
    try:
        found = storage.container_info(name).policy
    except StorageError:
        found = None  # it would only have made the message clearer
    return f'storage policy "{printable(found)}"' if found else "another storage policy"


def _long_names(limits: StoreLimits, scenario: Scenario, naming: Naming) -> Iterator[str]:
    yield from _too_long(
        "containers", naming.containers[-1], limits.max_container_name_length, "container_base"
    )
    for index, size in enumerate(scenario.sizes):
        last = size.initial_files + (scenario.operation_count or _OPEN_END)
        yield from _too_long(
            "objects",
            naming.longest_object(index, last),
            limits.max_object_name_length,
            "sizes[].name",
        )


def _too_long(what: str, name: str, most: int | None, key: str) -> Iterator[str]:
    length = len(name.encode())
    if most is not None and length > most:
        yield (
            f'{what} would have names like "{printable(name)}" ({length} bytes);'
            f" this store allows {most}: shorten {key}"
        )


def _large_objects(limits: StoreLimits, scenario: Scenario) -> Iterator[str]:
    large, kinds = scenario.large_object, limits.large_objects
    if large is None or kinds is None:
        return
    kind = large.kind or next(iter(kinds), "")
    if kind not in kinds:
        known = ", ".join(kinds) or "none"
        yield f'large_object.kind: the store has no "{printable(kind)}"; those it has: {known}'
        return
    least, most = limits.min_part_size, max(size.size_max for size in scenario.sizes)
    if large.count(most) and scenario.uses_versions and not limits.versions_in_parts:
        yield (
            "large_object: the segments of an older version are deleted with it in this store, so"
            " read_version and delete_version need objects that are no larger than above"
        )
    if least is not None and large.count(most) > 1 and large.segment < least:
        yield (
            f"large_object.segment: {large.segment} is less than the {least} bytes that this store"
            " demands of each part of an object but the last"
        )
    for index, size in enumerate(scenario.sizes):
        if large.count(size.size_max) > kinds[kind]:
            yield (
                f'sizes[{index}] "{printable(size.name)}": objects of {size.size_max} bytes would'
                f" have {large.count(size.size_max)} segments; this store allows {kinds[kind]}"
            )


def _big_objects(limits: StoreLimits, scenario: Scenario) -> Iterator[str]:
    most, large = limits.max_object_size, scenario.large_object
    if most is not None and large is not None and large.segment > most:
        yield f"large_object.segment: {large.segment} is more than the {most} bytes of one object"
    for index, size in enumerate(scenario.sizes):
        if large is not None and size.size_max > large.above:
            continue
        if most is not None and size.size_max > most:
            yield (
                f'sizes[{index}] "{printable(size.name)}": size_max {size.size_max} is more than'
                f" the {most} bytes that this store takes in one object"
            )


def _large_parameters(limits: StoreLimits, scenario: Scenario) -> Iterator[str]:
    for key, parameter in parameters_of(scenario.operations).items():
        most = getattr(limits, parameter.store_limit, None) if parameter.store_limit else None
        value = scenario.parameters[key]
        if most is not None and isinstance(value, int) and value > most:
            yield f"{key}: {value} is more than the {most} that this store allows"
