"""The options of cleanup-containers, and what they and those of --resume-cleanup come to."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from ssbench.cli import option_types as types
from ssbench.cli.shared_options import add_resume
from ssbench.cli.store_options import StoreOptions, add_store, store_options
from ssbench.core.errors import UsageError

CONTAINER_BASE = "ssbench"  #: of cleanup-containers; a scenario's own default is the same
CONCURRENCY = 10


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """cleanup-containers."""

    store: StoreOptions
    container_base: str
    concurrency: int
    policy: str | None  #: None: containers without one in their name; "*": any of the cluster's
    dry_run: bool
    yes: bool
    verbose: bool
    quiet: bool


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """--resume-cleanup, of cleanup-containers and of run-scenario."""

    stats_file: str
    store: StoreOptions
    use_existing: bool  #: look into containers without our mark, too
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
        help="delete containers named BASE_ and six digits",
    )
    add(
        "-c",
        "--concurrency",
        type=types.count,
        default=CONCURRENCY,
        metavar="COUNT",
        help="requests at once",
    )
    add(
        "-p",
        "--policy",
        metavar="POLICY",
        help="delete those of this storage policy, BASE_000061_POLICY; '*' for any of the "
        "cluster's [default: those that name none]",
    )
    add_resume(parser, "delete, instead, the objects that the run of this stat file left behind")
    add(
        "--use-existing",
        action="store_true",
        help="with --resume-cleanup: look into containers that ssbench didn't mark, too",
    )
    add("--dry-run", action="store_true", help="say what would be deleted, and delete nothing")
    add("--yes", action="store_true", help="don't ask")
    add_store(parser)  # fmt: skip


def cleanup_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> CleanupOptions:
    """What cleanup-containers was told.

    :raises UsageError: options that can't go together.
    """
    if ns.use_existing:
        raise UsageError("--use-existing goes with --resume-cleanup")
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
    """What cleanup-containers, or run-scenario, was told where --resume-cleanup was given.

    :raises UsageError: options that can't go together.
    """
    of_run = ns.command == "run-scenario"
    if of_run and (ns.noop or ns.embedded_swift):
        raise UsageError(
            "--resume-cleanup is for the store that the run was against: leave out --noop and "
            "--embedded-swift"
        )
    if not of_run and (ns.policy is not None or ns.container_base != CONTAINER_BASE):
        raise UsageError("--resume-cleanup knows the run's containers: leave out -b and -p")
    return ResumeOptions(
        stats_file=ns.resume_cleanup,
        store=store_options(ns, environ),
        use_existing=ns.use_existing,
        concurrency=CONCURRENCY if of_run else ns.concurrency,
        dry_run=False if of_run else ns.dry_run,
        yes=False if of_run else ns.yes,
        quiet=ns.quiet,
    )
