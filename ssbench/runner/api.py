"""The functions of the public API: from plain values to a configuration, and a run of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypedDict, cast

from ssbench import runner
from ssbench.core.errors import UsageError
from ssbench.core.hostlist import parse_hosts
from ssbench.core.live import Observer
from ssbench.core.scenario.checks import suggest
from ssbench.core.stats.compare import Comparison, comparison
from ssbench.core.stats.run_stats import RunStats
from ssbench.runner.config import FREE_PORTS, RunConfig
from ssbench.runner.results import parse_thresholds, read_distinct, read_stats
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


class Settings(TypedDict, total=False):
    """What every kind of run takes. None is the default, and means "not given"."""

    storage: str  #: "swift" (the default), "noop", "embedded-swift", or "package.module:Class"
    #: Options of the store by name, such as auth, user, key; environment variables count as well.
    storage_options: Mapping[str, object]
    workers: int  #: processes to start on this host; by default 2, none with ssh_workers
    ssh_workers: str  #: hosts to start workers on over ssh, such as "bench-{01..20}:4"
    users: int | None  #: overrides the scenario's user_count
    operations: int | None  #: overrides the scenario's operation_count
    seconds: float | None  #: overrides the scenario's run_seconds
    overrides: Mapping[str, object]  #: other keys of the scenario
    thresholds: Sequence[str]  #: conditions that a run must meet, such as "p99(READ) < 50ms"
    stats_file: Path | None  #: by default a new file in /tmp/ssbench-results
    force: bool  #: overwrite the stat file
    keep_objects: bool
    verify: bool
    retries: int
    percentiles: Sequence[float]
    observers: Sequence[Observer]  #: called during the run, in its thread
    stop: Stop | None  #: call it, from any thread, to end the run early


def run(scenario: Path | Mapping[str, object], **settings: Unpack[Settings]) -> RunResult:
    """Run a scenario once; returns when the run is over and its stat file is closed.

    :param scenario: path of a file, name of a canned scenario, or the scenario itself.
    :raises SsbenchError: the run failed before there were results.
    :raises KeyboardInterrupt: it was stopped before the store was changed.
    :raises Aborted: ``stop`` was called twice, and objects may remain in the store.
    """
    return runner.run(*_checked(scenario, settings))


def sweep(
    scenario: Path | Mapping[str, object],
    *,
    over: str,
    loads: Sequence[float],
    **settings: Unpack[Settings],
) -> Sweep:
    """Run a scenario once for each load, with the same workers and initial objects.

    :param over: "users" or "rate".
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

    :param slos: thresholds, such as "p99 < 50ms".
    :param how: what to search for, and how precisely; by default users, to 5 %.
    :param step_seconds: how long each load is measured, after its warm-up.
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


def read(path: Path) -> RunStats:
    """The statistics of a stat file, also of ssbench 0.3.9.

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
    if workers is not None and workers < 1:
        raise UsageError(f"workers: {workers} is below 1; a whole number from 1 up")
    percentiles = tuple(settings.get("percentiles", (95.0,)))
    if not percentiles:
        raise UsageError("percentiles: the list is empty; give at least one")
    for percent in percentiles:
        if not 0 < percent <= 100:
            raise UsageError(f"percentiles: {percent:g} is not above 0 and at most 100")
    retries = settings.get("retries", 10)
    if retries < 0:
        raise UsageError(f"retries: {retries} is below 0; a whole number from 0 up")
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
        percentiles=percentiles,
        thresholds=parse_thresholds([thresholds] if isinstance(thresholds, str) else thresholds),
    )
    return config, settings.get("observers", ()), settings.get("stop") or Stop()
