"""Several runs of a scenario, one after the other, that differ in their load."""

from __future__ import annotations

import glob
import os
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from datetime import datetime

from ssbench import statfile
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError, gravest
from ssbench.core.live import Observer
from ssbench.core.scenario.checks import ValidationErrors, suggest
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.scenario.syntax import read_object
from ssbench.core.stats.steps import Search, Step, seed_of_step
from ssbench.core.stats.thresholds import thresholds_of
from ssbench.core.units import MAX_RATE, preview
from ssbench.report.model import all_percentiles
from ssbench.report.series import SeriesSettings
from ssbench.runner import open_session, resolve
from ssbench.runner.config import OVER, RunConfig, SearchConfig
from ssbench.runner.results import read_stats
from ssbench.runner.session import Session
from ssbench.runner.single_run import Run
from ssbench.runner.stop import Stop

_SUFFIXES = ".stat.gz", ".gz"
MOST_USERS = 1024  #: upper bound of a search unless it is given, or remote workers set one
#: Lowest rate that a search tries, as a fraction of the first.
_LOWEST_RATE = 1 / 64
LONGER = 3  #: times the length of a step, near the limit
_FIRST = {"users": 1.0, "rate": 10.0}


class StepRunner(ABC):
    """Runs step by step. Iterate over it to run it: each step is yielded when it is over.

    :param over: a key of OVER.
    :raises UsageError: a value is not valid, the scenario has errors, or a stat file exists.
    """

    name: str  #: of the scenario

    def __init__(
        self,
        config: RunConfig,
        over: str,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
    ) -> None:
        if over not in OVER:
            raise UsageError(f"over: {preview(over)} is unknown; {suggest(over, [*OVER])}")
        check_paths(config.stats_file, over, force=config.force)
        self.config = config
        self.over = over
        self.observers = observers
        self.stop = stop or Stop()
        self.steps: list[Step] = []
        self.complete = False  #: all was run that should be
        self.search: Search | None = None
        self._percentiles = all_percentiles(config.percentiles)
        self._thresholds = config.thresholds  #: and those of the scenario, once it is read
        #: Exit statuses that apply, and why; empty: all is well.
        self.reasons: dict[ExitStatus, str] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.over}: {len(self.steps)} steps>"

    @abstractmethod
    def __iter__(self) -> Generator[Step, None, None]:
        """Run it. An iterator that is not exhausted must be closed."""

    @property
    def settings(self) -> SeriesSettings:
        """What a table of the series shows."""
        return SeriesSettings(
            self.name, self.over, self._percentiles, self._thresholds, self.search
        )

    @property
    def exit_status(self) -> ExitStatus:
        """The gravest of the reasons."""
        return gravest([*self.reasons])

    def _scenario(self, load: float | None) -> Scenario:
        """:param load: None: that of the scenario."""
        scenario = resolve(self.config, **({OVER[self.over]: load} if load is not None else {}))
        self._thresholds = thresholds_of(scenario, self.config.thresholds)
        return scenario

    def _run(self, session: Session, scenario: Scenario, load: float) -> Step | None:
        """One run; None if it failed after others, whose results are worth a table.

        :raises SsbenchError: the first run failed.
        """
        attempt = 1 + sum(step.load == load for step in self.steps)
        path = path_of_load(
            self.config.stats_file, scenario, self.over, load, attempt, self.config.results_dir
        )
        session.start_run(f"{self.over} {load:g}")
        try:
            result = Run(session, scenario, path).execute()
            stats = session.meanwhile(lambda: read_stats(path))
        except SsbenchError as error:
            self._fail(session, error)
            return None
        for status, why in result.reasons.items():
            if self.search is None or status is not ExitStatus.FAILED:
                # To a search, a run that failed is an answer.
                self.reasons.setdefault(status, f"{self.over} {load:g}: {why}")
        step = Step.of(stats, load, path, self._percentiles, self._thresholds)
        self.steps.append(step)
        return step

    def _fail(self, session: Session, error: SsbenchError) -> None:
        """:raises SsbenchError: the same error, if there are no steps."""
        if not self.steps:
            raise error
        session.warn(str(error))
        self.reasons.setdefault(error.exit_status, str(error))


class Sweep(StepRunner):
    """The scenario once for each load.

    :param as_it_is: the loads are those that the scenario has, perhaps by its stages or groups.
    """

    def __init__(
        self,
        config: RunConfig,
        over: str,
        loads: Sequence[float],
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
        *,
        as_it_is: bool = False,
    ) -> None:
        super().__init__(config, over, observers, stop)
        self.loads = loads
        self._scenarios = [self._scenario(None if as_it_is else load) for load in loads]
        self.name = self._scenarios[0].name

    def __iter__(self) -> Generator[Step, None, None]:
        with open_session(
            self.config, self._scenarios, self.observers, self.stop, is_series=True
        ) as session:
            seed = session.seed
            for at, (load, scenario) in enumerate(zip(self.loads, self._scenarios, strict=True)):
                # A repeated run draws other operations, as another day would.
                session.seed = seed_of_step(seed, self.loads[:at].count(load))
                step = None if self.stop.requested else self._run(session, scenario, load)
                if step is None:
                    break
                if step.missed:
                    missed = "; ".join(map(str, step.missed))
                    self.reasons.setdefault(
                        ExitStatus.THRESHOLD_MISSED, f"{self.over} {load:g}: missed {missed}"
                    )
                yield step
        self.complete = len(self.steps) == len(self.loads)


class LimitSearch(StepRunner):
    """Doubles the load until a threshold is missed, then bisects. A missed one is no failure."""

    def __init__(
        self,
        config: RunConfig,
        how: SearchConfig,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
    ) -> None:
        super().__init__(config, how.over, observers, stop)
        if not how.precision > 0:
            raise UsageError(f"precision: {how.precision:g} is not above 0; a fraction, as in 0.05")
        self._by_users = by_users = how.over == "users"
        self._first = first = how.first or _FIRST[how.over]
        most = how.most
        if most is None and not by_users:
            most = MAX_RATE
        elif most is None and config.least_started and not config.expect_workers:
            most = MOST_USERS
        if most is not None and first > most:
            raise UsageError(f"--start {first:g} is above --max-{how.over} {most:g}")
        text, source, _ = config.scenario
        # Before all else: overrides would report the steps' length as a fault of the stages.
        if (read_object(text, ValidationErrors(source)) or {}).get("stages"):
            raise UsageError(f"{source}: stages set their own loads; remove them")
        self._scenario_of_first = scenario = self._scenario(first)
        self.name = scenario.name
        if by_users and scenario.rate:
            raise UsageError(
                f"{source}: has a rate, which the number of users does not change: use --over rate"
            )
        self._most = most
        self.search: Search = Search(
            first,
            most or MOST_USERS,
            least=1 if by_users else first * _LOWEST_RATE,
            whole=by_users,
            precision=how.precision,
            confirm=how.confirm,
        )

    def __iter__(self) -> Generator[Step, None, None]:
        first, scenario, by_users = int(self._first), self._scenario_of_first, self._by_users
        search = self.search
        with open_session(
            self.config, [scenario], self.observers, self.stop, is_series=True,
            most_users=int(self._most or MOST_USERS) if by_users else None,
            least_users=first if by_users else None,
            wanted_users=first if by_users and self._most is None else None,
        ) as session:  # fmt: skip
            seed = session.seed
            short: set[float] = set()  # loads that were run with fewer users than requested
            while search.next is not None and not self.stop.requested:
                load = search.next
                session.seed = seed_of_step(seed, len(self.steps))
                scenario = self._longer(load) if search.is_near else self._scenario(load)
                step = self._run(session, scenario, load)
                if step is None:
                    break
                yield step
                if self.stop.requested:
                    break  # a step that was cut short proves nothing
                if not step.short_of_users:
                    search.record(load, kept=step.kept)
                elif load in short or not by_users:
                    users = f"only {step.users_ran} of {step.users_asked} users ran"
                    here = session.concurrency
                    self._fail(
                        session,
                        SsbenchError(f"search stopped: {users} (workers can run {here})"),
                    )
                    break
                else:
                    short.add(load)
                if by_users:
                    search.limit(session.concurrency)  # workers that joined late count, too
        self.complete = search.next is None
        if search.kept is None and not self.stop.requested:
            if any(step.operations for step in self.steps):
                status, why = ExitStatus.THRESHOLD_MISSED, "no load met the SLO"
            else:
                status, why = ExitStatus.FAILED, "no operation succeeded with any load"
            self.reasons.setdefault(status, why)

    def _longer(self, load: float) -> Scenario:
        """The scenario of a step near the limit: a queue that fills slowly needs time to show."""
        scenario = self._scenario(load)
        warmup_s, seconds = scenario.warmup, scenario.run_seconds
        if seconds is None:
            return scenario
        longer_s = warmup_s + LONGER * (seconds - warmup_s)
        return resolve(self.config, **{OVER[self.over]: load, "run_seconds": longer_s})


def check_paths(path: str | None, over: str, *, force: bool) -> None:
    """Check before the first run that no stat file of the series exists.

    :param path: of -s; the load is added for each run.
    :raises UsageError: one exists, or nothing could be read back from there.
    """
    if path is None:
        return
    if os.path.exists(path) and not os.path.isfile(path):
        raise UsageError(
            f"{path}: the table needs the stored results of each run: name a regular file"
        )
    stem, suffix = _split(path)
    there = sorted(glob.glob(f"{glob.escape(stem)}.{over}[0-9]*{glob.escape(suffix)}"))
    if there and not force:
        raise UsageError(f"{there[0]}: is there already; --force overwrites it")


def path_of_load(
    path: str | None,
    scenario: Scenario,
    over: str,
    load: float,
    attempt: int = 1,
    results_dir: str | None = None,
) -> str:
    """``x.stat.gz`` as ``x.users20.stat.gz``; of a second run with that load
    ``x.users20-2.stat.gz``. Without a path, a new file named after the scenario."""
    if path is None:
        path = str(
            statfile.default_path(
                scenario.name, scenario.user_count, scenario.operation_count,
                scenario.run_seconds, datetime.now(), results_dir=results_dir,
            )
        )  # fmt: skip
    stem, suffix = _split(path)
    return f"{stem}.{over}{load:g}{f'-{attempt}' if attempt > 1 else ''}{suffix}"


def _split(path: str) -> tuple[str, str]:
    suffix = next(filter(path.endswith, _SUFFIXES), "")
    return path.removesuffix(suffix), suffix
