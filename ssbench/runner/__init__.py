"""The application: runs, series of runs, cleanups; no options, no printing, no signals.

The table of options needs the configuration only, so this module imports little at first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ssbench.core.errors import UsageError
from ssbench.runner.config import RunConfig

if TYPE_CHECKING:
    from ssbench.core.live import Observer
    from ssbench.core.scenario.scenario import Scenario
    from ssbench.runner.config import RunPlan
    from ssbench.runner.session import Session
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
    scenario = resolve(config)
    with open_session(config, [scenario], observers, stop) as session:
        return execute(session, config, scenario)


def execute(
    session: Session, config: RunConfig, scenario: Scenario, plan: RunPlan | None = None
) -> RunResult:
    """One run in a session, and whether it missed thresholds.

    :param plan: of a command with objects and operations of its own.
    """
    from ssbench.runner.single_run import Run  # loads slowly

    result = Run(session, scenario, config.stats_file, plan).execute()
    if config.thresholds or scenario.thresholds:
        session.meanwhile(lambda: judge(config, result))
    return result


def judge(config: RunConfig, result: RunResult) -> None:
    """Add the thresholds that a run missed to the reasons of its exit status."""
    if result.readable:
        from ssbench.runner.results import missed_thresholds

        for status, why in missed_thresholds(result.stats, config.thresholds).items():
            result.reasons.setdefault(status, why)


@contextmanager
def open_session(
    config: RunConfig,
    scenarios: Sequence[Scenario],
    observers: Sequence[Observer] = (),
    stop: Stop | None = None,
    *,
    is_series: bool = False,
    most_users: int | None = None,
    least_users: int | None = None,
    wanted_users: int | None = None,
) -> Iterator[Session]:
    """Start the workers; gives the session of the runs.

    :param scenarios: of the runs; of those that are not known yet, one that has their seed.
    :param is_series, wanted_users: as of Session.
    :param most_users: of any run; None: the most of these scenarios.
    :param least_users: that this host's workers must be able to run; None: all.
    :raises UsageError: this host can't run so many users, or the stat file can't be written.
    """
    from ssbench.core.workload.division import load_of
    from ssbench.runner.local_workers import start_local_workers

    most_users = most_users or max(scenario.most_users for scenario in scenarios)
    groups = [
        replace(group, users=min(group.users, group.users_to or group.users))
        for scenario in scenarios
        for stage in load_of(scenario, config.division)
        for group in stage.groups
        if len(stage.groups) > 1
    ]
    with ExitStack() as stack:
        ssh = None
        if config.ssh_workers:
            from ssbench.runner.ssh_workers import start_ssh_workers  # loads slowly

            ssh = start_ssh_workers(config, stack, most_users, groups)
        start_local = partial(
            start_local_workers, stack=stack, most_users=most_users, least_users=least_users,
            groups=groups,
        )  # fmt: skip
        local = start_local(config)
        # Loaded while the workers start, which takes as long.
        from ssbench import statfile
        from ssbench.runner.session import Session
        from ssbench.runner.stop import Stop

        if config.stats_file and not is_series:  # before the store is asked for anything
            statfile.check_new(config.stats_file, overwrite=config.force)
        yield Session(
            config, stack, observers, stop or Stop(), start_local, (local, ssh), most_users,
            wanted_users or most_users, scenarios[0].seed, is_series=is_series,
        )  # fmt: skip


def resolve(config: RunConfig, **changes: object) -> Scenario:
    """The scenario of a configuration, with changes to its keys.

    :raises UsageError: it has errors, or does not go with the configuration.
    """
    from ssbench.core.scenario.scenario import Scenario, option_places

    text, source, _ = config.scenario
    overrides = {**config.overrides, **changes}
    places = {**option_places(), **config.places}
    scenario = Scenario.resolve(
        text, source, places=places, check_condition=_check_condition, **overrides
    )
    if config.auto_stop and len(scenario.load) > 1:
        raise UsageError(f"{source}: with stages there is no steady rate: leave out --auto-stop")
    check_thresholds(config, scenario)
    if config.existing:
        from ssbench.runner.existing import check_existing  # loads slowly

        check_existing(scenario)
    return config.division.adapted(scenario) if config.division else scenario


def _check_condition(text: str, place: str) -> None:
    from ssbench.core.stats.thresholds import Threshold  # few scenarios have conditions

    Threshold.parse(text, place)


def check_thresholds(config: RunConfig, scenario: Scenario) -> None:
    """:raises UsageError: one on what the run does not have, or none where one is needed."""
    if config.thresholds or scenario.thresholds:
        from ssbench.core.stats.thresholds import check_thresholds_of, thresholds_of
        from ssbench.runner import results

        is_open = any(stage.rate for stage in scenario.load)
        check_thresholds_of(scenario, open_loop=is_open)
        results.check_thresholds(config.thresholds, scenario, open_loop=is_open)
        if config.is_noop and any(t.metric == "throughput" for t in thresholds_of(scenario)):
            raise UsageError(
                f"{scenario.source}: thresholds: with --noop nothing is moved, so there is no"
                " throughput"
            )
    if config.abort_window_s:
        from ssbench.core.stats.steady import WATCHED, can_watch  # loads slowly
        from ssbench.core.stats.thresholds import thresholds_of

        if not any(map(can_watch, thresholds_of(scenario, config.thresholds))):
            raise UsageError(
                f"--abort-on-threshold needs a --threshold that it can watch: {WATCHED}"
            )
