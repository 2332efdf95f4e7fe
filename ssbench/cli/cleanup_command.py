"""``ssbench-master cleanup-containers``: say what will be deleted, ask, delete, say what was."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from ssbench.cleanup import ANY_POLICY, delete, plan
from ssbench.cli.progress import NoProgress
from ssbench.core.errors import ExitStatus
from ssbench.core.model import Phase
from ssbench.core.text import bytes_text, plural, printable
from ssbench.deletions import CleanupResult
from ssbench.storage.base import ContainerEntry, Storage
from ssbench.storage.errands import Renew

NAMED = 10  #: containers named before they are deleted; a dry run names all


def run(
    *,
    base: str,
    concurrency: int,
    policy: str | None,
    dry_run: bool,
    yes: bool,
    storage: Storage,
    out: TextIO,
    err: TextIO,
    isatty: bool,
    progress: NoProgress,
    renew: Renew | None = None,
    stopping: Callable[[], bool] = lambda: False,
    stdin: TextIO | None = None,
) -> ExitStatus:
    """Delete the containers of a base and a policy. ``out`` gets the outcome, ``err`` the talk.

    :param stdin: where the answer comes from; None is sys.stdin.
    :param isatty: whether somebody is there to be asked. Where nobody is, nothing is asked:
        ssbench never did, and scripts rely on it.
    :returns: OK when all that was found is gone (or nothing was found, or on a dry run), FAILED
        when something is left or the user said no, INTERRUPTED when the user stopped it.
    :raises StorageError: where the account can't be listed.
    """
    entries = plan(storage, base, policy, renew=renew)
    if not entries:
        print(f"No containers to delete ({_pattern(base, policy)}).", file=out)
        return ExitStatus.OK
    if dry_run:
        _announce(entries, "Would delete", len(entries), out)
        return ExitStatus.OK
    _announce(entries, "Deleting" if yes or not isatty else "About to delete", NAMED, err)
    if isatty and not yes and not agreed(err, stdin or sys.stdin):
        print("Nothing was deleted.", file=err)
        return ExitStatus.FAILED
    progress.start_phase(Phase.CLEANUP, title="Deleting containers and objects")
    with progress:
        result = delete(
            storage, entries, concurrency, progress.count, renew=renew, stopping=stopping
        )
    _report(result, out, err)
    if result.interrupted:
        return ExitStatus.INTERRUPTED
    return ExitStatus.OK if result.ok else ExitStatus.FAILED


def _pattern(base: str, policy: str | None) -> str:
    suffix = "" if not policy else "[_...]" if policy == ANY_POLICY else f"_{policy}"
    return printable(f"{base}_NNNNNN{suffix}")


def _announce(entries: Sequence[ContainerEntry], verb: str, most: int, file: TextIO) -> None:
    objects = sum(entry.object_count for entry in entries)
    size = bytes_text(sum(entry.bytes_used for entry in entries))
    containers = plural(len(entries), "container")
    print(f"{verb} {containers} with {plural(objects, 'object')} ({size}):", file=file)
    for entry in entries[:most]:
        held = f"{plural(entry.object_count, 'object')}, {bytes_text(entry.bytes_used)}"
        print(f"  {printable(entry.name)}  {held}", file=file)
    if len(entries) > most:
        print(
            f"  ... and {plural(len(entries) - most, 'more container')},"
            f" up to {printable(entries[-1].name)}",
            file=file,
        )
    print("The counts are the account's; they lag behind recent uploads.", file=file)


def agreed(err: TextIO, stdin: TextIO) -> bool:
    """Whether the user says yes to deleting."""
    print("Delete them? [y/N] ", end="", file=err, flush=True)
    return stdin.readline().strip().casefold() in ("y", "yes")


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
    tell_failures(result, "container", err)


def tell_failures(result: CleanupResult, unit: str, err: TextIO) -> None:
    """What is still there, with examples; ``unit`` is what ``result.left`` counts."""
    if result.failed_objects or result.failed_containers:
        failed = [plural(result.failed_objects, "object")]
        if unit == "container":
            failed.append(plural(result.failed_containers, "container"))
        print(f"Failed: {', '.join(failed)}; for example:", file=err)
        for example in result.examples:
            print(f"  {example}", file=err)
    if result.left:
        why = "interrupted" if result.interrupted else printable(result.given_up)
        print(f"Ended early, {plural(result.left, unit)} left: {why}", file=err)
