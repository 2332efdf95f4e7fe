"""What the deleting commands share: the store, the terminal, Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from ssbench.cli.interrupts import Interrupts
from ssbench.cli.progress import NoProgress, make_progress
from ssbench.cli.stores import reach_store
from ssbench.core.errors import ExitStatus
from ssbench.core.text import plural, printable
from ssbench.runner.deletions import CleanupResult
from ssbench.storage.base import StoreAdmin
from ssbench.storage.registry import open_admin
from ssbench.storage.retrying_client import Renew

if TYPE_CHECKING:
    from ssbench.cli.cleanup_options import CleanupOptions, ResumeOptions


@dataclass(frozen=True, slots=True)
class CleanupContext:
    """``out`` gets the outcome, ``err`` the talk.

    :param isatty: whether somebody is there to be asked. Where nobody is, nothing is asked:
        ssbench never did, and scripts rely on it.
    :param stdin: where the answer comes from; None is sys.stdin.
    :param stopping: whether the user has had enough.
    """

    storage: StoreAdmin
    progress: NoProgress
    concurrency: int
    dry_run: bool
    yes: bool
    isatty: bool
    out: TextIO
    err: TextIO
    stdin: TextIO | None = None
    renew: Renew | None = None
    stopping: Callable[[], bool] = lambda: False

    @property
    def verb(self) -> str:
        """What is told to happen, before anybody is asked."""
        return "Deleting" if self.yes or not self.isatty else "About to delete"

    def declined(self) -> bool:
        """Ask, where somebody is to be asked; True, and said, where they don't want it."""
        if self.yes or not self.isatty:
            return False
        print("Delete them? [y/N] ", end="", file=self.err, flush=True)
        answer = (self.stdin or sys.stdin).readline()
        if answer.strip().casefold() in ("y", "yes"):
            return False
        print("Nothing was deleted.", file=self.err)
        return True


@contextmanager
def cleanup_context(options: CleanupOptions | ResumeOptions) -> Iterator[CleanupContext]:
    """Log in, and open the store, as a user's command does.

    :raises SsbenchError: where there is no way in.
    """
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        progress = make_progress("live", quiet=options.quiet)
        store = reach_store(options.store, progress.message, interrupts)
        storage = open_admin(store.settings)
        stack.callback(storage.close)
        yield CleanupContext(
            storage,
            progress,
            options.concurrency,
            options.dry_run,
            options.yes,
            isatty=sys.stdin.isatty() and sys.stderr.isatty(),
            out=sys.stdout,
            err=sys.stderr,
            renew=store.renew,
            stopping=lambda: interrupts.received,
        )


def status_of(result: CleanupResult) -> ExitStatus:
    """FAILED where something is left, INTERRUPTED where the user wanted that."""
    if result.interrupted:
        return ExitStatus.INTERRUPTED
    return ExitStatus.OK if result.ok else ExitStatus.FAILED


def report_failures(result: CleanupResult, unit: str, err: TextIO) -> None:
    """What is still there, with examples; ``unit`` is what ``result.left`` counts."""
    if result.failed_objects or result.failed_containers:
        failed = [plural(result.failed_objects, "object")]
        if unit == "container" or result.failed_containers:
            failed.append(plural(result.failed_containers, "container"))
        print(f"Failed: {', '.join(failed)}; for example:", file=err)
        for example in result.examples:
            print(f"  {example}", file=err)
    if result.left:
        why = "interrupted" if result.interrupted else printable(result.abort_reason)
        print(f"Ended early, {plural(result.left, unit)} left: {why}", file=err)
