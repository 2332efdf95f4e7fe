"""``ab``: two variants of a scenario, run alternately, and compared pair by pair."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from ssbench import report, runner
from ssbench.cli.config import run_config
from ssbench.cli.console import tell, tell_status, write_report
from ssbench.cli.options import AB, LOUDNESS
from ssbench.cli.parser import Parser, add_options
from ssbench.cli.report_files import write_report_files
from ssbench.cli.worker_options import SHOW
from ssbench.commands.base import running, serving, summary_rows
from ssbench.core.errors import ExitStatus, SsbenchError, UsageError
from ssbench.core.stats.change_rules import ChangeRule
from ssbench.core.stats.compare import PERCENTS, Comparison, Measure, Sides, comparison
from ssbench.core.stats.run_stats import RunStats
from ssbench.core.text import printable
from ssbench.live.watch import Watch
from ssbench.report.comparison import of_comparison
from ssbench.runner.config import RunConfig
from ssbench.runner.results import failed_rules
from ssbench.runner.series import check_paths, path_of_load
from ssbench.runner.stop import Stop

LEAST_PAIRS = 3  #: with fewer, Student's t makes intervals too wide for any verdict
_OWN = ("--a", "--b", "--repeat", "--precision", "--fail-if")


class Variant(Struct, frozen=True):
    """One side: what is added to the command line, and the run that it makes."""

    letter: str
    options: str
    config: RunConfig

    @property
    def name(self) -> str:
        return self.options or "no further options"


class _Options(Parser):
    """The options of a variant; an error names it."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")


class Outcome(Struct):
    """The runs of each side so far, as pairs."""

    stats: tuple[list[tuple[str, RunStats]], list[tuple[str, RunStats]]]
    reasons: dict[ExitStatus, str]

    @property
    def pairs(self) -> int:
        return min(map(len, self.stats))


def ab(ns: argparse.Namespace) -> ExitStatus:
    """Run both variants in turn, ABBA and so on, and say what differs.

    :raises SsbenchError: what ended the first pair.
    """
    if ns.scenario == "-":
        raise UsageError("-: both variants read the scenario: name a file")
    variants = (_variant(ns, "a"), _variant(ns, "b"))
    first = variants[0].config
    for text in ns.fail_if or ():
        ChangeRule.parse(text)
    for each in variants:
        check_paths(first.stats_file, each.letter.lower(), force=first.force)
    rules = [ChangeRule.parse(text) for text in dict.fromkeys(ns.fail_if or ())]
    percents = tuple(sorted({*PERCENTS, *(each.percentile or 50 for each in rules)}))
    stop, outcome = Stop(), Outcome(([], []), {})
    with serving(ns, stop, first) as (page, watch), running(ns, stop, first, watch):
        for found in _pairs(ns, variants, outcome, watch, stop, percents):
            if ns.precision is not None and _half_width(found) <= ns.precision / 100:
                break
        if not outcome.pairs:
            return tell_status(outcome.reasons)
        found = _compared(variants, outcome, percents)
        made = of_comparison(found, rules)
        if not ns.no_default_report:
            write_report(made, ns.format)
        write_report_files(ns, made)
        if page:
            page.finish(report.render_html(made), summary_rows(made))
    if ns.precision is not None and _half_width(found) > ns.precision / 100:
        tell(
            f"WARNING: the difference is known to {100 * _half_width(found):.3g} %, not to "
            f"{ns.precision:g} %: more pairs (--repeat), or longer runs, are needed"
        )
    return tell_status(outcome.reasons | failed_rules(found, rules))


def _variant(ns: argparse.Namespace, name: str) -> Variant:
    """The options of both, and those of one after them.

    :raises UsageError: they are no options of a run, or do not go together.
    """
    words = getattr(ns, name)
    for word in words:
        if word.partition("=")[0] in _OWN:
            raise UsageError(f"--{name}: {word} is of the comparison, not of a variant")
    parser = _Options(prog=f"--{name}")
    add_options(parser, [*LOUDNESS, SHOW, *AB], {}, ns.site)
    merged = parser.parse_args([*ns.words, *words], argparse.Namespace(command=ns.command))
    merged.verbose = ns.verbose
    try:
        config = run_config(merged, os.environ)
        scenario = runner.resolve(config)
    except UsageError as error:
        raise UsageError(f"--{name}: {error}") from error
    if scenario.run_seconds is None and scenario.operation_count is None:
        raise UsageError(f"--{name}: the scenario has no length: add -r or -o")
    return Variant(name.upper(), printable(shlex.join(words)), config)


def _pairs(
    ns: argparse.Namespace,
    variants: Sequence[Variant],
    outcome: Outcome,
    watch: Watch,
    stop: Stop,
    percents: Sequence[float],
) -> Iterator[Comparison]:
    """Run pairs; gives what is known after each, from LEAST_PAIRS on."""
    for number in range(1, ns.repeat + 1):
        order = (0, 1) if number % 2 else (1, 0)
        for side in order:
            if stop.requested:
                outcome.reasons.setdefault(ExitStatus.INTERRUPTED, stop.reason)
                return
            if not _run(variants[side], number, side, outcome, watch, stop):
                return
        lines = [
            f"{variants[side].letter}{number} {rate:,.1f} operations/s"
            for side in (0, 1)
            if (rate := outcome.stats[side][-1][1].total().rate_per_s) is not None
        ]
        if not ns.quiet:
            watch.message(f"Pair {number} of {ns.repeat}: {', '.join(lines)}")
        if number >= LEAST_PAIRS and ns.precision is not None:
            yield _compared(variants, outcome, percents)


def _run(
    variant: Variant, number: int, side: int, outcome: Outcome, watch: Watch, stop: Stop
) -> bool:
    """One run; False if it can't be compared.

    :raises SsbenchError: it failed, and there is no pair yet.
    """
    config, name = variant.config, f"{variant.letter}{number}"
    scenario = runner.resolve(config)
    path = path_of_load(
        config.stats_file, scenario, variant.letter.lower(), number, 1, config.results_dir
    )
    watch.start_run(2 * number - 1 + side, name)
    try:
        result = runner.run(replace(config, stats_file=path), [watch], stop)
        stats = result.stats
    except SsbenchError as error:
        if not outcome.pairs:
            raise
        outcome.reasons.setdefault(error.exit_status, f"{name}: {error}")
        return False
    for status, why in result.reasons.items():
        outcome.reasons.setdefault(status, f"{name}: {why}")
    if stop.requested:
        return False
    outcome.stats[side].append((path, stats))
    return True


def _compared(
    variants: Sequence[Variant], outcome: Outcome, percents: Sequence[float]
) -> Comparison:
    many = outcome.pairs
    named = [each for side in outcome.stats for each in side[:many]]
    sides = Sides((many, many), tuple(each.name for each in variants), paired=True)
    return comparison(named, seed=1, percents=percents, sides=sides)


def _half_width(found: Comparison) -> float:
    """Half of the interval of the change, as a fraction: of the rate, or of the median of response
    times where the load sets the rate. Infinite if there is none."""
    rows = {row.measure: row for row in found.sections[0].rows}
    row = rows.get(Measure("response", 50.0), rows[Measure("rate")])
    if row.estimates[0].value is None:
        row = rows[Measure("rate")]
    change = row.changes[0]
    with suppress(TypeError):
        return (change.high - change.low) / 2  # type: ignore[operator]
    return float("inf")
