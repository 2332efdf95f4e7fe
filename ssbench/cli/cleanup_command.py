"""``ssbench-master cleanup-containers``: say what will be deleted, ask, delete, say what was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from ssbench.cli.deleting import Deleting, status_of, tell_failures
from ssbench.core.errors import ExitStatus
from ssbench.core.model import Phase
from ssbench.core.text import bytes_text, plural, printable
from ssbench.storage.base import ContainerEntry
from ssbench.upkeep.cleanup import ANY_POLICY, delete, plan
from ssbench.upkeep.deletions import CleanupResult

NAMED = 10  #: containers named before they are deleted; a dry run names all


def run(around: Deleting, *, base: str, policy: str | None) -> ExitStatus:
    """Delete the containers of a base and a policy.

    :returns: OK when all that was found is gone (or nothing was found, or on a dry run), FAILED
        when something is left or the user said no, INTERRUPTED when the user stopped it.
    :raises StorageError: where the account can't be listed.
    """
    entries = plan(around.storage, base, policy, renew=around.renew)
    if not entries:
        print(f"No containers to delete ({_pattern(base, policy)}).", file=around.out)
        return ExitStatus.OK
    if around.dry_run:
        _announce(entries, "Would delete", len(entries), around.out)
        return ExitStatus.OK
    _announce(entries, around.verb, NAMED, around.err)
    if around.refused():
        return ExitStatus.FAILED
    around.progress.start_phase(Phase.CLEANUP, title="Deleting containers and objects")
    with around.progress as progress:
        result = delete(
            around.storage, entries, around.concurrency, progress.count,
            renew=around.renew, stopping=around.stopping,
        )  # fmt: skip
    _report(result, around.out, around.err)
    return status_of(result)


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
