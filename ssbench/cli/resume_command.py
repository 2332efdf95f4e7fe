"""``--resume-cleanup STATS_FILE``: delete what an aborted run left behind, and say what it was."""

from __future__ import annotations

import json
from typing import TextIO

from ssbench import statfile
from ssbench.cli.deleting import Deleting, status_of, tell_failures
from ssbench.cli.plain import tell
from ssbench.core.errors import ExitStatus, ScenarioError, UsageError
from ssbench.core.model import Phase
from ssbench.core.records import ResultBatch, RunHeader
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import plural, printable
from ssbench.upkeep.deletions import CleanupResult
from ssbench.upkeep.resume import Found, Leftovers, delete, find

NOOP = "noop"  #: the driver of --noop
INSTEAD = "cleanup-containers -b BASE deletes whole containers"


def read(path: str, err: TextIO) -> Leftovers:
    """What the run of this stat file may have left; what is wrong with the file goes to ``err``.

    :raises UsageError: where the file can't tell.
    :raises StatFileError: where it is none.
    """
    path = statfile.existing_path(path)
    if path != "-" and statfile.is_being_written(path):
        raise UsageError(
            f"{path}: its run is still going on; Ctrl-C there ends it, and cleans up after it"
        )
    with statfile.read(path) as reader:
        left = leftovers(reader)
        for line in reader.damage:
            tell(f"{path}: {line}", err)
    return left


def leftovers(reader: statfile.StatFileReader) -> Leftovers:
    """What the run of an open stat file may have left.

    :raises UsageError, StatFileError: as ``read``.
    """
    path, left = reader.name, None
    if reader.legacy:
        raise UsageError(
            f"{path}: objects of ssbench 0.3.9 carry no run's id, so nobody knows which are"
            f" this run's; {INSTEAD}"
        )
    for record in reader:
        if isinstance(record, RunHeader):
            left = _begin(path, record)
        elif isinstance(record, ResultBatch) and left is not None:
            left.add(record)
    if left is None:
        raise UsageError(
            f"{path}: the run's header is lost, and with it the names of its objects; {INSTEAD}"
        )
    return left


def _begin(path: str, header: RunHeader) -> Leftovers:
    if header.driver == NOOP:
        raise UsageError(f"{path}: its run sent nothing to a store (--noop), so it left nothing")
    if not (header.run_id.isascii() and header.run_id.isalnum()):
        raise UsageError(f"{path}: its run has no id to know its objects by; {INSTEAD}")
    try:
        scenario = Scenario.from_json(json.dumps(header.scenario), path)
    except ScenarioError as error:
        raise UsageError(f"the scenario in its header can't be used: {error.faults[0]}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: the scenario in its header can't be used: {error}") from error
    return Leftovers(scenario, header.run_id)


def run(around: Deleting, left: Leftovers) -> ExitStatus:
    """Find and delete. Questions and statuses are those of cleanup-containers.

    :raises StorageError: where a container can't be listed.
    """
    storage, renew, stopping = around.storage, around.renew, around.stopping
    found = find(storage, left, around.concurrency, renew=renew, stopping=stopping)
    if stopping():
        return ExitStatus.INTERRUPTED
    if not found.total:
        print(_nothing(left, found), file=around.out)
        return ExitStatus.OK
    if around.dry_run:
        print(f"Would delete {_what(left, found)}.", file=around.out)
        return ExitStatus.OK
    print(f"{around.verb} {_what(left, found)}.", file=around.err)
    if around.refused():
        return ExitStatus.FAILED
    around.progress.start_phase(Phase.CLEANUP, title="Deleting objects")
    with around.progress as progress:
        result = delete(
            storage, left, found, around.concurrency, progress.count,
            renew=renew, stopping=stopping,
        )  # fmt: skip
    _report(left, result, around.out, around.err)
    return status_of(result)


def _nothing(left: Leftovers, found: Found) -> str:
    said = f"Nothing is left of run {left.run_id}."
    if found.containers:
        return said
    first = printable(left.naming.containers[0])
    return f"{said} (None of its containers, such as {first}, is in this account.)"


def _what(left: Leftovers, found: Found) -> str:
    """``30 objects of run 1f2e, in 3 containers``."""
    where = f"in {plural(found.containers, 'container')}"
    unlisted = f" ({found.remembered:,} of them not in listings)" if found.remembered else ""
    return f"{plural(found.total, 'object')} of run {left.run_id}, {where}{unlisted}"


def _report(left: Leftovers, result: CleanupResult, out: TextIO, err: TextIO) -> None:
    if result.ok and not result.objects:
        print(f"Nothing was left of run {left.run_id}.", file=out)
        return
    absent = f"; {result.absent:,} were gone before" if result.absent else ""
    print(
        f"Deleted {plural(result.objects, 'object')} of run {left.run_id} in"
        f" {result.seconds:.1f} s ({result.rate(result.objects):,.1f} objects/s){absent}.",
        file=out,
    )
    tell_failures(result, "object", err)
