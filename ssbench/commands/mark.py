"""``mark``: marks this moment in a run that goes on."""

from __future__ import annotations

import argparse

from ssbench.cli.console import say
from ssbench.core.errors import ExitStatus, MessageError, SsbenchError, UsageError
from ssbench.core.text import printable
from ssbench.live import control


def mark(ns: argparse.Namespace) -> ExitStatus:
    """:raises UsageError: no run goes on, or more than one that could be meant.
    :raises SsbenchError: it can't record a mark now.
    """
    found = list(control.masters())
    meant = [each for each in found if ns.run in (None, str(each.pid), each.run_id, each.scenario)]
    if len(meant) != 1:
        known = ", ".join(f"{each.pid} ({printable(each.scenario)})" for each in found)
        if not found:
            raise UsageError("no run of this user goes on on this host")
        if not meant:
            raise UsageError(f"--run {ns.run}: no such run; there are: {known}")
        raise UsageError(f"several runs go on: give one with --run: {known}")
    try:
        fault = control.mark(meant[0].pid, ns.text)
    except (OSError, MessageError) as error:
        raise SsbenchError(f"the run of process {meant[0].pid} does not answer") from error
    if fault:
        raise SsbenchError(f"no mark was made: {fault}")
    if not ns.quiet:
        say(f"Marked in the run of {meant[0].scenario} (process {meant[0].pid})")
    return ExitStatus.OK
