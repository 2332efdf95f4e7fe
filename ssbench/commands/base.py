"""What commands share: the store or a run, with signals, displays and a report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ssbench.cli.console import junit_file, tell, tell_results, write_report, write_report_files
from ssbench.cli.start import Signals
from ssbench.live.terminal import make_progress
from ssbench.live.watch import LiveJson, Watch
from ssbench.report import render_html
from ssbench.runner.config import RunConfig
from ssbench.runner.stop import Stop

if TYPE_CHECKING:
    from ssbench.live.web import LivePage
    from ssbench.report.model import Report
    from ssbench.runner.single_run import RunResult
    from ssbench.storage.options import StoreOptions
    from ssbench.storage.retrying_client import RetryingClient

CONCURRENCY = 10  #: of run-scenario --resume-cleanup


@contextmanager
def watched(
    ns: argparse.Namespace,
    mode: str | None = None,
    *,
    hold: bool = True,
    stop: Stop | None = None,
    display: Watch | None = None,
    watch: Watch | None = None,
    aborted: Callable[[RunResult], None] | None = None,
) -> Iterator[tuple[Watch, Stop]]:
    """Gives an observer with a display, and what signals call meanwhile.

    :param mode: of the display; None: that of --progress.
    :param hold: as of Signals.
    :param stop: for signals; None: a new one.
    :param display: an observer with one, in place of one of the mode.
    :param watch: an observer that has other sinks already.
    :param aborted: called with the results of a run in the block that is aborted; None: prints
        where they are.
    """
    shown = display or make_progress(mode or ns.progress, quiet=ns.quiet, watch=watch)
    stop = stop or Stop()
    try:
        with Signals(stop, hold=hold), shown:
            yield shown, stop
    except KeyboardInterrupt as interrupt:
        result: RunResult | None = getattr(interrupt, "result", None)  # of an Aborted
        if result is not None:
            (aborted or partial(tell_results, quiet=ns.quiet))(result)
        raise


@contextmanager
def open_client(
    ns: argparse.Namespace,
    options: StoreOptions | None = None,
    *,
    exact_names: bool = False,
) -> Iterator[tuple[RetryingClient, Watch]]:
    """Log in and open the store, for a command that runs no operations.

    :param options: of the store; None: those of the command line.
    :param exact_names: what it lists is of other clients: see ``StorageSettings.exact_names``.
    :raises SsbenchError: there is no access to it.
    """
    from ssbench.cli.config import store_options  # these load slowly
    from ssbench.runner.session import own_hub, reach_store

    options = replace(options or store_options(ns, os.environ), measures=False)
    with own_hub(), watched(ns, "live", hold=False) as (progress, stop):
        store = reach_store(options, progress.message, stop)
        settings = store.settings.with_exact_names() if exact_names else store.settings
        many = getattr(ns, "concurrency", CONCURRENCY)
        with store.client(settings, many, stopping=lambda: stop.requested) as client:
            yield client, progress


@contextmanager
def serving(
    ns: argparse.Namespace, config: RunConfig
) -> Iterator[tuple[LivePage | None, Watch, Stop]]:
    """The page of --web, if any, an observer with all sinks that serve something until the
    process ends, and what ends the run."""
    from ssbench.live.control import controlled  # loads slowly

    watch, stop = Watch(), Stop()
    with ExitStack() as stack:
        if ns.metrics_address:
            from ssbench.live.metrics import RunMetrics, metrics_server  # few runs need it

            metrics = RunMetrics(watch, Path(config.scenario.source).stem)
            url = stack.enter_context(metrics_server(ns.metrics_address, metrics))
            if not ns.quiet:
                tell(f"INFO:Metrics for Prometheus: {url}")
            watch.add(metrics)
        page = stack.enter_context(_live_page(ns, stop))
        if page:
            watch.add(page)
        stack.enter_context(controlled(lambda: _described(watch, config), stop.mark))
        yield page, watch, stop


def _described(watch: Watch, config: RunConfig) -> tuple[str, str]:
    """The id of the present run, and the scenario's name."""
    header = watch.state.header
    return header.run_id if header else "", Path(config.scenario.source).stem


@contextmanager
def _live_page(ns: argparse.Namespace, stop: Stop) -> Iterator[LivePage | None]:
    """The page of --web, if any: until Ctrl-C, unless such a signal has ended the run."""
    if ns.web is None:
        yield None
        return
    from ssbench.live.web import STOPPED, LivePage  # loads slowly

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
        page.stop_serving()


@contextmanager
def running(ns: argparse.Namespace, stop: Stop, config: RunConfig, watch: Watch) -> Iterator[Watch]:
    """Signals, and the observer of ``serving`` with the display and all other sinks.

    If the run in the block is aborted, prints where its results are, and how to delete its objects.
    """

    def aborted(result: RunResult) -> None:
        if not result.has_results or ns.quiet:
            return
        _tell_where(result)
        if config.store is not None and not config.is_noop:  # an embedded Swift is gone
            tell(
                "Objects of this run may remain in the store; to delete them (add the options "
                "of the store):\n"
                f"  {sys.argv[0]} cleanup-containers --resume-cleanup {result.path}"
            )

    with watched(ns, stop=stop, watch=watch, aborted=aborted):
        if ns.live_json:
            watch.add(LiveJson(ns.live_json, tell))
        if ns.influx:
            from ssbench.live.push import Influx
            from ssbench.storage.options import scheme_notes

            token = os.environ.pop("INFLUX_TOKEN", None)  # which no worker must see
            for note in scheme_notes([ns.influx]):
                tell(note)
            watch.add(Influx(ns.influx, Path(config.scenario.source).stem, token, tell))
        if ns.otlp is not None:
            from ssbench.host.files import read_text
            from ssbench.live.push import Otlp

            headers = read_text(ns.otlp_headers, "--otlp-headers") if ns.otlp_headers else ""
            name = Path(config.scenario.source).stem
            watch.add(Otlp(ns.otlp, name, headers, dict(os.environ), tell))
            for variable in ("METRICS_HEADERS", "HEADERS"):
                os.environ.pop(f"OTEL_EXPORTER_OTLP_{variable}", None)  # which no worker must see
        yield watch


def tell_report(
    ns: argparse.Namespace, config: RunConfig, result: RunResult, page: LivePage | None
) -> None:
    """The report, unless -R, and where the results are."""
    if not result.readable:
        if not ns.quiet:
            tell(f"INFO:No report: the results went to {result.path}")
        return
    header = result.header
    judged = config.thresholds or (header is not None and header.scenario.get("thresholds"))
    if not ns.no_default_report or judged or ns.html or junit_file(ns) or page:
        from ssbench.report.as_classic import threshold_lines  # loads slowly
        from ssbench.report.run import of_run

        for line in result.stats.run.damage:
            tell(f"{result.path}: {line}")
        made = of_run(result.stats, config.percentiles, config.thresholds, stats_file=result.path)
        if ns.no_default_report:
            for line in threshold_lines(made):
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
        page.finish(render_html(made), summary_rows(made))


def summary_rows(made: Report) -> list[tuple[str, str]]:
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
