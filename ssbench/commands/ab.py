"""``ab``: two variants of a scenario, run alternately, and compared pair by pair."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Collection, Sequence
from contextlib import closing
from math import isfinite
from typing import NoReturn

from ssbench import runner
from ssbench.cli.config import run_config
from ssbench.cli.console import tell, tell_status, write_report, write_report_files
from ssbench.cli.options import AB, LOUDNESS
from ssbench.cli.parser import Parser, add_options
from ssbench.cli.proctitle import mask
from ssbench.cli.worker_options import SHOW
from ssbench.commands.base import running, serving, summary_rows
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.stats.compare import Comparison
from ssbench.core.stats.intervals import PERCENTS
from ssbench.core.stats.thresholds import ChangeRule
from ssbench.core.text import printable
from ssbench.live.web import LivePage
from ssbench.report import render_html
from ssbench.report.comparison import of_comparison
from ssbench.runner.config import RunConfig
from ssbench.runner.paired import PairedRun, PairedRuns
from ssbench.runner.results import failed_rules

_OWN = ("--a", "--b", "--repeat", "--precision", "--fail-if")


class _Options(Parser):
    """The options of a variant; an error names it."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}")

    def check_repeated(self, given: Collection[str]) -> None:
        """The options of a variant replace those of both."""


def ab(ns: argparse.Namespace) -> ExitStatus:
    """Run both variants in turn, ABBA and so on, and say what differs.

    :raises SsbenchError: what ended the first run.
    """
    if ns.scenario == "-":
        raise UsageError("-: both variants read the scenario: name a file")
    rules = [ChangeRule.parse(text) for text in dict.fromkeys(ns.fail_if or ())]
    first = _variant(ns, "a")
    with serving(ns, first) as (page, watch, stop), running(ns, stop, first, watch):
        runs = PairedRuns(
            (first, _variant(ns, "b")),
            (_name(ns.a), _name(ns.b)),
            repeat=ns.repeat,
            precision=ns.precision,
            observers=[watch],
            stop=stop,
            percents=tuple(sorted({*PERCENTS, *(each.percentile or 50 for each in rules)})),
        )
        interrupt = None
        try:
            with closing(iter(runs)) as pairs:
                for number, pair in enumerate(pairs, 1):
                    if not ns.quiet:
                        watch.message(f"Pair {number} of {ns.repeat}: {_rates(pair)}")
        except KeyboardInterrupt as error:  # a second one: the results so far count
            interrupt = error
        found = _report(ns, runs, rules, page)
        if interrupt is not None:
            raise interrupt
    return tell_status(runs.reasons | (failed_rules(found, rules) if found else {}))


def _report(
    ns: argparse.Namespace, runs: PairedRuns, rules: Sequence[ChangeRule], page: LivePage | None
) -> Comparison | None:
    """Write the report of the pairs that can be compared; None if there is none."""
    if not runs.pairs:
        for path, why in runs.left_out:
            tell(f"INFO:Results saved to {path}; not compared: {why}")
        return None
    found = runs.comparison
    made = of_comparison(found, rules)
    if not ns.no_default_report:
        write_report(made, ns.format)
    write_report_files(ns, made)
    if page:
        page.finish(render_html(made), summary_rows(made))
    if ns.precision is not None and not runs.ended and not runs.is_precise():
        needed = runs.pairs_for_precision()
        pairs = f"about {needed} pairs (--repeat)" if needed else "many more pairs (--repeat)"
        half = 100 * runs.half_width()
        shown = f"{half:,.0f}" if half >= 100 else f"{half:.3g}"
        known = f"known to {shown} %, not to" if isfinite(half) else "not known to"
        tell(
            f"WARNING: the difference is {known} {ns.precision:g} %: {pairs}, or longer runs, "
            "are needed"
        )
    return found


def _name(options: Sequence[str]) -> str:
    return printable(shlex.join(mask(options))) or "no further options"


def _rates(pair: Sequence[PairedRun]) -> str:
    rates = [(run.name, run.stats.total().rate_per_s) for run in pair]
    return ", ".join(f"{name} {rate or 0:,.1f} operations/s" for name, rate in rates)


def _variant(ns: argparse.Namespace, name: str) -> RunConfig:
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
        runner.resolve(config)
    except UsageError as error:
        raise UsageError(f"--{name}: {error}") from error
    return config
