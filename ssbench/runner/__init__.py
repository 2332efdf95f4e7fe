"""The application: runs, series of runs, cleanups; no options, no printing, no signals.

The table of options needs the configuration only, so this module imports little at first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ssbench.core.errors import UsageError

if TYPE_CHECKING:
    from ssbench.core.observer import Observer
    from ssbench.core.scenario.scenario import Scenario
    from ssbench.runner.config import RunConfig
    from ssbench.runner.single_run import RunResult
    from ssbench.runner.stop import Stop


def run(
    config: RunConfig, observers: Sequence[Observer] = (), stop: Stop | None = None
) -> RunResult:
    """Run the scenario once; returns when its stat file is closed.

    :param stop: call it, from any thread, to end the run early.
    :raises SsbenchError: the run failed before there were results.
    :raises KeyboardInterrupt: it was stopped before the store was changed.
    :raises Aborted: it was ended at once after that.
    """
    from ssbench.runner.local_workers import start_local_workers
    from ssbench.runner.stop import Stop

    scenario = resolve(config)
    stop = stop or Stop()
    with ExitStack() as stack:
        local = start_local_workers(config, stack, scenario.most_users, groups=scenario.groups)
        # Loaded while the workers start, which takes as long.
        from ssbench.runner.session import Session
        from ssbench.runner.single_run import Run

        session = Session(
            config, stack, observers, stop,
            local=local, most_users=scenario.most_users, seed=scenario.seed,
        )  # fmt: skip
        result = Run(session, scenario, config.stats_file).execute()
    if config.thresholds and result.readable:
        from ssbench.runner.results import missed_thresholds

        result.reasons.update(missed_thresholds(result.stats, config.thresholds))
    return result


def resolve(config: RunConfig, **changes: object) -> Scenario:
    """The scenario of a configuration, with changes to its keys.

    :raises UsageError: it has errors, or does not go with the configuration.
    """
    from ssbench.core.scenario.scenario import Scenario

    text, source, _ = config.scenario
    scenario = Scenario.resolve(text, source, **{**config.overrides, **changes})
    if config.auto_stop and len(scenario.load) > 1:
        raise UsageError(f"{source}: with stages there is no steady rate: leave out --auto-stop")
    if config.thresholds:
        from ssbench.core.stats.scenario_view import ScenarioView
        from ssbench.runner.results import check_thresholds

        is_open = any(stage.rate for stage in scenario.load)
        view = ScenarioView.of(scenario.to_dict())
        check_thresholds(config.thresholds, view, open_loop=is_open)
    return scenario
