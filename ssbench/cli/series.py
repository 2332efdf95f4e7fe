"""Several runs of a scenario, one after the other, that differ in their load; and their table."""

from __future__ import annotations

import glob
import os
from datetime import datetime

from ssbench import report, statfile
from ssbench.cli.reporting import read_stats, write
from ssbench.cli.run import Run
from ssbench.cli.run_scenario import resolved
from ssbench.cli.session import Session
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.stats.steps import OVER, Step

_SUFFIX = ".stat.gz"


def check_paths(path: str | None, over: str, *, force: bool) -> None:
    """See before the first run that none of the stat files is there already.

    :param path: of -s: each run's has its load added to it.
    :raises UsageError: where one is, or where nothing could be read again.
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


def step_path(
    path: str | None, scenario: Scenario, over: str, load: float, attempt: int = 1
) -> str:
    """``x.stat.gz`` as ``x.users20.stat.gz``, of the second run with that load
    ``x.users20-2.stat.gz``; without one, a new file that tells of the run."""
    if path is None:
        path = str(
            statfile.default_path(
                scenario.name, scenario.user_count, scenario.operation_count,
                scenario.run_seconds, datetime.now(),
            )
        )  # fmt: skip
    stem, suffix = _split(path)
    return f"{stem}.{over}{load:g}{f'-{attempt}' if attempt > 1 else ''}{suffix}"


def _split(path: str) -> tuple[str, str]:
    return (path.removesuffix(_SUFFIX), _SUFFIX) if path.endswith(_SUFFIX) else (path, "")


class RunSeries:
    """Runs step by step, says how each went, and prints the table of all of them at the end.

    :param text: of the scenario, which faults call ``source``.
    """

    def __init__(
        self, session: Session, table: report.SeriesSettings, text: bytes, source: str
    ) -> None:
        self.session = session
        self.options = session.options
        self.table = table
        self.steps: list[Step] = []
        self.reasons: dict[ExitStatus, str] = {}  #: exit statuses that apply, and why first
        self._text, self._source = text, source

    def __repr__(self) -> str:
        return f"<Series over {self.table.over}: {len(self.steps)} steps>"

    @property
    def stopped(self) -> bool:
        """Whether the user has had enough."""
        return self.session.interrupts.received

    def scenario(self, load: float) -> Scenario:
        """The scenario with a load.

        :raises UsageError: as ``resolved``.
        """
        changes = {OVER[self.table.over]: load}
        return resolved(self.options, self._text, self._source, **changes)

    def run(self, load: float) -> Step:
        """One run, and its row.

        :raises SsbenchError: where the run couldn't be made.
        """
        scenario = self.scenario(load)
        attempt = 1 + sum(step.load == load for step in self.steps)
        path = step_path(self.options.stats_file, scenario, self.table.over, load, attempt)
        run = Run(self.session, scenario, path)
        run.execute()
        for status, why in run.reasons.items():
            if self.table.search is None or status is not ExitStatus.FAILED:
                # To a search, a run that failed is an answer.
                self.reasons.setdefault(status, f"{self.table.over} {load:g}: {why}")
        stats = self.session.meanwhile(lambda: read_stats(path))
        table = self.table
        step = Step.of(stats, load, path, table.percentiles, table.thresholds)
        # Where the rows grow there is much between them: the table stands by itself at the end.
        head = "" if self.steps else report.series_head(report.of_series(table, [step]))
        self.session.say(f"{head}{report.series_row(report.of_series(table, [step]))}", prefix="")
        self.steps.append(step)
        self.session.say(f"Scenario run results saved to {path}")
        return step

    def fail(self, error: SsbenchError) -> None:
        """A step couldn't be made: those before it are worth their table all the same.

        :raises SsbenchError: the same, where there were none.
        """
        if not self.steps:
            raise error
        self.session.warn(str(error))
        self.reasons.setdefault(error.exit_status, str(error))

    def finish(self, *, over: bool = True) -> None:
        """Print the table, if there is one, unless -R.

        :param over: whether all was run that should be.
        """
        if self.steps and not self.options.no_default_report:
            made = report.of_series(self.table, self.steps, complete=over)
            write(report.render(made, self.options.format), None)
