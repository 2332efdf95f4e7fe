"""The command line of ssbench-worker, and what it comes to."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from ssbench import __version__
from ssbench.cli import option_types as types
from ssbench.cli.parser import Parser
from ssbench.cli.shared_options import add_batch_size, add_loudness, add_retries
from ssbench.cli.zmq_options import ZmqOptions, add_ports, zmq_options

DESCRIPTION = """\
Does the work of one process for an ssbench-master, on this host or another. Start one for each
CPU core, before or after the master."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """ssbench-worker."""

    worker_id: str | None  #: None: make one up
    zmq: ZmqOptions
    concurrency: int
    retries: int
    batch_size: int | None  #: None: auto
    profile_count: int | None
    exit_with_master: bool
    parent_pipe: int | None  #: file descriptor that a local worker's master holds
    verbose: bool


def worker_parser() -> argparse.ArgumentParser:
    """The parser of ssbench-worker."""
    parser = Parser(prog="ssbench-worker", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"ssbench {__version__}")
    add_loudness(parser, quiet=False, default=False)
    add = parser.add_argument
    add(
        "worker_id",
        nargs="?",
        type=types.worker_id,
        help="a name for this worker, unlike any other's; one is made up if you give none",
    )
    add(
        "-c",
        "--concurrency",
        type=types.count,
        default=64,
        metavar="COUNT",
        help="users that this worker can be at once, at most",
    )
    add_retries(parser)
    add_batch_size(parser, "taken for the sake of old command lines; the master's counts")
    add(
        "-p",
        "--profile-count",
        type=types.count,
        metavar="COUNT",
        help="profile the first COUNT jobs with cProfile, and say where the profile is",
    )
    zmq = parser.add_argument_group("the master")
    zmq.add_argument(
        "--zmq-host",
        default="127.0.0.1",
        metavar="HOST",
        help="host where ssbench-master runs; a name with both kinds of address takes IPv4",
    )
    add_ports(zmq)
    zmq.add_argument(
        "--exit-with-master",
        action="store_true",
        help="end when the master is gone, or its run is over, instead of waiting for the next "
        "one: with status 1 where that cut work short, else 0",
    )
    # How a master hands its key to the workers that it starts, and tells them that it is gone.
    add("--parent-pipe", type=types.whole(0), metavar="FD", help=argparse.SUPPRESS)
    return parser  # fmt: skip


def worker_options(ns: argparse.Namespace, environ: Mapping[str, str]) -> WorkerOptions:
    """What ssbench-worker was told."""
    return WorkerOptions(
        worker_id=ns.worker_id,
        zmq=zmq_options(ns, environ, ns.zmq_host),
        concurrency=ns.concurrency,
        retries=ns.retries,
        batch_size=ns.batch_size,
        profile_count=ns.profile_count,
        exit_with_master=ns.exit_with_master,
        parent_pipe=ns.parent_pipe,
        verbose=ns.verbose,
    )
