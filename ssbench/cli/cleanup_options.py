"""Options of cleanup-containers and of --resume-cleanup."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from ssbench.cli.parser import add_options
from ssbench.cli.shared_options import add_resume
from ssbench.cli.store_options import STORE_OPTIONS, store_options
from ssbench.core import option as types
from ssbench.core.errors import UsageError
from ssbench.storage.options import StoreOptions

CONTAINER_BASE = "ssbench"  #: the same as a scenario's default
CONCURRENCY = 10


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """Options of cleanup-containers."""

    store: StoreOptions
    container_base: str
    concurrency: int
    policy: str | None  #: None: only names without a policy; "*": any policy
    dry_run: bool
    yes: bool
    verbose: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """Options of --resume-cleanup, for cleanup-containers and run-scenario."""

    stats_file: str
    store: StoreOptions
    use_existing: bool  #: also search containers that ssbench did not mark
    concurrency: int
    dry_run: bool
    yes: bool
    quiet: bool


def add_cleanup(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-b",
        "--container-base",
        default=CONTAINER_BASE,
        metavar="BASE",
        help="delete containers named BASE_ followed by six digits",
    )
    add(
        "-c",
        "--concurrency",
        type=types.count,
        default=CONCURRENCY,
        metavar="COUNT",
        help="concurrent requests",
    )
    add(
        "-p",
        "--policy",
        metavar="POLICY",
        help="delete containers of this storage policy, BASE_000061_POLICY; '*' for any policy "
        "of the cluster [default: those that name none]",
    )
    add_resume(parser, "delete no container, but the orphaned objects of this stat file's run")
    add(
        "--use-existing",
        action="store_true",
        help="with --resume-cleanup: also search containers that ssbench did not mark",
    )
    add("--dry-run", action="store_true", help="show what would be deleted, and delete nothing")
    add("--yes", action="store_true", help="do not ask for confirmation")
    add_options(parser, STORE_OPTIONS)


def cleanup_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> CleanupOptions:
    """Options of cleanup-containers from a parsed command line.

    :raises UsageError: for options that exclude each other.
    """
    if ns.use_existing:
        raise UsageError("--use-existing requires --resume-cleanup")
    return CleanupOptions(
        store=store_options(ns, environ),
        container_base=ns.container_base,
        concurrency=ns.concurrency,
        policy=ns.policy or None,
        dry_run=ns.dry_run,
        yes=ns.yes,
        verbose=ns.verbose,
        quiet=ns.quiet,
    )


def resume_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> ResumeOptions:
    """Options of --resume-cleanup from a parsed command line of either command.

    :raises UsageError: for options that exclude each other.
    """
    of_run = ns.command == "run-scenario"
    if of_run and (ns.noop or ns.embedded_swift):
        raise UsageError(
            "--resume-cleanup needs the store of the run: leave out --noop and --embedded-swift"
        )
    if not of_run and (ns.policy is not None or ns.container_base != CONTAINER_BASE):
        raise UsageError(
            "--resume-cleanup takes the containers from the stat file: leave out -b and -p"
        )
    return ResumeOptions(
        stats_file=ns.resume_cleanup,
        store=store_options(ns, environ),
        use_existing=ns.use_existing,
        concurrency=CONCURRENCY if of_run else ns.concurrency,
        dry_run=False if of_run else ns.dry_run,
        yes=False if of_run else ns.yes,
        quiet=ns.quiet,
    )
