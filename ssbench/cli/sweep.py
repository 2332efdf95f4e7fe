"""``run-scenario --sweep``: the scenario once for each load."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from ssbench.cli import profile
from ssbench.cli.canned import find_scenario_text
from ssbench.cli.console import tell_status
from ssbench.cli.interrupts import Interrupts
from ssbench.cli.local_workers import start_local_workers
from ssbench.cli.run_config import RunOptions
from ssbench.cli.run_scenario import resolved
from ssbench.cli.series import RunSeries, check_paths
from ssbench.cli.session import Session
from ssbench.core.errors import ExitStatus, SsbenchError
from ssbench.core.stats.steps import OVER, Sweep
from ssbench.report import SeriesSettings, all_percentiles


def run_sweep(options: RunOptions, sweep: Sweep) -> ExitStatus:
    """The command; gives the gravest exit status of its runs.

    :raises SsbenchError: for what ends it before there are results.
    """
    check_paths(options.stats_file, sweep.over, force=options.force)
    text, source = find_scenario_text(options.scenario, sys.stdin)
    scenarios = [resolved(options, text, source, **{OVER[sweep.over]: v}) for v in sweep.loads]
    percentiles = all_percentiles(options.percentiles)
    table = SeriesSettings(scenarios[0].name, sweep.over, percentiles, options.thresholds)
    most_users = max(scenario.most_users for scenario in scenarios)
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts(hold=True))
        session = Session(
            options,
            stack,
            interrupts,
            local=start_local_workers(options, stack, most_users),
            most_users=most_users,
            seed=scenarios[0].seed,
            is_series=True,
        )
        series = RunSeries(session, table, text, source)
        with profile.profiled(options.profile, "master", session.progress.message):
            for load in sweep.loads:
                if series.stopped:
                    break
                try:
                    step = series.run(load)
                except SsbenchError as error:
                    series.fail(error)
                    break
                if step.missed:
                    missed = "; ".join(map(str, step.missed))
                    series.reasons.setdefault(
                        ExitStatus.THRESHOLD_MISSED, f"{sweep.over} {load:g}: missed {missed}"
                    )
        series.finish(over=len(series.steps) == len(sweep.loads))
    return tell_status(series.reasons)
