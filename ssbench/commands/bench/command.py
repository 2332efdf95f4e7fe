"""``bench``: prints what nectar's benchmark prints, and writes its CSV files."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from ssbench import statfile
from ssbench.cli.config import command_config, values_of
from ssbench.cli.console import (
    check_run_files,
    check_writable,
    say,
    tell,
    tell_results,
    tell_status,
    write_report_files,
    write_result,
)
from ssbench.commands.base import watched
from ssbench.commands.bench.settings import (
    BENCH_PREFIX,
    METHODS,
    MIXED,
    REPEATED,
    BenchConfig,
    SuiteConfig,
)
from ssbench.core.errors import ExitStatus, SsbenchError, StorageError, UsageError
from ssbench.core.live import Observer, RunProgress
from ssbench.core.model import Phase
from ssbench.core.naming import naming_of
from ssbench.core.text import clock_text, plural, printable
from ssbench.report.operations import (
    MIXED_COLUMNS,
    READ_COLUMNS,
    WRITE_COLUMNS,
    operation_rows,
    over_time_rows,
)
from ssbench.report.run import of_run, store_section
from ssbench.report.tables import store_lines
from ssbench.runner import check_thresholds, execute, open_session
from ssbench.runner.containers import PAUSES_S, for_each
from ssbench.runner.session import Session
from ssbench.runner.single_run import RunResult, step_path
from ssbench.runner.stop import Stop
from ssbench.storage.retrying_client import RetryingClient

_MINUTE_S = 60.0


def bench(ns: argparse.Namespace) -> ExitStatus:
    """Run one of the commands on numbered objects.

    :raises SsbenchError: what ended it before there were results.
    """
    config = bench_config(ns, os.environ)
    check_run_files(ns)
    with watched(ns) as (progress, stop):
        lines = MinuteLines()
        lines.config = config
        result, emptied = run_bench(config, [lines, progress], stop)
    tell_outcome(config, result, emptied)
    write_outputs(ns.csv, ns.csv_over_time, config, result)
    tell_results(result, quiet=ns.quiet)
    if ns.html:
        run = config.run
        made = of_run(result.stats, run.percentiles, run.thresholds, stats_file=result.path)
        write_report_files(ns, made)
    return tell_status(result.reasons)


def bench_config(ns: argparse.Namespace, environ: Mapping[str, str]) -> BenchConfig:
    """The run that a command line describes.

    :raises UsageError: options that exclude each other.
    """
    container, _, prefix = "/".join(filter(None, (ns.container, ns.prefix))).partition("/")
    if not container:
        raise UsageError("CONTAINER: is empty; give the container's name")
    return BenchConfig(
        **{
            **values_of(BenchConfig, ns),
            "method": METHODS[ns.command.removeprefix("bench ")],
            "container": container,
            "prefix": prefix or BENCH_PREFIX,
            "headers": dict(ns.headers or ()),
            "run": command_config(ns, environ, ns.users),
        }
    )


class MinuteLines(Observer):
    """Prints a line when the run begins, and then one a minute."""

    config: BenchConfig  #: of the present run

    def __init__(self) -> None:
        self._due_s = 0.0  # 0: not in the run phase

    def start_phase(self, phase: Phase, total: int | None = None, title: str = "") -> None:
        self._due_s = 0.0
        if phase is not Phase.RUN:
            return
        config = self.config
        self._due_s = _MINUTE_S
        work = plural(config.count, "object")
        if config.iterations > 1:
            work += f", {config.iterations} times"
        if config.method.is_mixed:
            work = f"objects for {config.seconds:g}s"
        say(
            f"Bench-{config.method.name.upper()} of {work}, in"
            f" {plural(config.containers, 'container')}, at {config.users} concurrency"
            f"{' for each operation' if config.method.is_mixed else ''}..."
        )

    def update(self, progress: RunProgress) -> None:
        if not 0 < self._due_s <= progress.elapsed_s:
            return
        self._due_s += _MINUTE_S
        done, elapsed_s = progress.done - progress.errors, progress.elapsed_s
        unit = _unit(self.config)
        say(
            f"{elapsed_s:.5f}s for {done} {unit} so far,"
            f" {done / elapsed_s:.5f} {unit} per second..."
        )

    def end_phase(self) -> None:
        self._due_s = 0.0


def suite(ns: argparse.Namespace) -> ExitStatus:
    """Run all steps of the suite; prints a table of the rates at the end, however it ends.

    :raises SsbenchError: what ended the first step before there were results.
    """
    given = values_of(SuiteConfig, ns)
    given["headers"] = dict(ns.headers or ())
    steps = suite_steps(SuiteConfig(**given, run=command_config(ns, os.environ, ns.users)))
    outputs = {step.name: os.path.join(ns.csv_dir, f"bench{step.name}.csv") for step in steps}
    for path in outputs.values():
        check_writable(path, "--csv-dir:")
    rates: dict[str, float] = {}
    begun: list[BenchConfig] = []
    partial_s: dict[str, float] = {}  # of a step that was interrupted, how long it ran
    reasons: dict[ExitStatus, str] = {}
    store: list[str] = []
    try:
        lines = MinuteLines()
        scenarios = [step.config.scenario for step in steps]
        with (
            watched(ns) as (progress, stop),
            open_session(
                steps[0].config.run, scenarios, [lines, progress], stop, is_series=True
            ) as session,
        ):
            for step in steps:
                pause(session, step.pause_s, step.name)
                if stop.requested:
                    reasons.setdefault(ExitStatus.INTERRUPTED, stop.reason)
                    break
                session.start_run(step.name)
                lines.config = step.config
                begun.append(step.config)
                try:
                    result, emptied = run_in(session, step.config)
                except SsbenchError as error:
                    if not rates:
                        raise
                    reasons.setdefault(error.exit_status, f"{step.name}: {error}")
                    break
                rates[step.name] = rate_of(result)
                if header := result.header:
                    all_of_them = {**header.scenario, "container_base": ns.container}
                    store = store_lines(store_section(replace(header, scenario=all_of_them)))
                if stop.requested:
                    partial_s[step.name] = result.outcome.seconds
                tell_outcome(step.config, result, emptied)
                csv = outputs[step.name]
                session.meanwhile(partial(write_outputs, csv, None, step.config, result))
                for status, why in result.reasons.items():
                    reasons.setdefault(status, f"{step.name}: {why}")
    finally:
        if rates:
            write_result(suite_table(steps, rates, partial_s, store))
        if not ns.noop:
            tell_remaining(begun, [step.config for step in steps if step.name in rates])
    return tell_status(reasons)


def tell_remaining(begun: Sequence[BenchConfig], done: Sequence[BenchConfig]) -> None:
    """Print which objects of a suite remain.

    :param begun: the steps that were begun; ``done``: that have results.
    """
    removed = {config.container for config in done if config.method.removes}
    for config in begun:
        if config.method.uploads and config.container not in removed:
            tell(remaining(config, config.count))


def suite_table(
    steps: Sequence[SuiteStep],
    rates: Mapping[str, float],
    partial_s: Mapping[str, float] = {},
    store: Sequence[str] = (),
) -> Iterator[str]:
    """The rates per second beside those of Hummingbird and Swift; empty for steps not run.

    :param partial_s: name of each interrupted step -> seconds that it ran.
    :param store: lines on where the load went.
    """
    yield "\nSuccesses per second\n"
    yield from (f"{line}\n" for line in store)
    yield f"{'step':<12}{'this run':>12}{'Hummingbird':>13}{'Swift':>8}\n"
    for step in steps:
        rate = f"{rates[step.name]:.0f}" if step.name in rates else ""
        then = step.series.hummingbird[step.number], step.series.swift[step.number]
        mark = "  *" if step.name in partial_s else ""
        yield f"{step.name:<12}{rate:>12}{then[0]:>13}{then[1]:>8}{mark}\n"
    for name, seconds in partial_s.items():
        yield f"* {name} was interrupted after {seconds:.1f} s: its rate is that of a part\n"
    yield (
        "Hummingbird and Swift: on 5 hosts, 225 disks; 10,000,000 objects of 4 KiB, 1,000,000 of"
        " 1 MiB;\n250 users, mixed 50 users of each operation for 2 hours\n"
    )


def rate_of(result: RunResult) -> float:
    """Successes of the run per second."""
    outcome = result.outcome
    return outcome.counts.done / outcome.seconds if outcome.seconds else 0.0


def last_line(config: BenchConfig, result: RunResult) -> str:
    """The successes of the run per second, as nectar prints it."""
    done, seconds, unit = result.outcome.counts.done, result.outcome.seconds, _unit(config)
    rate = rate_of(result)
    spent = f"for {done} {unit}" if config.method.is_mixed else "total time"
    return f"{seconds:.5f}s {spent}, {rate:.5f} {unit} per second."


def _unit(config: BenchConfig) -> str:
    return "requests" if config.method.is_mixed else f"{config.method.name.upper()}s"


def tell_outcome(config: BenchConfig, result: RunResult, emptied: EmptiedContainers | None) -> None:
    """Print the rate, failures, and what became of the containers."""
    say(last_line(config, result))
    for line in store_lines(store_section(result.header)):
        say(line)
    counts = result.outcome.counts
    if counts.failed or counts.lost:
        sent = counts.done + counts.failed + counts.lost
        lost = f", {counts.lost:,} lost with a worker" if counts.lost else ""
        example = result.outcome.example
        because = f"; the first error: {printable(example)}" if example else ""
        tell(f"WARNING: {counts.failed:,} of {sent:,} {_unit(config)} failed{lost}{because}")
    is_noop, is_cut = config.run.is_noop, ExitStatus.INTERRUPTED in result.reasons
    if emptied is None and is_cut and config.method.removes and not is_noop:
        tell(remaining(config, counts.sent if config.method.is_mixed else config.count))
    if emptied is not None:
        for reason, kept in emptied.kept.items():
            tell(f"Left alone: {plural(kept, 'container')}: {reason}")
        if not is_noop:
            say(f"Deleted {plural(emptied.deleted, 'emptied container')}.")


def remaining(config: BenchConfig, count: int) -> str:
    """What an interrupted run left, and the command that deletes it.

    :param count: of the objects that may be there.
    """
    names = shlex.join([config.container, config.prefix])
    return (
        f"Left: {plural(config.containers, 'container')} {printable(config.container)}..., with"
        f" objects. To delete them: ssbench-master bench delete {names}"
        f" --containers {config.containers} --count {count}"
    )


def write_outputs(
    csv: str | None, over_time: str | None, config: BenchConfig, result: RunResult
) -> None:
    """Write the CSV files from the stat file.

    :raises SsbenchError: one can't be written.
    """
    method = config.method
    columns = READ_COLUMNS if method.reads else WRITE_COLUMNS
    if method.is_mixed:
        columns = MIXED_COLUMNS
    if csv:
        with statfile.read(result.path) as reader:
            write_result(operation_rows(reader, columns), csv)
    if over_time:
        with statfile.read(result.path) as reader:
            write_result(over_time_rows(reader, method.columns), over_time)


_CONCURRENCY = 10
_PAUSE_STEP_S = 0.1


class EmptiedContainers(Struct):
    """Containers that a DELETE run emptied: how many were deleted, and why others remain."""

    deleted: int = 0
    #: Reason -> how many stay for it.
    kept: Counter[str] = field(default_factory=Counter)


def run_bench(
    config: BenchConfig, observers: Sequence[Observer] = (), stop: Stop | None = None
) -> tuple[RunResult, EmptiedContainers | None]:
    """Run it once; returns when its stat file is closed.

    :returns: also what became of the containers; None if the run deletes none.
    :raises SsbenchError, KeyboardInterrupt, Aborted: as ``runner.run``.
    """
    scenario = config.scenario
    check_thresholds(config.run, scenario)
    with open_session(config.run, [scenario], observers, stop) as session:
        return run_in(session, config)


def run_in(session: Session, config: BenchConfig) -> tuple[RunResult, EmptiedContainers | None]:
    """The same in a session that is open."""
    session.has_containers = False  # others than those of the run before
    result = execute(session, config.run, config.scenario, config.plan)
    emptied = None
    if config.method.removes and not config.run.keep_objects and not session.stop.requested:
        with session.workers_kept():
            emptied = delete_emptied(session, config)
        if session.stop.requested:
            result.reasons[ExitStatus.INTERRUPTED] = session.stop.reason
    return result, emptied


def delete_emptied(session: Session, config: BenchConfig) -> EmptiedContainers:
    """Delete the run's containers that carry our mark and hold nothing. A stop ends it."""
    settings = replace(
        session.store().settings,
        container_base=config.container,
        container_count=config.containers,
        names=config.names,
    )
    found = EmptiedContainers()

    def delete(name: str) -> None:
        try:
            reason = _why_kept(client, name, config)
        except SsbenchError as error:
            reason = "" if getattr(error, "status", 0) == 404 else printable(str(error))
        if reason:
            found.kept[reason] += 1
        else:
            found.deleted += 1

    with session.client(settings, _CONCURRENCY) as client:
        for_each(client, delete, naming_of(settings).containers)
    left = config.containers - found.deleted - found.kept.total()
    if left:
        found.kept["interrupted"] = left
    return found


def _why_kept(client: RetryingClient, name: str, config: BenchConfig) -> str:
    """Delete a container; "" if it is gone.

    :raises StorageError: it can't be deleted, for another reason than its objects.
    """
    storage = client.storage
    if not (config.run.use_existing or client.call(storage.owns, name)):
        return "no mark of ssbench"
    for pause_s in PAUSES_S:
        client.sleep(pause_s)
        try:
            client.call(storage.delete_container, name)
            return ""
        except StorageError as error:
            if error.status != 409:
                raise
        listed = client.call(storage.list_objects, name, "", 1)
        if listed and not _is_of_run(listed[0].name, config):
            return "other objects"
    return "not empty"


def _is_of_run(name: str, config: BenchConfig) -> bool:
    """Whether a listing that still has this object may lag behind its deletion."""
    number = name.removeprefix(config.prefix)
    if not (name.startswith(config.prefix) and number.isdecimal()):
        return False
    return config.method.is_mixed or int(number) < config.count


class PublishedRates(Struct, frozen=True):
    """One object size of the comparison, with the rates per second that were published.

    The seven rates are of put, put, get, get, delete, delete and mixed.
    """

    label: str  #: in the names of CSV files
    infix: str  #: in the names of containers
    size: int
    hummingbird: tuple[int, ...]
    swift: tuple[int, ...]


SERIES = (
    PublishedRates(
        "4KB", "kb", 4096,
        (4970, 2193, 17162, 20718, 7183, 7380, 7405), (594, 470, 2909, 2913, 856, 682, 2907),
    ),
    PublishedRates(
        "1MB", "mb", 1 << 20,
        (720, 719, 898, 898, 7042, 7246, 4044), (182, 184, 811, 816, 511, 542, 2897),
    ),
)  # fmt: skip


class SuiteStep(Struct, frozen=True):
    """One run of the suite."""

    name: str  #: ``4KBput1``
    series: PublishedRates
    number: int  #: from 0 within the series
    pause_s: float  #: before it
    config: BenchConfig


def suite_steps(config: SuiteConfig) -> list[SuiteStep]:
    """The steps in their order, each with a stat file of its own.

    :raises UsageError: a threshold on what a step does not have.
    """
    steps: list[SuiteStep] = []
    turns = [(method, turn) for method in REPEATED for turn in (1, 2)]
    for series, count in zip(SERIES, (config.count, config.large_count), strict=True):
        for number, (method, turn) in enumerate([*turns, (MIXED, 1)]):
            name = f"{series.label}{method.name}{turn}"
            mixed = method is MIXED
            step = BenchConfig(
                method=method,
                container=f"{config.container}{series.infix}-{'mixed-2' if mixed else turn}-",
                prefix="bench-",
                containers=config.containers,
                count=count,
                iterations=config.iterations if method.reads else 1,
                size=series.size if method.uploads else None,
                seconds=config.seconds if mixed else None,
                users=config.mixed_users if mixed else config.users,
                delete_behind=config.delete_behind,
                headers=config.headers,
                run=replace(config.run, stats_file=step_path(config.run.stats_file, name)),
            )
            try:
                check_thresholds(step.run, step.scenario)
            except UsageError as error:
                raise UsageError(f"{name}: {error}") from error
            if step.run.stats_file:
                statfile.check_new(step.run.stats_file, overwrite=step.run.force)
            pause_s = config.pause_s if turn == 2 else config.long_pause_s
            steps.append(SuiteStep(name, series, number, pause_s if steps else 0.0, step))
    return steps


def pause(session: Session, seconds: float, before: str) -> None:
    """Wait; the workers stay connected. A stop ends it.

    :param before: name of the step that follows, for observers.
    """
    end_s = time.monotonic() + seconds

    def wait() -> None:
        while (left_s := end_s - time.monotonic()) > 0 and not session.stop.requested:
            session.wait_for(f"Pausing before {before}: {clock_text(math.ceil(left_s))} left")
            time.sleep(min(_PAUSE_STEP_S, left_s))

    try:
        session.meanwhile(wait)
    finally:
        session.wait_for("")
