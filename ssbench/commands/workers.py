"""``kill-workers`` and ``make-key``."""

from __future__ import annotations

import argparse

from ssbench.cli.config import values_of
from ssbench.cli.console import say, tell, tell_status
from ssbench.commands.base import watched
from ssbench.core.errors import ExitStatus
from ssbench.core.peers import TransportConfig
from ssbench.core.text import printable
from ssbench.runner.stop import Stop


def kill_workers(ns: argparse.Namespace) -> ExitStatus:
    """End all workers of this host's master."""
    from ssbench.runner.connections import kill_workers as kill

    stop = Stop()
    with watched(ns, stop, "none", hold=False) as progress:
        transport = TransportConfig(**values_of(TransportConfig, ns))
        ended, left = kill(transport, ns.worker_wait_s, [progress], stop)
    for name in ended:
        say(f"Ended worker {printable(name)}")
    for name in left:
        tell(f"Still running: worker {printable(name)}")
    if stop.requested:
        return tell_status({ExitStatus.INTERRUPTED: stop.reason})
    if not ended and not left:
        tell("No workers were found.")
    return ExitStatus.OK if ended and not left else ExitStatus.FAILED


def make_key(ns: argparse.Namespace) -> ExitStatus:
    from ssbench.transport.key import CurveKey

    CurveKey.generate().save(ns.new_key_file)
    name = printable(ns.new_key_file)
    say(f"Wrote {name}; copy it to all worker hosts over a secure channel")
    return ExitStatus.OK
