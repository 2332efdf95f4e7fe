"""From a parsed command line and the environment to the configurations of the runner."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ssbench.cli.options import FEW_ERRORS
from ssbench.cli.store_options import given_on_command_line, store_options
from ssbench.cli.worker_options import key_path, ports_of
from ssbench.core.errors import UsageError
from ssbench.core.scenario.jsontext import MAX_BYTES
from ssbench.runner.config import (
    WORKER_COMMAND,
    AutoStop,
    RunConfig,
    TransportConfig,
    default_workers,
)
from ssbench.runner.scenarios import ScenarioText, find_scenario
from ssbench.storage.registry import row_of

if TYPE_CHECKING:
    from ssbench.core.stats.thresholds import Threshold
    from ssbench.runner.series import SearchConfig

DEFAULT_PERCENTILES = (95.0,)


def run_config(ns: argparse.Namespace, environ: Mapping[str, str]) -> RunConfig:
    """The run of run-scenario, or each run of find-limit. Reads the scenario.

    :raises UsageError: options that exclude each other, or a scenario that can't be read.
    """
    values = {
        **base_config(ns, environ),
        "overrides": _overrides(ns),
        "places": _places(ns),
        "auto_stop": _auto_stop(ns),
    }
    RunConfig(**values)  # raises what is wrong with the options before the scenario is read
    return RunConfig(**{**values, "scenario": _read_scenario(ns.scenario)})


def base_config(ns: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a RunConfig that commands share, with an empty scenario.

    :raises UsageError: options that exclude each other.
    """
    if ns.embedded_swift and (needless := given_on_command_line(ns)):
        raise UsageError(
            f"--embedded-swift has its own user and URL: leave it out, or {', '.join(needless)}"
        )
    store = None if ns.embedded_swift else store_options(ns, environ)
    given = {name: getattr(ns, name) for name in RunConfig.__struct_fields__ if name in ns}
    return {
        **given,
        "scenario": ScenarioText(b"", ns.command),
        "store": store,
        "is_noop": store is not None and not row_of(store.driver).is_real,
        "transport": transport_config(ns, environ),
        "starts_if_none": _starts_if_none(ns, environ),
        "worker_command": (*WORKER_COMMAND, *(["--verbose"] if ns.verbose else [])),
        "percentiles": percentiles(ns),
        "thresholds": thresholds(ns),
        "in_detail": any(getattr(ns, name, None) for name in ("html", "web")),
    }


def command_config(ns: argparse.Namespace, environ: Mapping[str, str], users: int) -> RunConfig:
    """The run of a command that makes its own scenario.

    Without a number of workers, it has ``default_workers`` on this host.

    :raises UsageError: options that exclude each other.
    """
    run = RunConfig(**base_config(ns, environ))
    if run.least_started or run.expect_workers:
        return run
    return replace(run, workers=default_workers(users))


def search_config(ns: argparse.Namespace) -> SearchConfig:
    """The search of find-limit.

    :raises UsageError: options that exclude each other.
    """
    from ssbench.runner.series import SearchConfig

    if ns.over == "users":
        if "user_count" in ns.given:
            raise UsageError(
                "-u: find-limit searches for the number of users; bound it by --start and "
                "--max-users"
            )
        if "max_rate" in ns.given:
            raise UsageError("--max-rate requires --over rate")
        if ns.first is not None and ns.first != int(ns.first):
            raise UsageError(f"--start {ns.first:g}: give a whole number of users")
    elif "max_users" in ns.given:
        raise UsageError("--max-users requires --over users; with a rate, -u limits concurrency")
    most = ns.max_users if ns.over == "users" else ns.max_rate
    return SearchConfig(ns.over, ns.first, most, ns.precision / 100, ns.confirm)


def transport_config(ns: argparse.Namespace, environ: Mapping[str, str]) -> TransportConfig:
    """Address, ports and key of the master.

    :raises UsageError: equal ports.
    """
    return TransportConfig(ns.address, *ports_of(ns), key_path(ns, environ))


def percentiles(ns: argparse.Namespace) -> tuple[float, ...]:
    """The percentiles given, in order and without duplicates; the default if there are none."""
    return tuple(dict.fromkeys(getattr(ns, "percentiles", None) or ())) or DEFAULT_PERCENTILES


def thresholds(ns: argparse.Namespace) -> tuple[Threshold, ...]:
    """The thresholds of --threshold; those of --slo, and one on errors if there is none.

    :raises UsageError: a line for each that is malformed.
    """
    slos = getattr(ns, "slos", None)
    texts, option = (slos, "--slo") if slos else (getattr(ns, "thresholds", None), "--threshold")
    if not texts:
        return ()
    from ssbench.runner.results import parse_thresholds

    found = parse_thresholds(texts, option)
    if slos and not any(threshold.metric == "errors" for threshold in found):
        found += parse_thresholds([FEW_ERRORS])
    return found


def _starts_if_none(ns: argparse.Namespace, environ: Mapping[str, str]) -> bool:
    """Whether nothing says that workers come later, or from other hosts."""
    waits = {"worker_wait_s", "fewer_workers_ok"} & (ns.given.keys() | ns.site.keys())
    return not (waits or ns.address or key_path(ns, environ))


def _overrides(ns: argparse.Namespace) -> dict[str, object]:
    """Keys of the scenario that the command line sets.

    :raises UsageError: one that --sweep sets as well.
    """
    given = {row.scenario_key: getattr(ns, row.name) for row in ns.rows if row.scenario_key}
    found = {key: value for key, value in given.items() if value is not None}
    if ns.command == "find-limit":
        found["run_seconds"] = ns.step_seconds + ns.warmup
        if ns.over == "users":
            found.pop("user_count", None)  # of the site
    elif getattr(ns, "sweep", None) is not None:
        key, option = ("user_count", "-u") if ns.sweep.over == "users" else ("rate", "--rate")
        if key in ns.given:
            raise UsageError(f"--sweep sets the {ns.sweep.over}: leave out {option}")
        found.pop(key, None)  # of the site
    return found


def _places(ns: argparse.Namespace) -> dict[str, str]:
    """Key of the scenario -> the option that sets it, where that is not the key's own."""
    if ns.command == "find-limit":
        key = "user_count" if ns.over == "users" else "rate"
        return {"run_seconds": "--step-seconds", key: f"--over {ns.over}"}
    if getattr(ns, "sweep", None) is not None:
        return {"user_count" if ns.sweep.over == "users" else "rate": f"--sweep {ns.sweep.over}"}
    return {}


def _auto_stop(ns: argparse.Namespace) -> AutoStop | None:
    if not getattr(ns, "auto_stop", False):
        return None
    return AutoStop(ns.auto_stop_window, ns.auto_stop_tolerance / 100)


def _read_scenario(argument: str) -> ScenarioText:
    """The scenario that ``-f`` names; ``-`` is stdin.

    :raises UsageError: as ``find_scenario``.
    """
    if argument != "-":
        return find_scenario(argument)
    # The bytes, if there are any: their encoding is the scenario's, not the terminal's.
    content = getattr(sys.stdin, "buffer", sys.stdin).read(MAX_BYTES + 1)
    if isinstance(content, str):
        content = content.encode("utf-8", "surrogateescape")
    return ScenarioText(content, "stdin")
