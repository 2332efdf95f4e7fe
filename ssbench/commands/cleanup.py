"""``cleanup-containers`` and ``--resume-cleanup``: list, ask, delete, report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from ssbench.cli.config import store_options
from ssbench.cli.console import say, tell
from ssbench.commands.base import open_client
from ssbench.core.errors import ExitStatus, SsbenchError, StorageError, UsageError, gravest
from ssbench.core.live import Observer
from ssbench.core.model import ErrorKind, Phase
from ssbench.core.naming import (
    ANY_POLICY,
    MARKER_HEADER,
    RUN_HEADER,
    LeftAlone,
    may_be_object,
    why_not_ours,
)
from ssbench.core.text import bytes_text, first_of, plural, printable
from ssbench.runner.containers import (
    PAUSES_S,
    CleanupResult,
    Deletions,
    KeptContainers,
    for_each,
    keeping_versions,
    list_containers,
    list_objects,
    page_size,
)
from ssbench.runner.orphans import (
    OrphanedObjects,
    SearchResult,
    delete_orphaned,
    find_orphaned,
    read_orphans,
)
from ssbench.runner.session import counted_phase
from ssbench.storage.base import ContainerEntry
from ssbench.storage.options import StoreOptions
from ssbench.storage.registry import row_of
from ssbench.storage.retrying_client import RetryingClient

NAMED = 10  #: containers named before they are deleted; a dry run names all


class Cleaner(Struct, frozen=True):
    """The store, and how the user wants it cleaned."""

    client: RetryingClient
    observers: Sequence[Observer]
    dry_run: bool = False
    yes: bool = False
    unmarked: bool = False  #: the name alone proves that a container is ssbench's

    @property
    def asks(self) -> bool:
        """Whether to ask for confirmation: not without a terminal, as scripts rely on that."""
        return not self.yes and sys.stdin.isatty() and sys.stderr.isatty()

    @property
    def verb(self) -> str:
        return "About to delete" if self.asks else "Deleting"

    def declined(self) -> bool:
        """Ask for confirmation if wanted; True, and reported, if the user declines."""
        if not self.asks:
            return False
        print("Delete them? [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201 # no new line
        if sys.stdin.readline().strip().casefold() in ("y", "yes"):
            return False
        tell("Nothing was deleted.")
        return True


@contextmanager
def _cleaner(ns: argparse.Namespace, options: StoreOptions) -> Iterator[Cleaner]:
    with open_client(ns, options) as (client, progress):
        yield Cleaner(
            client,
            [progress],
            getattr(ns, "dry_run", False),
            getattr(ns, "yes", False),
            getattr(ns, "unmarked", False),
        )


def cleanup_containers(ns: argparse.Namespace) -> ExitStatus:
    """Delete the containers of ssbench; those of each identity, if there are several.

    :raises UsageError, SsbenchError: as ``delete_containers``, and for options.
    """
    options = store_options(ns, os.environ)
    row = row_of(options.driver)
    if ns.unmarked and not row.has_unmarked:
        raise UsageError(
            f"--unmarked is for containers of ssbench 0.3.9, which the store {row.name} can't have"
        )
    return _as_each(options, lambda own, _at: _cleanup_as(ns, own))


def _as_each(
    options: StoreOptions,
    clean: Callable[[StoreOptions, int], ExitStatus],
    stays: Callable[[int], str] = lambda at: "",
) -> ExitStatus:
    """Clean up as each identity, or as the one user. If one fails, the others are cleaned
    nevertheless.

    :param clean: with the options of one, and its place.
    :param stays: what is left of one that failed, behind its error.
    :raises UsageError: as of ``clean``.
    :raises SsbenchError: as of ``clean``, without identities.
    """
    if not options.tenants:
        return clean(options, 0)
    from ssbench.storage.identities import options_of_each  # few clean-ups have some

    for note in options.tenant_notes:
        tell(f"WARNING: {note}")
    found = []
    for at, (name, own) in enumerate(options_of_each(options)):
        say(f"Identity {printable(name)}:")
        try:
            found.append(clean(own, at))
        except UsageError:
            raise
        except SsbenchError as error:
            tell(f"ssbench-master: identity {printable(name)}: {error}{stays(at)}")
            found.append(ExitStatus.FAILED)
        if found[-1] is ExitStatus.INTERRUPTED:
            break
    return gravest(found)


def _cleanup_as(ns: argparse.Namespace, options: StoreOptions) -> ExitStatus:
    with _cleaner(ns, options) as cleaner:
        if cleaner.unmarked and not (cleaner.asks or cleaner.yes or cleaner.dry_run):
            raise UsageError(
                "--unmarked deletes whatever has the name: without a terminal to ask at, give --yes"
            )
        return delete_containers(cleaner, ns.container_base, ns.policy or None)


def delete_containers(cleaner: Cleaner, base: str, policy: str | None = None) -> ExitStatus:
    """Delete the containers of a base and a policy.

    :returns: OK if all that was found is gone (or nothing was found, or on a dry run), FAILED
        if something is left or the user declined, INTERRUPTED if the user stopped it.
    :raises SsbenchError: the account can't be listed.
    """
    planned = plan(
        cleaner.client, base, policy, cleaner.observers[0].wait_for, unmarked=cleaner.unmarked
    )
    entries = planned.entries
    counted = count(cleaner.client, entries)
    if cleaner.client.stopping():
        return ExitStatus.INTERRUPTED
    if not entries:
        say(f"No containers to delete ({_pattern(base, policy)}).")
        _report_skipped(planned, say)
        return ExitStatus.OK
    rule = _rule(_pattern(base, policy), unmarked=cleaner.unmarked)
    versioned = keeping_versions(cleaner.client, [entry.name for entry in entries])
    if versioned:
        rule = f"{_which(versioned)}: these are deleted, too, and not counted.\n{rule}"
    if cleaner.dry_run:
        _announce_containers(counted, "Would delete", len(entries), say)
        say(rule if cleaner.unmarked else f"{rule} Without a terminal nothing is asked.")
        _report_skipped(planned, say)
        return ExitStatus.OK
    _announce_containers(counted, cleaner.verb, NAMED, tell)
    tell(rule)
    _report_skipped(planned, tell)
    if cleaner.declined():
        return ExitStatus.FAILED
    entries = [replace(one.entry, object_count=_expected(one)) for one in counted]
    title = "Deleting containers and objects"
    with counted_phase(cleaner.observers, Phase.CLEANUP, title=title) as progress:
        result = delete(cleaner.client, entries, progress, unmarked=cleaner.unmarked)
    rates = (
        f"{result.rate(result.objects):,.1f} objects/s,"
        f" {result.rate(result.containers):,.1f} containers/s"
    )
    say(
        f"Deleted {plural(result.objects, 'object')} and"
        f" {plural(result.containers, 'container')} in {result.seconds:.1f} s ({rates})."
    )
    _report_failures(result, "container")
    return _status(result)


def resume_cleanup(ns: argparse.Namespace) -> ExitStatus:
    """Delete the orphaned objects of a stat file's run. Statuses are as of cleanup-containers.

    :raises SsbenchError: the file does not say what to delete, or a container can't be listed.
    """
    if ns.command == "run-scenario":
        if ns.noop or ns.embedded_swift:
            raise UsageError(
                "--resume-cleanup needs the store of the run: leave out --noop and --embedded-swift"
            )
    elif {"policy", "container_base"} & ns.given.keys():
        raise UsageError(
            "--resume-cleanup takes the containers from the stat file: leave out -b and -p"
        )
    options = store_options(ns, os.environ)  # before the file is read, which may take long
    orphans = read_orphans(ns.resume_cleanup, tell)
    if orphans.driver != options.driver:
        raise UsageError(
            f"{ns.resume_cleanup}: its run used another store: give --storage {orphans.driver}"
        )
    if orphans.identities != tuple(each.name for each in options.tenants):
        names = printable(first_of(orphans.identities, NAMED))
        raise UsageError(
            f"{ns.resume_cleanup}: "
            + (
                f"its run had the identities {names}: give --identities a file with these, in the"
                " same order"
                if names
                else "its run had one identity: leave out --identities"
            )
        )

    def clean(own: StoreOptions, at: int) -> ExitStatus:
        orphans.identity = at
        with _cleaner(ns, own) as cleaner:
            return delete_orphans(cleaner, orphans, use_existing=ns.use_existing)

    def stays(at: int) -> str:
        orphans.identity = at
        names = printable(first_of([*orphans.container_names()], NAMED))
        return f"; what the run left in its containers {names} stays"

    return _as_each(options, clean, stays)


def delete_orphans(
    cleaner: Cleaner, orphans: OrphanedObjects, *, use_existing: bool = False
) -> ExitStatus:
    """Delete the orphaned objects of a run.

    :raises SsbenchError: a container can't be listed.
    """
    found = find_orphaned(
        cleaner.client, orphans, cleaner.observers[0].wait_for, use_existing=use_existing
    )
    if cleaner.client.stopping():
        return ExitStatus.INTERRUPTED
    left = found.unmarked.count or found.unproven
    searched_all = ExitStatus.FAILED if left else ExitStatus.OK
    if not found.total:
        say(_nothing(orphans, found))
        _report_left(found, say)
        return searched_all
    if not cleaner.dry_run:
        _announce_objects(cleaner.verb, orphans, found, NAMED, tell)
        _report_left(found, tell)
        if cleaner.declined():
            return ExitStatus.FAILED
    title = "Looking at objects" if cleaner.dry_run else "Deleting objects"
    with counted_phase(cleaner.observers, Phase.CLEANUP, title=title) as progress:
        result = delete_orphaned(cleaner.client, orphans, found, progress, dry_run=cleaner.dry_run)
    done = result.objects or result.uploads or result.versions
    if cleaner.dry_run and result.ok and not (done or result.interrupted):
        say(f"Nothing is left of run {orphans.run_id}.")
        _report_left(found, say)
        return searched_all
    if cleaner.dry_run:
        named = len(found.containers)
        _announce_objects("Would delete", orphans, found, named, say, result)
        _report_left(found, say)
        _report_foreign(result, say)
        _report_failures(result, "object")
        return ExitStatus.INTERRUPTED if result.interrupted else searched_all
    _report_foreign(result, tell)
    if result.ok and not done:
        say(f"Nothing was left of run {orphans.run_id}.")
    else:
        were = "was" if result.absent == 1 else "were"
        absent = f"; {result.absent:,} {were} gone before" if result.absent else ""
        rate = f" ({result.rate(result.objects):,.1f} objects/s)"
        took = f"{result.seconds:.1f} s{'' if result.versions else rate}"
        say(f"Deleted {_what(result)} of run {orphans.run_id} in {took}{absent}.")
        _report_failures(result, "object")
    return gravest([_status(result), searched_all])


def _status(result: CleanupResult) -> ExitStatus:
    """FAILED if something is left, INTERRUPTED if the user stopped it."""
    if result.interrupted:
        return ExitStatus.INTERRUPTED
    return ExitStatus.OK if result.ok else ExitStatus.FAILED


def _pattern(base: str, policy: str | None) -> str:
    suffix = "" if not policy else "[_POLICY]" if policy == ANY_POLICY else f"_{policy}"
    return printable(f"{base}_NNNNNN{suffix}")


def _rule(pattern: str, *, unmarked: bool) -> str:
    """What README and the documents say, too."""
    which = "with or without ssbench's mark" if unmarked else "with ssbench's mark"
    return (
        f"This is every container {pattern} {which}, with all that is in it, whoever put it there."
    )


def _announce_containers(
    counted: Sequence[ContainerCount], verb: str, most: int, show: Callable[[str], None]
) -> None:
    objects, size = sum(one.objects for one in counted), sum(one.bytes_used for one in counted)
    complete = all(one.complete for one in counted)
    held = f"{_least(complete)}{plural(objects, 'object')} ({_least(complete)}{bytes_text(size)})"
    show(f"{verb} {plural(len(counted), 'container')} with {held}:")
    _list([(one.entry.name, _held(one)) for one in counted], most, show)
    if not complete:
        said = plural(sum(one.entry.object_count for one in counted), "object")
        used = bytes_text(sum(one.entry.bytes_used for one in counted))
        show(
            f"Large containers were counted only in part. The account reports {said} ({used}) in"
            " total; its counters lag behind."
        )


def _list(containers: Sequence[tuple[str, str]], most: int, show: Callable[[str], None]) -> None:
    for name, content in containers[:most]:
        show(f"  {printable(name)}  {content}")
    if len(containers) > most:
        more = plural(len(containers) - most, "more container")
        show(f"  ... and {more}, up to {printable(containers[-1][0])}")


def _held(one: ContainerCount) -> str:
    held = f"{_least(one.complete)}{plural(one.objects, 'object')}, {bytes_text(one.bytes_used)}"
    if one.complete:
        return held
    entry = one.entry
    return f"{held} (the account reports {entry.object_count:,}, {bytes_text(entry.bytes_used)})"


def _which(versioned: Sequence[str]) -> str:
    """What containers keep; of several, the first one as an example."""
    first = printable(versioned[0])
    others = len(versioned) - 1
    named = f"{first} and {plural(others, 'other container')} keep" if others else f"{first} keeps"
    return f"{named} versions of replaced and deleted objects"


def _least(complete: bool) -> str:
    return "" if complete else "at least "


def _expected(one: ContainerCount) -> int:
    """Objects to expect, for the progress."""
    return one.objects if one.complete else max(one.objects, one.entry.object_count)


def _report_skipped(planned: CleanupPlan, show: Callable[[str], None]) -> None:
    for reason, kept in planned.kept.items():
        _report_kept(kept, reason.value, show)


def _report_kept(kept: KeptContainers, why: str, show: Callable[[str], None]) -> None:
    names, more = ", ".join(map(printable, kept.examples)), kept.count - len(kept.examples)
    show(f"Left alone: {names}{f' and {more:,} more' if more else ''}: {why}")


def _nothing(orphans: OrphanedObjects, found: SearchResult) -> str:
    if found.unmarked.count:
        return f"Nothing of run {orphans.run_id} is in containers with ssbench's mark."
    said = f"Nothing is left of run {orphans.run_id}."
    if found.containers:
        return said
    first = printable(next(orphans.container_names()))
    return f"{said} (None of its containers, such as {first}, is in this account.)"


def _announce_objects(
    verb: str,
    orphans: OrphanedObjects,
    found: SearchResult,
    most: int,
    show: Callable[[str], None],
    result: CleanupResult | None = None,
) -> None:
    """Print ``Deleting 30 objects of run 1f2e3d4c5b, in 3 containers:``, and their names.

    :param result: of a dry run.
    """
    containers = plural(len(found.containers), "container")
    looked_for = min(found.unlisted, found.objects if result is None else result.objects)
    unlisted = f" ({looked_for:,} of them not in listings)" if looked_for else ""
    total = _what(found if result is None else result)
    if result is None and unlisted:  # they may be gone, as after an earlier clean-up
        total = f"what is left of {total}"
    holding = sorted((name, count) for name, count in found.containers.items() if count)
    end = ":" if holding else "."
    show(f"{verb} {total} of run {orphans.run_id}, in {containers}{unlisted}{end}")
    _list([(name, plural(count, "object")) for name, count in holding], most, show)
    if result is None:
        show(f"Objects without the run's header ({RUN_HEADER}) stay.")


def _what(of: SearchResult | CleanupResult) -> str:
    """``30 objects``, and ``30 objects and 2 open uploads``."""
    said = plural(of.objects, "object")
    said += f" and {plural(of.uploads, 'open upload')}" if of.uploads else ""
    return said + (f" and {plural(of.versions, 'version')}" if of.versions else "")


def _report_left(found: SearchResult, show: Callable[[str], None]) -> None:
    """What the clean-up of a run leaves alone in any case."""
    if found.unmarked.count:
        why = f"no mark of ssbench ({MARKER_HEADER}); --use-existing looks there as well"
        _report_kept(found.unmarked, why, show)
    if found.unproven:
        show(
            f"Left alone: open uploads or versions ({found.unproven:,}) named as the run's, in"
            f" containers without the mark of ssbench ({MARKER_HEADER}): nothing else says whose"
            " they are"
        )


def _report_foreign(result: CleanupResult, show: Callable[[str], None]) -> None:
    if result.foreign:
        show(
            f"Left alone: {plural(result.foreign, 'object')} named as the run's, without its"
            f" header ({RUN_HEADER}): uploaded by others, or by a release without it"
        )


def _report_failures(result: CleanupResult, unit: str) -> None:
    """Print what still exists, with examples; ``unit`` is what ``result.left`` counts."""
    if result.failed_objects or result.failed_containers:
        failed = [plural(result.failed_objects, "object")]
        if unit == "container" or result.failed_containers:
            failed.append(plural(result.failed_containers, "container"))
        tell(f"Failed: {', '.join(failed)}; for example:")
        for example in result.examples:
            tell(f"  {example}")
    if result.left:
        why = "interrupted" if result.interrupted else printable(result.abort_reason)
        tell(f"Ended early, {plural(result.left, unit)} left: {why}")


#: Limits on the objects counted by listing, per container and in total. Beyond these, a count is
#: a lower bound.
COUNTED = 10_000
COUNTED_IN_ALL = 200_000


class CleanupPlan(Struct, frozen=True):
    """The containers in the account that match the base name."""

    #: The containers to delete, in the listing's order, with the account's counts.
    entries: list[ContainerEntry] = []
    #: Containers whose names start with the base, but that are not ours to delete.
    kept: dict[LeftAlone, KeptContainers] = {}


def plan(
    client: RetryingClient,
    base: str,
    policy: str | None = None,
    show: Callable[[str], None] = lambda text: None,
    *,
    unmarked: bool = False,
) -> CleanupPlan:
    """Find the containers to delete.

    :param show: called with what is done, after each page.
    :param policy, unmarked: as in ``core.naming.why_not_ours``.
    :raises SsbenchError: the account can't be listed.
    """
    storage = client.storage
    policies = client.limits.policies or ()
    reasons: dict[str, LeftAlone | None] = {}

    def classify(name: str) -> None:
        def marked() -> bool:
            return client.call(storage.owns, name)

        try:
            reason = why_not_ours(name, base, policy, policies, marked, unmarked=unmarked)
        except StorageError as error:
            if error.status != 404:  # 404: deleted meanwhile
                raise
        else:
            reasons[name] = reason

    planned, read = CleanupPlan(), 0
    for page in list_containers(client, base):
        read += len(page)
        show(f"Listing the containers: {read:,} so far")
        reasons.clear()
        for_each(client, classify, [e.name for e in page if e.name.startswith(f"{base}_")])
        for entry in page:
            reason = reasons.get(entry.name)
            if reason is not None:
                planned.kept.setdefault(reason, KeptContainers()).add(
                    client.secrets.masked(entry.name)
                )
            elif entry.name in reasons:
                planned.entries.append(entry)
    show("")
    return planned


class ContainerCount(Struct, frozen=True):
    """The contents of a container, counted by its own listing."""

    entry: ContainerEntry  #: from the account's listing
    objects: int
    bytes_used: int
    complete: bool  #: False: the counts are lower bounds


def count(
    client: RetryingClient,
    entries: Sequence[ContainerEntry],
) -> list[ContainerCount]:
    """Count the containers' objects by listing them, up to a limit.

    The account's own counts lag behind, by minutes on a busy cluster. Counts are incomplete once
    the client is stopping.
    """
    counts = {entry.name: ContainerCount(entry, 0, 0, complete=False) for entry in entries}
    left = COUNTED_IN_ALL

    def count_one(entry: ContainerEntry) -> None:
        nonlocal left
        objects = size = 0
        complete = False
        try:
            for page in list_objects(client, entry.name):
                objects += len(page)
                size += sum(found.size for found in page)
                left -= len(page)
                if objects >= COUNTED or (left <= 0 and len(page) >= page_size(client)):
                    break
            else:
                complete = not client.stopping()
        except SsbenchError as error:
            # 404: deleted meanwhile. Deleting will report any other error.
            complete = getattr(error, "status", 0) == 404
        counts[entry.name] = ContainerCount(entry, objects, size, complete)

    for_each(client, count_one, entries)
    return [*counts.values()]


def delete(
    client: RetryingClient,
    entries: Sequence[ContainerEntry],
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    unmarked: bool = False,
) -> CleanupResult:
    """Delete containers and all their objects, at most ``concurrency`` requests in flight.

    Before each page of objects it looks at the container's mark again: another client may have
    replaced the container meanwhile.

    Never raises errors of the store: failures are counted. It ends early, and returns what was
    done so far, on KeyboardInterrupt, once the client is stopping, if the token can't be renewed,
    and after many consecutive failures.

    :param progress: called with the number of deleted objects and containers, and their total.
    :param unmarked: no mark is needed.
    """
    return _Deletion(client, progress, unmarked=unmarked).run(entries)


class _Deletion:
    """One cleanup: a greenlet per container, and one shared pool for the object requests."""

    def __init__(
        self, client: RetryingClient, progress: Callable[[int, int], None], *, unmarked: bool
    ) -> None:
        self._client = client
        self._unmarked = unmarked
        self._progress = progress
        self._deletions = Deletions(client, self._report)
        self._result = self._deletions.result
        self._planned = 0  #: objects and containers, by the account's listing
        self._found = 0  #: objects and containers, by the containers' listings so far

    def run(self, entries: Sequence[ContainerEntry]) -> CleanupResult:
        self._planned = sum(entry.object_count for entry in entries) + len(entries)
        self._found = len(entries)
        self._deletions.run([entry.name for entry in entries], self._delete_container)
        result = self._result
        result.left = len(entries) - result.containers - result.failed_containers
        return result

    def _delete_container(self, name: str) -> None:
        for pause_s in PAUSES_S:
            if pause_s:
                self._client.sleep(pause_s)
            if self._empty(name, first=not pause_s):
                why = "it is not empty: not all of its objects could be deleted"
                break
            refusal = self._delete_if_empty(name)
            if not refusal:
                return
            why = (
                "it is still not empty: does it keep versions, or is another client writing to it?"
                f" ({refusal})"
            )
        self._deletions.fail_container(name, why)

    def _empty(self, container: str, *, first: bool) -> int:
        """Try to delete each listed object once, and to abort open uploads of objects that may be
        ssbench's; returns the number of failures."""
        failed = 0
        self._deletions.raise_if_stopping()
        try:
            for page in list_objects(self._client, container):
                self._found += len(page) if first else 0
                names = [entry.name for entry in page]
                self._check_mark(container)
                chunk = self._deletions.bulk if first else 1
                work = [(container, names[i : i + chunk]) for i in range(0, len(names), chunk)]
                failed += self._deletions.delete_all(work)
                self._deletions.raise_if_stopping()
            if first:
                self._check_mark(container)
                self._abort_uploads(container)
        except StorageError as error:
            if error.status != 404:  # 404: another client deleted the container meanwhile
                raise
        return failed

    def _check_mark(self, container: str) -> None:
        if not self._unmarked:
            self._deletions.check_mark(container)

    def _abort_uploads(self, container: str) -> None:
        try:
            self._deletions.abort_uploads(container, lambda each: may_be_object(each.name))
        except StorageError as error:
            # A store without such a listing, or keys without the permission: then the deletion of
            # the container shows whether anything is left.
            if error.kind is not ErrorKind.STATUS:
                raise

    def _delete_if_empty(self, name: str) -> str:
        """Why the store refuses, since there are objects; "": it is deleted."""
        self._deletions.raise_if_stopping()
        try:
            self._check_mark(name)
            self._client.call(self._client.storage.delete_container, name)
        except StorageError as error:
            if error.status != 409:
                raise
            return error.detail
        self._result.containers += 1
        self._deletions.record_success()
        return ""

    def _report(self) -> None:
        done = self._result.objects + self._result.containers
        # The account's counts lag behind those of its containers.
        self._progress(done, max(self._planned, self._found, done))
