"""``replay`` and ``make-scenario``: access logs, containers, other benchmarks' workloads."""

import argparse
import os
from typing import TYPE_CHECKING

from ssbench.cli.config import command_config, given_on_command_line
from ssbench.cli.console import check_run_files, tell, tell_status, write_result
from ssbench.commands.base import open_client, running, serving, tell_report, watched
from ssbench.core.errors import ExitStatus, UsageError
from ssbench.core.text import bytes_text, plural, printable
from ssbench.host.files import read_bytes

if TYPE_CHECKING:
    from ssbench.commands.replay.access_log import LogFiles


def replay(ns: argparse.Namespace) -> ExitStatus:
    """Send the requests of access logs again.

    :raises SsbenchError: what ended it before there were results.
    """
    from ssbench.commands.replay.access_log import RequestLog, read_logs
    from ssbench.commands.replay.plan import Replay

    check_run_files(ns)
    config = command_config(ns, os.environ, ns.users)
    requests = RequestLog(ns.start_ns, ns.end_ns, ns.most)
    with serving(ns, config) as (page, watch, stop):
        with running(ns, stop, config, watch):
            found = read_logs(ns.logs, requests, ns.log_format or "", watch.wait_for, stop)
            made = Replay(config, ns.speed, requests)
            if not ns.quiet:
                _tell_log(found)

            def show() -> None:
                if ns.quiet:
                    return
                if made.too_large:
                    tell(f"  left out {made.too_large:,}: of objects too large for this store")
                tell(
                    f"Replaying {plural(len(made.requests), 'request')} in {made.seconds:.3f} s;"
                    f" {plural(made.requests.prepared, 'object')} must exist before"
                    f" ({bytes_text(made.prepared_bytes)})"
                )

            result = made.run([watch], stop, show)
        tell_report(ns, config, result, page)
        counts = result.outcome.counts
        never = len(made.requests) - (counts.sent - counts.withdrawn)
        if not ns.quiet:
            if made.workload.after_failed_upload:
                count = plural(made.workload.after_failed_upload, "operation")
                tell(f"{count} failed because an earlier upload of the object had failed")
            tell(f"Requests of the log that were never sent: {never:,} of {len(made.requests):,}")
        return tell_status(result.reasons)


def make_scenario(ns: argparse.Namespace) -> ExitStatus:
    """Write the scenario to a new file, or print it.

    :raises SsbenchError: a container can't be listed, or the file can't be written.
    """
    from ssbench.commands.replay.scenarios import sample_containers, scenario_of

    if ns.output and os.path.lexists(ns.output):
        raise UsageError(f"--output {ns.output}: it exists; name a new file")
    if ns.cosbench or ns.warp is not None:
        if needless := given_on_command_line(ns):
            raise UsageError(f"a workload is converted offline: leave out {', '.join(needless)}")
        if ns.initial is not None:
            raise UsageError("--objects: the converted workload has its own numbers of objects")
        text, made = _converted(ns)
    elif ns.logs:
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


def _converted(ns: argparse.Namespace) -> tuple[str, str]:
    """The scenario of a workload of another tool, and what it has. Prints what it lacks."""
    if ns.cosbench:
        from ssbench.commands.replay.conversions import of_cosbench

        found = of_cosbench(read_bytes(ns.cosbench, "--from-cosbench"), printable(ns.cosbench))
    else:
        from ssbench.commands.replay.conversions import of_warp

        found = of_warp(ns.warp)
    for note in found.notes:
        tell(note)
    return found.text, f"converted from {'COSBench' if ns.cosbench else 'warp'}"


def _of_logs(ns: argparse.Namespace) -> str:
    from ssbench.commands.replay.access_log import (
        RequestLog,  # loads numpy
        read_logs,
    )
    from ssbench.commands.replay.scenarios import scenario_of_log

    log = RequestLog()
    with watched(ns, "live", hold=False) as (progress, stop):
        found = read_logs(ns.logs, log, ns.log_format or "", progress.wait_for, stop)
    made = scenario_of_log("Requests like those of an access log", log, ns.initial)
    if not ns.quiet:
        _tell_log(found)
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


def _tell_log(found: "LogFiles") -> None:
    """Print how much of the access logs is used, and why the rest is not."""
    tell(f"Read {plural(found.lines, 'line')}: {plural(found.used, 'request')} used")
    for reason, count in found.left_out.items():
        tell(f"  left out {count:,}: {reason}")
    for layout, count in found.requests.layouts.most_common():
        tell(f"  paths of {plural(count, 'request')}: {layout}")
    if found.not_understood:
        tell(f"  not understood {found.not_understood:,}; letters and digits masked:")
        for example in found.examples:
            tell(f"    {example}")
