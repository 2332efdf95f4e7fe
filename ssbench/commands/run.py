"""``run-scenario``, ``find-limit`` and ``replay``: from a configuration to a report or a table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from ssbench import runner
from ssbench.cli.config import command_config, run_config, search_config
from ssbench.cli.report_files import check_run_files, junit_file, write_report_files
from ssbench.cli.signals import Signals
from ssbench.core.errors import ExitStatus
from ssbench.core.text import bytes_text, plural
from ssbench.live.console import columns_of, tell, tell_log, tell_status, write_report
from ssbench.live.progress import NoProgress, make_progress
from ssbench.runner.config import RunConfig
from ssbench.runner.stop import Stop

if TYPE_CHECKING:
    from ssbench.core.live import Observer
    from ssbench.live.page import LivePage
    from ssbench.report.model import Report
    from ssbench.runner.series import StepRunner
    from ssbench.runner.single_run import RunResult


def run_scenario(ns: argparse.Namespace) -> ExitStatus:
    """Run a scenario once, or, with --sweep, once for each load.

    :raises SsbenchError: what ended it before there were results.
    """
    config = _config(ns)
    stop = Stop()
    with _serving(ns, stop, config) as (page, servers):
        if ns.sweep is not None:
            from ssbench.runner.series import Sweep

            with _running(ns, stop, config, servers) as (progress, observers):
                sweep = Sweep(config, ns.sweep.over, ns.sweep.loads, observers, stop)
                return _run_series(ns, sweep, progress, page)
        with _running(ns, stop, config, servers) as (progress, observers):
            result = runner.run(config, observers, stop)
        _report(ns, config, result, page)
        return tell_status(result.reasons)


def find_limit(ns: argparse.Namespace) -> ExitStatus:
    """Search for the highest load that meets the SLOs.

    :raises SsbenchError: what ended it before there were results.
    """
    from ssbench.runner.series import LimitSearch

    how = search_config(ns)
    config = _config(ns)
    stop = Stop()
    with (
        _serving(ns, stop, config) as (page, servers),
        _running(ns, stop, config, servers) as (progress, observers),
    ):
        return _run_series(ns, LimitSearch(config, how, observers, stop), progress, page)


def replay(ns: argparse.Namespace) -> ExitStatus:
    """Send the requests of access logs again.

    :raises SsbenchError: what ended it before there were results.
    """
    from ssbench.commands.replay.access_log import read_logs
    from ssbench.commands.replay.plan import Replay, ReplayConfig
    from ssbench.commands.replay.requests import RequestLog

    check_run_files(ns)
    config = ReplayConfig(
        run=command_config(ns, os.environ, ns.users),
        **{name: getattr(ns, name) for name in ReplayConfig.__struct_fields__ if name != "run"},
    )
    requests = RequestLog(ns.start_ns, ns.end_ns, ns.most)
    stop = Stop()
    with _serving(ns, stop, config.run) as (page, servers):
        with _running(ns, stop, config.run, servers) as (progress, observers):
            found = read_logs(ns.logs, requests, ns.log_format or "", progress.wait_for, stop)
            made = Replay(config, requests)
            if not ns.quiet:
                tell_log(found)

            def show() -> None:
                if ns.quiet:
                    return
                if made.too_large:
                    tell(f"  left out {made.too_large:,}: of objects too large for this store")
                tell(
                    f"Replaying {plural(len(made.plan), 'request')} in {made.seconds:.3f} s;"
                    f" {plural(made.plan.prepared, 'object')} must exist before"
                    f" ({bytes_text(made.prepared_bytes)})"
                )

            result = made.run(observers, stop, show)
        _report(ns, config.run, result, page)
        counts = result.outcome.counts
        never = len(made.plan) - (counts.sent - counts.withdrawn)
        if not ns.quiet:
            if made.workload.after_failed_upload:
                count = plural(made.workload.after_failed_upload, "operation")
                tell(f"{count} failed because an earlier upload of the object had failed")
            tell(f"Requests of the log that were never sent: {never:,} of {len(made.plan):,}")
        return tell_status(result.reasons)


def _config(ns: argparse.Namespace) -> RunConfig:
    check_run_files(ns)
    config = run_config(ns, os.environ)
    if config.scenario.note:
        tell(config.scenario.note)
    return config


@contextmanager
def _serving(
    ns: argparse.Namespace, stop: Stop, config: RunConfig
) -> Iterator[tuple[LivePage | None, list[Observer]]]:
    """The page of --web, if any, and all observers that serve something until the process ends."""
    with ExitStack() as stack:
        servers: list[Observer] = []
        if ns.metrics_address:
            from ssbench.live.metrics import RunMetrics, metrics_server  # few runs need it

            metrics = RunMetrics(Path(config.scenario.source).stem)
            url = stack.enter_context(metrics_server(ns.metrics_address, metrics))
            if not ns.quiet:
                tell(f"INFO:Metrics for Prometheus: {url}")
            servers.append(metrics)
        page = stack.enter_context(_live_page(ns, stop))
        yield page, [page, *servers] if page else servers


@contextmanager
def _live_page(ns: argparse.Namespace, stop: Stop) -> Iterator[LivePage | None]:
    """The page of --web, if any: until Ctrl-C, unless such a signal has ended the run."""
    if ns.web is None:
        yield None
        return
    from ssbench.live.page import STOPPED, LivePage  # loads slowly

    page = LivePage(ns.web, stop)
    try:
        tell(f"INFO:The run is shown at {page.url}")
        yield page
        if page.report and stop.reason in ("", STOPPED):
            ended = Stop()
            with Signals(ended, hold=True):
                tell(f"INFO:Its report is shown at {page.url} until Ctrl-C")
                while not ended.requested:
                    sleep(0.1)
    finally:
        page.close()


@contextmanager
def _running(
    ns: argparse.Namespace, stop: Stop, config: RunConfig, servers: Sequence[Observer]
) -> Iterator[tuple[NoProgress, Sequence[Observer]]]:
    """Signals, the progress display, and all observers.

    If the run in the block is aborted, prints where its results are, and how to delete its objects.
    """
    try:
        with ExitStack() as stack:
            stack.enter_context(Signals(stop, hold=True))
            progress = stack.enter_context(make_progress(ns.progress, quiet=ns.quiet))
            observers: list[Observer] = [progress, *servers]
            if ns.live_json:
                from ssbench.live.json_lines import LiveJson  # few runs need it

                observers.append(stack.enter_context(LiveJson(ns.live_json)))
            if ns.influx:
                from ssbench.live.influx import Influx

                token = os.environ.pop("INFLUX_TOKEN", None)  # which no worker must see
                name = Path(config.scenario.source).stem
                observers.append(stack.enter_context(Influx(ns.influx, name, token, tell)))
            yield progress, observers
    except KeyboardInterrupt as interrupt:
        result: RunResult | None = getattr(interrupt, "result", None)  # of an Aborted
        if result is not None and result.has_results and not ns.quiet:
            _tell_where(result)
            if config.store is not None and not config.is_noop:  # an embedded Swift is gone
                tell(
                    "Objects of this run may remain in the store; to delete them (add the options "
                    "of the store):\n"
                    f"  {sys.argv[0]} cleanup-containers --resume-cleanup {result.path}"
                )
        raise


def _report(
    ns: argparse.Namespace, config: RunConfig, result: RunResult, page: LivePage | None
) -> None:
    """The report, unless -R, and where the results are."""
    if not result.readable:
        if not ns.quiet:
            tell(f"INFO:No report: the results went to {result.path}")
        return
    if not ns.no_default_report or config.thresholds or ns.html or junit_file(ns) or page:
        from ssbench import report  # loads slowly

        for line in result.stats.run.damage:
            tell(f"{result.path}: {line}")
        made = report.of_run(
            result.stats, config.percentiles, config.thresholds, stats_file=result.path
        )
        if ns.no_default_report:
            for line in report.threshold_lines(made):
                tell(line)
        else:
            write_report(made, ns.format)
    # On a terminal the summary, which says the same, is just above.
    says_same = not (ns.no_default_report or result.in_part) and ns.format in (None, "wide")
    if not ns.quiet and result.has_results and not (says_same and sys.stdout.isatty()):
        _tell_where(result)
    if ns.html or junit_file(ns):
        write_report_files(ns, made)
    if page:
        page.finish(report.render_html(made), _summary_rows(made))


def _summary_rows(made: Report) -> list[tuple[str, str]]:
    return [(row["topic"], row["text"]) for row in made["summary"].tables[0].rows]


def _tell_where(result: RunResult) -> None:
    whole = "Scenario run results" if not result.in_part else "Some of the scenario run's results"
    tell(
        f"INFO:{whole} saved to {result.path}\n"
        "INFO:You may generate a report with:\n"
        f"  {sys.argv[0]} report-scenario -s {result.path}"
    )
    if result.path.startswith("/tmp/"):  # nosec B108 # only a message
        tell("INFO:/tmp is emptied at a reboot; --results-dir keeps results elsewhere")


def _run_series(
    ns: argparse.Namespace, series: StepRunner, progress: NoProgress, page: LivePage | None
) -> ExitStatus:
    """Run a series; prints a row for each step, and the table at the end, unless -R."""
    from ssbench import report  # loads slowly
    from ssbench.report.series import of_series

    settings = series.settings
    with closing(iter(series)) as steps:
        for step in steps:
            if not ns.quiet:
                made = of_series(settings, [step])
                most = min(columns_of(sys.stderr) or 100, 100)
                head = report.series_head(made, most) if len(series.steps) == 1 else ""
                progress.message(f"{head}{report.series_row(made, most)}")
            progress.info(f"Scenario run results saved to {step.path}")
    if series.steps:
        made = of_series(settings, series.steps, complete=series.complete)
        if not ns.no_default_report:
            write_report(made, ns.format)
        write_report_files(ns, made)
        if page:
            page.finish(report.render_html(made), _summary_rows(made))
    return tell_status(series.reasons)
