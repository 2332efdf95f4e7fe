"""``make-scenario``: a scenario of what a store holds."""

from __future__ import annotations

import argparse
from pathlib import Path

from ssbench.cli.cleanup_commands import open_client
from ssbench.cli.console import tell
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.text import plural
from ssbench.runner.make_scenario import sample_containers, scenario_of


def make_scenario(ns: argparse.Namespace) -> ExitStatus:
    """Write the scenario to a new file, or print it.

    :raises SsbenchError: a container can't be listed, or the file can't be written.
    """
    try:
        exists = bool(ns.output) and Path(ns.output).exists()
    except OSError as error:
        raise UsageError(f"--output {ns.output}: {error.strerror}") from error
    if exists:
        raise UsageError(f"--output {ns.output}: it exists; name a new file")
    with open_client(ns) as (client, progress):
        sizes = sample_containers(client, ns.containers, progress.wait_for)
        progress.wait_for("")
        if client.stopping():
            return ExitStatus.INTERRUPTED
    names = ", ".join(ns.containers)
    text = scenario_of(f"Objects like those of {names}"[:200], sizes, ns.initial)
    if not ns.output:
        print(text, end="")
        return ExitStatus.OK
    try:
        Path(ns.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output {ns.output}: {error.strerror}") from error
    if not ns.quiet:
        tell(f"Wrote {ns.output}, with the sizes of {plural(sizes.count, 'object')} of {names}")
    return ExitStatus.OK
