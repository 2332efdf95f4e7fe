"""``ssbench-master``: which command, what goes wrong, and the exit status.

Each command loads what it needs when it is called: a start shall not take long.
"""

from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

from ssbench.cli.console import log_to_stderr, tell, tell_status
from ssbench.cli.options import master_parser
from ssbench.core.errors import ExitStatus, SsbenchError
from ssbench.core.text import printable

#: What no user's mistake and no defect of ours is: of descriptors, processes, memory, disk.
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT}


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; gives the exit status."""
    _open_closed_streams()
    _escape_unencodable()
    try:
        status = _command(arguments)
        sys.stdout.flush()
    except SsbenchError as error:
        tell(f"ssbench-master: {error}")
        return int(error.exit_status)
    except KeyboardInterrupt as error:
        tell(f"ssbench-master: {str(error) or 'interrupted'}")
        return int(ExitStatus.INTERRUPTED)
    except BrokenPipeError:
        _discard_stdout()  # whoever read our words has enough
        return int(ExitStatus.OK)
    except OSError as error:
        if error.errno not in _SHORTAGES:
            raise
        _discard_stdout()
        tell(f"ssbench-master: system error: {error.strerror}")
        return int(ExitStatus.FAILED)
    return int(status)


def _discard_stdout() -> None:
    """What Python still holds for it goes nowhere, without a last word when we end."""
    with suppress(OSError):  # no descriptor is left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command(arguments: Sequence[str] | None) -> ExitStatus:
    words = sys.argv[1:] if arguments is None else arguments
    namespace = master_parser(words).parse_args(words)
    level = logging.INFO if namespace.verbose else logging.WARNING
    log_to_stderr(level, "%(levelname)s:%(message)s")
    return COMMANDS[namespace.command](namespace)


def _open_closed_streams() -> None:
    """Where we were started without one of them (``2>&-``): our files must not take its place."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), fd)
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))


def _escape_unencodable() -> None:
    """A name that stdout's encoding lacks (``LC_ALL=C``) must not cost the whole report."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _run_scenario(namespace: argparse.Namespace) -> ExitStatus:
    if namespace.resume_cleanup is not None:
        return _resume_cleanup(namespace)
    from ssbench.cli.run_config import run_options

    options = run_options(namespace, os.environ)
    if options.sweep is not None:
        from ssbench.cli.sweep import run_sweep

        return run_sweep(options, options.sweep)
    from ssbench.cli.run_scenario import run_scenario

    return run_scenario(options)


def _find_limit(namespace: argparse.Namespace) -> ExitStatus:
    from ssbench.cli.find_limit import run_find_limit
    from ssbench.cli.limit_options import limit_options

    return run_find_limit(limit_options(namespace, os.environ))


def _report_scenario(namespace: argparse.Namespace) -> ExitStatus:
    from ssbench.cli import profile, reporting, threshold_status
    from ssbench.cli.report_options import report_options

    options = report_options(namespace)
    with profile.profiled(options.profile, "report", _say):
        stats = reporting.read_stats(options.stats_file)
        threshold_status.check(options.thresholds, stats.run.scenario)
        reporting.write_report(
            stats, options.format, options.percentiles, options.report_file,
            thresholds=options.thresholds,
        )  # fmt: skip
        if options.rps_histogram:
            reporting.write_rps(stats, options.rps_histogram)
        if options.time_series:
            reporting.write_series(stats, options.time_series)
        if options.host_stats:
            reporting.write_host_stats(options.stats_file, options.host_stats)
    reasons = threshold_status.reasons(stats, options.thresholds)
    if not stats.run.complete:
        reasons[ExitStatus.FAILED] = f"{options.stats_file}: some results of the run are missing"
    return tell_status(reasons)


def _compare(namespace: argparse.Namespace) -> ExitStatus:
    from ssbench.cli.compare_command import compare
    from ssbench.cli.report_options import compare_options

    compare(compare_options(namespace))
    return ExitStatus.OK


def _list_scenarios(namespace: argparse.Namespace) -> ExitStatus:
    from ssbench.cli.canned import list_canned

    scenarios = list_canned()
    width = max(len(name) for name, _ in scenarios)
    for name, scenario in scenarios:
        print(f"{name:<{width}}  {scenario.summary()}")
    return ExitStatus.OK


def _kill_workers(namespace: argparse.Namespace) -> ExitStatus:
    from ssbench.cli.interrupts import Interrupts
    from ssbench.cli.progress import make_progress
    from ssbench.cli.wiring import bind, key_of
    from ssbench.cli.zmq_options import zmq_options
    from ssbench.core.settings import StorageSettings
    from ssbench.master.master import Master, MasterOptions
    from ssbench.master.phases import Limits

    zmq = zmq_options(namespace, os.environ, namespace.zmq_bind_ip)
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        progress = stack.enter_context(make_progress("none", quiet=namespace.quiet))

        def warn(text: str) -> None:
            progress.message(f"WARNING: {text}")

        transport = stack.enter_context(bind(zmq, key_of(zmq), zmq.address, warn))
        limits = Limits(worker_timeout_s=3600.0)  # they say themselves that they are gone
        master = Master(transport, [progress], StorageSettings(), MasterOptions(limits=limits))
        interrupts.listen(master.interrupt)
        ended, left = master.kill_workers(namespace.worker_wait)
    for name in ended:
        print(f"Ended worker {printable(name)}")
    for name in left:
        tell(f"Still running: worker {name}")
    if not ended and not left:
        print("No workers were found.", file=sys.stderr)
    return ExitStatus.OK if ended and not left else ExitStatus.FAILED


def _cleanup_containers(namespace: argparse.Namespace) -> ExitStatus:
    if namespace.resume_cleanup is not None:
        return _resume_cleanup(namespace)
    from ssbench.cli import cleanup_command
    from ssbench.cli.cleanup_options import cleanup_options
    from ssbench.cli.cleanup_progress import cleanup_context

    options = cleanup_options(namespace, os.environ)
    with cleanup_context(options) as context:
        return cleanup_command.run(context, base=options.container_base, policy=options.policy)


def _resume_cleanup(namespace: argparse.Namespace) -> ExitStatus:
    from ssbench.cli import resume_command
    from ssbench.cli.cleanup_options import resume_options
    from ssbench.cli.cleanup_progress import cleanup_context

    options = resume_options(namespace, os.environ)
    left = resume_command.read(options.stats_file, sys.stderr)
    with cleanup_context(options) as context:
        return resume_command.run(context, left, use_existing=options.use_existing)


def _make_key(namespace: argparse.Namespace) -> ExitStatus:
    from ssbench.transport.key import CurveKey

    CurveKey.generate().save(namespace.key_file)
    print(f"Wrote {namespace.key_file}; copy it to all worker hosts over a secure channel")
    return ExitStatus.OK


def _say(text: str) -> None:
    tell(text)


COMMANDS: dict[str, Callable[[argparse.Namespace], ExitStatus]] = {
    "run-scenario": _run_scenario,
    "find-limit": _find_limit,
    "report-scenario": _report_scenario,
    "compare": _compare,
    "list-scenarios": _list_scenarios,
    "kill-workers": _kill_workers,
    "cleanup-containers": _cleanup_containers,
    "make-key": _make_key,
}

if __name__ == "__main__":
    sys.exit(main())
