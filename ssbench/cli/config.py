"""From a parsed command line and the environment to the configurations of the runner."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssbench.cli.store_options import given_on_command_line, store_options
from ssbench.core.errors import UsageError
from ssbench.core.option import options_of_fields
from ssbench.core.peers import TransportConfig
from ssbench.core.scenario.syntax import MAX_BYTES
from ssbench.runner.config import WORKER_COMMAND, RunConfig, default_workers
from ssbench.runner.scenarios import ScenarioText, find_scenario
from ssbench.storage.registry import row_of


def run_config(
    ns: argparse.Namespace,
    environ: Mapping[str, str],
    keys: Mapping[str, object] = {},
    **own: Any,
) -> RunConfig:
    """The run of run-scenario, or each run of find-limit. Reads the scenario.

    :param keys: of the scenario that the command sets otherwise; None: not at all.
    :param own: fields, likewise.
    :raises UsageError: options that exclude each other, or a scenario that can't be read.
    """
    values = {**base_config(ns, environ), **own}
    values["overrides"] = given_keys({**values["overrides"], **keys})
    RunConfig(**values)  # raises what is wrong with the options before the scenario is read
    return RunConfig(**{**values, "scenario": _read_scenario(ns.scenario)})


def values_of(kind: type[Struct], ns: argparse.Namespace) -> dict[str, Any]:
    """The fields of a struct that options of the command set."""
    declared = {row.name for row in options_of_fields(kind)}
    values = {}
    for row in ns.rows:
        value = getattr(ns, row.name)
        if row.name in declared and not (row.repeat and value is None):
            values[row.name] = tuple(dict.fromkeys(value)) if row.repeat else value
    return values


def base_config(ns: argparse.Namespace, environ: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a RunConfig that commands share, with an empty scenario.

    :raises UsageError: options that exclude each other.
    """
    if ns.embedded_swift and (needless := given_on_command_line(ns)):
        raise UsageError(
            f"--embedded-swift has its own user and URL: leave it out, or {', '.join(needless)}"
        )
    store = None if ns.embedded_swift else store_options(ns, environ)
    return {
        **values_of(RunConfig, ns),
        "overrides": given_keys(
            {row.scenario_key: getattr(ns, row.name) for row in ns.rows if row.scenario_key}
        ),
        "scenario": ScenarioText(b"", ns.command),
        "store": store,
        "is_noop": store is not None and not row_of(store.driver).is_real,
        "transport": TransportConfig(**values_of(TransportConfig, ns)),
        "starts_if_none": _starts_if_none(ns),
        "worker_command": (*WORKER_COMMAND, *(["--verbose"] if ns.verbose else [])),
    }


def given_keys(keys: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in keys.items() if value is not None}


def command_config(ns: argparse.Namespace, environ: Mapping[str, str], users: int) -> RunConfig:
    """The run of a command that makes its own scenario.

    Without a number of workers, it has ``default_workers`` on this host.

    :raises UsageError: options that exclude each other.
    """
    run = RunConfig(**base_config(ns, environ))
    if run.least_started or run.expect_workers:
        return run
    return replace(run, workers=default_workers(users))


def _starts_if_none(ns: argparse.Namespace) -> bool:
    """Whether nothing says that workers come later, or from other hosts."""
    waits = {"worker_wait_s", "fewer_workers_ok"} & (ns.given.keys() | ns.site.keys())
    return not (waits or ns.address or ns.key_file)


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
