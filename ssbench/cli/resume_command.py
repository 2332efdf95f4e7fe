"""``--resume-cleanup STATS_FILE``: delete what an aborted run left behind, and say what it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

from ssbench import statfile
from ssbench.cli.cleanup_progress import CleanupContext, report_failures, status_of
from ssbench.cli.console import tell
from ssbench.core.errors import ExitStatus, ScenarioError, UsageError, gravest
from ssbench.core.model import Phase
from ssbench.core.naming import MARKER_HEADER, RUN_HEADER, is_run_id
from ssbench.core.operations import rows_of
from ssbench.core.records import ResultBatch, RunHeader
from ssbench.core.scenario.scenario import Scenario
from ssbench.core.text import plural, printable
from ssbench.runner.deletions import CleanupResult
from ssbench.runner.resume import OrphanedObjects, SearchResult, delete, find

NOOP = "noop"  #: the driver of --noop
NAMED = 10  #: containers named before objects are deleted; a dry run names all
INSTEAD = "cleanup-containers -b BASE deletes whole containers"


def read(path: str, err: TextIO) -> OrphanedObjects:
    """What the run of this stat file may have left; what is wrong with the file goes to ``err``.

    :raises UsageError: where the file can't tell.
    :raises StatFileError: where it is none.
    """
    path = statfile.existing_path(path)
    if path != "-" and statfile.is_being_written(path):
        raise UsageError(
            f"{path}: its run is still in progress; Ctrl-C there ends it and cleans up"
        )
    with statfile.read(path, bounded=True) as reader:
        left = leftovers(reader)
        for line in reader.damage:
            tell(f"{path}: {line}", err)
    if left.ignored_results:
        tell(f"{path}: {left.ignored_results:,} results name objects that no run creates", err)
    return left


def leftovers(reader: statfile.StatFileReader) -> OrphanedObjects:
    """What the run of an open stat file may have left.

    :raises UsageError, StatFileError: as ``read``.
    """
    path, left = reader.name, None
    if reader.legacy:
        raise UsageError(
            f"{path}: objects of ssbench 0.3.9 carry no run ID, so it is unknown which are"
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


def _begin(path: str, header: RunHeader) -> OrphanedObjects:
    if header.driver == NOOP:
        raise UsageError(f"{path}: its run sent nothing to a store (--noop), so it left nothing")
    if not is_run_id(header.run_id):
        raise UsageError(f"{path}: its run has no ID by which to find its objects; {INSTEAD}")
    try:
        scenario = Scenario.from_json(json.dumps(_without_profiles(header.scenario)), path)
    except ScenarioError as error:
        raise UsageError(f"the scenario in its header can't be used: {error.faults[0]}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{path}: the scenario in its header can't be used: {error}") from error
    return OrphanedObjects(scenario, header.run_id, rows_of(header.operations))


def _without_profiles(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The operations don't matter here, and this process may lack the rows of some."""
    rest = {key: value for key, value in scenario.items() if key not in ("operations", "groups")}
    sizes = rest.get("sizes")
    for size in sizes if isinstance(sizes, list) else ():
        if isinstance(size, dict):
            size.pop("operations", None)
    return {**rest, "crud_profile": [1, 1, 1, 1]}


def run(
    context: CleanupContext, left: OrphanedObjects, *, use_existing: bool = False
) -> ExitStatus:
    """Find and delete. Questions and statuses are those of cleanup-containers.

    :param use_existing: look into containers without our mark, too.
    :raises SsbenchError: where a container can't be listed.
    """
    storage, renew, stopping = context.storage, context.renew, context.stopping
    found = find(
        storage, left, context.concurrency, use_existing=use_existing,
        renew=renew, stopping=stopping,
    )  # fmt: skip
    if stopping():
        return ExitStatus.INTERRUPTED
    looked_at_all = ExitStatus.FAILED if found.unmarked else ExitStatus.OK
    if not found.total:
        print(_nothing(left, found), file=context.out)
        _report_unmarked(found, context.out)
        return looked_at_all
    if not context.dry_run:
        _announce(context.verb, left, found, NAMED, context.err)
        _report_unmarked(found, context.err)
        if context.declined():
            return ExitStatus.FAILED
    title = "Looking at objects" if context.dry_run else "Deleting objects"
    context.progress.start_phase(Phase.CLEANUP, title=title)
    with context.progress as progress:
        result = delete(
            storage, left, found, context.concurrency, progress.count,
            dry_run=context.dry_run, renew=renew, stopping=stopping,
        )  # fmt: skip
    if context.dry_run:
        _announce("Would delete", left, found, len(found.containers), context.out, result.objects)
        _report_unmarked(found, context.out)
        _report_foreign(result, context.out)
        report_failures(result, "object", context.err)
        return ExitStatus.INTERRUPTED if result.interrupted else looked_at_all
    _report(left, result, context.out, context.err)
    return gravest([status_of(result), looked_at_all])


def _nothing(left: OrphanedObjects, found: SearchResult) -> str:
    if found.unmarked:
        return f"Nothing of run {left.run_id} is in containers with ssbench's mark."
    said = f"Nothing is left of run {left.run_id}."
    if found.containers:
        return said
    first = printable(next(left.container_names()))
    return f"{said} (None of its containers, such as {first}, is in this account.)"


def _announce(
    verb: str,
    left: OrphanedObjects,
    found: SearchResult,
    most: int,
    file: TextIO,
    objects: int | None = None,
) -> None:
    """``Deleting 30 objects of run 1f2e3d4c5b, in 3 containers:``, and which."""
    holding = sorted((name, count) for name, count in found.containers.items() if count)
    containers = plural(len(found.containers), "container")
    unlisted = f" ({found.unlisted:,} of them not in listings)" if found.unlisted else ""
    total = plural(found.total if objects is None else objects, "object")
    print(f"{verb} {total} of run {left.run_id}, in {containers}{unlisted}:", file=file)
    for name, count in holding[:most]:
        print(f"  {printable(name)}  {plural(count, 'object')}", file=file)
    if len(holding) > most:
        more = plural(len(holding) - most, "more container")
        print(f"  ... and {more}, up to {printable(holding[-1][0])}", file=file)
    if objects is None:
        print(f"Objects without the run's header ({RUN_HEADER}) stay.", file=file)


def _report_unmarked(found: SearchResult, file: TextIO) -> None:
    if not found.unmarked:
        return
    names = ", ".join(map(printable, found.unmarked_examples))
    more = found.unmarked - len(found.unmarked_examples)
    others = f" and {more:,} more" if more else ""
    print(
        f"Left alone: {names}{others}: no mark of ssbench ({MARKER_HEADER}); --use-existing looks"
        " there as well",
        file=file,
    )


def _report_foreign(result: CleanupResult, file: TextIO) -> None:
    if result.foreign:
        print(
            f"Left alone: {plural(result.foreign, 'object')} named as the run's, without its"
            f" header ({RUN_HEADER}): uploaded by others, or by a release without it",
            file=file,
        )


def _report(left: OrphanedObjects, result: CleanupResult, out: TextIO, err: TextIO) -> None:
    _report_foreign(result, err)
    if result.ok and not result.objects:
        print(f"Nothing was left of run {left.run_id}.", file=out)
        return
    absent = f"; {result.absent:,} were gone before" if result.absent else ""
    print(
        f"Deleted {plural(result.objects, 'object')} of run {left.run_id} in"
        f" {result.seconds:.1f} s ({result.rate(result.objects):,.1f} objects/s){absent}.",
        file=out,
    )
    report_failures(result, "object", err)
