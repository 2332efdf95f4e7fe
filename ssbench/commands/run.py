"""``run-scenario`` and ``find-limit``: from a configuration to a report or a table."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from ssbench import runner
from ssbench.cli.config import run_config, values_of
from ssbench.cli.console import (
    check_run_files,
    columns_of,
    say,
    tell,
    tell_status,
    write_report,
    write_report_files,
)
from ssbench.cli.options import FEW_ERRORS
from ssbench.commands.base import running, serving, summary_rows, tell_report
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.text import wrapped
from ssbench.live.watch import Watch
from ssbench.report import render_html
from ssbench.runner.config import OVER, RunConfig, SearchConfig, threshold

if TYPE_CHECKING:
    from ssbench.live.web import LivePage
    from ssbench.runner.series import StepRunner


def run_scenario(ns: argparse.Namespace) -> ExitStatus:
    """Run a scenario once, or, with --sweep, once for each load.

    :raises SsbenchError: what ended it before there were results.
    """
    config = sweep_config(ns, os.environ)
    _tell_note(config)
    with serving(ns, config) as (page, watch, stop):
        if ns.sweep is not None or ns.repeat > 1:
            from ssbench.runner.series import Sweep

            over, loads = _loads(ns, config)
            with running(ns, stop, config, watch):
                sweep = Sweep(
                    config, over, [*loads] * ns.repeat, [watch], stop, as_it_is=ns.sweep is None
                )
                return _run_series(ns, sweep, watch, page)
        with running(ns, stop, config, watch):
            result = runner.run(config, [watch], stop)
        tell_report(ns, config, result, page)
        return tell_status(result.reasons)


def _loads(ns: argparse.Namespace, config: RunConfig) -> tuple[str, Sequence[float]]:
    """What is swept, and the loads; without --sweep that of the scenario."""
    if ns.sweep is not None:
        return ns.sweep.over, ns.sweep.loads
    scenario = runner.resolve(config)
    return ("rate", [scenario.rate]) if scenario.rate else ("users", [scenario.user_count])


def find_limit(ns: argparse.Namespace) -> ExitStatus:
    """Search for the highest load that meets the SLOs.

    :raises SsbenchError: what ended it before there were results.
    """
    from ssbench.runner.series import LimitSearch

    config, how = search_config(ns, os.environ)
    _tell_note(config)
    with (
        serving(ns, config) as (page, watch, stop),
        running(ns, stop, config, watch),
    ):
        return _run_series(ns, LimitSearch(config, how, [watch], stop), watch, page)


def _tell_note(config: RunConfig) -> None:
    if config.scenario.note:
        tell(config.scenario.note)


def sweep_config(ns: argparse.Namespace, environ: Mapping[str, str]) -> RunConfig:
    """The run of run-scenario, or each run of its sweep, which sets the load.

    :raises UsageError: options that exclude each other.
    """
    check_run_files(ns)
    if ns.sweep is None:
        return run_config(ns, environ)
    key, option = OVER[ns.sweep.over], "-u" if ns.sweep.over == "users" else "--rate"
    if ns.sweep.over in ns.given:
        raise UsageError(f"--sweep sets the {ns.sweep.over}: leave out {option}")
    return run_config(ns, environ, {key: None}, places={key: f"--sweep {ns.sweep.over}"})


def search_config(
    ns: argparse.Namespace, environ: Mapping[str, str]
) -> tuple[RunConfig, SearchConfig]:
    """Each run of find-limit, and its search.

    :raises UsageError: options that exclude each other.
    """
    by_users = ns.over == "users"
    if by_users:
        if "users" in ns.given:
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
    check_run_files(ns)
    most = ns.max_users if by_users else ns.max_rate
    slos = ns.slos
    if not any(each.metric == "errors" for each in slos):
        slos = [*slos, threshold(FEW_ERRORS)]
    config = run_config(
        ns, environ,
        {"run_seconds": ns.step_seconds + ns.warmup,
         "user_count": None if by_users else ns.users},  # those of the site
        thresholds=tuple(dict.fromkeys(slos)),
        places={"run_seconds": "--step-seconds", OVER[ns.over]: f"--over {ns.over}"},
    )  # fmt: skip
    return config, SearchConfig(**values_of(SearchConfig, ns), most=most)


def _run_series(
    ns: argparse.Namespace, series: StepRunner, watch: Watch, page: LivePage | None
) -> ExitStatus:
    """Run a series; prints a row for each step, and the table at the end, unless -R."""
    from ssbench.report.as_text import series_head, series_row
    from ssbench.report.series import of_series

    settings, interrupt = series.settings, None
    try:
        with closing(iter(series)) as steps:
            for step in steps:
                if not ns.quiet:
                    made = of_series(settings, [step])
                    most = min(columns_of(sys.stderr) or 100, 100)
                    head = series_head(made, most) if len(series.steps) == 1 else ""
                    watch.message(f"{head}{series_row(made, most)}")
                watch.info(f"Scenario run results saved to {step.path}")
    except KeyboardInterrupt as error:  # a second one: the steps so far count
        interrupt = error
    if series.steps:
        made = of_series(settings, series.steps, complete=series.complete)
        if not ns.no_default_report:
            write_report(made, ns.format)
        write_report_files(ns, made)
        if page:
            page.finish(render_html(made), summary_rows(made))
    if interrupt is not None:
        raise interrupt
    return tell_status(series.reasons)


def list_scenarios(ns: argparse.Namespace) -> ExitStatus:
    import shutil

    from ssbench.runner.config import list_canned

    scenarios = list_canned()
    indent = max(len(name) for name, _ in scenarios) + 2
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 1000  # one line each
    for name, scenario in scenarios:
        text = f"{name:<{indent}}{scenario.summary()}"
        say("\n".join(wrapped(text, max(columns, 2 * indent), indent=" " * indent)))
    return ExitStatus.OK
