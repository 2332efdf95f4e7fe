"""``make-scenario``: a scenario of what a store holds, or of what access logs say."""

from __future__ import annotations

import argparse
import os

from ssbench.cli.signals import Signals
from ssbench.cli.store_options import given_on_command_line
from ssbench.commands.cleanup.command import open_client
from ssbench.commands.replay.sampling import sample_containers, scenario_of
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.text import bytes_text, plural
from ssbench.live.console import tell, tell_log, write_result
from ssbench.live.progress import make_progress
from ssbench.runner.stop import Stop


def make_scenario(ns: argparse.Namespace) -> ExitStatus:
    """Write the scenario to a new file, or print it.

    :raises SsbenchError: a container can't be listed, or the file can't be written.
    """
    if ns.output and os.path.lexists(ns.output):
        raise UsageError(f"--output {ns.output}: it exists; name a new file")
    if ns.log_format and not ns.logs:
        raise UsageError("--log-format: containers have none; leave it out")
    if ns.logs:
        if needless := given_on_command_line(ns):
            raise UsageError(f"--from-access-log reads no store: leave out {', '.join(needless)}")
        text = _of_logs(ns)
        made = "with the requests of access logs"
    else:
        with open_client(ns, exact_names=True) as (client, progress):
            sizes = sample_containers(client, ns.containers, progress.wait_for)
            progress.wait_for("")
            if client.stopping():
                return ExitStatus.INTERRUPTED
        names = ", ".join(ns.containers)
        text = scenario_of(f"Objects like those of {names}"[:200], sizes, ns.initial)
        made = f"with the sizes of {plural(sizes.count, 'object')} of {names}"
    write_result([text], ns.output)
    if ns.output and not ns.quiet:
        tell(f"Wrote {ns.output}, {made}")
    return ExitStatus.OK


def _of_logs(ns: argparse.Namespace) -> str:
    from ssbench.commands.replay.access_log import read_logs, scenario_of_log
    from ssbench.commands.replay.requests import RequestLog  # loads numpy

    log = RequestLog()
    stop = Stop()
    with Signals(stop), make_progress("live", quiet=ns.quiet) as progress:
        found = read_logs(ns.logs, log, ns.log_format or "", progress.wait_for, stop)
    made = scenario_of_log("Requests like those of an access log", log, ns.initial)
    if not ns.quiet:
        tell_log(found)
        tell(
            f"Rate: {made.mean_per_s:,.1f} requests/s on average over {made.seconds:,.0f} s, which"
            f" the scenario has; {made.peak_per_s:,} in the busiest second"
        )
        tell(
            "Objects are picked uniformly: their popularity does not follow Zipf's law, or has too"
            " few reads to tell"
            if made.exponent is None
            else f"Objects are picked by Zipf's law with exponent {made.exponent:.2f}"
        )
        tell(f"The run uploads about {bytes_text(int(made.uploaded_bytes))} before it begins")
    return made.text
