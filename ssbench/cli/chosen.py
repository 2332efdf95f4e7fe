"""What the user chose, as values with types: one frozen dataclass for each command.

Built from the parsed command line and the environment; no secret is in a repr.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssbench.cli.auth_options import credentials_from, given_on_command_line
from ssbench.cli.promises import thresholds_from
from ssbench.core.credentials import Credentials
from ssbench.core.errors import UsageError
from ssbench.core.steps import OVER, Sweep

if TYPE_CHECKING:
    from ssbench.core.thresholds import Threshold

KEY_FILE_VARIABLE = "SSBENCH_KEY_FILE"
DEFAULT_PERCENTILES = (95.0,)
CONTAINER_BASE = "ssbench"  #: of cleanup-containers; a scenario's own default is the same
CLEANUP_CONCURRENCY = 10

#: Keys of a scenario that options of run-scenario override; each is an attribute of its namespace.
OVERRIDES = (
    "user_count",
    "operation_count",
    "run_seconds",
    "container_base",
    "container_count",
    "block_size",
    "delete_after",
    "policy",
    "seed",
    "rate",
    "arrivals",
    "think_time",
    "warmup",
    "cooldown",
)


@dataclass(frozen=True, slots=True)
class ZmqOptions:
    """Where master and workers meet.

    :param address: the master: the interface to bind, None for all with a key and loopback
        without; a worker: the master's host.
    :param key_file: path, None for no encryption.
    """

    address: str | None
    work_port: int
    results_port: int
    control_port: int
    key_file: str | None


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """How to reach the store.

    :param storage_urls: those of -S; where there are none, the login says.
    """

    credentials: Credentials
    storage_urls: tuple[str, ...]
    connect_timeout_s: float
    network_timeout_s: float


@dataclass(frozen=True, slots=True)
class AutoStopOptions:
    """When the rate is steady enough for the run to end."""

    window_s: int
    tolerance: float  #: as a share


@dataclass(frozen=True, slots=True)
class RunOptions:
    """run-scenario. None means "not given" where nothing else is said."""

    scenario: str  #: a path, "-" or a canned scenario's name
    overrides: Mapping[str, object]  #: for Scenario.with_overrides; those that were given
    store: StoreOptions | None  #: None where the store needs no credentials of the user's
    noop: bool
    embedded_swift: bool
    keep_objects: bool
    use_existing: bool
    compressible: bool
    verify: bool
    operation_timeout_s: float | None  #: None: no limit
    drain_timeout_s: float
    max_consecutive_errors: int | None  #: None: go on however many fail
    retries: int
    zmq: ZmqOptions
    workers: int | None
    expect_workers: int | None
    worker_wait_s: float
    worker_timeout_s: float
    batch_size: int | None  #: None: auto
    stats_file: str | None
    force: bool
    no_default_report: bool
    format: str  #: "text", "csv" or "json"
    percentiles: tuple[float, ...]
    thresholds: tuple[Threshold, ...]
    sweep: Sweep | None  #: None: one run
    auto_stop: AutoStopOptions | None  #: None: the run's length is what the scenario says
    progress: str | None  #: "chars", "live" or "none"; None: as the terminal is
    profile: bool
    verbose: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """report-scenario."""

    stats_file: str
    report_file: str | None  #: None: stdout
    percentiles: tuple[float, ...]
    thresholds: tuple[Threshold, ...]
    format: str  #: "text", "csv" or "json"
    rps_histogram: str | None
    time_series: str | None
    host_stats: str | None
    profile: bool


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """compare."""

    stats_files: tuple[str, ...]
    operations: tuple[int, ...]  #: none: all together, and each
    percentiles: tuple[float, ...]
    json: bool
    seed: int


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """cleanup-containers."""

    store: StoreOptions
    container_base: str
    concurrency: int
    policy: str | None  #: None: containers without one in their name; "*": any
    dry_run: bool
    yes: bool
    verbose: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """--resume-cleanup, of cleanup-containers and of run-scenario."""

    stats_file: str
    store: StoreOptions
    concurrency: int
    dry_run: bool
    yes: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """ssbench-worker."""

    worker_id: str | None  #: None: make one up
    zmq: ZmqOptions
    concurrency: int
    retries: int
    batch_size: int | None  #: None: auto
    profile_count: int | None
    exit_with_master: bool
    parent_pipe: int | None  #: file descriptor that a local worker's master holds
    verbose: bool


def run_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> RunOptions:
    """What run-scenario was told.

    :raises UsageError: options that can't go together.
    """
    if ns.embedded_swift and given_on_command_line(ns):
        raise UsageError(
            "--embedded-swift has a user and a URL of its own: leave that out, or the options of "
            "authentication and -S"
        )
    if ns.workers and ns.expect_workers and ns.expect_workers < ns.workers:
        raise UsageError(
            f"--expect-workers {ns.expect_workers} is fewer than the {ns.workers} of --workers, "
            "which count among them"
        )
    if ns.verify and ns.noop:
        raise UsageError("--verify has nothing to check with --noop: leave out one of them")
    own_store = ns.noop or ns.embedded_swift
    return RunOptions(
        scenario=ns.scenario,
        overrides=overrides_from(ns),
        store=None if own_store else store_options(ns, environ),
        noop=ns.noop,
        embedded_swift=ns.embedded_swift,
        keep_objects=ns.keep_objects,
        use_existing=ns.use_existing,
        compressible=ns.compressible,
        verify=ns.verify,
        operation_timeout_s=ns.operation_timeout,
        drain_timeout_s=ns.drain_timeout,
        max_consecutive_errors=ns.max_consecutive_errors,
        retries=ns.retries,
        zmq=zmq_options(ns, environ, ns.zmq_bind_ip),
        workers=ns.workers,
        expect_workers=ns.expect_workers,
        worker_wait_s=ns.worker_wait,
        worker_timeout_s=ns.worker_timeout,
        batch_size=ns.batch_size,
        stats_file=ns.stats_file,
        force=ns.force,
        no_default_report=ns.no_default_report,
        format=_format(ns),
        percentiles=percentiles_from(ns),
        thresholds=thresholds_from(ns),
        sweep=_sweep(ns),
        auto_stop=_auto_stop(ns),
        progress=ns.progress,
        profile=ns.profile,
        verbose=ns.verbose,
        quiet=ns.quiet,
    )


def report_options(ns: argparse.Namespace) -> ReportOptions:
    """What report-scenario was told.

    :raises UsageError: where the report would overwrite the results.
    """
    files = {
        "-f": ns.report_file,
        "-r": ns.rps_histogram,
        "--time-series": ns.time_series,
        "--host-stats": ns.host_stats,
    }
    for option, path in files.items():
        if path and _same_file(path, ns.stats_file):
            raise UsageError(f"{option} {path}: that is the stat file itself; name another file")
    return ReportOptions(
        stats_file=ns.stats_file,
        report_file=ns.report_file,
        percentiles=percentiles_from(ns),
        thresholds=thresholds_from(ns),
        format=_format(ns),
        rps_histogram=ns.rps_histogram,
        time_series=ns.time_series,
        host_stats=ns.host_stats,
        profile=ns.profile,
    )


def _format(ns: argparse.Namespace) -> str:
    return "csv" if ns.csv else "json" if ns.json else "text"


def _sweep(ns: argparse.Namespace) -> Sweep | None:
    sweep: Sweep | None = ns.sweep
    if sweep is not None and getattr(ns, OVER[sweep.over]) is not None:
        option = {"users": "-u", "rate": "--rate"}[sweep.over]
        raise UsageError(f"--sweep says how many {sweep.over} there are: leave out {option}")
    return sweep


def _auto_stop(ns: argparse.Namespace) -> AutoStopOptions | None:
    if not ns.auto_stop:
        return None
    return AutoStopOptions(ns.auto_stop_window, ns.auto_stop_tolerance / 100)


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False  # one of them isn't there


def cleanup_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> CleanupOptions:
    """What cleanup-containers was told."""
    return CleanupOptions(
        store=store_options(ns, environ),
        container_base=ns.container_base,
        concurrency=ns.concurrency,
        policy=ns.policy,
        dry_run=ns.dry_run,
        yes=ns.yes,
        verbose=ns.verbose,
        quiet=ns.quiet,
    )


def resume_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> ResumeOptions:
    """What cleanup-containers, or run-scenario, was told where --resume-cleanup was given.

    :raises UsageError: options that can't go together.
    """
    of_run = ns.command == "run-scenario"
    if of_run and (ns.noop or ns.embedded_swift):
        raise UsageError(
            "--resume-cleanup is for the store that the run was against: leave out --noop and "
            "--embedded-swift"
        )
    if not of_run and (ns.policy is not None or ns.container_base != CONTAINER_BASE):
        raise UsageError("--resume-cleanup knows the run's containers: leave out -b and -p")
    return ResumeOptions(
        stats_file=ns.resume_cleanup,
        store=store_options(ns, environ),
        concurrency=CLEANUP_CONCURRENCY if of_run else ns.concurrency,
        dry_run=False if of_run else ns.dry_run,
        yes=False if of_run else ns.yes,
        quiet=ns.quiet,
    )


def compare_options(ns: argparse.Namespace) -> CompareOptions:
    """What compare was told.

    :raises UsageError: where there is nothing to compare with.
    """
    from ssbench.core.compare import PERCENTS  # no other command has a use for it

    if len(ns.stats_files) < 2:
        raise UsageError(f"{ns.stats_files[0]}: one stat file alone; name two or more to compare")
    if ns.stats_files.count("-") > 1:
        raise UsageError("-: standard input is one stat file; name the other")
    return CompareOptions(
        stats_files=tuple(ns.stats_files),
        operations=tuple(dict.fromkeys(ns.operations or ())),
        percentiles=tuple(sorted(set(ns.percentiles or PERCENTS))),
        json=ns.json,
        seed=ns.seed,
    )


def worker_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> WorkerOptions:
    """What ssbench-worker was told."""
    return WorkerOptions(
        worker_id=ns.worker_id,
        zmq=zmq_options(ns, environ, ns.zmq_host),
        concurrency=ns.concurrency,
        retries=ns.retries,
        batch_size=ns.batch_size,
        profile_count=ns.profile_count,
        exit_with_master=ns.exit_with_master,
        parent_pipe=ns.parent_pipe,
        verbose=ns.verbose,
    )


def overrides_from(ns: argparse.Namespace) -> dict[str, object]:
    """Keys of the scenario that the command line sets."""
    values = {key: getattr(ns, key) for key in OVERRIDES}
    return {key: value for key, value in values.items() if value is not None}


def zmq_options(
    ns: argparse.Namespace, environ: Mapping[str, str], address: str | None
) -> ZmqOptions:
    """Ports and key; of kill-workers too, with ``ns.zmq_bind_ip`` as its address.

    :raises UsageError: two ports are one, or the key file has an empty name.
    """
    ports = (ns.zmq_work_port, ns.zmq_results_port, ns.zmq_control_port)
    if len(set(ports)) < len(ports):
        named = "--zmq-work-port {}, --zmq-results-port {}, --zmq-control-port {}".format(*ports)
        raise UsageError(f"{named}: give three different ports")
    if ns.zmq_key_file == "":  # a variable that was never set: not to go on in the clear
        raise UsageError("--zmq-key-file: the name is empty; leave it out for no key")
    key_file = ns.zmq_key_file or environ.get(KEY_FILE_VARIABLE) or None
    return ZmqOptions(address, *ports, key_file)


def store_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> StoreOptions:
    """Credentials, storage URLs and time-outs of a command that talks to a store."""
    return StoreOptions(
        credentials=credentials_from(ns, environ),
        storage_urls=tuple(ns.storage_urls or ()),
        connect_timeout_s=ns.connect_timeout,
        network_timeout_s=ns.network_timeout,
    )


def percentiles_from(ns: argparse.Namespace) -> tuple[float, ...]:
    """Each once, in the order given; the default where none was."""
    return tuple(dict.fromkeys(ns.percentiles or ())) or DEFAULT_PERCENTILES
