"""``bench``: operations on objects that are known by their numbers alone, as in nectar.

Object number ``i`` is ``PREFIXi`` in container ``i mod N``, so one command finds the objects of
another, and nothing is kept of them.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ssbench import statfile
from ssbench.commands.bench.settings import BenchConfig, SuiteConfig
from ssbench.core.errors import ExitStatus, SsbenchError, StorageError, UsageError
from ssbench.core.live import Observer
from ssbench.core.naming import naming_of
from ssbench.core.text import clock_text, printable
from ssbench.runner import check_thresholds, execute, open_session
from ssbench.runner.deletions import PAUSES_S
from ssbench.runner.listings import for_each
from ssbench.runner.methods import MIXED, REPEATED
from ssbench.runner.session import Session
from ssbench.runner.single_run import RunResult, step_path
from ssbench.runner.stop import Stop
from ssbench.storage.retrying_client import RetryingClient

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
