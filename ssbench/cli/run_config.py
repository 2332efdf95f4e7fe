"""What the user chose for a run, as a value with types.

Built from the parsed command line and the environment; no secret is in a repr.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ssbench.cli.shared_options import format_of, percentiles_from
from ssbench.cli.store_options import given_on_command_line, store_options
from ssbench.cli.threshold_status import thresholds_from
from ssbench.cli.zmq_options import ZmqOptions, zmq_options
from ssbench.core.errors import UsageError
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import row_of

if TYPE_CHECKING:
    from ssbench.core.stats.steps import Sweep
    from ssbench.core.stats.thresholds import Threshold

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
class AutoStopOptions:
    """When the rate is steady enough for the run to end."""

    window_s: int
    tolerance: float  #: as a share


@dataclass(frozen=True, slots=True)
class RunOptions:
    """run-scenario. None means "not given" where nothing else is said."""

    scenario: str  #: a path, "-" or a canned scenario's name
    overrides: Mapping[str, object]  #: for Scenario.with_overrides; those that were given
    store: StoreOptions | None  #: None for the embedded Swift
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
    fewer_workers_ok: bool
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


def run_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> RunOptions:
    """What run-scenario was told.

    :raises UsageError: options that can't go together.
    """
    if ns.embedded_swift and given_on_command_line(ns):
        raise UsageError(
            "--embedded-swift has its own user and URL: leave it out, or the options of "
            "authentication and -S"
        )
    if ns.workers and ns.expect_workers and ns.expect_workers < ns.workers:
        raise UsageError(
            f"--expect-workers {ns.expect_workers} is fewer than the {ns.workers} of --workers, "
            "which count among them"
        )
    if ns.stats_file == "-":
        raise UsageError("-s -: standard output is for the report; name a file")
    store = None if ns.embedded_swift else store_options(ns, environ)
    noop = store is not None and not row_of(store.driver).is_real
    if ns.verify and noop:
        raise UsageError("--verify has nothing to check with --noop: leave out one of them")
    thresholds = thresholds_from(ns)
    if noop and any(threshold.metric == "throughput" for threshold in thresholds):
        raise UsageError("--threshold: with --noop nothing is moved, so there is no throughput")
    return RunOptions(
        scenario=ns.scenario,
        overrides=overrides_from(ns),
        store=store,
        noop=noop,
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
        fewer_workers_ok=ns.fewer_workers_ok,
        worker_timeout_s=ns.worker_timeout,
        batch_size=ns.batch_size,
        stats_file=ns.stats_file,
        force=ns.force,
        no_default_report=ns.no_default_report,
        format=format_of(ns),
        percentiles=percentiles_from(ns),
        thresholds=thresholds,
        sweep=_sweep(ns),
        auto_stop=_auto_stop(ns),
        progress=ns.progress,
        profile=ns.profile,
        verbose=ns.verbose,
        quiet=ns.quiet,
    )


def _sweep(ns: argparse.Namespace) -> Sweep | None:
    sweep: Sweep | None = ns.sweep
    if sweep is not None:
        fixed, option = (ns.user_count, "-u") if sweep.over == "users" else (ns.rate, "--rate")
        if fixed is not None:
            raise UsageError(f"--sweep sets the {sweep.over}: leave out {option}")
    return sweep


def _auto_stop(ns: argparse.Namespace) -> AutoStopOptions | None:
    if not ns.auto_stop:
        return None
    return AutoStopOptions(ns.auto_stop_window, ns.auto_stop_tolerance / 100)


def overrides_from(ns: argparse.Namespace) -> dict[str, object]:
    """Keys of the scenario that the command line sets."""
    values = {key: getattr(ns, key) for key in OVERRIDES}
    return {key: value for key, value in values.items() if value is not None}
