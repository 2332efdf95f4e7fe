"""``doctor``: a table of checks, a row as soon as each is made."""

from __future__ import annotations

import argparse
import os
import textwrap
from collections.abc import Iterator

from ssbench.cli.config import base_config, run_config
from ssbench.cli.signals import Signals
from ssbench.commands.doctor.checks import CHECKS, Doctor, Finding, Verdict
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.text import plural
from ssbench.live.console import printable_lines, say, tell
from ssbench.live.progress import make_progress
from ssbench.runner import resolve
from ssbench.runner.config import RunConfig
from ssbench.runner.stop import Stop

_WIDTH = 100
_NAME = max(len(row.name) for row in CHECKS)
_VERDICT = max(len(verdict.value) for verdict in Verdict)


def doctor(ns: argparse.Namespace) -> ExitStatus:
    """Make the checks and print them; FAILED unless all is well.

    :raises UsageError: options that exclude each other, or a scenario with faults.
    """
    if ns.scenario is None:
        if ns.user_count is not None or ns.policy is not None:
            raise UsageError("-u and -p change a scenario: give that with -f")
        config, scenario = RunConfig(**base_config(ns, os.environ)), None
    else:
        config = run_config(ns, os.environ)
        scenario = resolve(config)
    stop = Stop()
    found: list[Finding] = []
    with Signals(stop, hold=True), make_progress("none", quiet=ns.quiet) as progress:
        for each in Doctor(config, scenario, [progress], stop).findings():
            found.append(each)
            for line in _lines(each):
                say(line)
    wrong = [each for each in found if each.verdict in (Verdict.WARNING, Verdict.FAILED)]
    if not wrong:
        say("All is well.")
        return ExitStatus.OK
    failed = sum(each.verdict is Verdict.FAILED for each in wrong)
    tell(f"ssbench-master: {plural(len(wrong) - failed, 'warning')}, {failed} failed")
    return ExitStatus.FAILED


def _lines(found: Finding) -> Iterator[str]:
    """A row, wrapped; what to do about it in lines of its own."""
    head = f"{found.verdict.value:{_VERDICT}}  {found.check:{_NAME}}  "
    indent = " " * len(head)
    for first, text in ((head, found.result), (f"{indent}-> ", found.advice)):
        for line in printable_lines(text).split("\n") if text else ():
            yield from textwrap.wrap(
                line, _WIDTH, initial_indent=first, subsequent_indent=indent,
                break_long_words=False, break_on_hyphens=False,
            ) or [first]  # fmt: skip
            first = indent
