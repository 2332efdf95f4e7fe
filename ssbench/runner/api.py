"""The functions of the public API: from plain values to a configuration, and a run of it."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Annotated,
    Literal,
    NamedTuple,
    TypedDict,
    TypeVar,
    cast,
    get_type_hints,
)

from ssbench import runner
from ssbench.core import units
from ssbench.core.errors import UsageError
from ssbench.core.hostlist import parse_hosts
from ssbench.core.live import Observer
from ssbench.core.scenario.checks import suggest
from ssbench.core.stats.compare import Comparison, comparison
from ssbench.runner.config import FREE_PORTS, RunConfig
from ssbench.runner.results import StoredStats, parse_thresholds, read_distinct, read_stats
from ssbench.runner.scenarios import ScenarioText, find_scenario
from ssbench.runner.series import LimitSearch, SearchConfig, Sweep
from ssbench.runner.single_run import RunResult
from ssbench.runner.stop import Stop
from ssbench.storage.options import StoreOptions, given_values
from ssbench.storage.registry import options_of, row_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Setting -> the key of the scenario that it overrides.
_SHORT: Mapping[Literal["users", "operations", "seconds"], str] = {
    "users": "user_count", "operations": "operation_count", "seconds": "run_seconds",
}  # fmt: skip
#: Of a file.
Path = str | PathLike[str]


class Setting(NamedTuple):
    """What a signature and its docstring say of a setting."""

    default: object
    meaning: str


class Settings(TypedDict, total=False):
    """What every kind of run takes. None is the default, and means "not given"."""

    storage: Annotated[
        str,
        Setting("swift", 'the store: its name, "embedded-swift", or "package.module:Class"'),
    ]
    storage_options: Annotated[
        Mapping[str, object],
        Setting({}, "options of the store by name; environment variables count as well"),
    ]
    workers: Annotated[
        int,
        Setting(None, "processes to start on this host [default: 2, none with ssh_workers]"),
    ]
    ssh_workers: Annotated[
        str,
        Setting(None, 'hosts to start workers on over ssh, such as "bench-{01..20}:4"'),
    ]
    users: Annotated[int | None, Setting(None, "overrides the scenario's user_count")]
    operations: Annotated[int | None, Setting(None, "overrides the scenario's operation_count")]
    seconds: Annotated[float | None, Setting(None, "overrides the scenario's run_seconds")]
    overrides: Annotated[
        Mapping[str, object], Setting({}, "other keys of the scenario -> their values")
    ]
    thresholds: Annotated[
        Sequence[str] | str,
        Setting((), 'conditions that a run must meet, such as "p99(READ) < 50ms"'),
    ]
    stats_file: Annotated[
        Path, Setting(None, "the stat file [default: a new one in /tmp/ssbench-results]")
    ]
    force: Annotated[bool, Setting(False, "overwrite the stat file")]
    keep_objects: Annotated[bool, Setting(False, "do not delete what the run created")]
    verify: Annotated[bool, Setting(False, "verify the content of every READ")]
    retries: Annotated[int, Setting(10, "attempts after a first one that failed")]
    percentiles: Annotated[
        Sequence[float], Setting((95.0,), "latency percentiles of the steps of a series")
    ]
    observers: Annotated[Sequence[Observer], Setting((), "called during the run, in its thread")]
    stop: Annotated[Stop | None, Setting(None, "call it, from any thread, to end the run early")]


_Function = TypeVar("_Function", bound=Callable[..., object])
N = TypeVar("N", int, float)


def _with_settings(function: _Function) -> _Function:
    """Give a function the signature and the docstring that Settings declares."""
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    found, lines = [], []
    for name, hint in get_type_hints(Settings, include_extras=True).items():
        type_, (default, meaning) = hint.__origin__, hint.__metadata__[0]
        type_ = type_ | None if default is None else type_
        found.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_
            )
        )
        lines.append(f"    :param {name}: {meaning}.")
    vars(function)["__signature__"] = signature.replace(parameters=[*own, *found])
    head, marker, raises = (function.__doc__ or "").partition("    :r")
    function.__doc__ = "\n".join([head.rstrip(), *lines, marker + raises])
    return function


@_with_settings
def run(scenario: Path | Mapping[str, object], **settings: Unpack[Settings]) -> RunResult:
    """Run a scenario once; returns when the run is over and its stat file is closed.

    :param scenario: path of a file, name of a canned scenario, or the scenario itself.
    :raises SsbenchError: the run failed before there were results.
    :raises KeyboardInterrupt: it was stopped before the store was changed.
    :raises Aborted: ``stop`` was called twice, and objects may remain in the store.
    """
    return runner.run(*_checked(scenario, settings))


@_with_settings
def sweep(
    scenario: Path | Mapping[str, object],
    *,
    over: str,
    loads: Sequence[float],
    **settings: Unpack[Settings],
) -> Sweep:
    """Run a scenario once for each load, with the same workers and initial objects.

    :param scenario: as of ``run``.
    :param over: "users" or "rate".
    :param loads: numbers of users, or operations per second.
    :returns: its ``steps`` have the results.
    :raises SsbenchError: the first run failed before there were results.
    """
    if not loads:
        raise UsageError("loads: there is none; at least one")
    config, observers, stop = _checked(scenario, settings)
    series = Sweep(config, over, loads, observers, stop)
    for _ in series:
        pass
    return series


@_with_settings
def find_limit(
    scenario: Path | Mapping[str, object],
    *,
    slos: Sequence[str],
    how: SearchConfig | None = None,
    step_seconds: float = 10.0,
    warmup: float = 3.0,
    **settings: Unpack[Settings],
) -> LimitSearch:
    """Search for the highest load that meets the SLOs.

    :param scenario: as of ``run``.
    :param slos: thresholds, such as "p99 < 50ms".
    :param how: what to search for, and how precisely; by default users, to 5 %.
    :param step_seconds: how long each load is measured, after its warm-up.
    :param warmup: seconds of each step that are in no statistics.
    :returns: ``search.kept`` is the highest load; ``steps`` has all results.
    :raises SsbenchError: the first run failed before there were results.
    """
    if not slos:
        raise UsageError("slos: there is none; at least one")
    for name, instead in (("thresholds", "slos"), ("seconds", "step_seconds")):
        if settings.get(name) is not None:
            raise UsageError(f"{name}: a search has {instead} in its place")
    step = {"warmup": warmup, "run_seconds": warmup + step_seconds}
    overrides = settings.get("overrides") or {}
    for key in step.keys() & overrides.keys():
        raise UsageError(f"overrides: {key}: a search has warmup and step_seconds in its place")
    overrides = {**overrides, **step}
    settings = {**settings, "overrides": overrides, "thresholds": slos}
    config, observers, stop = _checked(scenario, settings)
    series = LimitSearch(config, how or SearchConfig(), observers, stop)
    for _ in series:
        pass
    return series


def read(path: Path) -> StoredStats:
    """The statistics of a stat file, also of ssbench 0.3.9.

    Its ``metric("p99(READ)")`` is a figure, ``to_pandas()`` has each operation, ``to_html()`` is
    the report as a page.

    :raises SsbenchError: it can't be read.
    """
    return read_stats(os.fspath(path))


def compare(first: Path, *others: Path) -> Comparison:
    """Compare the runs of stat files with the first of them.

    :raises SsbenchError: one of them can't be read, or two are of the same run.
    """
    paths = [os.fspath(path) for path in (first, *others)]
    return comparison(read_distinct(zip(paths, paths, strict=True)), seed=1)


def _checked(
    scenario: Path | Mapping[str, object], settings: Settings
) -> tuple[RunConfig, Sequence[Observer], Stop]:
    """The arguments of ``runner.run``.

    :raises TypeError, UsageError: there is no such setting; or a value is not valid.
    """
    for name in settings:
        if name not in Settings.__annotations__:
            raise TypeError(
                f"{name}: no such setting; {suggest(name, [*Settings.__annotations__])}"
            )
    settings = cast(
        Settings, {name: value for name, value in settings.items() if value is not None}
    )
    hosts = parse_hosts(settings["ssh_workers"]) if "ssh_workers" in settings else None
    workers = settings.get("workers", None if hosts else 2)
    if workers is not None:
        workers = _in_unit("workers", units.count, workers)
    percentiles = [
        _in_unit("percentiles", units.percentile, each)
        for each in settings.get("percentiles", (95.0,))
    ]
    if not percentiles:
        raise UsageError("percentiles: the list is empty; give at least one")
    retries = _in_unit("retries", units.count_or_none, settings.get("retries", 10))
    storage, given = settings.get("storage", "swift"), settings.get("storage_options", {})
    store = None
    if storage == "embedded-swift":
        given_values(given, ())
    else:
        given = given_values(given, options_of(row_of(storage)))
        store = StoreOptions(storage, given, os.environ)
    overrides = dict(settings.get("overrides", {}))
    places = {key: f"overrides: {key}" for key in overrides}
    for name, key in _SHORT.items():
        if name in settings:
            overrides[key], places[key] = settings[name], name
    thresholds, stats_file = settings.get("thresholds", ()), settings.get("stats_file")
    if isinstance(scenario, Mapping):
        text = ScenarioText(json.dumps(scenario).encode(), "scenario")
    else:
        text = find_scenario(os.fspath(scenario))
    config = RunConfig(
        scenario=text,
        overrides=overrides,
        places=places,
        store=store,
        is_noop=store is not None and not row_of(store.driver).is_real,
        keep_objects=settings.get("keep_objects", False),
        verify=settings.get("verify", False),
        retries=retries,
        transport=FREE_PORTS,  # local workers are told which
        workers=workers,
        ssh_workers=hosts,
        stats_file=None if stats_file is None else os.fspath(stats_file),
        force=settings.get("force", False),
        percentiles=tuple(percentiles),
        thresholds=parse_thresholds([thresholds] if isinstance(thresholds, str) else thresholds),
    )
    return config, settings.get("observers", ()), settings.get("stop") or Stop()


def _in_unit(name: str, unit: units.Unit[N], value: object) -> N:
    """:raises UsageError: a setting has a wrong value."""
    try:
        return unit(value)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error
