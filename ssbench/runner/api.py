"""The functions of the public API: from plain values to a configuration, and a run of it."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeVar

from ssbench import runner
from ssbench.core.errors import UsageError
from ssbench.core.live import Observer
from ssbench.core.option import Option, check_needs, options_of_fields
from ssbench.core.scenario.checks import suggest
from ssbench.core.scenario.scenario import OPTIONS as OF_SCENARIO
from ssbench.core.settings import StorageSettings, TransportConfig
from ssbench.core.stats.compare import Comparison, comparison
from ssbench.core.stats.intervals import Sides
from ssbench.core.stats.selection import OPTIONS as OF_PART
from ssbench.core.stats.selection import Selection
from ssbench.runner.config import FREE_PORTS, RunConfig, ScenarioText, SearchConfig, find_scenario
from ssbench.runner.paired import PairedRuns
from ssbench.runner.results import StoredStats, read_distinct, read_stats
from ssbench.runner.series import LimitSearch, Sweep
from ssbench.runner.single_run import RunResult
from ssbench.runner.stop import Stop
from ssbench.storage.options import StoreOptions, given_values
from ssbench.storage.registry import options_of, row_of, with_identities

#: Of a file.
Path = str | PathLike[str]
#: Settings that are not as the option of a run -> type, default and meaning.
_OTHERS: Mapping[str, tuple[Any, object, str]] = {
    "storage": (str, "swift", 'the store: its name, "embedded-swift", or "package.module:Class"'),
    "storage_options": (
        Mapping[str, object], {}, "options of the store by name; variables count as well",
    ),
    "overrides": (Mapping[str, object], {}, "other keys of the scenario -> their values"),
    "observers": (Sequence[Observer], (), "called during the run, in its thread"),
    "workers": (
        int, None, "processes to start here [default: 2; none with ssh_workers or expect_workers]",
    ),
    "stop": (Stop, None, "call it, from any thread, to end the run early"),
}  # fmt: skip
_DECLARED = (RunConfig, StorageSettings, StoreOptions, TransportConfig)
#: The options of a run, of how to reach its store and of its ports, the first of each field.
OPTIONS = {
    row.name: row
    for rows in (OF_SCENARIO, *map(options_of_fields, _DECLARED))
    for row in rows
    if row.const is True
}
#: Parameters of ``read`` and ``compare``, which choose a part of the run.
PARTS = dict(
    zip(
        ("from_s", "to_s", "warmup", "stage", "operations", "size_classes", "endpoints",
         "addresses", "identities", "workers"),
        OF_PART, strict=True,
    )
)  # fmt: skip
_FLAG, _REPEATED = re.compile(r"--[a-z-]+"), "; may be repeated"

_Function = TypeVar("_Function", bound=Callable[..., object])


def settings_shown() -> dict[str, tuple[Any, object, str]]:
    """Setting -> type, default and meaning."""
    return {**_shown_rows(OPTIONS), **_OTHERS}


def _shown_rows(rows: Mapping[str, Option]) -> dict[str, tuple[Any, object, str]]:
    names = {flag: name for name, row in rows.items() for flag in row.flags}
    return {
        name: (
            row.python_type,
            row.default,
            _FLAG.sub(lambda flag: names.get(flag[0], flag[0]), row.help).replace(_REPEATED, ""),
        )
        for name, row in rows.items()
    }


def _declare(shown: Mapping[str, tuple[Any, object, str]], function: _Function) -> _Function:
    """Give a function these parameters, in its signature and its docstring."""
    signature, lines = inspect.signature(function), []
    own = {
        each.name: each
        for each in signature.parameters.values()
        if each.kind is not each.VAR_KEYWORD
    }
    for name, (kind, default, meaning) in shown.items():
        if name not in own:
            own[name] = inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default,
                annotation=kind if default is not None else kind | None,
            )  # fmt: skip
            lines.append(f"    :param {name}: {meaning}.")
    vars(function)["__signature__"] = signature.replace(parameters=[*own.values()])
    head, marker, raises = (function.__doc__ or "").partition("    :r")
    if ":param" not in head:
        lines.insert(0, "")
    function.__doc__ = "\n".join([head.rstrip(), *lines, marker + raises])
    return function


@partial(_declare, settings_shown())
def run(scenario: Path | Mapping[str, object], **settings: Any) -> RunResult:
    """Run a scenario once; returns when the run is over and its stat file is closed.

    :param scenario: path of a file, name of a canned scenario, or the scenario itself.
    :raises SsbenchError: the run failed before there were results.
    :raises KeyboardInterrupt: it was stopped before the store was changed.
    :raises Aborted: ``stop`` was called twice, and objects may remain in the store.
    """
    return runner.run(*_checked(scenario, settings))


@partial(_declare, settings_shown())
def sweep(
    scenario: Path | Mapping[str, object],
    *,
    over: str,
    loads: Sequence[float],
    **settings: Any,
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


@partial(_declare, settings_shown())
def find_limit(
    scenario: Path | Mapping[str, object],
    *,
    slos: Sequence[str],
    how: SearchConfig | None = None,
    step_seconds: float = 10.0,
    warmup: float = 3.0,
    **settings: Any,
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
    step = {"thresholds": slos, "warmup": warmup, "seconds": warmup + step_seconds}
    overrides = settings.get("overrides")
    for key in {"warmup", "run_seconds"}.intersection(overrides or ()):
        raise UsageError(f"overrides: {key}: a search has warmup and step_seconds in its place")
    config, observers, stop = _checked(scenario, {**settings, **step})
    series = LimitSearch(config, how or SearchConfig(), observers, stop)
    for _ in series:
        pass
    return series


@partial(_declare, settings_shown())
def ab(
    scenario: Path | Mapping[str, object],
    *,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    repeat: int = 6,
    precision: float | None = None,
    **settings: Any,
) -> PairedRuns:
    """Run two variants of a scenario alternately (A B, B A ...), and compare them pair by pair.

    :param scenario: as of ``run``.
    :param a: settings of variant A, which override the others.
    :param b: settings of variant B.
    :param repeat: number of pairs; with ``precision``, at most.
    :param precision: end once the change of the rate (with ``rate``: of the median response time)
        is known to within this percentage.
    :returns: its ``comparison`` has the figures of both.
    :raises SsbenchError: the first run failed before there were results.
    """
    if repeat < 1:
        raise UsageError(f"repeat: {repeat} is below 1")
    if precision is not None and not 0 < precision < 100:
        raise UsageError(f"precision: {precision:g} is no percentage above 0 and below 100")
    for letter, own in (("a", a), ("b", b)):
        for name in {"observers", "stop"}.intersection(own):
            raise UsageError(f"{letter}: {name}: give it once, for both variants")
    first, observers, stop = _checked(scenario, {**settings, **a})
    second, _, _ = _checked(scenario, {**settings, **b})
    names = [", ".join(f"{key}={own[key]!r}" for key in own) for own in (_shown(a), _shown(b))]
    runs = PairedRuns(
        (first, second), (names[0], names[1]), repeat=repeat, precision=precision,
        observers=observers, stop=stop,
    )  # fmt: skip
    for _ in runs:
        pass
    return runs


def _shown(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those that name a variant: no secret is among them."""
    return {name: each for name, each in settings.items() if name != "storage_options"}


@partial(_declare, _shown_rows(PARTS))
def read(path: Path, **part: Any) -> StoredStats:
    """The statistics of a stat file, also of ssbench 0.3.9, or of a part of the run.

    Its ``metric("p99(READ)")`` is a figure, ``to_pandas()`` has each operation, ``to_html()`` is
    the report as a page.

    :raises SsbenchError: it can't be read, or the run does not have this part.
    """
    return read_stats(os.fspath(path), chosen=_selection(part))


@partial(_declare, _shown_rows(PARTS))
def compare(
    first: Path | Sequence[Path], *others: Path | Sequence[Path], **part: Any
) -> Comparison:
    """Compare the runs of stat files with the first of them, or groups of runs: lists of files.

    Its ``change("p99(READ)")`` is the change of a figure. The other parameters choose a part of
    each run.

    :raises SsbenchError: one of them can't be read, two are of the same run, or one does not have
        this part.
    """
    groups = [[each] if isinstance(each, (str, PathLike)) else [*each] for each in (first, *others)]
    if len(groups) < 2 or not all(groups):
        raise UsageError("compare: give two runs or more, or two groups with at least one run each")
    paths = [os.fspath(path) for group in groups for path in group]
    counts = tuple(map(len, groups))
    named = read_distinct(zip(paths, paths, strict=True), chosen=_selection(part))
    return comparison(named, seed=1, sides=Sides(counts) if max(counts) > 1 else None)


def _selection(part: Mapping[str, Any]) -> Selection:
    """:raises TypeError, UsageError: there is no such parameter; or a value is not valid."""
    chosen = Selection(**_values(PARTS, part, "parameter"))
    chosen.check()
    return chosen


def _values(
    rows: Mapping[str, Option], given: Mapping[str, Any], what: str, others: Collection[str] = ()
) -> dict[str, Any]:
    """Fields by name, of what is given and not None.

    :param rows: by the names that a program gives.
    :param others: further names that may be given.
    :raises TypeError, UsageError: there is no such name; or a value is not valid.
    """
    for name in given.keys() - {*rows, *others}:
        flag = f"--{name.replace('_', '-')}"
        named = [key for key, row in rows.items() if name == row.scenario_key or flag in row.flags]
        hint = f'did you mean "{named[0]}"?' if named else suggest(name, [*others, *rows])
        raise TypeError(f"{name}: no such {what}; {hint}")
    values = {}
    for name, row in rows.items():
        value = given.get(name)
        if value is not None:  # a path is taken as it is
            found = os.fspath(value) if row.file else row.read(value, name)
            values[row.name] = tuple(found) if row.repeat else found
    return values


def _checked(
    scenario: Path | Mapping[str, object], settings: Mapping[str, Any]
) -> tuple[RunConfig, Sequence[Observer], Stop]:
    """The arguments of ``runner.run``.

    :raises TypeError, UsageError: there is no such setting; or a value is not valid.
    """
    values = _values(OPTIONS, settings, "setting", _OTHERS)
    given = {name: value for name, value in settings.items() if value is not None}
    check_needs([*OPTIONS.values()], values, lambda row: values.get(row.name))
    if not {"ssh_workers", "expect_workers"} & values.keys():
        values.setdefault("workers", 2)
    keys = {row.scenario_key: row.name for row in OF_SCENARIO if row.name in values}
    ports, reach, own = (
        {row.name: values.pop(row.name) for row in options_of_fields(kind) if row.name in values}
        for kind in (TransportConfig, StorageSettings, StoreOptions)
    )
    is_known = bool(ports) or "expect_workers" in values  # otherwise workers are told the ports
    transport = TransportConfig(**ports) if is_known else FREE_PORTS
    storage, of_store = given.get("storage", "swift"), given.get("storage_options", {})
    is_embedded = storage == "embedded-swift"
    of_driver = given_values(of_store, () if is_embedded else options_of(row_of(storage)))
    overrides = given.get("overrides", {})
    of_keys = {key: values.pop(name) for key, name in keys.items()}
    if isinstance(scenario, Mapping):
        text = ScenarioText(json.dumps(scenario).encode(), "scenario")
    else:
        text = find_scenario(os.fspath(scenario))
    config = RunConfig(
        scenario=text,
        overrides={**overrides, **of_keys},
        places={key: f"overrides: {key}" for key in overrides} | keys,
        store=None
        if is_embedded
        else with_identities(
            StoreOptions(storage, of_driver, os.environ, StorageSettings(**reach), **own)
        ),
        transport=transport,
        **values,
    )
    return config, given.get("observers", ()), given.get("stop") or Stop()
