"""``ssbench-master cleanup-containers``: say what will be deleted, ask, delete, say what was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TextIO

from ssbench.cli.cleanup_progress import CleanupContext, report_failures, status_of
from ssbench.core.errors import ExitStatus
from ssbench.core.model import Phase
from ssbench.core.naming import ANY_POLICY
from ssbench.core.text import bytes_text, plural, printable
from ssbench.runner.cleanup import ContainerCount, Plan, count, delete, plan
from ssbench.runner.deletions import CleanupResult

NAMED = 10  #: containers named before they are deleted; a dry run names all


def run(context: CleanupContext, *, base: str, policy: str | None) -> ExitStatus:
    """Delete the containers of a base and a policy.

    :returns: OK when all that was found is gone (or nothing was found, or on a dry run), FAILED
        when something is left or the user said no, INTERRUPTED when the user stopped it.
    :raises SsbenchError: where the account can't be listed.
    """
    storage, renew, stopping = context.storage, context.renew, context.stopping
    planned = plan(storage, base, policy, context.concurrency, renew=renew, stopping=stopping)
    entries = planned.entries
    counted = count(storage, entries, context.concurrency, renew=renew, stopping=stopping)
    if stopping():
        return ExitStatus.INTERRUPTED
    if not entries:
        print(f"No containers to delete ({_pattern(base, policy)}).", file=context.out)
        _report_skipped(planned, context.out)
        return ExitStatus.OK
    if context.dry_run:
        _announce(counted, "Would delete", len(entries), context.out)
        _report_skipped(planned, context.out)
        return ExitStatus.OK
    _announce(counted, context.verb, NAMED, context.err)
    _report_skipped(planned, context.err)
    if context.declined():
        return ExitStatus.FAILED
    context.progress.start_phase(Phase.CLEANUP, title="Deleting containers and objects")
    entries = [replace(one.entry, object_count=_most(one)) for one in counted]
    with context.progress as progress:
        result = delete(
            storage, entries, context.concurrency, progress.count, renew=renew, stopping=stopping,
        )  # fmt: skip
    _report(result, context.out, context.err)
    return status_of(result)


def _pattern(base: str, policy: str | None) -> str:
    suffix = "" if not policy else "[_POLICY]" if policy == ANY_POLICY else f"_{policy}"
    return printable(f"{base}_NNNNNN{suffix}")


def _announce(counted: Sequence[ContainerCount], verb: str, most: int, file: TextIO) -> None:
    objects, size = sum(one.objects for one in counted), sum(one.bytes_used for one in counted)
    whole = all(one.complete for one in counted)
    held = f"{_least(whole)}{plural(objects, 'object')} ({_least(whole)}{bytes_text(size)})"
    print(f"{verb} {plural(len(counted), 'container')} with {held}:", file=file)
    for one in counted[:most]:
        print(f"  {printable(one.entry.name)}  {_held(one)}", file=file)
    if len(counted) > most:
        print(
            f"  ... and {plural(len(counted) - most, 'more container')},"
            f" up to {printable(counted[-1].entry.name)}",
            file=file,
        )
    if not whole:
        said, used = (
            sum(one.entry.object_count for one in counted),
            sum(one.entry.bytes_used for one in counted),
        )
        print(
            f"Large containers were counted only in part. The account reports"
            f" {plural(said, 'object')} ({bytes_text(used)}) in total; its counters lag behind.",
            file=file,
        )


def _held(one: ContainerCount) -> str:
    held = f"{_least(one.complete)}{plural(one.objects, 'object')}, {bytes_text(one.bytes_used)}"
    if one.complete:
        return held
    entry = one.entry
    return f"{held} (the account reports {entry.object_count:,}, {bytes_text(entry.bytes_used)})"


def _least(whole: bool) -> str:
    return "" if whole else "at least "


def _most(one: ContainerCount) -> int:
    """Objects to expect, for the progress."""
    return one.objects if one.complete else max(one.objects, one.entry.object_count)


def _report_skipped(planned: Plan, file: TextIO) -> None:
    for reason, neighbours in planned.kept.items():
        names = ", ".join(map(printable, neighbours.examples))
        more = neighbours.count - len(neighbours.examples)
        others = f" and {more:,} more" if more else ""
        print(f"Left alone: {names}{others}: {reason.value}", file=file)


def _report(result: CleanupResult, out: TextIO, err: TextIO) -> None:
    rates = (
        f"{result.rate(result.objects):,.1f} objects/s,"
        f" {result.rate(result.containers):,.1f} containers/s"
    )
    print(
        f"Deleted {plural(result.objects, 'object')} and"
        f" {plural(result.containers, 'container')} in {result.seconds:.1f} s ({rates}).",
        file=out,
    )
    report_failures(result, "container", err)
