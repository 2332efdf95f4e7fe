"""``ssbench-master run-scenario``: from a scenario to a report."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from ssbench.cli import profile, threshold_status
from ssbench.cli.canned import find_scenario_text
from ssbench.cli.console import tell_status
from ssbench.cli.interrupts import Interrupts
from ssbench.cli.local_workers import start_local_workers
from ssbench.cli.run_config import RunOptions
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.scenario.scenario import Scenario


def run_scenario(options: RunOptions) -> ExitStatus:
    """The command; gives its exit status.

    :raises SsbenchError: for what ends it before there are results.
    """
    scenario = resolved(options, *find_scenario_text(options.scenario, sys.stdin))
    most_users = scenario.most_users
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts(hold=True))
        local = start_local_workers(options, stack, most_users)
        # Loaded while they load.
        from ssbench.cli.run import Run
        from ssbench.cli.session import Session

        session = Session(
            options, stack, interrupts, local=local, most_users=most_users, seed=scenario.seed
        )
        run = Run(session, scenario, options.stats_file)
        with profile.profiled(options.profile, "master", session.progress.message):
            run.execute()
    run.report()
    return tell_status(run.reasons)


def resolved(options: RunOptions, text: str | bytes, source: str, **changes: object) -> Scenario:
    """The scenario of a text as the options have it, and over those the changes.

    :raises UsageError: where it is faulty, or doesn't go with the options.
    """
    scenario = Scenario.resolve(text, source, **{**options.overrides, **changes})
    if options.auto_stop and len(scenario.load) > 1:
        raise UsageError(
            f"{source}: with stages there is no steady rate to wait for: leave out --auto-stop"
        )
    if options.thresholds:
        from ssbench.core.stats.scenario_view import ScenarioView

        is_open = any(stage.rate for stage in scenario.load)
        threshold_status.check(
            options.thresholds, ScenarioView.of(scenario.to_dict()), open_loop=is_open
        )
    return scenario
