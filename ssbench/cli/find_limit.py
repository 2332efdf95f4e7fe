"""``ssbench-master find-limit``: the largest load that keeps a promise."""

from __future__ import annotations

import sys
from contextlib import ExitStack

from ssbench.cli import profile
from ssbench.cli.canned import find_scenario_text
from ssbench.cli.console import tell_status
from ssbench.cli.interrupts import Interrupts
from ssbench.cli.limit_options import MOST_USERS, LimitOptions
from ssbench.cli.local_workers import start_local_workers
from ssbench.cli.run_scenario import resolved
from ssbench.cli.series import RunSeries, check_paths
from ssbench.cli.session import Session
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.core.scenario.checks import ValidationErrors
from ssbench.core.scenario.jsontext import read_object
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.steps import OVER, Search
from ssbench.report import SeriesSettings, all_percentiles

#: No rate is tried that is lower than this part of the first.
_LOWEST = 1 / 64


def run_find_limit(options: LimitOptions) -> ExitStatus:
    """The command. A load that breaks the promise is an answer, and no failure.

    :raises SsbenchError: for what ends it before there are results.
    """
    run, over = options.run, options.over
    check_paths(run.stats_file, over, force=run.force)
    text, source = find_scenario_text(run.scenario, sys.stdin)
    _check_stages(text, source)
    scenario = resolved(run, text, source, **{OVER[over]: options.first})
    _check(scenario, over)
    search = Search(
        options.first,
        options.most or MOST_USERS,
        least=1 if over == "users" else options.first * _LOWEST,
        whole=over == "users",
        precision=options.precision,
        confirm=options.confirm,
    )
    percentiles = all_percentiles(run.percentiles)
    table = SeriesSettings(scenario.name, over, percentiles, run.thresholds, search)
    by_users = over == "users"
    most_users = int(options.most or MOST_USERS) if by_users else scenario.most_users
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts(hold=True))
        session = Session(
            run,
            stack,
            interrupts,
            local=start_local_workers(
                run, stack, most_users, int(options.first) if by_users else None
            ),
            most_users=most_users,
            wanted_users=int(options.first) if by_users and options.most is None else None,
            seed=scenario.seed,
            is_series=True,
        )
        series = RunSeries(session, table, text, source)
        with profile.profiled(run.profile, "master", session.progress.message):
            _search(series, search, by_users=by_users)
        series.finish(over=search.next is None)
    return _status(series, search)


def _check_stages(text: bytes, source: str) -> None:
    """Before all else: a step's length is a fault of stages, which nobody here has asked for."""
    given = read_object(text, ValidationErrors(source)) or {}
    if given.get("stages"):
        raise UsageError(f"{source}: stages set their own loads; remove them")


def _check(scenario: Scenario, over: str) -> None:
    if over == "users" and scenario.rate:
        raise UsageError(
            f"{scenario.source}: has a rate, which the number of users does not change: use"
            " --over rate"
        )


def _search(series: RunSeries, search: Search, *, by_users: bool) -> None:
    short: set[float] = set()  # loads that fewer users than asked for were run with
    while search.next is not None and not series.stopped:
        load = search.next
        try:
            step = series.run(load)
        except SsbenchError as error:
            series.fail(error)
            return
        if series.stopped:
            return  # a step cut short proves nothing
        here = series.session.concurrency
        if not step.short_of_users:
            search.record(load, kept=step.kept)
        elif load in short or not by_users:
            users = f"only {step.users_ran} of {step.users_asked} users ran"
            series.fail(SsbenchError(f"search stopped: {users} (workers can run {here})"))
            return
        else:
            short.add(load)
        if by_users:
            # More can't be had, whatever the options say; whoever came late counts from now on.
            search.limit(here)


def _status(series: RunSeries, search: Search) -> ExitStatus:
    if search.kept is None and not series.stopped:
        if any(step.operations for step in series.steps):
            status, why = ExitStatus.THRESHOLD_MISSED, "no load met the SLO"
        else:
            status, why = ExitStatus.FAILED, "no operation succeeded with any load"
        series.reasons.setdefault(status, why)
    return tell_status(series.reasons)
