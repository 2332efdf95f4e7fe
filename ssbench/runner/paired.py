"""Two variants of a scenario, run alternately, and compared pair by pair."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from math import exp, log
from typing import NamedTuple

from msgspec.structs import replace

from ssbench import runner
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError, gravest
from ssbench.core.live import Observer
from ssbench.core.stats.compare import Comparison, comparison
from ssbench.core.stats.intervals import PERCENTS, Measure, Pairs, Sides, Spread, runs_for
from ssbench.core.stats.run_stats import RunStats
from ssbench.runner.config import RunConfig
from ssbench.runner.series import check_paths, path_of_load
from ssbench.runner.single_run import Aborted
from ssbench.runner.stop import Stop

LEAST_PAIRS = 3  #: with fewer, Student's t makes intervals too wide for any verdict
_NOT_WHOLE = "the other run of its pair is missing or not compared"


class PairedRun(NamedTuple):
    """A run that has ended."""

    name: str  #: ``A1``
    path: str  #: of its stat file
    stats: RunStats

    @property
    def fault(self) -> str:
        """Why it can't be compared; "" if it can."""
        footer = self.stats.run.footer
        if footer is None or not self.stats.run.complete:
            return "results are missing"
        if footer.ended == "failed":  # before its end
            return footer.reason
        if self.stats.run.short_of_users:
            return "fewer users ran than its scenario asks for"
        return "" if self.stats.total().count else "no operation succeeded"


class PairedRuns:
    """Runs of two variants. Iterate over it to run them: it yields after each pair.

    The order is A B, B A and so on, so that what drifts meets both alike.

    :param configs: of the variants A and B.
    :param names: of both, in words.
    :param repeat: pairs; with a precision, at most.
    :param precision: ends it, from LEAST_PAIRS on, as soon as half of the interval of the change
        is at most this percentage.
    :param percents: that are compared.
    :raises UsageError: a scenario has errors or no length, or a stat file exists.
    """

    def __init__(
        self,
        configs: tuple[RunConfig, RunConfig],
        names: tuple[str, str],
        *,
        repeat: int,
        precision: float | None = None,
        observers: Sequence[Observer] = (),
        stop: Stop | None = None,
        percents: Sequence[float] = PERCENTS,
    ) -> None:
        for letter, config in zip("ab", configs, strict=True):
            try:
                scenario = runner.resolve(config)
            except UsageError as error:
                error.args = (f"variant {letter.upper()}: {error}",)
                raise
            if scenario.run_seconds is None and scenario.operation_count is None:
                raise UsageError(
                    f"variant {letter.upper()}: the scenario has no length: add -r or -o"
                )
            check_paths(config.stats_file, letter, force=config.force)
        self.configs = configs
        self.names = names
        self.repeat = repeat
        self.precision = precision
        self.observers = observers
        self.stop = stop or Stop()
        self.percents = percents
        self.pairs: list[tuple[PairedRun, PairedRun]] = []  #: that are compared
        self.left_out: list[tuple[str, str]] = []  #: runs of no such pair: path, and why
        self.ended = ""  #: why it ended before its end; "" if it did not
        #: Exit statuses that apply, and why; empty: all is well.
        self.reasons: dict[ExitStatus, str] = {}
        self._runs = 0  # that have begun
        self._finished: list[PairedRun] = []  # of the present pair

    def __repr__(self) -> str:
        return f"<PairedRuns: {len(self.pairs)} of {self.repeat} pairs>"

    @property
    def exit_status(self) -> ExitStatus:
        """The gravest of the reasons."""
        return gravest([*self.reasons])

    def __iter__(self) -> Generator[tuple[PairedRun, PairedRun], None, None]:
        """Run them.

        :raises SsbenchError: the first run failed.
        :raises KeyboardInterrupt: it was stopped before there were results.
        :raises Aborted: it was ended at once.
        """
        for number in range(1, self.repeat + 1):
            self._finished = []
            for side in (0, 1) if number % 2 else (1, 0):
                try:
                    goes_on = self._run(side, number)
                except KeyboardInterrupt as interrupt:
                    self._end(ExitStatus.INTERRUPTED, f"{'AB'[side]}{number}: {interrupt}")
                    raise
                if not goes_on:
                    return
            first, other = sorted(self._finished)
            faults = [run.fault for run in (first, other)]
            if any(faults):
                self.left_out += [
                    (run.path, fault or _NOT_WHOLE)
                    for run, fault in zip((first, other), faults, strict=True)
                ]
            else:
                self.pairs.append((first, other))
            self._finished = []
            yield first, other
            if len(self.pairs) >= LEAST_PAIRS and self.is_precise():
                return

    def _run(self, side: int, number: int) -> bool:
        """One run; whether the next may follow.

        :raises SsbenchError: it failed, and it is the first.
        """
        config, name = self.configs[side], f"{'AB'[side]}{number}"
        if self.stop.requested:
            return self._end(ExitStatus.INTERRUPTED, self.stop.reason)
        self._runs += 1
        for observer in self.observers:
            observer.start_run(self._runs, name)
        try:
            path = path_of_load(
                config.stats_file, runner.resolve(config), "ab"[side], number, 1,
                config.results_dir,
            )  # fmt: skip
            result = runner.run(replace(config, stats_file=path), self.observers, self.stop)
            run = PairedRun(name, path, result.stats)
        except SsbenchError as error:
            error.args = (f"{name}: {error}",)
            if self._runs == 1:
                raise
            return self._end(error.exit_status, str(error))
        except Aborted as aborted:
            if aborted.result.has_results:
                self.left_out.append((aborted.result.path, "aborted"))
            raise
        except KeyboardInterrupt as interrupt:  # before it changed the store
            if self._runs == 1:
                raise
            return self._end(ExitStatus.INTERRUPTED, f"{name}: {interrupt}")
        for status, why in result.reasons.items():
            self.reasons.setdefault(status, f"{name}: {why}")
        if ExitStatus.INTERRUPTED in result.reasons:
            self.left_out.append((path, "interrupted"))
            return self._end(ExitStatus.INTERRUPTED, f"{name}: {self.stop.reason}")
        self._finished.append(run)
        return True

    def _end(self, status: ExitStatus, why: str) -> bool:
        self.left_out += [(run.path, _NOT_WHOLE) for run in self._finished]
        self.ended = why
        self.reasons.setdefault(status, why)
        return False

    @property
    def comparison(self) -> Comparison:
        """B against A, by the pairs so far.

        :raises SsbenchError: there is no pair that can be compared.
        """
        return self._compared()

    def _compared(self, operations: Sequence[str | None] = ()) -> Comparison:
        if not self.pairs:
            raise SsbenchError("no pair of runs can be compared")
        return comparison(
            [(run.path, run.stats) for side in zip(*self.pairs, strict=True) for run in side],
            seed=1, operations=operations, percents=self.percents, sides=self._sides,
        )  # fmt: skip

    @property
    def _sides(self) -> Sides:
        many, is_sequential = len(self.pairs), self.precision is not None
        made = Pairs(self.repeat, self.ended, tuple(self.left_out), is_sequential)
        return Sides((many, many), self.names, paired=True, pairs=made)

    def is_precise(self) -> bool:
        """Whether the change is known to the precision."""
        return self.precision is not None and self.half_width() <= self.precision / 100

    def half_width(self) -> float:
        """Half of the interval of the change, as a fraction: of the rate, or of the median response
        time where the load sets the rate. Infinite if there is none."""
        low, high = self._known()
        return (high - low) / 2

    def pairs_for_precision(self) -> int | None:
        """How many pairs are probably needed for the precision; None: it can't be told, or very
        many."""
        low, high = self._known()
        many, sides = len(self.pairs), self._sides
        if self.precision is None or high == float("inf"):
            return None
        half, change = log(high / low) / 2, exp(log(high * low) / 2)
        found = Spread(0.0, half / sides.reach(many - 1), many - 1)
        return runs_for(found, many, self.precision / 100 / change, sides)

    def _known(self) -> tuple[float, float]:
        rows = {row.measure: row for row in self._compared((None,)).sections[0].rows}
        row = rows.get(Measure("response", 50.0))
        if row is None or row.estimates[0].value is None:
            row = rows[Measure("rate")]
        change = row.changes[0]
        if change.low is None or change.high is None:
            return 0.0, float("inf")
        return change.low, change.high
