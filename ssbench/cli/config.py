"""From a parsed command line and the environment to the configurations of the runner."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssbench.cli.options import DEFAULT_STORE, IDENTITIES, OF_STORE, STORE_OPTIONS
from ssbench.core.errors import UsageError
from ssbench.core.option import options_of_fields
from ssbench.core.scenario.syntax import MAX_BYTES
from ssbench.core.settings import StorageSettings, TransportConfig
from ssbench.runner.config import (
    WORKER_COMMAND,
    RunConfig,
    ScenarioText,
    default_workers,
    find_scenario,
)
from ssbench.storage.options import StoreOptions, check_http_url, parse_storage_options
from ssbench.storage.registry import ROWS, options_of, row_of, with_identities


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
    return {
        **values_of(RunConfig, ns),
        "overrides": given_keys(
            {row.scenario_key: getattr(ns, row.name) for row in ns.rows if row.scenario_key}
        ),
        "scenario": ScenarioText(b"", ns.command),
        "store": None if ns.embedded_swift else store_options(ns, environ),
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


def store_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> StoreOptions:
    """Store options from a parsed command line and the environment. Loads an outside driver.

    :raises UsageError: the store is unknown, or an option isn't one of its own, or is secret.
    """
    if ns.storage and "://" in ns.storage:  # an earlier short form of --storage-url
        ns.storage_urls = [
            *(ns.storage_urls or ()),
            check_http_url(ns.storage, "--storage: the URL"),
        ]
        ns.storage = None
    is_noop = getattr(ns, "noop", False)
    if is_noop and "storage" in ns.given and ns.storage != "noop":
        raise UsageError("--noop is short for --storage noop: leave out one of them")
    driver = "noop" if is_noop else ns.storage or DEFAULT_STORE
    try:
        rows = options_of(row_of(driver))
    except UsageError as error:
        raise UsageError(f"--storage: {error}") from error
    if not is_noop:  # --noop leaves the rest of a command line as it is
        _check_own(ns, driver)
    given = {each.name: getattr(ns, each.name, None) for each in rows}
    options = StoreOptions(
        driver,
        {
            **{name: value for name, value in given.items() if value is not None},
            **parse_storage_options(ns.storage_options or (), rows),
        },
        environ,
        StorageSettings(**values_of(StorageSettings, ns)),
        **values_of(StoreOptions, ns),
        site={
            name: each.value for name, each in ns.site.items() if name in given and each.from_file
        },
    )
    return with_identities(options)


#: What says nothing to a store without connections. A driver outside of the package may have some.
_OF_CONNECTIONS = {
    "connect_timeout_s": "--connect-timeout",
    "source_addresses": "--source-address",
}


def given_on_command_line(ns: argparse.Namespace) -> list[str]:
    """Options of the command line that select a store, or say how to reach or log in to one."""
    return [
        each.flags[0]
        for each in (*STORE_OPTIONS, *IDENTITIES)
        if each.name in ns.given
        and (each.of_store or each.name in ("storage", "storage_options", "identities"))
        and each.group != "TLS"
    ]


def _check_own(ns: argparse.Namespace, driver: str) -> None:
    """:raises UsageError: the command line has an option that only other stores have."""
    own = {option.name for option in options_of(row_of(driver))}
    for option in STORE_OPTIONS:
        if option.of_store and option.name in ns.given and option.name not in own:
            stores = " or ".join(
                name
                for name, options in OF_STORE.items()
                if option.name in {o.name for o in options}
            )
            raise UsageError(
                f"{option.flags[0]} is an option of --storage {stores}, and the store is {driver}: "
                f"give --storage {stores}, or leave out {option.flags[0]}"
            )
    for name, flag in _OF_CONNECTIONS.items():
        if name in ns.given and driver in ROWS and not ROWS[driver].urls:
            raise UsageError(f"{flag}: the store {driver} has no connections: leave it out")
